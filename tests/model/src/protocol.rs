//! All steps from a state: the actors' steps with their faults, and events without an actor.

use std::fmt;

use stateright::{Model, Property};

use crate::call::{Call, Reply, name};
use crate::close::Operator;
use crate::grab::{At, Then};
use crate::hot::Hot;
use crate::instance::{Instance, Mutant, Part, User};
use crate::properties;
use crate::set::Set;
use crate::settle::Settle;
use crate::state::{Sender, State};

/// The protocol within the bounds of an instance.
#[derive(Clone, Copy, Debug)]
pub struct Protocol(pub Instance);

/// An actor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Actor {
    /// The sender.
    Sender,
    /// The operator.
    Operator,
    /// A grab of a user.
    Grab(u8, User),
    /// A run of settle.
    Settle(u8),
}

/// The fate of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// The call is executed, and the actor receives the reply.
    Done,
    /// The call is executed, and the actor dies before the reply. (Death before a call equals death after the last
    /// one.)
    Killed,
    /// The call is executed, but the reply is lost. The actor will send the same call again.
    Unanswered,
    /// The call is executed, and will be executed a second time.
    Copied,
    /// The actor dies before the call is executed.
    Abandoned,
    /// A reconcile does not reach the hot store. The answer remains valid.
    Unreached,
    /// A run of settle could not commit a claim in its time, or close a part, and goes on without it.
    GivenUp,
    /// The answer is given before the reconcile reaches the hot store.
    Ahead,
}

/// One step of the world.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// An actor calls.
    Step(Actor, Call, Fate),
    /// A late call is executed.
    Late,
    /// The packet expires.
    Expire,
    /// Long after expiry the hot store forgets the parts without holds.
    Forget,
    /// A process caches a final part (`service/grab/exhausted.rs` and `snapshot.lua`).
    CacheFinalPart(Part),
    /// A snapshot of the hot store is taken.
    Snapshot,
    /// The nodes of these parts go back to the hot store's snapshot.
    Rollback(Set),
    /// The nodes of these parts lose everything.
    Wipe(Set),
}

impl Protocol {
    /// The steps of each actor, with each fate of the call.
    fn steps(&self, state: &State, actions: &mut Vec<Action>) {
        let mut calls = Vec::with_capacity(4);
        let mut push = |actor: Actor, calls: &mut Vec<Call>| {
            for call in calls.drain(..) {
                fates(state, actor, call).for_each(|fate| actions.push(Action::Step(actor, call, fate)));
            }
        };
        match state.sender {
            Sender::Pay => calls.push(Call::Send),
            Sender::Load(parts) => {
                calls.extend(parts.first().map(|part| Call::Load { part, decisions: Set::NONE, closed: false }));
            }
            Sender::Done => {}
        }
        push(Actor::Sender, &mut calls);
        if state.ledger.sent {
            state.operator.calls(&self.0, &mut calls);
            push(Actor::Operator, &mut calls);
        }
        let remembered = state.remembered();
        for ((n, user), grab) in (0..).zip(self.0.grabs).zip(state.grabs) {
            if grab.tries > 0 {
                grab.at.calls(&self.0, *user, remembered, &mut calls);
                push(Actor::Grab(n, *user), &mut calls);
            }
        }
        let is_due = state.ledger.sent && (state.expired || state.ledger.closed || self.0.early_refund);
        for (n, settle) in (0..).zip(state.settles) {
            settle.calls(&self.0, is_due, &mut calls);
            push(Actor::Settle(n), &mut calls);
        }
    }

    /// Events without an actor.
    fn events(&self, state: &State, actions: &mut Vec<Action>) {
        if state.late.is_some() {
            actions.push(Action::Late);
        }
        if !state.expired {
            actions.push(Action::Expire);
        } else if !state.hot.loaded.is_empty() {
            actions.push(Action::Forget);
        }
        for part in 0..self.0.parts {
            let is_final = state.hot.is_final(&self.0, part) && !state.hot.closed.has(part);
            let is_empty = state.hot.loaded.has(part) && state.hot.free[usize::from(part)].slips().is_empty();
            if state.final_parts[usize::from(part)].is_none()
                && (is_final || self.0.has(Mutant::EmptyIsFinal) && is_empty)
            {
                actions.push(Action::CacheFinalPart(part));
            }
        }
        let nothing = Hot::default();
        if state.faults.rollbacks > 0 {
            match state.snapshot {
                None if state.hot != nothing => actions.push(Action::Snapshot),
                Some(_) => actions.extend(self.nodes().map(Action::Rollback)),
                None => {}
            }
        }
        if state.faults.wipes > 0 && state.hot != nothing {
            actions.extend(self.nodes().map(Action::Wipe));
        }
    }

    /// The parts that a loss may befall: parts lie on different nodes, or on the same.
    fn nodes(&self) -> impl Iterator<Item = Set> {
        let all = Set::range(0, self.0.parts);
        let single = (0..self.0.parts).map(Set::of).filter(move |part| *part != all);
        std::iter::once(all).chain(single)
    }

    fn step(&self, state: &mut State, actor: Actor, call: Call, fate: Fate) {
        let instance = &self.0;
        state.faults.copies -= u8::from(fate.is_fault_of(call));
        match fate {
            Fate::Done => {
                let reply = state.execute(instance, call);
                self.receive(state, actor, call, reply);
            }
            Fate::Killed => {
                state.execute(instance, call);
                die(state, actor);
            }
            Fate::Unanswered => {
                state.execute(instance, call);
            }
            Fate::Copied => {
                state.late = Some(call);
                let reply = state.execute(instance, call);
                self.receive(state, actor, call, reply);
            }
            Fate::Abandoned => {
                state.late = Some(call);
                die(state, actor);
            }
            Fate::GivenUp => self.receive(state, actor, call, Reply::Done),
            Fate::Unreached | Fate::Ahead => {
                if fate == Fate::Ahead {
                    state.late = Some(call);
                }
                if let Actor::Grab(n, _) = actor
                    && let Some(next) = state.grabs[usize::from(n)].at.unreached()
                {
                    state.advance(instance, usize::from(n), next);
                }
            }
        }
    }

    /// An actor receives a reply.
    fn receive(&self, state: &mut State, actor: Actor, call: Call, reply: Reply) {
        match actor {
            Actor::Sender => state.sender = self.sender_after(state.sender),
            Actor::Operator => state.operator = state.operator.next(&self.0, reply),
            Actor::Grab(n, _) => {
                let next = state.grabs[usize::from(n)].at.next(&self.0, call, reply);
                state.advance(&self.0, usize::from(n), next);
            }
            Actor::Settle(n) => {
                let settle = &mut state.settles[usize::from(n)];
                *settle = settle.next(&self.0, call, reply);
            }
        }
    }

    fn sender_after(&self, sender: Sender) -> Sender {
        let Sender::Load(parts) = sender else { return Sender::Done };
        let rest = parts.without(parts.lowest(1));
        match (rest.is_empty(), self.0.has(Mutant::RedisBeforeLedger)) {
            (false, _) => Sender::Load(rest),
            (true, true) => Sender::Pay,
            (true, false) => Sender::Done,
        }
    }
}

/// An actor dies and loses its knowledge.
fn die(state: &mut State, actor: Actor) {
    match actor {
        Actor::Sender => state.sender = Sender::Done,
        Actor::Operator => state.operator = Operator::Done,
        Actor::Grab(n, _) => state.die(usize::from(n)),
        Actor::Settle(n) => state.settles[usize::from(n)] = Settle::Done,
    }
}

impl Fate {
    /// Whether it counts towards an instance's bound on faults. Deaths and repeated transactions need no bound: an
    /// actor dies once, and a transaction is idempotent.
    const fn is_fault_of(self, call: Call) -> bool {
        match self {
            Self::Done | Self::Killed | Self::Ahead => false,
            Self::Unanswered => !call.is_transaction(),
            Self::Copied | Self::Abandoned | Self::Unreached | Self::GivenUp => true,
        }
    }
}

/// The fates of a call. A read has no effect outside, so a reader's death equals its absence.
fn fates(state: &State, actor: Actor, call: Call) -> impl Iterator<Item = Fate> {
    let is_spare = state.faults.copies > 0;
    let may_be_late = is_spare && state.late.is_none();
    let grab = match actor {
        Actor::Grab(n, _) => Some(state.grabs[usize::from(n)].at),
        _ => None,
    };
    let tells = grab.is_some() && matches!(call, Call::Reconcile { .. });
    let has_answer = matches!(grab, Some(At::Reconcile { then: Then::Answer(_), .. }));
    [
        (Fate::Done, true),
        (Fate::Killed, call.is_write()),
        (Fate::Unanswered, call.is_transaction() || call.is_write() && is_spare),
        (Fate::Copied, call.is_write() && may_be_late),
        (Fate::Abandoned, call.is_write() && may_be_late),
        (Fate::Unreached, tells && is_spare),
        (Fate::GivenUp, is_spare && matches!((actor, call), (Actor::Settle(_), Call::Claim { .. } | Call::Close(_)))),
        (Fate::Ahead, has_answer && state.late.is_none()),
    ]
    .into_iter()
    .filter_map(|(fate, may_be)| may_be.then_some(fate))
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.0)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.steps(state, actions);
        self.events(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = *last;
        match action {
            Action::Step(actor, call, fate) => self.step(&mut state, actor, call, fate),
            Action::Late => {
                if let Some(call) = state.late.take() {
                    state.execute(&self.0, call);
                }
            }
            Action::Expire => state.expire(),
            Action::Forget => state.hot.forget(&self.0),
            Action::CacheFinalPart(part) => {
                state.final_parts[usize::from(part)] = Some(state.hot.decisions.within(self.0.slips_of(part)));
            }
            Action::Snapshot => state.snapshot = Some(state.hot),
            Action::Rollback(parts) => {
                let snapshot = state.snapshot.take()?;
                let older = state.hot.with(&self.0, snapshot, parts);
                if older == state.hot {
                    return None;
                }
                state.lose(older);
                state.faults.rollbacks -= 1;
            }
            Action::Wipe(parts) => {
                let rest = state.hot.with(&self.0, Hot::default(), parts);
                if rest == state.hot {
                    return None;
                }
                state.lose(rest);
                state.faults.wipes -= 1;
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }

    fn format_action(&self, action: &Action) -> String {
        action.to_string()
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(actor, call, fate) => write!(f, "{actor}: {call}{fate}"),
            Self::Late => f.write_str("the late call is executed"),
            Self::Expire => f.write_str("the packet expires"),
            Self::Forget => f.write_str("the hot store forgets the parts without holds"),
            Self::CacheFinalPart(part) => write!(f, "a process caches part {part} as final"),
            Self::Snapshot => f.write_str("a snapshot of the hot store is taken"),
            Self::Rollback(parts) => write!(f, "parts {parts} go back to the snapshot"),
            Self::Wipe(parts) => write!(f, "parts {parts} are lost"),
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sender => f.write_str("send"),
            Self::Operator => f.write_str("operator"),
            Self::Grab(n, user) => write!(f, "grab {n} ({})", name(*user)),
            Self::Settle(n) => write!(f, "settle {n}"),
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "",
            Self::Killed => "; it dies before the reply",
            Self::Unanswered => "; no answer, it will be sent again",
            Self::Copied => "; a copy will be executed late",
            Self::Abandoned => "; it dies, and this will be executed late",
            Self::Unreached => "; the hot store is not reached",
            Self::GivenUp => "; this is not done, and the run goes on",
            Self::Ahead => "; it answers first, and this will be executed late",
        })
    }
}
