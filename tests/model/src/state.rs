//! The model's state, and the effect of each step.

use crate::call::{Call, Reply};
use crate::close::Operator;
use crate::grab::{Answer, At, Grab, Then};
use crate::hot::{Entry, GrabAnswer, Hot};
use crate::instance::{Ack, GRABS, Instance, Mutant, PARTS, SETTLERS, Slip, USERS, User};
use crate::ledger::{Decision, Ledger};
use crate::set::Set;
use crate::settle::Settle;

/// The stores, the actors, late calls, and the users' answers.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct State {
    /// The ledger.
    pub ledger: Ledger,
    /// The hot store.
    pub hot: Hot,
    /// An earlier state of the hot store, to which it may go back.
    pub snapshot: Option<Hot>,
    /// Whether the packet is expired, by the hot store's clock.
    pub expired: bool,
    /// The sender.
    pub sender: Sender,
    /// The operator.
    pub operator: Operator,
    /// The grabs.
    pub grabs: [Grab; GRABS],
    /// The runs of settle.
    pub settles: [Settle; SETTLERS],
    /// The final parts in the cache of the grabs' process, with their known decisions (`service/grab/exhausted.rs`).
    pub final_parts: [Option<Set>; PARTS],
    /// A call that will still be executed although its actor no longer waits.
    pub late: Option<Call>,
    /// The slip in each user's `grabbed` answer, for `redis` mode. (In `ledger` mode there is nothing to remember: an
    /// answer must equal the user's claim, which never changes.)
    pub promised: [Option<Slip>; USERS],
    /// The users who were answered `sold_out` in `ledger` mode while another grab of theirs was unfinished.
    pub denied: Set,
    /// Faults that may still happen.
    pub faults: Faults,
    /// Whether the hot store has lost something.
    pub lost: bool,
    /// Answers that break a property.
    pub wrong: Wrong,
}

/// The packet's sender: `SendPacket::send` in `service/send.rs`, after the transaction is committed. It knows no
/// decision, so no loader is staler.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Sender {
    /// Only in [`Mutant::RedisBeforeLedger`]: commit the transaction last.
    Pay,
    /// Load these parts.
    Load(Set),
    /// Nothing more to do.
    Done,
}

/// The faults that may still happen.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Faults {
    /// Rollbacks of the hot store.
    pub rollbacks: u8,
    /// Losses of all data of the hot store.
    pub wipes: u8,
    /// Calls that are executed twice, late, or never.
    pub copies: u8,
}

/// Kinds of answers that break a property.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own")]
pub struct Wrong {
    /// A user was answered `grabbed` with a slip that is not theirs, or with another slip than before.
    pub grabbed: bool,
    /// A user with a slip was denied.
    pub denied_winner: bool,
    /// A user was answered `grabbed` after `sold_out`.
    pub late_win: bool,
    /// A user was answered `sold_out` while a slip was free that was never lost.
    pub sold_out: bool,
    /// A user was answered `closed`, and the packet is not closed.
    pub closed: bool,
    /// The hot store, which has lost nothing, gave out a slip after the close was answered.
    pub after_close: bool,
}

impl State {
    /// The state after the packet is paid for.
    pub fn new(instance: &Instance) -> Self {
        let is_sent = !instance.has(Mutant::RedisBeforeLedger);
        let grab = |n| Grab { tries: if n < instance.grabs.len() { instance.tries } else { 0 }, at: At::START };
        let settle = |n| if n < usize::from(instance.settlers) { Settle::Ready } else { Settle::Done };
        Self {
            ledger: Ledger { sent: is_sent, ..Ledger::default() },
            hot: Hot::default(),
            snapshot: None,
            expired: false,
            sender: Sender::Load(Set::range(0, instance.parts)),
            operator: if instance.closes { Operator::Mark } else { Operator::Done },
            grabs: std::array::from_fn(grab),
            settles: std::array::from_fn(settle),
            final_parts: [None; PARTS],
            late: None,
            promised: [None; USERS],
            denied: Set::NONE,
            faults: Faults { rollbacks: instance.rollbacks, wipes: instance.wipes, copies: instance.copies },
            lost: false,
            wrong: Wrong::default(),
        }
    }

    /// Executes a call.
    pub fn execute(&mut self, instance: &Instance, call: Call) -> Reply {
        if !self.ledger.sent && matches!(call, Call::Claim { .. } | Call::ReadDecisions(_) | Call::ReadClaim(_)) {
            return Reply::NoPacket;
        }
        match call {
            Call::Grab { part, user } => {
                let held = self.hot.held();
                let answer = self.hot.grab(instance, self.expired, part, user);
                let is_over = self.operator == Operator::Answered && !self.lost;
                self.wrong.after_close |=
                    is_over && matches!(answer, GrabAnswer::Held(slip) if held.user(slip) != Some(user));
                Reply::GrabAnswer(answer)
            }
            Call::Reconcile { part, decisions, decided } => {
                self.hot.reconcile(instance, self.expired, &self.ledger, part, decisions, decided);
                Reply::Done
            }
            Call::Load { part, decisions, closed } => {
                let expired = self.hot.load(instance, self.expired, &self.ledger, part, decisions, closed);
                Reply::Loaded { expired }
            }
            Call::Close(part) => Reply::Closed(self.hot.close(part)),
            Call::MarkClosed => {
                // A settled packet stays as it is.
                self.ledger.closed |= !self.ledger.settled;
                Reply::Packet { settled: self.ledger.settled, closed: self.ledger.closed }
            }
            Call::Send => {
                self.ledger.sent = true;
                Reply::Done
            }
            Call::Claim { slip, user } => Reply::Claim(self.ledger.claim(instance, user, slip)),
            Call::Refund { slips, sum } => Reply::Set(self.ledger.refund(slips, sum)),
            Call::MarkSettled => {
                self.ledger.settled = true;
                Reply::Done
            }
            Call::ReadDecisions(slips) => Reply::Set(self.ledger.decided().within(slips)),
            Call::ReadClaim(user) => Reply::Slip(self.ledger.claims[usize::from(user)]),
            Call::ReadPacket => Reply::Packet { settled: self.ledger.settled, closed: self.ledger.closed },
            Call::ReadPending => Reply::Set(self.hot.pending),
            Call::ReadOutbox(part) => Reply::Holds(self.hot.held().of(instance.slips_of(part))),
            Call::Remember { part, user } => {
                let decisions = self.final_parts[usize::from(part)].unwrap_or_default();
                Reply::Slip(decisions.into_iter().find(|slip| self.ledger.owner(*slip) == Some(user)))
            }
            Call::DropHolds(slips) => {
                self.hot.drop_holds(slips);
                Reply::Done
            }
            Call::PutBack { slip, user } => {
                self.hot.put_back(instance, slip, user);
                Reply::Done
            }
        }
    }

    /// The parts in the process's cache.
    pub fn remembered(&self) -> Set {
        (0..).zip(self.final_parts).filter(|(_, decisions)| decisions.is_some()).map(|(part, _)| part).collect()
    }

    /// Moves grab `n` to its next step or its end.
    pub fn advance(&mut self, instance: &Instance, n: usize, next: Result<At, Answer>) {
        match next {
            Ok(at) => self.grabs[n].at = at,
            Err(answer) => {
                self.answer(instance, instance.grabs[n], answer);
                self.die(n);
            }
        }
    }

    /// Ends grab `n`, with or without an answer.
    pub fn die(&mut self, n: usize) {
        let grab = &mut self.grabs[n];
        *grab = Grab { tries: grab.tries - 1, at: At::START };
    }

    /// Checks an answer that a user receives.
    fn answer(&mut self, instance: &Instance, user: User, answer: Answer) {
        let claim = self.ledger.claims[usize::from(user)];
        let promise = &mut self.promised[usize::from(user)];
        let counts = instance.keeps_promises(self.lost);
        match answer {
            Answer::Grabbed(slip) => {
                let is_other = promise.is_some_and(|promised| promised != slip);
                let is_early = instance.ack == Ack::Ledger && claim != Some(slip);
                self.wrong.grabbed |= counts && (is_other || is_early);
                self.wrong.late_win |= self.denied.has(user);
                *promise = Some(slip).filter(|_| instance.ack == Ack::Redis);
            }
            Answer::SoldOut | Answer::Expired | Answer::Closed => {
                self.wrong.closed |= answer == Answer::Closed && !self.ledger.closed;
                self.wrong.denied_winner |= counts && (claim.is_some() || promise.is_some());
                let free = instance.all().without(self.ledger.decided()).without(self.hot.held().slips());
                self.wrong.sold_out |= answer == Answer::SoldOut && !self.lost && !free.is_empty();
                let unfinished =
                    self.grabs.iter().zip(instance.grabs).filter(|(grab, of)| grab.tries > 0 && **of == user);
                // This grab is one of them.
                if instance.ack == Ack::Ledger && answer == Answer::SoldOut && unfinished.count() > 1 {
                    self.denied = self.denied.and(Set::of(user));
                }
            }
            Answer::None => {}
        }
    }

    /// The packet expires.
    pub fn expire(&mut self) {
        self.expired = true;
        self.hot.expire();
    }

    /// Replaces the hot store's data with `hot`; the difference is lost.
    pub fn lose(&mut self, hot: Hot) {
        self.hot = hot;
        self.lost = true;
        if self.expired {
            self.hot.expire();
        }
    }

    /// The state after all actors have died and settle has run once. The packet is due: expired or closed.
    #[must_use]
    pub fn recovered(mut self, instance: &Instance) -> Self {
        let mut settle = Settle::Ready;
        let mut calls = Vec::new();
        loop {
            settle.calls(instance, self.ledger.sent, &mut calls);
            let Some(&call) = calls.first() else { return self };
            let reply = self.execute(instance, call);
            settle = settle.next(instance, call, reply);
            calls.clear();
        }
    }

    /// Whether the promise to `user` is kept: in the ledger, or by a hold that can still reach it.
    pub fn keeps_promise(&self, instance: &Instance, user: User) -> bool {
        let Some(slip) = self.promised[usize::from(user)] else { return true };
        let is_committed = self.ledger.owner(slip) == Some(user) && self.ledger.claims[usize::from(user)] == Some(slip);
        let is_held =
            self.ledger.decisions[usize::from(slip)] == Decision::Absent && self.hot.held().user(slip) == Some(user);
        is_committed || is_held || !instance.keeps_promises(self.lost)
    }

    /// Whether each slip of the loaded parts is exactly one of free, held or decided. No slip is free after expiry.
    pub fn parts_are_whole(&self, instance: &Instance) -> bool {
        self.hot.loaded.into_iter().all(|part| {
            let slips = instance.slips_of(part);
            let free = self.hot.free[usize::from(part)].slips();
            let (held, decisions) = (self.hot.held().slips().within(slips), self.hot.decisions.within(slips));
            let is_apart =
                free.within(held).is_empty() && free.within(decisions).is_empty() && held.within(decisions).is_empty();
            is_apart && (self.expired || free.and(held).and(decisions) == slips) && self.claims_match(instance, slips)
        })
    }

    /// Whether a part's holds are slips of that part, each held for one user.
    fn claims_match(&self, instance: &Instance, slips: Set) -> bool {
        let part = slips.first().map_or(0, |slip| instance.part_of(slip));
        let claims = self.hot.claims[usize::from(part)];
        (0..).zip(claims).all(|(user, entry)| match entry {
            Entry::Held(slip) => slips.has(slip) && self.hot.held().user(slip) == Some(user),
            Entry::None | Entry::Confirmed(_) => true,
        })
    }

    /// Whether every known decision exists in the ledger.
    pub fn decisions_are_true(&self) -> bool {
        let is_true = |(entry, claim): (Entry, Option<Slip>)| match entry {
            Entry::Confirmed(slip) => claim == Some(slip),
            Entry::Held(_) | Entry::None => true,
        };
        let claims = self.hot.claims.iter().all(|part| part.iter().copied().zip(self.ledger.claims).all(is_true));
        claims && self.ledger.decided().covers(self.hot.decisions)
    }

    /// Whether a grab is about to free its slip because its user has another.
    pub fn puts_back(&self, instance: &Instance) -> bool {
        self.grabs.iter().zip(instance.grabs).any(|(grab, user)| match grab.at {
            At::Reconcile { slip, then: Then::Answer(own), .. } if slip != own && !self.expired => {
                self.hot.held().user(slip) == Some(*user) && !self.hot.decisions.has(slip)
            }
            _ => false,
        })
    }

    /// Whether a user asks a part that is final and gives them nothing.
    pub fn comes_too_late(&self, instance: &Instance) -> bool {
        self.grabs.iter().zip(instance.grabs).any(|(grab, user)| match grab.at {
            At::Pass { probe, .. } if grab.tries > 0 => {
                let part = instance.probed(*user, probe);
                let claim = self.hot.claims[usize::from(part)][usize::from(*user)];
                self.hot.is_final(instance, part) && claim == Entry::None
            }
            _ => false,
        })
    }
}
