use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use audit::books::{Books, Claimed, PacketBooks};
use shared::domain::{AckMode, Amount, Claim, PacketId, Refusal, Terms, Timestamp, UserId, Won};
use shared::ledger::keys;
use shared::ports::GrabAnswer;
use shared::service::{Failure, GrabOutcome};

use crate::faults::Fault;
use crate::table::number;
use crate::trace::Kind;
use crate::world::{Known, SECOND_PRIMARY_AHEAD, World};

/// How far the second primary's clock is ahead, plus the time that a message takes.
const LENIENCE: Duration = Duration::from_secs(1);
/// For how long a process may repeat an answer of Redis.
const REPEATED: Duration = Duration::from_millis(100);
/// The time within which a user without a hold is answered, if no message is slow and no process dies: others' faults cost no more.
const ISOLATION_MAX: Duration = Duration::from_secs(2);

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
    /// The tick of the call.
    pub invoked: u64,
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

/// How often each outcome was answered.
pub type AnswerCounts = BTreeMap<&'static str, u64>;

const fn name(answer: Option<&GrabOutcome>) -> &'static str {
    match answer {
        Some(GrabOutcome::Grabbed { .. }) => "grabbed",
        Some(GrabOutcome::SoldOut) => "sold out",
        Some(GrabOutcome::Expired) => "expired",
        Some(GrabOutcome::Closed) => "closed",
        Some(GrabOutcome::Refused(_)) => "refused",
        Some(GrabOutcome::NoTicket(_)) => "no ticket",
        Some(GrabOutcome::Suspended) => "suspended",
        Some(GrabOutcome::LimitReached) => "limit reached",
        Some(GrabOutcome::NotStarted { .. }) => "not started",
        Some(GrabOutcome::NotFound) => "not found",
        None => "unknown",
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
        // A clock of the hot store may have passed the packet's expiry. Expiry removes the free slips, even for a primary whose clock is
        // behind. From then on `sold_out` means no more than `expired`.
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
        let grab = Grab { user, invoked, returned, is_right, answer };
        self.grabs.lock().unwrap().entry(packet).or_default().push(grab);
    }

    /// The counts so far.
    pub fn counts(&self) -> AnswerCounts {
        let mut counts = AnswerCounts::default();
        for grab in self.grabs.lock().unwrap().values().flatten() {
            *counts.entry(name(grab.answer.as_ref())).or_default() += 1;
        }
        counts
    }

    /// Checks every answer against the ledger and against earlier answers.
    pub fn check(&self, world: &World, books: &Books) {
        let grabs = self.grabs.lock().unwrap();
        for Known { terms, .. } in world.known() {
            let (Some(packet), Some(grabs)) = (books.packets.get(&terms.id.to_string()), grabs.get(&terms.id)) else {
                continue;
            };
            admits(world, &terms, packet, grabs);
            // A hold that Redis acknowledged and then lost is lost.
            if terms.ack == AckMode::Ledger || !world.has_lost() {
                keeps_promises(world, &terms, packet, grabs);
            }
        }
    }
}

/// Checks that a user who never had a hold did not wait for others' faults. In an enumeration no time passes in which anything happens.
fn judge_wait(world: &World, packet: PacketId, user: &UserId, waited: Duration) {
    let is_fast = world.gate.is_none() && [Fault::Slow, Fault::Killed].into_iter().all(|fault| world.rate(fault) == 0);
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
        GrabOutcome::Suspended => terms.ack == AckMode::Redis || !world.was_banned(user),
        GrabOutcome::LimitReached => !has_reached(world, terms, user),
        // No packet wants one.
        GrabOutcome::NoTicket(_) => true,
        GrabOutcome::SoldOut | GrabOutcome::NotFound | GrabOutcome::NotStarted { .. } => false,
    };
    if wrong {
        world.violated(Kind::Answer, format!("{user} of {} was answered {answer:?}", terms.id));
    }
}

/// Whether a user can't have had some slip of a packet because of its limit. What they have won only grows.
fn has_reached(world: &World, terms: &Terms, user: &UserId) -> bool {
    let Some(limit) = &terms.limit else { return false };
    let won = world.table.read(&keys::won(user, &terms.sender, &limit.key));
    let won = won.map_or_else(Won::default, |item| Won {
        wins: u32::try_from(number(&item, "wins")).unwrap(),
        amount: Amount::new(number(&item, "amount")),
    });
    !limit.allows(won, terms.total.min(terms.cap))
}

/// Checks that the hot store gives out no slip before the packet's start, by its own clock.
pub fn judge_start(world: &World, packet: PacketId, found: &[GrabAnswer]) {
    let Some(terms) = world.terms(packet) else { return };
    for answer in found {
        if let GrabAnswer::Held { left, .. } = answer
            && is_before_start(world, &terms, terms.expires_at.before(*left))
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

/// Each `grabbed` answer equals the ledger's claim. The same user never receives another answer later, nor "no slip" once the ledger has
/// their claim.
fn keeps_promises(world: &World, terms: &Terms, packet: &PacketBooks, grabs: &[Grab]) {
    let (mut promised, decided_at) = (BTreeMap::<&UserId, u64>::new(), world.decided_at(terms.id));
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
        let claimed_at = packet.claims.get(grab.user.as_str()).and_then(|(slip, ..)| decided_at.get(slip));
        let after = promised.get(&grab.user).into_iter().chain(claimed_at).any(|first| *first < grab.invoked);
        let denied = match &grab.answer {
            Some(
                GrabOutcome::SoldOut
                | GrabOutcome::Expired
                | GrabOutcome::Closed
                | GrabOutcome::NotFound
                | GrabOutcome::NoTicket(_)
                | GrabOutcome::Suspended
                | GrabOutcome::LimitReached,
            ) => true,
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
