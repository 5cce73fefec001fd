//! All steps from a state: the actors' steps with their faults, and events without an actor.

use stateright::{Model, Property};

use crate::call::{Call, Reply};
use crate::close::Operator;
use crate::grab::{Answer, At, Grab};
use crate::hot::Hot;
use crate::instance::{Instance, Mutant};
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
    /// A grab.
    Grab(u8),
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
    /// The transaction is executed, but the reply is lost. The actor will send the same one again.
    Unanswered,
    /// The call is executed, and will be executed a second time.
    Copied,
    /// The actor dies before the call is executed, which may happen later or never.
    Abandoned,
    /// A run of settle could not commit a claim in its time, or close a part, and goes on without it.
    GivenUp,
    /// The answer is given before the reconcile reaches the hot store, which may happen later or never.
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
    /// The hot store's state is copied.
    BackUp,
    /// The nodes of these parts go back to the copy. Without one they lose everything.
    Lose(Set),
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
            calls.extend(state.operator.call(&self.0));
            push(Actor::Operator, &mut calls);
        }
        for ((n, user), grab) in (0..).zip(self.0.grabs).zip(state.grabs) {
            if grab.tries > 0 && (n <= state.begun || !self.0.is_symmetric()) {
                grab.calls(&self.0, *user, state.is_final.is_some(), &mut calls);
                push(Actor::Grab(n), &mut calls);
            }
        }
        let is_due = state.ledger.sent && (state.hot.expired || state.ledger.closed || self.0.early_refund);
        for (n, settle) in (0..).zip(state.settles) {
            // The runs are alike, so they begin in order.
            if n == 0 || settle != Settle::Ready || state.settles[0] != Settle::Ready {
                settle.calls(&self.0, is_due, &mut calls);
                push(Actor::Settle(n), &mut calls);
            }
        }
    }

    /// Events without an actor.
    fn events(&self, state: &State, actions: &mut Vec<Action>) {
        if state.late.is_some() {
            actions.push(Action::Late);
        }
        if !state.hot.expired {
            actions.push(Action::Expire);
        } else if !state.hot.loaded.is_empty() {
            actions.push(Action::Forget);
        }
        if state.losses > 0 {
            if state.backup == Hot::default() {
                actions.push(Action::BackUp);
            }
            // Parts lie on different nodes, or on the same.
            let all = self.0.all_parts();
            actions.push(Action::Lose(all));
            actions.extend(all.each().map(Set::of).filter(|part| *part != all).map(Action::Lose));
        }
    }

    fn step(&self, state: &mut State, actor: Actor, call: Call, fate: Fate) {
        let instance = &self.0;
        if let Actor::Grab(n) = actor
            && instance.is_symmetric()
        {
            state.begun = state.begun.max(n + 1);
        }
        state.copies -= u8::from(matches!(fate, Fate::Copied | Fate::Abandoned | Fate::GivenUp));
        if matches!(fate, Fate::Copied | Fate::Abandoned | Fate::Ahead) {
            state.late = Some(call);
        }
        let is_executed = matches!(fate, Fate::Done | Fate::Killed | Fate::Unanswered | Fate::Copied);
        let reply = if is_executed { state.execute(instance, call) } else { Reply::Done };
        match fate {
            Fate::Done | Fate::Copied | Fate::GivenUp => self.receive(state, actor, call, reply),
            Fate::Killed | Fate::Abandoned => die(state, actor),
            Fate::Unanswered => {
                if let (Call::Claim { slip, user }, true) = (call, instance.has(Mutant::PutBackAfterTimeout)) {
                    state.hot.put_back(instance, slip, user);
                }
            }
            Fate::Ahead => {
                if let Actor::Grab(n) = actor
                    && let Some(slip) = answer_ahead(state.grabs[usize::from(n)])
                {
                    state.advance(instance, usize::from(n), Err(Answer::Grabbed(slip)));
                }
            }
        }
    }

    /// An actor receives a reply.
    fn receive(&self, state: &mut State, actor: Actor, call: Call, reply: Reply) {
        match actor {
            Actor::Sender => {
                state.sender = match state.sender {
                    Sender::Load(parts) if !parts.rest().is_empty() => Sender::Load(parts.rest()),
                    Sender::Load(_) if self.0.has(Mutant::RedisBeforeLedger) => Sender::Pay,
                    _ => Sender::Done,
                }
            }
            Actor::Operator => state.operator = state.operator.next(&self.0, reply),
            Actor::Grab(n) => {
                let n = usize::from(n);
                let next = state.grabs[n].next(&self.0, self.0.grabs[n], state.is_final, reply);
                state.advance(&self.0, n, next);
            }
            Actor::Settle(n) => {
                let settle = &mut state.settles[usize::from(n)];
                *settle = settle.next(&self.0, call, reply);
            }
        }
    }
}

/// An actor dies and loses its knowledge.
fn die(state: &mut State, actor: Actor) {
    match actor {
        Actor::Sender => state.sender = Sender::Done,
        Actor::Operator => state.operator = Operator::Done,
        Actor::Grab(n) => state.end_grab(usize::from(n)),
        Actor::Settle(n) => state.settles[usize::from(n)] = Settle::Done,
    }
}

/// The answer of a grab that has one, and only has to reconcile.
const fn answer_ahead(grab: Grab) -> Option<u8> {
    if let At::Reconcile { answer, .. } = grab.at { answer } else { None }
}

/// The fates of a call. A read has no effect outside, so a reader's death equals its absence. Deaths and repeated transactions need
/// no bound: an actor dies once, and a transaction is idempotent.
fn fates(state: &State, actor: Actor, call: Call) -> impl Iterator<Item = Fate> {
    let is_spare = state.copies > 0;
    let may_be_late = call.is_write() && is_spare && state.late.is_none();
    let has_answer = matches!(actor, Actor::Grab(n) if answer_ahead(state.grabs[usize::from(n)]).is_some());
    [
        (Fate::Done, true),
        (Fate::Killed, call.is_write()),
        (Fate::Unanswered, call.is_transaction()),
        (Fate::Copied, may_be_late),
        (Fate::Abandoned, may_be_late),
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
            Action::Expire => state.hot.expire(),
            Action::Forget => state.hot.forget(&self.0),
            Action::BackUp => state.backup = state.hot,
            Action::Lose(parts) => {
                let older = state.hot.with(&self.0, std::mem::take(&mut state.backup), parts);
                if older == state.hot {
                    return None;
                }
                state.hot = older;
                state.lost = true;
                state.losses -= 1;
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}
