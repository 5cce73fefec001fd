//! A grab: `GrabSlip` in `service/grab/mod.rs`, with `Loader::ensure` and `Loader::repair` of `service/load.rs`.

use crate::call::{Call, Reply};
use crate::hot::{GrabAnswer, Holds};
use crate::instance::{Ack, Instance, Mutant, Part, Slip, USERS, User};
use crate::ledger::ClaimOutcome;
use crate::set::Set;

/// A user's grab.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Grab {
    /// Number of grabs left, including this one.
    pub tries: u8,
    /// The next step.
    pub at: At,
}

/// A grab's next step.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum At {
    /// Ask a part (`pass`).
    Pass {
        /// Position in the user's probe order.
        probe: u8,
        /// What the parts have answered so far.
        found: Found,
    },
    /// No part has a slip for the user, but one answer is in doubt. Before the expiry, wait and ask again, or help a part
    /// (`Helper::help`). After it, and after a close, read the user's claim (`ask_the_ledger`).
    Doubt {
        /// What the parts have answered.
        why: Why,
    },
    /// Commit one of these holds of other users (`Helper::commit`).
    Help(Holds),
    /// Reconcile its decisions, then ask again.
    Helped {
        /// The hold's slip.
        slip: Slip,
        /// The user of the hold.
        holder: User,
        /// The decisions that the commit found.
        decisions: Set,
    },
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
    /// Commit the claim of a hold (`take`).
    Commit(Slip),
    /// Reconcile the decisions of the commit (`reconcile`, and the beginning of `Loader::repair`).
    Reconcile {
        /// The hold's slip.
        slip: Slip,
        /// The decisions that the commit found.
        decisions: Set,
        /// The step after it.
        then: Then,
    },
    /// Read all decisions of a part that did not know one (`repair_alone`).
    ReadRepair {
        /// The part.
        part: Part,
        /// The slip to answer with if the user has one; otherwise ask again.
        answer: Option<Slip>,
    },
    /// Reconcile all of them.
    Repair {
        /// The part.
        part: Part,
        /// The decisions that were read.
        decisions: Set,
        /// As in [`Self::ReadRepair`].
        answer: Option<Slip>,
    },
}

/// What the parts without a slip have answered in one pass.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Found {
    /// What parts in doubt and closed parts answer.
    why: Why,
    /// What parts answer that are certain. In the engine it may go by the clock of the process, so it ends no doubt.
    certain: Why,
    /// Whether a part's answer was in doubt.
    doubt: bool,
}

impl Found {
    /// No part has answered.
    const NOTHING: Self = Self { why: Why::SoldOut, certain: Why::SoldOut, doubt: false };
}

/// Why a user has no slip. If parts differ, the last of these counts (`Lost`).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Why {
    /// No part has a free slip.
    SoldOut,
    /// The packet is expired.
    Expired,
    /// The operator has closed it.
    Closed,
}

/// The step after a reconcile.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Then {
    /// Answer with this slip.
    Answer(Slip),
    /// Repair the part, then answer with the slip if there is one.
    Repair(Option<Slip>),
}

/// A grab's answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// `grabbed`.
    Grabbed(Slip),
    /// `sold_out`.
    SoldOut,
    /// `expired`.
    Expired,
    /// `closed`.
    Closed,
    /// 503 or 404: the outcome is unknown.
    None,
}

/// The next step, or the answer.
type Next = Result<At, Answer>;

impl At {
    /// The first step of each grab.
    pub const START: Self = Self::Pass { probe: 0, found: Found::NOTHING };

    /// The calls that a grab of `user` may make next. `remembers`: the final parts that its process has cached.
    pub fn calls(self, instance: &Instance, user: User, remembers: Set, calls: &mut Vec<Call>) {
        match self {
            Self::Pass { probe, .. } => {
                ask(instance, user, probe, remembers, calls);
                // `answer_by_claim`
                let knows_all = (0..instance.parts).all(|part| remembers.has(part));
                if self == Self::START && knows_all && instance.ack == Ack::Ledger {
                    calls.push(Call::ReadClaim(user));
                }
            }
            Self::Doubt { why } => {
                if why != Why::SoldOut || instance.has(Mutant::ReadInDoubt) {
                    calls.push(Call::ReadClaim(user));
                }
                if why == Why::SoldOut {
                    ask(instance, user, 0, remembers, calls);
                    calls.extend((0..instance.parts).map(Call::ReadOutbox));
                }
            }
            Self::Help(holds) => calls.extend(holds.each().map(|(slip, user)| Call::Claim { slip, user })),
            Self::Helped { slip, holder, decisions } => {
                let part = instance.part_of(slip);
                calls.push(Call::Reconcile { part, decisions, decided: Holds::one(slip, holder) });
            }
            Self::NotLoaded(part) => {
                calls.push(if instance.closes {
                    Call::ReadPacket
                } else {
                    Call::ReadDecisions(instance.slips_of(part))
                });
                // The clock of the process, which differs from the hot store's.
                calls.push(Call::ReadClaim(user));
            }
            Self::Load { part, decisions, closed } => calls.push(Call::Load { part, decisions, closed }),
            Self::IsSettled => calls.push(Call::ReadPacket),
            Self::Forgotten | Self::SinceSettled => calls.push(Call::ReadClaim(user)),
            Self::Commit(slip) => {
                calls.push(Call::Claim { slip, user });
                if instance.has(Mutant::PutBackAfterTimeout) {
                    calls.push(Call::PutBack { slip, user });
                }
            }
            Self::Reconcile { slip, decisions, .. } => {
                let part = instance.part_of(slip);
                calls.push(Call::Reconcile { part, decisions, decided: Holds::one(slip, user) });
            }
            Self::ReadPart { part, .. } | Self::ReadRepair { part, .. } => {
                calls.push(Call::ReadDecisions(instance.slips_of(part)));
            }
            Self::Repair { part, decisions, .. } => {
                calls.push(Call::Reconcile { part, decisions, decided: Holds::default() });
            }
        }
    }

    /// The step after a reply.
    pub fn next(self, instance: &Instance, call: Call, reply: Reply) -> Next {
        match (self, reply) {
            (Self::Pass { probe, found }, Reply::GrabAnswer(answer)) => found_in(instance, call, answer, probe, found),
            (Self::Pass { .. }, Reply::Slip(slip)) if matches!(call, Call::ReadClaim(_)) => {
                Err(slip.map_or(Answer::SoldOut, Answer::Grabbed))
            }
            (Self::Pass { probe, found }, Reply::Slip(slip)) => remembered(instance, slip, probe, found),
            (Self::Doubt { .. }, Reply::GrabAnswer(answer)) => found_in(instance, call, answer, 0, Found::NOTHING),
            (Self::Doubt { .. }, Reply::Slip(slip)) if matches!(call, Call::Remember { .. }) => {
                remembered(instance, slip, 0, Found::NOTHING)
            }
            (Self::Doubt { why }, Reply::Slip(slip)) => match slip {
                Some(slip) => Ok(Self::Reconcile { slip, decisions: Set::of(slip), then: Then::Answer(slip) }),
                None => Err(nothing(why)),
            },
            (Self::Doubt { .. }, Reply::Holds(holds)) => Ok(helping(call, holds)),
            (Self::Help(holds), Reply::Claim(outcome)) => Ok(helped(call, holds, outcome)),
            (Self::Helped { .. }, Reply::Done) => Ok(Self::START),
            (Self::NotLoaded(part), Reply::Set(decisions)) => Ok(Self::Load { part, decisions, closed: false }),
            (Self::NotLoaded(part), Reply::Packet { closed, .. }) => Ok(Self::ReadPart { part, closed }),
            (Self::ReadPart { part, closed }, Reply::Set(decisions)) => Ok(Self::Load { part, decisions, closed }),
            (Self::NotLoaded(_) | Self::Forgotten, Reply::Slip(slip)) => forgotten(instance, slip),
            (Self::Load { .. }, Reply::Loaded { expired }) => Ok(if expired { Self::Forgotten } else { Self::START }),
            (Self::IsSettled, Reply::Packet { settled, .. }) => {
                if settled {
                    Ok(Self::SinceSettled)
                } else {
                    Err(Answer::None)
                }
            }
            (Self::SinceSettled, Reply::Slip(slip)) => Err(slip.map_or(Answer::Expired, Answer::Grabbed)),
            (Self::Commit(slip), Reply::Claim(outcome)) => Ok(committed(slip, outcome)),
            (Self::Reconcile { slip, then, .. }, Reply::Done) => match then {
                Then::Answer(slip) => Err(Answer::Grabbed(slip)),
                Then::Repair(answer) => Ok(Self::ReadRepair { part: instance.part_of(slip), answer }),
            },
            (Self::ReadRepair { part, answer }, Reply::Set(decisions)) => Ok(Self::Repair { part, decisions, answer }),
            (Self::Repair { answer, .. }, Reply::Done) => {
                answer.map_or(Ok(Self::START), |slip| Err(Answer::Grabbed(slip)))
            }
            // No such packet exists, or a mutant made the slip free.
            (_, _) => Err(Answer::None),
        }
    }

    /// The holds of other users that it knows of.
    pub fn holds(self) -> Holds {
        match self {
            Self::Help(holds) => holds,
            Self::Helped { slip, holder, .. } => Holds::one(slip, holder),
            _ => Holds::NONE,
        }
    }

    /// The same step with renamed users.
    #[must_use]
    pub fn renamed(self, to: [User; USERS]) -> Self {
        match self {
            Self::Help(holds) => Self::Help(holds.renamed(to)),
            Self::Helped { slip, holder, decisions } => {
                Self::Helped { slip, holder: to[usize::from(holder)], decisions }
            }
            other => other,
        }
    }

    /// The step after a reconcile that did not reach the hot store. An answer remains valid.
    pub fn unreached(self) -> Option<Next> {
        match self {
            Self::Reconcile { then: Then::Answer(slip) | Then::Repair(Some(slip)), .. }
            | Self::Repair { answer: Some(slip), .. } => Some(Err(Answer::Grabbed(slip))),
            Self::Reconcile { .. } | Self::Repair { .. } | Self::Helped { .. } => Some(Err(Answer::None)),
            _ => None,
        }
    }
}

fn ask(instance: &Instance, user: User, probe: u8, remembers: Set, calls: &mut Vec<Call>) {
    let part = instance.probed(user, probe);
    calls.push(Call::Grab { part, user });
    if remembers.has(part) {
        calls.push(Call::Remember { part, user });
    }
}

fn found_in(instance: &Instance, call: Call, answer: GrabAnswer, probe: u8, mut found: Found) -> Next {
    match answer {
        GrabAnswer::NotLoaded => match call {
            Call::Grab { part, .. } => Ok(At::NotLoaded(part)),
            _ => Err(Answer::None),
        },
        GrabAnswer::Confirmed(slip) => Err(Answer::Grabbed(slip)),
        GrabAnswer::Held(slip) if instance.ack == Ack::Redis || instance.has(Mutant::HoldIsAnswer) => {
            Err(Answer::Grabbed(slip))
        }
        GrabAnswer::Held(slip) => Ok(At::Commit(slip)),
        GrabAnswer::Nothing { expired, certain } => {
            let word = if expired { Why::Expired } else { Why::SoldOut };
            if certain || instance.has(Mutant::NegativeInDoubt) {
                found.certain = found.certain.max(word);
            } else {
                (found.why, found.doubt) = (found.why.max(word), true);
            }
            go_on(instance, probe, found)
        }
        GrabAnswer::Closed { certain } => {
            (found.why, found.doubt) = (Why::Closed, found.doubt || !certain);
            go_on(instance, probe, found)
        }
    }
}

fn remembered(instance: &Instance, slip: Option<Slip>, probe: u8, found: Found) -> Next {
    slip.map_or_else(|| go_on(instance, probe, found), |slip| Err(Answer::Grabbed(slip)))
}

/// Asks the next part. After the last part, combines the answers of all.
fn go_on(instance: &Instance, probe: u8, found: Found) -> Next {
    if probe + 1 < instance.parts {
        Ok(At::Pass { probe: probe + 1, found })
    } else if found.doubt {
        Ok(At::Doubt { why: found.why })
    } else {
        Err(nothing(found.why.max(found.certain)))
    }
}

const fn nothing(why: Why) -> Answer {
    match why {
        Why::SoldOut => Answer::SoldOut,
        Why::Expired => Answer::Expired,
        Why::Closed => Answer::Closed,
    }
}

/// `expired_and_forgotten`, after the user's claim was read.
fn forgotten(instance: &Instance, slip: Option<Slip>) -> Next {
    match slip {
        Some(slip) => Err(Answer::Grabbed(slip)),
        None if instance.ack == Ack::Redis => Ok(At::IsSettled),
        None => Err(Answer::Expired),
    }
}

/// A part whose outbox was read: help one of its holds, or read all decisions if none explains what is missing.
fn helping(call: Call, holds: Holds) -> At {
    match call {
        Call::ReadOutbox(part) if holds.slips().is_empty() => At::ReadRepair { part, answer: None },
        _ => At::Help(holds),
    }
}

/// A hold that was helped, and the decisions that the outcome shows.
fn helped(call: Call, holds: Holds, outcome: ClaimOutcome) -> At {
    let Call::Claim { slip, user: holder } = call else { return At::Help(holds) };
    let decisions = match outcome {
        ClaimOutcome::Committed | ClaimOutcome::Taken => Set::of(slip),
        ClaimOutcome::Already { slip: own, foreign: false } => Set::of(own),
        ClaimOutcome::Already { slip: own, foreign: true } => Set::of(own).and(Set::of(slip)),
    };
    At::Helped { slip, holder, decisions }
}

/// `take`, and the decisions that an outcome shows (`ClaimOutcome::decisions`).
fn committed(slip: Slip, outcome: ClaimOutcome) -> At {
    let (decisions, then) = match outcome {
        ClaimOutcome::Committed => (Set::of(slip), Then::Answer(slip)),
        ClaimOutcome::Already { slip: own, foreign: false } => (Set::of(own), Then::Answer(own)),
        ClaimOutcome::Already { slip: own, foreign: true } => {
            (Set::of(own).and(Set::of(slip)), Then::Repair(Some(own)))
        }
        ClaimOutcome::Taken => (Set::of(slip), Then::Repair(None)),
    };
    At::Reconcile { slip, decisions, then }
}
