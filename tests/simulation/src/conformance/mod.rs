//! Conformance: the model accepts what the code does.
//!
//! The stores in memory write down each step of the protocol at the moment at which it takes effect (`log`), so the product's
//! code needs no hook. Then each step is replayed in the model, packet by packet (`packet`):
//!
//! - For each process and each run of settle, the replay keeps every state of the model's actors that is possible after the
//!   replies that it received (`reached`).
//! - A write must be a call of one of these actors. The model makes it by its own `next_state`, and its reply must be the store's.
//! - After each script the part must be the model's: each user's hold or claim, the free slips, the known decisions, whether it
//!   is pending. After each transaction the decisions must be the model's.
//! - The answer that a user receives must be one that a grab of theirs gives in the model.

pub(crate) mod log;
mod packet;
mod reached;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use shared::domain::PacketId;

use self::log::{Entry, Event};
use self::packet::Packet;
use crate::mutants::Mutant;
use crate::run::run_logged;
use crate::search::for_each_seed;
use crate::world::Known;

/// Of a hundred seeds, so many may have packets that the model does not have.
pub const SKIPPED_MAX: u64 = 20;

/// What the model does not have. A packet with it is left out.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Missing {
    /// More slips than the model's arrays hold.
    Large,
    /// A parked hold.
    Parked,
    /// A blocked hold.
    Blocked,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Large => "a packet of more than 12 slips",
            Self::Parked => "a parked hold",
            Self::Blocked => "a blocked hold",
        })
    }
}

/// A step that the model does not make, or does otherwise.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The number of the entry.
    pub entry: usize,
    /// The packet.
    pub packet: PacketId,
    /// What differs.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {} of {}: {}", self.entry, self.packet, self.what)
    }
}

/// The verdict on a seed.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Steps that the model has made.
    pub steps: u64,
    /// Why packets were left out, if any were.
    pub missing: Option<Missing>,
    /// The first difference.
    pub difference: Option<Difference>,
}

/// Runs `seed`, and replays it in the model. Prints what it replays if `readable`.
pub fn conform(seed: u64, mutant: Option<Mutant>, readable: bool) -> Verdict {
    let (entries, known) = run_logged(seed, mutant);
    replay(&entries, known, readable)
}

fn replay(entries: &[Entry], known: Vec<Known>, readable: bool) -> Verdict {
    let mut verdict = Verdict::default();
    let mut packets: BTreeMap<PacketId, Packet> = BTreeMap::new();
    for Known { terms, .. } in known {
        match Packet::new(terms) {
            Ok(packet) => drop(packets.insert(packet.id(), packet)),
            Err(missing) => verdict.missing = Some(missing),
        }
    }
    for (number, entry) in entries.iter().enumerate() {
        if readable {
            println!("{number} {entry:?}");
        }
        let concerned = concerned(entries, &entry.event);
        for (id, packet) in &mut packets {
            if concerned.is_some_and(|concerned| concerned != *id) {
                if matches!(entry.event, Event::Script { .. }) {
                    packet.keep();
                }
                continue;
            }
            match packet.replay(entries, number) {
                Ok(()) => {}
                Err(packet::Stop::Missing(missing)) => verdict.missing = Some(missing),
                Err(packet::Stop::Differs(what)) => {
                    verdict.difference.get_or_insert(Difference { entry: number, packet: *id, what });
                }
            }
        }
        if verdict.difference.is_some() {
            break;
        }
    }
    verdict.steps = packets.values().map(Packet::steps).sum();
    verdict
}

/// The packet that an event concerns; `None`: each.
fn concerned(entries: &[Entry], event: &Event) -> Option<PacketId> {
    match event {
        Event::Script { part, .. } => Some(part.packet),
        Event::Transaction { packet, .. } | Event::Read(packet, _) | Event::Ask(packet, _) | Event::Blocked(packet) => {
            Some(*packet)
        }
        Event::Told { of, .. } | Event::Answer { asked: of, .. } => concerned(entries, &entries[*of].event),
        Event::Pending(_) | Event::Lost { .. } | Event::Split | Event::Joined { .. } => None,
    }
}

/// The verdicts on many seeds.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    /// Seeds that were run.
    pub seeds: u64,
    /// Seeds that the model accepts as a whole.
    pub accepted: u64,
    /// Seeds with packets that were left out, by what the model does not have.
    pub skipped: BTreeMap<Missing, u64>,
    /// Steps that the model has made.
    pub steps: u64,
    /// Seeds that the model rejects, lowest first.
    pub rejected: Vec<(u64, Difference)>,
}

impl Verdicts {
    fn add(&mut self, seed: u64, verdict: Verdict) {
        self.seeds += 1;
        self.steps += verdict.steps;
        match (verdict.difference, verdict.missing) {
            (Some(difference), _) => self.rejected.push((seed, difference)),
            (None, Some(missing)) => *self.skipped.entry(missing).or_default() += 1,
            (None, None) => self.accepted += 1,
        }
    }

    /// Seeds that were skipped.
    pub fn skipped(&self) -> u64 {
        self.skipped.values().sum()
    }
}

impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seeds, accepted, steps, rejected, .. } = self;
        writeln!(
            f,
            "{seeds} seeds, {steps} steps: {accepted} accepted, {} rejected, {} skipped",
            rejected.len(),
            self.skipped()
        )?;
        self.skipped.iter().try_for_each(|(missing, count)| writeln!(f, "  {count} skipped: {missing}"))
    }
}

/// Replays all `seeds` on `threads` threads, and calls `progress` after each. Ends early once that returns true.
///
/// # Panics
/// If a run panics.
pub fn conform_all(
    seeds: Range<u64>,
    mutant: Option<Mutant>,
    threads: usize,
    mut progress: impl FnMut(&Verdicts) -> bool,
) -> Verdicts {
    let mut verdicts = Verdicts::default();
    for_each_seed(
        seeds,
        threads,
        |seed| conform(seed, mutant, false),
        |seed, verdict| {
            verdicts.add(seed, verdict);
            progress(&verdicts)
        },
    );
    verdicts.rejected.sort_by_key(|(seed, _)| *seed);
    verdicts
}
