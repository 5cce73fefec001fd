//! What a run writes down: each step of the protocol, where it takes effect at a store.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_dynamo::AttributeValue;
use shared::domain::{Decision, Hold, PacketId, PartId, Timestamp, UserId};
use shared::memory::{MemoryTable, Part};
use shared::ports::{GrabAnswer, Item, Key, Loaded, Query, Reason, Reconciled, SnapshotResult, TransactError, Write};
use shared::service::GrabOutcome;

use crate::audit::amounts_of;

/// Slips of a group of decisions under one partition key.
const GROUP: u32 = 64;

tokio::task_local! {
    /// The run of settle that works in this task.
    static RUN: u64;
}

/// Who makes a step.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Actor {
    /// The process. Its successor has another number.
    pub process: u64,
    /// The run of settle, if it is one.
    pub run: Option<u64>,
}

impl Actor {
    /// The actor that works in the current task of a process.
    pub fn here(process: u64) -> Self {
        Self { process, run: RUN.try_with(|run| *run).ok() }
    }
}

/// An entry of the log.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The world's time.
    pub at: Timestamp,
    /// Who made the step.
    pub actor: Actor,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A script was executed.
    Script {
        /// On which primary.
        primary: usize,
        /// The part.
        part: PartId,
        /// The script.
        script: Script,
        /// The part after it.
        seen: Box<Part>,
        /// Whether the part is pending after it.
        pending: bool,
    },
    /// The pending parts of a partition were read.
    Pending(Vec<PartId>),
    /// A transaction was executed.
    Transaction {
        /// The packet.
        packet: PacketId,
        /// The transaction.
        what: Transaction,
        /// How it ended.
        outcome: Outcome,
        /// The owner of each decided slip after it; `None`: refunded.
        decided: Vec<(u32, Option<UserId>)>,
        /// Whether the packet is settled after it.
        settled: bool,
        /// Whether the packet is closed after it.
        closed: bool,
    },
    /// The ledger was read.
    Read(PacketId, Read),
    /// The answer of an earlier entry reached its caller.
    Told {
        /// The number of that entry.
        of: usize,
        /// The slips that the hot store named in place of those that it held.
        lies: Vec<(UserId, u32)>,
    },
    /// A process has found that the ledger does not take a hold.
    Blocked(PacketId),
    /// A user asks for a slip.
    Ask(PacketId, UserId),
    /// A request ends.
    Answer {
        /// The entry in which it began.
        asked: usize,
        /// Its answer, if there is one; `Err`: the outcome is unknown.
        answer: Option<Result<GrabOutcome, ()>>,
    },
    /// The hot store, or one node of it, loses data.
    Lost {
        /// It goes back to the state before that many scripts were executed; `None`: it is empty.
        to: Option<u64>,
        /// The partitions `index % nodes == lost`; `None`: all.
        node: Option<(u32, u32)>,
    },
    /// A second primary begins with the data of the first.
    Split,
    /// Only one primary is left.
    Joined {
        /// Whether it is the second one.
        second_wins: bool,
    },
}

/// A script of the hot store, with its arguments and its answer.
#[derive(Clone, Debug)]
pub enum Script {
    /// `grab`: each user's answer; `None`: the part is not loaded.
    Hold(Vec<UserId>, Option<Vec<GrabAnswer>>),
    /// `load`; the flag: as closed.
    Load(Vec<Decision>, bool, Loaded),
    /// `close`: whether the part is loaded.
    Close(bool),
    /// `reconcile`
    Reconcile(Vec<Decision>, Vec<Hold>, Reconciled),
    /// `snapshot`; the flag: only a final part is of use.
    Snapshot(bool, SnapshotResult),
    /// `outbox`, or `help` to the process that has the lease now: the holds.
    Outbox(Vec<Hold>),
    /// `park`
    Park,
    /// A script that is no step of the protocol.
    Other,
}

/// A transaction of the ledger.
#[derive(Clone, Debug)]
pub enum Transaction {
    /// A send.
    Send,
    /// Claims, together: slip, user, and whether the amount is the slip's.
    Commit(Vec<(u32, UserId, bool)>),
    /// A refund: slips, and whether the amount is their sum.
    Refund(Vec<u32>, bool),
    /// The mark that a packet is settled.
    Settle,
    /// The operator closes the packet.
    Close,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It is committed, now or before under the same token.
    Committed,
    /// A condition failed.
    Refused,
    /// It was not tried.
    Nothing,
}

/// A read of the ledger, and what it found.
#[derive(Clone, Debug)]
pub enum Read {
    /// The decisions of these slips: the slips that have one.
    Decisions(std::ops::Range<u32>, Vec<u32>),
    /// A user's claim: its slip.
    Claim(UserId, Option<u32>),
    /// The packet: whether it is settled, and whether it is closed; `None`: there is no such packet.
    Packet(Option<(bool, bool)>),
}

/// The log of a run, if it is wanted.
#[derive(Debug, Default)]
pub struct Log {
    entries: Option<Mutex<Vec<Entry>>>,
    runs: AtomicU64,
}

impl Log {
    /// A log that keeps what is written.
    pub fn kept() -> Self {
        Self { entries: Some(Mutex::default()), ..Self::default() }
    }

    /// Writes an entry and returns its number; `None`: nothing is kept.
    pub fn write(&self, at: impl FnOnce() -> Timestamp, actor: Actor, event: impl FnOnce() -> Event) -> Option<usize> {
        let entries = self.entries.as_ref()?;
        let entry = Entry { at: at(), actor, event: event() };
        let mut entries = entries.lock().unwrap();
        entries.push(entry);
        Some(entries.len() - 1)
    }

    /// All entries.
    pub fn take(&self) -> Vec<Entry> {
        self.entries.as_ref().map(|entries| std::mem::take(&mut *entries.lock().unwrap())).unwrap_or_default()
    }

    /// `work` as a run of settle of its own.
    pub fn as_run<V>(&self, work: impl Future<Output = V>) -> impl Future<Output = V> {
        RUN.scope(self.runs.fetch_add(1, Ordering::Relaxed), work)
    }
}

/// The transaction that these writes are, if it is a step of the protocol. `count` gives the slips of a packet.
pub fn transaction(
    table: &MemoryTable,
    writes: &[Write],
    count: impl Fn(PacketId) -> Option<u32>,
) -> Option<(PacketId, Transaction)> {
    let (mut claims, mut slips, mut refund) = (Vec::new(), Vec::new(), None);
    let amount = |packet: PacketId, slip: u32| {
        let part = PartId::of_slip(packet, count(packet)?, slip)?;
        amounts_of(table, part).get((slip - part.slips(count(packet)?).start) as usize).copied()
    };
    for write in writes {
        match write {
            Write::PutNew { key, item } => {
                if let Some(packet) = packet_of(&key.pk) {
                    return Some((packet, Transaction::Send));
                }
                if let Some((_, slip)) = slip_of(key) {
                    slips.push(slip);
                } else if let Some((packet, user)) = claim_of(key) {
                    let slip = u32::try_from(number(item, "slip")).unwrap();
                    let is_right = amount(packet, slip) == Some(number(item, "amount"));
                    claims.push((packet, (slip, user, is_right)));
                } else if let Some(rest) = key.sk.strip_prefix("REFUND#") {
                    refund = Some((rest.split('#').next()?.parse::<PacketId>().ok()?, number(item, "amount")));
                }
            }
            Write::Change { key, set, .. } => {
                let is_close = set.contains_key("closed_at");
                let step = if is_close { Transaction::Close } else { Transaction::Settle };
                return Some((packet_of(&key.pk)?, step));
            }
            Write::Add { .. } => {}
        }
    }
    if let Some((packet, returned)) = refund {
        let sum = slips.iter().map(|slip| amount(packet, *slip)).sum::<Option<u64>>();
        return Some((packet, Transaction::Refund(slips, sum == Some(returned))));
    }
    let packet = claims.first()?.0;
    Some((packet, Transaction::Commit(claims.into_iter().map(|(_, claim)| claim).collect())))
}

/// How a transaction ended.
pub fn outcome(answer: &Result<(), TransactError>) -> Outcome {
    match answer {
        Ok(()) => Outcome::Committed,
        Err(TransactError::Cancelled(reasons))
            if reasons.iter().any(|reason| matches!(reason, Reason::ConditionFailed(_))) =>
        {
            Outcome::Refused
        }
        Err(_) => Outcome::Nothing,
    }
}

/// The decided slips of a packet, whether it is settled, and whether it is closed.
pub fn books(table: &MemoryTable, packet: PacketId, count: u32) -> (Vec<(u32, Option<UserId>)>, bool, bool) {
    let decision = |slip: u32| {
        let key = Key { pk: format!("SLIPS#{packet}#{}", slip / GROUP), sk: format!("{slip:06}") };
        Some((slip, owner(&table.read(&key)?)))
    };
    let meta = table.read(&Key { pk: format!("PACKET#{packet}"), sk: "META".to_owned() });
    let (settled, closed) = meta.map_or((false, false), |item| (is_settled(&item), is_closed(&item)));
    ((0..count).filter_map(decision).collect(), settled, closed)
}

/// A read of one item, if it is a step of the protocol.
pub fn get(key: &Key, item: Option<&Item>) -> Option<(PacketId, Read)> {
    if let Some(packet) = packet_of(&key.pk) {
        return Some((packet, Read::Packet(item.map(|item| (is_settled(item), is_closed(item))))));
    }
    if let Some((packet, slip)) = slip_of(key) {
        return Some((packet, Read::Decisions(slip..slip + 1, item.map(|_| slip).into_iter().collect())));
    }
    let (packet, user) = claim_of(key)?;
    Some((packet, Read::Claim(user, item.map(|item| u32::try_from(number(item, "slip")).unwrap()))))
}

/// A query, if it is a step of the protocol.
pub fn query(query: &Query, items: &[Item]) -> Option<(PacketId, Read)> {
    let (packet, group) = query.pk.strip_prefix("SLIPS#")?.split_once('#')?;
    let group: u32 = group.parse().ok()?;
    let found = items.iter().map(|item| u32::try_from(number(item, "slip")).unwrap()).collect();
    let is_whole = query.after.is_none() && query.limit.is_none();
    is_whole.then_some((packet.parse().ok()?, Read::Decisions(group * GROUP..(group + 1) * GROUP, found)))
}

fn packet_of(pk: &str) -> Option<PacketId> {
    pk.strip_prefix("PACKET#")?.parse().ok()
}

fn slip_of(key: &Key) -> Option<(PacketId, u32)> {
    Some((key.pk.strip_prefix("SLIPS#")?.split('#').next()?.parse().ok()?, key.sk.parse().ok()?))
}

fn claim_of(key: &Key) -> Option<(PacketId, UserId)> {
    Some((key.sk.strip_prefix("CLAIM#")?.parse().ok()?, key.pk.strip_prefix("USER#")?.parse().ok()?))
}

fn is_settled(item: &Item) -> bool {
    matches!(item.get("status"), Some(AttributeValue::S(status)) if status == "settled")
}

fn is_closed(item: &Item) -> bool {
    item.contains_key("closed_at")
}

fn owner(item: &Item) -> Option<UserId> {
    match item.get("user_id") {
        Some(AttributeValue::S(user)) => Some(user.parse().unwrap()),
        _ => None,
    }
}

fn number(item: &Item, name: &str) -> u64 {
    match item.get(name) {
        Some(AttributeValue::N(digits)) => digits.parse().unwrap(),
        _ => 0,
    }
}
