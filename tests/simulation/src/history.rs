use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use shared::domain::{AckMode, Claim, PacketId, Refusal, Terms, UserId};
use shared::service::{Failure, GrabOutcome};

use crate::audit::{Books, Claimed, PacketBooks};
use crate::spec::{Call, Op, Ret, is_linearizable};
use crate::violation::Kind;
use crate::world::{Known, World};

/// The second primary's clock, and a message's way.
const LENIENCE: Duration = Duration::from_secs(1);
/// For how long a process repeats what Redis has said.
const REPEATED: Duration = Duration::from_millis(100);
/// Slips of the largest packet whose history is given to the checker.
const CHECKED_SLIPS_MAX: u32 = 12;

/// What one grab came to.
#[derive(Clone, Debug)]
struct Grab {
    user: UserId,
    invoked: u64,
    returned: u64,
    /// Whether he gave the right passphrase, where there is one.
    is_right: bool,
    /// `None`: he heard nothing, or that nothing is known.
    answer: Option<GrabOutcome>,
    /// Whether a clock of the hot store may have said by then that the packet was expired: its free slips are gone with
    /// that, also for a primary whose clock is behind, and "sold out" says no more than "expired".
    is_ending: bool,
}

/// A grab that is under way.
#[derive(Debug)]
pub struct Asked {
    /// Of what.
    pub packet: PacketId,
    /// By whom.
    pub user: UserId,
    /// Whether he gave the right passphrase, where there is one.
    pub is_right: bool,
    invoked: u64,
    /// Since when somebody has been asking without a break: who joins him may be given what he found.
    since: u64,
}

/// Every answer that a user was given.
#[derive(Debug, Default)]
pub struct History {
    grabs: Mutex<BTreeMap<PacketId, Vec<Grab>>>,
    /// Who is asking for each packet, by the time of his call: since when.
    asking: Mutex<BTreeMap<PacketId, BTreeMap<u64, u64>>>,
}

/// What users heard, and how many histories that made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard {
    /// Grabs that were answered `grabbed`.
    pub grabbed: u64,
    /// `sold_out`.
    pub sold_out: u64,
    /// `expired`.
    pub expired: u64,
    /// Turned away by a guard.
    pub refused: u64,
    /// `not_found`.
    pub not_found: u64,
    /// Nothing, or that nothing is known.
    pub unknown: u64,
    /// Histories that the checker of linearizability decided.
    pub decided: u64,
    /// Those that were too long for it.
    pub undecided: u64,
}

impl Heard {
    /// Those of another run too.
    pub const fn merge(&mut self, other: &Self) {
        let Self { grabbed, sold_out, expired, refused, not_found, unknown, decided, undecided } = other;
        self.grabbed += *grabbed;
        self.sold_out += *sold_out;
        self.expired += *expired;
        self.refused += *refused;
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
            Some(GrabOutcome::Refused(_)) => &mut self.refused,
            Some(GrabOutcome::NotFound) => &mut self.not_found,
            None => &mut self.unknown,
        };
        *count += 1;
    }
}

impl History {
    /// A user asks.
    pub fn ask(&self, world: &World, packet: PacketId, user: &UserId, is_right: bool) -> Asked {
        let invoked = world.note(format_args!("{user} grabs {packet}, rightly: {is_right}"));
        let mut asking = self.asking.lock().unwrap();
        let asking = asking.entry(packet).or_default();
        let since = asking.values().copied().min().unwrap_or(invoked);
        asking.insert(invoked, since);
        Asked { packet, user: user.clone(), is_right, invoked, since }
    }

    /// A user is answered, or is not. What can be told of the answer at once is told here; `ahead` is how far a clock is
    /// ahead, at most.
    pub fn hear(&self, world: &World, asked: Asked, heard: Option<Result<GrabOutcome, Failure>>, ahead: Duration) {
        let Asked { packet, user, is_right, invoked, since } = asked;
        let returned = world.note(format_args!("{user} of {packet} hears {heard:?}"));
        let terms = world.terms(packet);
        let is_ending = terms.as_ref().is_some_and(|terms| world.now().after(LENIENCE) >= terms.expires_at);
        if heard.is_some() {
            // What was begun for a caller who went away goes on.
            self.asking.lock().unwrap().entry(packet).or_default().remove(&invoked);
        }
        let answer = match heard {
            Some(Ok(outcome)) => Some(outcome),
            Some(Err(Failure::Defect(error))) => {
                world.violated(Kind::Answer, format!("{user} met a defect: {}", shared::error_chain(&*error)));
                None
            }
            Some(Err(Failure::Unavailable(_))) | None => None,
        };
        if let (Some(answer), Some(terms)) = (&answer, &terms) {
            match answer {
                GrabOutcome::SoldOut if !is_ending => judge_sold_out(world, terms, &user, invoked),
                GrabOutcome::NotFound if world.committed_before(packet, since) => {
                    world.violated(Kind::Answer, format!("{user} does not find {packet}"));
                }
                _ => judge(world, terms, &user, is_right, answer, ahead),
            }
        }
        let grab = Grab { user, invoked, returned, is_right, answer, is_ending };
        self.grabs.lock().unwrap().entry(packet).or_default().push(grab);
    }

    /// What users heard so far.
    pub fn heard(&self) -> Heard {
        let mut heard = Heard::default();
        for grab in self.grabs.lock().unwrap().values().flatten() {
            heard.add(grab.answer.as_ref());
        }
        heard
    }

    /// Holds every answer against the ledger, and against those before.
    pub fn check(&self, world: &World, books: &Books) -> Heard {
        let mut heard = self.heard();
        let grabs = self.grabs.lock().unwrap();
        for Known { terms, .. } in world.known() {
            let (Some(packet), Some(grabs)) = (books.packets.get(&terms.id.to_string()), grabs.get(&terms.id)) else {
                continue;
            };
            admits(world, &terms, packet, grabs);
            if terms.ack == AckMode::Redis && world.has_lost() {
                // What Redis acknowledged and lost is lost.
                continue;
            }
            keeps_promises(world, &terms, packet, grabs);
            if terms.id.part_count() == 1 && terms.count <= CHECKED_SLIPS_MAX {
                match is_linearizable(terms.count, calls(world, &terms, packet, grabs)) {
                    Some(true) => heard.decided += 1,
                    Some(false) => {
                        heard.decided += 1;
                        world.violated(Kind::Linearizability, format!("the history of {}", terms.id));
                    }
                    None => heard.undecided += 1,
                }
            }
        }
        heard
    }
}

/// Nobody is told `sold_out` while a slip is free. Where Redis' word counts a process repeats it for a moment, although Redis may
/// have lost the slip meanwhile.
fn judge_sold_out(world: &World, terms: &Terms, user: &UserId, invoked: u64) {
    let moment = if terms.ack == AckMode::Redis { REPEATED } else { Duration::ZERO };
    let free = world.free_since(terms, invoked, moment);
    if !free.is_empty() {
        let what = format!("{user} of {} hears sold_out, and slips {free:?} were free all the while", terms.id);
        world.violated(Kind::SoldOut, what);
    }
}

/// Tells at once what is wrong with an answer of another kind, if anything is.
fn judge(world: &World, terms: &Terms, user: &UserId, is_right: bool, answer: &GrabOutcome, ahead: Duration) {
    let guard = &terms.guard;
    let wrong = match answer {
        GrabOutcome::Expired => world.now().after(ahead + LENIENCE) < terms.expires_at,
        GrabOutcome::Refused(Refusal::NotARecipient) => guard.invites(user),
        GrabOutcome::Refused(Refusal::WrongPassphrase) => is_right || guard.passphrase.is_none(),
        GrabOutcome::Refused(Refusal::TooManyTries { .. }) => guard.passphrase.is_none(),
        GrabOutcome::Grabbed { .. } => !guard.invites(user),
        GrabOutcome::SoldOut | GrabOutcome::NotFound => false,
    };
    if wrong {
        world.violated(Kind::Answer, format!("{user} of {} hears {answer:?}", terms.id));
    }
}

fn words(claim: &Claim) -> Claimed {
    (claim.slip, claim.amount.minor_units(), claim.at.ms())
}

/// Nobody has a slip who is not invited, or never knew the words.
fn admits(world: &World, terms: &Terms, packet: &PacketBooks, grabs: &[Grab]) {
    for user in packet.claims.keys() {
        let right = |grab: &Grab| grab.user.as_str() == user && (grab.is_right || terms.guard.passphrase.is_none());
        let invited = terms.guard.recipients.as_ref().is_none_or(|users| users.iter().any(|one| one.as_str() == user));
        if !invited || !grabs.iter().any(right) {
            world.violated(Kind::Answer, format!("{user} has a slip of {}, which is not for him", terms.id));
        }
    }
}

/// Each `grabbed` is in the ledger, word for word, and whoever has heard it hears it ever after.
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
            Some(GrabOutcome::SoldOut | GrabOutcome::Expired | GrabOutcome::NotFound) => true,
            // A rolled back part asks again for the words, and forgets how often it has heard wrong ones.
            Some(GrabOutcome::Refused(_)) => grab.is_right && !world.has_lost(),
            Some(GrabOutcome::Grabbed { .. }) | None => false,
        };
        if after && denied {
            let what = format!("{} of {} had a slip and hears {:?}", grab.user, terms.id, grab.answer);
            world.violated(Kind::Promise, what);
        }
    }
}

/// A packet's history for the checker. Left out is what follows from the rest, since a slip that is gone stays gone: all
/// but a user's first *grabbed*, all but the last no of a winner, all but the first *sold out* of all.
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
            Some(GrabOutcome::Refused(_)) if world.has_lost() => continue,
            Some(GrabOutcome::Refused(_) | GrabOutcome::Expired | GrabOutcome::NotFound) => Ret::No,
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
