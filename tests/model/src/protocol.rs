//! The calls of the actors to the stores, and all steps from a state: the actors' calls with their faults, and events without an
//! actor. Each call is one step; between two calls any other actor may act.

use stateright::{Model, Property};

use crate::grab::{Answer, At, Grab};
use crate::hot::{GrabAnswer, Holds, Hot};
use crate::instance::{Instance, Mutant, Part, Set, Slip, User};
use crate::ledger::ClaimOutcome;
use crate::properties;
use crate::settle::{Operator, Settle};
use crate::state::State;

/// A script, a transaction, or a consistent read.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Call {
    /// `grab.lua` for one user. (A batch of users equals one call after another.)
    Grab {
        /// The part.
        part: Part,
        /// The user.
        user: User,
    },
    /// `reconcile.lua`.
    Reconcile {
        /// The part to reconcile.
        part: Part,
        /// The slips whose decisions it receives.
        decisions: Set,
        /// The holds that these decisions resolve.
        holds: Holds,
    },
    /// `reconcile.lua` without decisions (`HotStore::release`): ends a hold.
    Release {
        /// The slip that is held.
        slip: Slip,
        /// The user for whom it is held.
        user: User,
    },
    /// `load.lua`.
    Load {
        /// The part.
        part: Part,
        /// The slips whose decisions are known so far.
        decisions: Set,
        /// Whether it is loaded as closed.
        closed: bool,
    },
    /// `close.lua`.
    Close(Part),
    /// The transaction of a claim.
    Claim {
        /// The slip.
        slip: Slip,
        /// The user.
        user: User,
    },
    /// The transaction of a refund of these slips.
    Refund(Set),
    /// The transaction that marks the packet as closed.
    MarkClosed,
    /// The transaction that marks the packet as settled.
    MarkSettled,
    /// Reads the decisions of slips.
    ReadDecisions(Set),
    /// Reads a user's claim item.
    ReadClaim(User),
    /// Reads whether the packet is settled, and whether it is closed.
    ReadPacket,
    /// Reads which parts are pending.
    ReadPending,
    /// Reads a part's holds.
    ReadOutbox(Part),
}

/// A call's result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reply {
    /// Done; no result. Or the actor goes on without it.
    Done,
    /// The result of [`Call::Grab`].
    GrabAnswer(GrabAnswer),
    /// The result of [`Call::Load`] and [`Call::Close`]: whether the part is loaded now.
    Loaded(bool),
    /// The result of [`Call::Claim`].
    Claim(ClaimOutcome),
    /// [`Call::ReadDecisions`]: the slips with a decision. [`Call::Refund`]: the slips whose decisions prevented it.
    /// [`Call::ReadPending`]: the parts.
    Set(Set),
    /// The result of [`Call::ReadClaim`]: the user's slip.
    Slip(Option<Slip>),
    /// The result of [`Call::ReadPacket`] and of [`Call::MarkClosed`], after which the packet is read.
    Packet {
        /// Whether it is settled.
        settled: bool,
        /// Whether it is closed.
        closed: bool,
    },
    /// The result of [`Call::ReadOutbox`].
    Holds(Holds),
}

impl Call {
    /// Whether it is a transaction. A transaction with an unknown result is sent again unchanged.
    pub const fn is_transaction(self) -> bool {
        matches!(self, Self::Claim { .. } | Self::Refund(_) | Self::MarkClosed | Self::MarkSettled)
    }

    /// Whether it changes a store.
    pub const fn is_write(self) -> bool {
        self.is_transaction()
            || matches!(
                self,
                Self::Grab { .. } | Self::Reconcile { .. } | Self::Release { .. } | Self::Load { .. } | Self::Close(_)
            )
    }
}

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
    /// A run of settle could not commit a claim in its time, or release a hold, or close a part, and goes on without it.
    GivenUp,
    /// The answer is given before the reconcile or the release reaches the hot store, which may happen later or never.
    Ahead,
}

/// One step of the world.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// An actor calls.
    Step(Actor, Call, Fate),
    /// A late call is executed.
    Late,
    /// A user reaches the packet's limit by a win of another packet. They may have a claim of this one.
    WinElsewhere(User),
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
        let load = |part| Call::Load { part, decisions: Set::NONE, closed: false };
        calls.extend(state.sending.first().map(load));
        push(Actor::Sender, &mut calls);
        calls.extend(state.operator.call(&self.0));
        push(Actor::Operator, &mut calls);
        for ((n, user), grab) in (0..).zip(self.0.grabs).zip(state.grabs) {
            if grab.tries > 0 && (n <= state.begun || !self.0.is_symmetric()) {
                // A process may know a user's wins by a refusal of another packet (`service/grab/winners.rs`).
                let is_known = state.is_final.is_some() || state.ledger.at_limit.has(*user);
                grab.calls(&self.0, *user, is_known, &mut calls);
                push(Actor::Grab(n), &mut calls);
            }
        }
        let is_due = state.hot.expired || state.ledger.closed || self.0.early_refund;
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
        if state.ledger.at_limit.each().count() < usize::from(self.0.limits) {
            let users: Set = self.0.grabs.iter().copied().collect();
            actions.extend(users.without(state.ledger.at_limit).each().map(Action::WinElsewhere));
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
            Fate::Unanswered if instance.has(Mutant::UnansweredIsRefused) && matches!(call, Call::Claim { .. }) => {
                self.receive(state, actor, call, Reply::Claim(ClaimOutcome::Refused));
            }
            Fate::Unanswered => {}
            Fate::Ahead => {
                if let Actor::Grab(n) = actor
                    && let Some(answer) = answer_ahead(state.grabs[usize::from(n)])
                {
                    state.advance(instance, usize::from(n), Err(answer));
                }
            }
        }
    }

    /// An actor receives a reply.
    fn receive(&self, state: &mut State, actor: Actor, call: Call, reply: Reply) {
        match actor {
            Actor::Sender => state.sending = state.sending.rest(),
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
        Actor::Sender => state.sending = Set::NONE,
        Actor::Operator => state.operator = Operator::Done,
        Actor::Grab(n) => state.end_grab(usize::from(n)),
        Actor::Settle(n) => state.settles[usize::from(n)] = Settle::Done,
    }
}

/// The answer of a grab that has one, and only has to reconcile, or to release its hold.
fn answer_ahead(grab: Grab) -> Option<Answer> {
    match grab.at {
        At::Reconcile { answer, .. } => answer.map(Answer::Grabbed),
        At::Release(_) => Some(Answer::LimitReached),
        _ => None,
    }
}

/// The fates of a call. A read has no effect outside, so a reader's death equals its absence. Deaths and repeated transactions need
/// no bound: an actor dies once, and a transaction is idempotent.
fn fates(state: &State, actor: Actor, call: Call) -> impl Iterator<Item = Fate> {
    let is_spare = state.copies > 0;
    let may_be_late = call.is_write() && is_spare && state.late.is_none();
    let may_be_skipped = matches!(call, Call::Claim { .. } | Call::Release { .. } | Call::Close(_));
    let has_answer = matches!(actor, Actor::Grab(n) if answer_ahead(state.grabs[usize::from(n)]).is_some());
    [
        (Fate::Done, true),
        (Fate::Killed, call.is_write()),
        (Fate::Unanswered, call.is_transaction()),
        (Fate::Copied, may_be_late),
        (Fate::Abandoned, may_be_late),
        (Fate::GivenUp, is_spare && matches!(actor, Actor::Settle(_)) && may_be_skipped),
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
            Action::WinElsewhere(user) => state.ledger.at_limit = state.ledger.at_limit.and(Set::of(user)),
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
