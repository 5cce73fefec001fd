//! A grab: `GrabSlip` in `service/grab/mod.rs`, with `Loader::ensure` and `Loader::repair` of `service/load.rs`.

use crate::hot::{GrabAnswer, Why};
use crate::instance::{Ack, Instance, Mutant, PARTS, Part, Set, Slip, User};
use crate::ledger::ClaimOutcome;
use crate::protocol::{Call, Reply};

/// A user's grab.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Grab {
    /// Number of grabs left, including this one.
    pub tries: u8,
    /// The parts to probe: all of them, and in the second pass those whose answers are in doubt.
    pub parts: Set,
    /// What the other parts have answered.
    pub why: Why,
    /// Whether this is the second pass.
    pub is_second: bool,
    /// The next step.
    pub at: At,
}

/// A grab's next step.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum At {
    /// Ask a part (`pass`).
    Pass {
        /// Position in the user's probe order.
        probe: u8,
        /// What the parts have answered so far.
        why: Why,
        /// The parts whose answers are in doubt.
        doubt: Set,
    },
    /// Still in doubt after the second pass: read the user's claim.
    InDoubt(Why),
    /// A part is not loaded: read the packet, or treat it as expired (`Loader::ensure_alone`).
    NotLoaded(Part),
    /// Read the part's decisions (`Loader::load`).
    ReadPart {
        /// The part.
        part: Part,
        /// Whether the packet was closed at the time of the read.
        closed: bool,
    },
    /// Load the part (`Loader::load`).
    Load {
        /// The part.
        part: Part,
        /// The part's decisions at the time of the read; more may exist by now.
        decisions: Set,
        /// Whether the packet was closed at the time of an earlier read.
        closed: bool,
    },
    /// The packet is expired and not in the hot store: read the user's claim (`expired_and_forgotten`).
    Forgotten,
    /// The user has no claim, but the outbox may contain their hold: read whether the packet is settled.
    IsSettled,
    /// The packet is settled: read the user's claim once more.
    SinceSettled,
    /// Commit the claim of a hold (`commit`).
    Commit(Slip),
    /// The claim is refused: release the hold.
    Release(Slip),
    /// Reconcile decisions (`reconcile`, `Loader::repair`).
    Reconcile {
        /// The part.
        part: Part,
        /// The decisions.
        decisions: Set,
        /// The slip of the grab's hold, if it is not resolved yet.
        hold: Option<Slip>,
        /// Whether the part is repaired next: it did not know a decision.
        repair: bool,
        /// The slip to answer with if the user has one; otherwise ask again.
        answer: Option<Slip>,
    },
    /// Read all decisions of a part to repair (`Loader::repair_alone`).
    ReadRepair {
        /// The part.
        part: Part,
        /// As in [`Self::Reconcile`].
        answer: Option<Slip>,
    },
}

/// A grab's answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// `grabbed`.
    Grabbed(Slip),
    /// `sold_out`, `expired` or `closed`.
    Nothing {
        /// Which of them.
        why: Why,
        /// Whether each part's answer was certain.
        certain: bool,
    },
    /// `limit_reached`.
    LimitReached,
    /// 503 or 404: the outcome is unknown.
    Unknown,
}

impl Grab {
    /// The first step of the first of `tries` grabs.
    pub const fn new(tries: u8) -> Self {
        #![expect(clippy::cast_possible_truncation, reason = "it is at most eight")]
        let parts = Set::range(0, PARTS as u8);
        let at = At::Pass { probe: 0, why: Why::SoldOut, doubt: Set::NONE };
        Self { tries, parts, why: Why::SoldOut, is_second: false, at }
    }

    /// The calls that a grab of `user` may make next. `is_known`: a process knows that the packet is final, or that the user has reached
    /// its limit.
    pub fn calls(self, instance: &Instance, user: User, is_known: bool, calls: &mut Vec<Call>) {
        match self.at {
            At::Pass { probe, .. } => {
                let may_skip = is_known && self == Self::new(self.tries);
                calls.extend(may_skip.then_some(Call::ReadClaim(user)));
                if !may_skip || !instance.has(Mutant::LimitBeforeClaim) {
                    calls.push(Call::Grab { part: instance.probed(user, probe), user });
                }
            }
            At::NotLoaded(part) => {
                let slips = instance.slips_of(part);
                calls.push(if instance.closes { Call::ReadPacket } else { Call::ReadDecisions(slips) });
                // The clock of the process, which differs from the hot store's.
                calls.push(Call::ReadClaim(user));
            }
            At::InDoubt(_) | At::Forgotten | At::SinceSettled => calls.push(Call::ReadClaim(user)),
            At::IsSettled => calls.push(Call::ReadPacket),
            At::Load { part, decisions, closed } => calls.push(Call::Load { part, decisions, closed }),
            At::Commit(slip) => calls.push(Call::Claim { slip, user }),
            At::Release(slip) => calls.push(Call::Release { slip, user }),
            At::Reconcile { part, decisions, hold, .. } => {
                let holds = std::array::from_fn(|slip| hold.filter(|held| usize::from(*held) == slip).map(|_| user));
                calls.push(Call::Reconcile { part, decisions, holds });
            }
            At::ReadPart { part, .. } | At::ReadRepair { part, .. } => {
                calls.push(Call::ReadDecisions(instance.slips_of(part)));
            }
        }
    }

    /// The next step after a reply, or the answer. `is_final`: why there is no slip, if a process knows that the packet is final.
    pub fn next(self, instance: &Instance, user: User, is_final: Option<Why>, reply: Reply) -> Result<Self, Answer> {
        let at = match (self.at, reply) {
            (At::Pass { probe, why, doubt }, Reply::GrabAnswer(answer)) => {
                return self.probed(instance, user, answer, (probe, why, doubt));
            }
            (At::Pass { .. }, Reply::Slip(slip)) => {
                let slip = slip.filter(|_| !instance.has(Mutant::FinalWithoutClaim));
                // If the packet is not known to be final, it is known that the user has reached its limit.
                let none = is_final.map_or(Answer::LimitReached, |why| Answer::Nothing { why, certain: false });
                return Err(slip.map_or(none, Answer::Grabbed));
            }
            (At::InDoubt(why), Reply::Slip(slip)) => return Err(by_claim(slip, why)),
            (At::NotLoaded(part), Reply::Packet { closed, .. }) => At::ReadPart { part, closed },
            (At::NotLoaded(part), Reply::Set(decisions)) => At::Load { part, decisions, closed: false },
            (At::ReadPart { part, closed }, Reply::Set(decisions)) => At::Load { part, decisions, closed },
            (At::Load { .. }, Reply::Loaded(false)) => At::Forgotten,
            (At::Load { .. }, Reply::Loaded(true)) => return self.pass(instance, user),
            // `expired_and_forgotten`, after the user's claim was read.
            (At::NotLoaded(_) | At::Forgotten, Reply::Slip(None)) if instance.ack == Ack::Redis => At::IsSettled,
            (At::IsSettled, Reply::Packet { settled: true, .. }) => At::SinceSettled,
            (At::NotLoaded(_) | At::Forgotten | At::SinceSettled, Reply::Slip(slip)) => {
                return Err(by_claim(slip, Why::Expired));
            }
            (At::Commit(slip), Reply::Claim(outcome)) => {
                let (repair, answer) = match outcome {
                    ClaimOutcome::Committed => (false, Some(slip)),
                    ClaimOutcome::Already { slip, foreign } => (foreign, Some(slip)),
                    ClaimOutcome::Taken => (true, None),
                    ClaimOutcome::Refused => return Ok(Self { at: At::Release(slip), ..self }),
                };
                let (part, decisions) = (instance.part_of(slip), outcome.decisions(slip));
                At::Reconcile { part, decisions, hold: Some(slip), repair, answer }
            }
            (At::Release(_), Reply::Done) => return Err(Answer::LimitReached),
            (At::Reconcile { part, repair: true, answer, .. }, Reply::Done) => At::ReadRepair { part, answer },
            (At::ReadRepair { part, answer }, Reply::Set(decisions)) => {
                At::Reconcile { part, decisions, hold: None, repair: false, answer }
            }
            (At::Reconcile { answer, .. }, Reply::Done) => {
                return answer.map_or_else(|| self.pass(instance, user), |slip| Err(Answer::Grabbed(slip)));
            }
            // No such packet exists. Or it is not settled yet.
            (_, _) => return Err(Answer::Unknown),
        };
        Ok(Self { at, ..self })
    }

    /// The first step of a pass.
    fn pass(self, instance: &Instance, user: User) -> Result<Self, Answer> {
        self.probe(instance, user, (0, self.why, Set::NONE))
    }

    /// After the answer of the part at `probe`.
    fn probed(
        mut self,
        instance: &Instance,
        user: User,
        answer: GrabAnswer,
        (probe, why, doubt): (u8, Why, Set),
    ) -> Result<Self, Answer> {
        let part = instance.probed(user, probe);
        self.at = match answer {
            GrabAnswer::NotLoaded => At::NotLoaded(part),
            GrabAnswer::Confirmed(slip) => return Err(Answer::Grabbed(slip)),
            GrabAnswer::Held(slip) if instance.ack == Ack::Redis || instance.has(Mutant::HoldIsAnswer) => {
                return Err(Answer::Grabbed(slip));
            }
            GrabAnswer::Held(slip) => At::Commit(slip),
            GrabAnswer::Nothing { why: word, certain } => {
                let doubt = if certain { doubt } else { doubt.and(Set::of(part)) };
                return self.probe(instance, user, (probe + 1, why.max(word), doubt));
            }
        };
        Ok(self)
    }

    /// Asks the next part of a pass, from position `probe` on. After the last one, combines the answers of all.
    fn probe(mut self, instance: &Instance, user: User, (probe, why, doubt): (u8, Why, Set)) -> Result<Self, Answer> {
        let next = (probe..instance.parts).find(|probe| self.parts.has(instance.probed(user, *probe)));
        self.at = match next {
            Some(probe) => At::Pass { probe, why, doubt },
            None if doubt.is_empty() => return Err(Answer::Nothing { why, certain: true }),
            None if !self.is_second => return Self { parts: doubt, why, is_second: true, ..self }.pass(instance, user),
            None if instance.has(Mutant::DenyWithoutClaim) => return Err(Answer::Nothing { why, certain: false }),
            None => At::InDoubt(why),
        };
        Ok(self)
    }
}

/// The answer of a user's claim item.
fn by_claim(slip: Option<Slip>, why: Why) -> Answer {
    slip.map_or(Answer::Nothing { why, certain: false }, Answer::Grabbed)
}
