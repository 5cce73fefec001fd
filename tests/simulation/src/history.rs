use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use shared::domain::{AckMode, Claim, PacketId, Refusal, Terms, Timestamp, UserId};
use shared::ports::GrabAnswer;
use shared::service::{Failure, GrabOutcome};

use crate::audit::{Books, Claimed, PacketBooks};
use crate::faults::Fault;
use crate::spec::{Call, Op, Ret, is_linearizable};
use crate::violation::Kind;
use crate::world::{Known, SECOND_PRIMARY_AHEAD, World};

/// How far the second primary's clock is ahead, plus the time that a message takes.
const LENIENCE: Duration = Duration::from_secs(1);
/// For how long a process may repeat an answer of Redis.
const REPEATED: Duration = Duration::from_millis(100);
/// The time within which a user without a hold is answered, if no message is slow and no process dies: others' faults cost no more.
const ISOLATION_MAX: Duration = Duration::from_secs(2);
/// Slips of the largest packet whose history the linearizability checker receives.
const CHECKED_SLIPS_MAX: u32 = 12;

/// One finished grab.
#[derive(Clone, Debug)]
struct Grab {
    user: UserId,
    invoked: u64,
    returned: u64,
    /// Whether the user gave the right passphrase, or none is needed.
    is_right: bool,
    /// `None`: no answer, or the outcome is unknown.
    answer: Option<GrabOutcome>,
    /// Whether a clock of the hot store may have passed the packet's expiry by then. Expiry removes the free slips,
    /// even for a primary whose clock is behind. From then on `sold_out` means no more than `expired`.
    is_ending: bool,
}

/// An unfinished grab.
#[derive(Debug)]
pub struct Asked {
    /// The packet.
    pub packet: PacketId,
    /// The user.
    pub user: UserId,
    /// Whether the user gave the right passphrase, or none is needed.
    pub is_right: bool,
    invoked: u64,
    at: Timestamp,
    /// Start of the unbroken period in which someone was asking. A call that joins a running one may share its earlier
    /// answer.
    since: u64,
}

/// Every answer that a user received.
#[derive(Debug, Default)]
pub struct History {
    grabs: Mutex<BTreeMap<PacketId, Vec<Grab>>>,
    /// The unfinished calls for each packet: tick of the call → the start of its unbroken period.
    asking: Mutex<BTreeMap<PacketId, BTreeMap<u64, u64>>>,
}

/// Counts of answers and of checked histories.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerCounts {
    /// Grabs that were answered `grabbed`.
    pub grabbed: u64,
    /// Grabs that were answered `sold_out`.
    pub sold_out: u64,
    /// Grabs that were answered `expired`.
    pub expired: u64,
    /// Grabs that were answered `closed`.
    pub closed: u64,
    /// Grabs that a guard refused.
    pub refused: u64,
    /// Grabs that were answered `not_started`.
    pub not_started: u64,
    /// Grabs that were answered `not_found`.
    pub not_found: u64,
    /// Grabs without an answer, or with an unknown outcome.
    pub unknown: u64,
    /// Histories that the linearizability checker decided.
    pub decided: u64,
    /// Histories that were too long for the checker.
    pub undecided: u64,
}

impl AnswerCounts {
    /// Adds the counts of another run.
    pub const fn merge(&mut self, other: &Self) {
        let Self { grabbed, sold_out, expired, closed, refused, not_started, not_found, unknown, decided, undecided } =
            other;
        self.grabbed += *grabbed;
        self.sold_out += *sold_out;
        self.expired += *expired;
        self.closed += *closed;
        self.refused += *refused;
        self.not_started += *not_started;
        self.not_found += *not_found;
        self.unknown += *unknown;
        self.decided += *decided;
        self.undecided += *undecided;
    }

    const fn add(&mut self, answer: Option<&GrabOutcome>) {
        let count = match answer {
            Some(GrabOutcome::Grabbed { .. }) => &mut self.grabbed,
            Some(GrabOutcome::SoldOut) => &mut self.sold_out,
            Some(GrabOutcome::Expired) => &mut self.expired,
            Some(GrabOutcome::Closed) => &mut self.closed,
            Some(GrabOutcome::Refused(_)) => &mut self.refused,
            Some(GrabOutcome::NotStarted { .. }) => &mut self.not_started,
            Some(GrabOutcome::NotFound) => &mut self.not_found,
            None => &mut self.unknown,
        };
        *count += 1;
    }
}

impl History {
    /// A user starts a grab.
    pub fn ask(&self, world: &World, packet: PacketId, user: &UserId, is_right: bool) -> Asked {
        let invoked = world.note(format_args!("{user} grabs {packet}, right passphrase: {is_right}"));
        let mut asking = self.asking.lock().unwrap();
        let asking = asking.entry(packet).or_default();
        let since = asking.values().copied().min().unwrap_or(invoked);
        asking.insert(invoked, since);
        Asked { packet, user: user.clone(), is_right, invoked, at: world.now(), since }
    }

    /// A user receives an answer, or none. Checks at once whatever it can. No clock is more than `ahead` ahead of
    /// another.
    pub fn answer(&self, world: &World, asked: Asked, answer: Option<Result<GrabOutcome, Failure>>, ahead: Duration) {
        let Asked { packet, user, is_right, invoked, at, since } = asked;
        let returned = world.note(format_args!("{user} of {packet} receives {answer:?}"));
        let terms = world.terms(packet);
        let is_ending = terms.as_ref().is_some_and(|terms| world.now().after(LENIENCE) >= terms.expires_at);
        if answer.is_some() {
            // Work for a caller who went away continues.
            self.asking.lock().unwrap().entry(packet).or_default().remove(&invoked);
        }
        if answer.is_some() {
            judge_wait(world, packet, &user, world.now().since(at));
        }
        let answer = match answer {
            Some(Ok(outcome)) => Some(outcome),
            Some(Err(Failure::Defect(error))) => {
                world.violated(Kind::Answer, format!("{user} met a defect: {}", shared::error_chain(&*error)));
                None
            }
            Some(Err(_)) | None => None,
        };
        if let (Some(answer), Some(terms)) = (&answer, &terms) {
            match answer {
                GrabOutcome::SoldOut if !is_ending => judge_sold_out(world, terms, &user, invoked),
                GrabOutcome::NotFound if world.committed_before(packet, since) => {
                    world.violated(Kind::Answer, format!("{user} does not find {packet}"));
                }
                GrabOutcome::NotStarted { starts_at, .. } => {
                    // No hot store's clock is behind the world's.
                    if terms.guard.starts_at != Some(*starts_at) || at >= *starts_at {
                        world.violated(Kind::Answer, format!("{user} of {packet} asked at {at}: {answer:?}"));
                    }
                }
                _ => judge(world, terms, &user, is_right, answer, ahead),
            }
        }
        let grab = Grab { user, invoked, returned, is_right, answer, is_ending };
        self.grabs.lock().unwrap().entry(packet).or_default().push(grab);
    }

    /// The counts so far.
    pub fn counts(&self) -> AnswerCounts {
        let mut counts = AnswerCounts::default();
        for grab in self.grabs.lock().unwrap().values().flatten() {
            counts.add(grab.answer.as_ref());
        }
        counts
    }

    /// Checks every answer against the ledger and against earlier answers.
    pub fn check(&self, world: &World, books: &Books) -> AnswerCounts {
        let mut counts = self.counts();
        let grabs = self.grabs.lock().unwrap();
        for Known { terms, .. } in world.known() {
            let (Some(packet), Some(grabs)) = (books.packets.get(&terms.id.to_string()), grabs.get(&terms.id)) else {
                continue;
            };
            admits(world, &terms, packet, grabs);
            if terms.ack == AckMode::Redis && world.has_lost() {
                // A hold that Redis acknowledged and then lost is lost.
                continue;
            }
            keeps_promises(world, &terms, packet, grabs);
            if terms.id.part_count() == 1 && terms.count <= CHECKED_SLIPS_MAX {
                match is_linearizable(terms.count, calls(world, &terms, packet, grabs)) {
                    Some(true) => counts.decided += 1,
                    Some(false) => {
                        counts.decided += 1;
                        world.violated(Kind::Linearizability, format!("the history of {}", terms.id));
                    }
                    None => counts.undecided += 1,
                }
            }
        }
        counts
    }
}

/// Checks that a user who never had a hold did not wait for others' faults.
fn judge_wait(world: &World, packet: PacketId, user: &UserId, waited: Duration) {
    let is_fast = [Fault::Slow, Fault::Killed].into_iter().all(|fault| world.rate(fault) == 0);
    let is_winner = world.holds(packet).iter().any(|(_, holder, _)| holder == user);
    if is_fast && !is_winner && waited > ISOLATION_MAX {
        world.violated(Kind::Isolation, format!("{user} of {packet} waited {waited:?} for an answer"));
    }
}

/// Checks that no slip was free when `sold_out` was answered. In `redis` mode a process repeats the answer for a
/// moment; Redis may have lost the slip meanwhile.
fn judge_sold_out(world: &World, terms: &Terms, user: &UserId, invoked: u64) {
    let moment = if terms.ack == AckMode::Redis { REPEATED } else { Duration::ZERO };
    let free = world.free_since(terms, invoked, moment);
    if !free.is_empty() {
        let what = format!("{user} of {} was answered sold_out while slips {free:?} were free", terms.id);
        world.violated(Kind::SoldOut, what);
    }
}

/// Checks an answer of another kind.
fn judge(world: &World, terms: &Terms, user: &UserId, is_right: bool, answer: &GrabOutcome, ahead: Duration) {
    let guard = &terms.guard;
    let wrong = match answer {
        GrabOutcome::Closed => !world.is_closing(terms.id),
        GrabOutcome::Expired => world.now().after(ahead + LENIENCE) < terms.expires_at,
        GrabOutcome::Refused(Refusal::NotARecipient) => guard.invites(user),
        GrabOutcome::Refused(Refusal::WrongPassphrase) => is_right || guard.passphrase.is_none(),
        GrabOutcome::Refused(Refusal::TooManyTries { .. }) => guard.passphrase.is_none(),
        GrabOutcome::Grabbed { .. } => !guard.invites(user),
        GrabOutcome::SoldOut | GrabOutcome::NotFound | GrabOutcome::NotStarted { .. } => false,
    };
    if wrong {
        world.violated(Kind::Answer, format!("{user} of {} was answered {answer:?}", terms.id));
    }
}

/// Checks that the hot store gives out no slip before the packet's start, by its own clock.
pub fn judge_start(world: &World, packet: PacketId, found: &[GrabAnswer]) {
    let Some(terms) = world.terms(packet) else { return };
    for answer in found {
        if let GrabAnswer::Held { at, .. } = answer
            && is_before_start(world, &terms, *at)
        {
            world.violated(Kind::Start, format!("of {packet}: {answer:?}"));
        }
    }
}

/// Whether the packet cannot have begun at `at`. A second primary, whose clock is ahead, may begin earlier than the first.
fn is_before_start(world: &World, terms: &Terms, at: Timestamp) -> bool {
    let ahead = if world.times(Fault::Split) > 0 { SECOND_PRIMARY_AHEAD } else { Duration::ZERO };
    terms.guard.starts_at.is_some_and(|starts_at| at.after(ahead) < starts_at)
}

fn words(claim: &Claim) -> Claimed {
    (claim.slip, claim.amount.minor_units(), claim.at.ms())
}

/// Only recipients who gave the passphrase have slips, none from before the start.
fn admits(world: &World, terms: &Terms, packet: &PacketBooks, grabs: &[Grab]) {
    for (user, (_, _, at)) in &packet.claims {
        if is_before_start(world, terms, Timestamp::from_ms(*at)) {
            world.violated(Kind::Start, format!("{user} has a slip of {} from before its start", terms.id));
        }
        let right = |grab: &Grab| grab.user.as_str() == user && (grab.is_right || terms.guard.passphrase.is_none());
        let invited = terms.guard.recipients.as_ref().is_none_or(|users| users.iter().any(|one| one.as_str() == user));
        if !invited || !grabs.iter().any(right) {
            world.violated(Kind::Answer, format!("{user} has a slip of {}, which the guard forbids", terms.id));
        }
    }
}

/// Each `grabbed` answer equals the ledger's claim, and the same user never receives another answer later.
fn keeps_promises(world: &World, terms: &Terms, packet: &PacketBooks, grabs: &[Grab]) {
    let mut promised: BTreeMap<&UserId, u64> = BTreeMap::new();
    for grab in grabs {
        if let Some(GrabOutcome::Grabbed { claim, .. }) = &grab.answer {
            let booked = packet.claims.get(grab.user.as_str());
            if booked != Some(&words(claim)) {
                let what = format!("{} of {} was promised {claim:?} and has {booked:?}", grab.user, terms.id);
                world.violated(Kind::Promise, what);
            }
            let first = promised.entry(&grab.user).or_insert(grab.returned);
            *first = grab.returned.min(*first);
        }
    }
    for grab in grabs {
        let after = promised.get(&grab.user).is_some_and(|first| *first < grab.invoked);
        let denied = match &grab.answer {
            Some(GrabOutcome::SoldOut | GrabOutcome::Expired | GrabOutcome::Closed | GrabOutcome::NotFound) => true,
            // A part that was rolled back asks for the passphrase again, and forgets the wrong tries.
            Some(GrabOutcome::Refused(_) | GrabOutcome::NotStarted { .. }) => grab.is_right && !world.has_lost(),
            Some(GrabOutcome::Grabbed { .. }) | None => false,
        };
        if after && denied {
            let what = format!("{} of {} had a slip and was then answered {:?}", grab.user, terms.id, grab.answer);
            world.violated(Kind::Promise, what);
        }
    }
}

/// A packet's history for the checker. A slip that is gone stays gone, so the history keeps only:
/// - the first *grabbed* of each user;
/// - the last denial of each winner;
/// - the first *sold out* of all.
fn calls(world: &World, terms: &Terms, packet: &PacketBooks, grabs: &[Grab]) -> Vec<Call> {
    let mut users: BTreeMap<&str, usize> = BTreeMap::new();
    let mut calls = Vec::new();
    let written = world.decisions(terms.id);
    for (slip, decision) in &packet.decisions {
        let committed = 2 * written.get(slip).copied().unwrap_or_default();
        let Some(user) = &decision.user else {
            let returned = Some((committed, Ret::Done));
            calls.push(Call { op: Op::Refund(*slip), invoked: committed - 1, returned });
            continue;
        };
        let next = users.len();
        let number = *users.entry(user).or_insert(next);
        let asked = grabs.iter().filter(|grab| grab.user.as_str() == user).map(|grab| grab.invoked).min();
        let invoked = 2 * asked.unwrap_or_default();
        let op = Op::Take { user: number, slip: *slip };
        calls.push(Call { op, invoked, returned: Some((committed.max(invoked), Ret::Done)) });
    }
    for (slip, user, since) in world.holds(terms.id) {
        if packet.decisions.get(&slip).is_none_or(|decision| decision.user.as_deref() != Some(user.as_str()))
            && slip < terms.count
        {
            calls.push(Call { op: Op::Stray(slip), invoked: 2 * since, returned: None });
        }
    }
    calls.extend(answers(world, &users, grabs));
    calls
}

fn answers(world: &World, users: &BTreeMap<&str, usize>, grabs: &[Grab]) -> Vec<Call> {
    let mut wins: BTreeMap<usize, Call> = BTreeMap::new();
    let mut denials: BTreeMap<(usize, bool), Call> = BTreeMap::new();
    let mut first_sold_out: Option<Call> = None;
    for grab in grabs {
        let ret = match &grab.answer {
            Some(GrabOutcome::Grabbed { claim, .. }) => Ret::Slip(claim.slip),
            Some(GrabOutcome::SoldOut) if grab.is_ending => Ret::No,
            Some(GrabOutcome::SoldOut) => Ret::SoldOut,
            Some(GrabOutcome::Refused(Refusal::TooManyTries { .. })) | None => continue,
            Some(GrabOutcome::Refused(_) | GrabOutcome::NotStarted { .. }) if world.has_lost() => continue,
            Some(
                GrabOutcome::Refused(_)
                | GrabOutcome::NotStarted { .. }
                | GrabOutcome::Expired
                | GrabOutcome::Closed
                | GrabOutcome::NotFound,
            ) => Ret::No,
        };
        let winner = users.get(grab.user.as_str()).copied();
        let op = Op::Ask(winner.unwrap_or(usize::MAX));
        let call = Call { op, invoked: 2 * grab.invoked, returned: Some((2 * grab.returned, ret)) };
        if ret == Ret::SoldOut && first_sold_out.as_ref().is_none_or(|first| first.returned > call.returned) {
            first_sold_out = Some(call.clone());
        }
        let Some(winner) = winner else { continue };
        if matches!(ret, Ret::Slip(_)) {
            let first = wins.entry(winner).or_insert_with(|| call.clone());
            if first.returned > call.returned {
                *first = call;
            }
        } else {
            let last = denials.entry((winner, ret == Ret::SoldOut)).or_insert_with(|| call.clone());
            if last.invoked < call.invoked {
                *last = call;
            }
        }
    }
    wins.into_values().chain(denials.into_values()).chain(first_sold_out).collect()
}
