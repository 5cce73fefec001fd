//! The model's state, and the effect of each step.

use crate::grab::{Answer, Grab};
use crate::hot::{Field, GrabAnswer, Hot, Why, each, slips};
use crate::instance::{Ack, GRABS, Instance, SETTLERS, Set, Slip, USERS, User};
use crate::ledger::{ClaimOutcome, Decision, Ledger};
use crate::properties;
use crate::protocol::{Call, Reply};
use crate::settle::{Operator, Settle};

/// The stores, the actors, late calls, and the users' answers.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct State {
    /// The ledger.
    pub ledger: Ledger,
    /// The hot store.
    pub hot: Hot,
    /// An earlier state of the hot store, to which it may go back. At first it is empty.
    pub backup: Hot,
    /// The parts that the sender still loads: `SendPacket::send` in `service/send.rs`, after the transaction is committed. It knows no
    /// decision, so no loader is staler.
    pub sending: Set,
    /// The operator.
    pub operator: Operator,
    /// The grabs.
    pub grabs: [Grab; GRABS],
    /// Number of grabs that have begun, if all users are alike: then they begin in order.
    pub begun: u8,
    /// The runs of settle.
    pub settles: [Settle; SETTLERS],
    /// Why there is no slip, if a process knows that the packet is final (`service/grab/final_packets.rs`).
    pub is_final: Option<Why>,
    /// A call that will still be executed although its actor no longer waits.
    pub late: Option<Call>,
    /// The slip in each user's `grabbed` answer, for `redis` mode. (In `ledger` mode there is nothing to remember: an
    /// answer must equal the user's claim, which never changes.)
    pub promised: [Option<Slip>; USERS],
    /// Losses of the hot store that may still happen.
    pub losses: u8,
    /// Calls that may still be executed twice, late, or never.
    pub copies: u8,
    /// Whether the hot store has lost something.
    pub lost: bool,
    /// The slips whose holds were released.
    pub released: Set,
    /// The property that an answer broke.
    pub broken: Option<&'static str>,
}

impl State {
    /// The state after the packet is paid for.
    pub fn new(instance: &Instance) -> Self {
        let grab = |n| Grab::new(if n < instance.grabs.len() { instance.tries } else { 0 });
        let settle = |n| if n < usize::from(instance.settlers) { Settle::Ready } else { Settle::Done };
        Self {
            ledger: Ledger::default(),
            hot: Hot::default(),
            backup: Hot::default(),
            sending: instance.all_parts(),
            operator: if instance.closes { Operator::Mark } else { Operator::Done },
            grabs: std::array::from_fn(grab),
            begun: 0,
            settles: std::array::from_fn(settle),
            is_final: None,
            late: None,
            promised: [None; USERS],
            losses: instance.losses,
            copies: instance.copies,
            lost: false,
            released: Set::NONE,
            broken: None,
        }
    }

    /// Executes a call.
    pub fn execute(&mut self, instance: &Instance, call: Call) -> Reply {
        match call {
            Call::Grab { part, user } => {
                let held = self.hot.held();
                let answer = self.hot.grab(instance, part, user);
                let is_fresh = matches!(answer, GrabAnswer::Held(slip) if held[usize::from(slip)] != Some(user));
                self.must(!is_fresh || self.lost || self.operator != Operator::Answered, properties::AFTER_CLOSE);
                Reply::GrabAnswer(answer)
            }
            Call::Reconcile { part, decisions, holds } => {
                self.hot.reconcile(instance, &self.ledger, part, decisions, holds);
                Reply::Done
            }
            Call::Release { slip, user } => {
                let held = slips(self.hot.held());
                self.hot.release(instance, slip, user);
                self.released = self.released.and(held.without(slips(self.hot.held())));
                Reply::Done
            }
            Call::Load { part, decisions, closed } => {
                Reply::Loaded(self.hot.load(instance, &self.ledger, part, decisions, closed))
            }
            Call::Close(part) => Reply::Loaded(self.hot.close(part)),
            Call::Claim { slip, user } => {
                let outcome = self.ledger.claim(instance, user, slip);
                let is_at_limit = self.ledger.at_limit.has(user);
                self.must(!is_at_limit || outcome != ClaimOutcome::Committed, properties::LIMIT);
                Reply::Claim(outcome)
            }
            Call::Refund(slips) => Reply::Set(self.ledger.refund(instance, slips)),
            Call::MarkClosed => {
                // A settled packet stays as it is.
                self.ledger.closed |= !self.ledger.settled;
                Reply::Packet { settled: self.ledger.settled, closed: self.ledger.closed }
            }
            Call::MarkSettled => {
                self.ledger.settled = true;
                Reply::Done
            }
            Call::ReadDecisions(slips) => Reply::Set(self.ledger.decided().within(slips)),
            Call::ReadClaim(user) => Reply::Slip(self.ledger.claims[usize::from(user)]),
            Call::ReadPacket => Reply::Packet { settled: self.ledger.settled, closed: self.ledger.closed },
            Call::ReadPending => Reply::Set(self.hot.pending),
            Call::ReadOutbox(part) => Reply::Holds(self.hot.outbox(instance, part)),
        }
    }

    fn must(&mut self, holds: bool, property: &'static str) {
        if !holds {
            self.broken = Some(property);
        }
    }

    /// Moves grab `n` to its next step or its end.
    pub fn advance(&mut self, instance: &Instance, n: usize, next: Result<Grab, Answer>) {
        match next {
            Ok(grab) => self.grabs[n] = grab,
            Err(answer) => {
                self.answer(instance, instance.grabs[n], answer);
                self.end_grab(n);
            }
        }
    }

    /// Ends grab `n`, with or without an answer.
    pub fn end_grab(&mut self, n: usize) {
        self.grabs[n] = Grab::new(self.grabs[n].tries - 1);
    }

    /// Checks an answer that a user receives.
    fn answer(&mut self, instance: &Instance, user: User, answer: Answer) {
        let claim = self.ledger.claims[usize::from(user)];
        let promised = self.promised[usize::from(user)];
        let counts = instance.keeps_promises(self.lost);
        match answer {
            Answer::Grabbed(slip) => {
                let is_other = promised.is_some_and(|promised| promised != slip);
                let is_early = instance.ack == Ack::Ledger && claim != Some(slip);
                self.must(!counts || !is_other && !is_early, properties::PROMISE);
                self.promised[usize::from(user)] = Some(slip).filter(|_| instance.ack == Ack::Redis);
            }
            Answer::Nothing { why, certain } => {
                self.must(why != Why::Closed || self.ledger.closed, properties::CLOSED);
                self.must(!counts || claim.is_none() && promised.is_none(), properties::DENIED_WINNER);
                let taken = self.ledger.decided().and(slips(self.hot.held()));
                let is_none_free = taken.and(self.released) == instance.all();
                self.must(why != Why::SoldOut || self.lost || is_none_free, properties::SOLD_OUT);
                if certain && instance.parts > 1 && instance.ack == Ack::Ledger {
                    self.is_final = Some(why);
                }
            }
            Answer::LimitReached => {
                self.must(self.ledger.at_limit.has(user), properties::LIMIT_REACHED);
                self.must(!counts || claim.is_none() && promised.is_none(), properties::DENIED_WINNER);
            }
            Answer::Unknown => {}
        }
    }

    /// The state after all actors have died and settle has run once. `is_due`: the packet is expired or closed.
    #[must_use]
    pub fn recovered(mut self, instance: &Instance, is_due: bool) -> Self {
        let mut settle = Settle::Ready;
        let mut calls = Vec::new();
        loop {
            settle.calls(instance, is_due, &mut calls);
            let Some(&call) = calls.first() else { return self };
            let reply = self.execute(instance, call);
            settle = settle.next(instance, call, reply);
            calls.clear();
        }
    }

    /// Whether `user`, who asks again while nobody else does anything, is answered the truth: their claim, or a slip, also one that an
    /// earlier request has left held for them. Else no slip is free, or they have reached the limit.
    pub fn tells_truth(mut self, instance: &Instance, user: User) -> bool {
        let claim = self.ledger.claims[usize::from(user)];
        let all_loaded = self.hot.loaded == instance.all_parts();
        let is_held = |(slip, holder): (Slip, User)| {
            holder == user && self.ledger.decisions[usize::from(slip)] == Decision::Absent
        };
        let is_held = all_loaded && each(self.hot.held()).any(is_held);
        self.broken = None;
        let mut next = Ok(Grab::new(1));
        let mut calls = Vec::new();
        while let Ok(grab) = next {
            grab.calls(instance, user, false, &mut calls);
            let reply = self.execute(instance, calls[0]);
            next = grab.next(instance, user, None, reply);
            calls.clear();
        }
        let Err(answer) = next else { return false };
        self.answer(instance, user, answer);
        let is_true = match answer {
            Answer::Grabbed(slip) => claim.is_none_or(|claim| claim == slip) || !instance.keeps_promises(self.lost),
            Answer::Nothing { .. } => !is_held,
            Answer::LimitReached => true,
            Answer::Unknown => instance.ack == Ack::Redis && !all_loaded,
        };
        is_true && self.broken.is_none()
    }

    /// Whether the promise to `user` is kept: in the ledger, or by a hold that can still reach it.
    pub fn keeps_promise(&self, instance: &Instance, user: User) -> bool {
        let Some(slip) = self.promised[usize::from(user)] else { return true };
        let is_committed = self.ledger.owner(slip) == Some(user) && self.ledger.claims[usize::from(user)] == Some(slip);
        let is_undecided = self.ledger.decisions[usize::from(slip)] == Decision::Absent;
        let is_held = is_undecided && self.hot.held()[usize::from(slip)] == Some(user);
        is_committed || is_held || !instance.keeps_promises(self.lost)
    }

    /// Whether each slip of the loaded parts is exactly one of free, held or decided. No slip is free after expiry. A
    /// part's holds are slips of that part, each held for one user.
    pub fn parts_are_whole(&self, instance: &Instance) -> bool {
        let all_held = self.hot.held();
        self.hot.loaded.each().all(|part| {
            let all = instance.slips_of(part);
            let (free, known) = (self.hot.free.within(all), self.hot.known.within(all));
            let held = slips(all_held).within(all);
            let is_apart =
                free.within(held).is_empty() && free.within(known).is_empty() && held.within(known).is_empty();
            let is_held_once = (0..).zip(self.hot.fields[usize::from(part)]).all(|(user, field)| match field {
                Field::Held(slip) => all.has(slip) && all_held[usize::from(slip)] == Some(user),
                Field::None | Field::Confirmed(_) => true,
            });
            is_apart && (self.hot.expired || free.and(held).and(known) == all) && is_held_once
        })
    }

    /// Whether every known decision exists in the ledger.
    pub fn decisions_are_true(&self) -> bool {
        let is_true = |(field, claim)| !matches!(field, Field::Confirmed(slip) if claim != Some(slip));
        let fields = self.hot.fields.iter();
        self.ledger.decided().covers(self.hot.known)
            && fields.copied().all(|part| part.into_iter().zip(self.ledger.claims).all(is_true))
    }
}
