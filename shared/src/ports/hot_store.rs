use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;

use crate::domain::{Claim, Decision, Hold, PartId, Partition, PassphraseDigest, Refusal, Terms, Timestamp, UserId};

/// Why the hot store has no answer. The causes are for logs.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HotStoreError {
    /// It did not answer, or cannot serve now. The request may have taken effect.
    #[error("the hot store did not answer")]
    Unavailable(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// A defect of code, data or configuration: it refused the call, or gave an answer that no script gives.
    #[error("the hot store received or answered something impossible")]
    Impossible(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

impl HotStoreError {
    /// What the store itself said, or the client that asked it.
    pub const fn cause(&self) -> &Arc<dyn std::error::Error + Send + Sync> {
        let (Self::Unavailable(cause) | Self::Impossible(cause)) = self;
        cause
    }
}

/// A user who asks for a slip.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Grabber {
    /// The user.
    pub user: UserId,
    /// The digest of the passphrase that they gave, if any.
    pub passphrase: Option<PassphraseDigest>,
}

/// The answer of a part to one user's grab.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum GrabAnswer {
    /// They have this claim, which is known to be in the ledger.
    Confirmed(Claim),
    /// A slip is held for them. The hot store does not know yet whether the claim is in the ledger.
    Held {
        /// The slip.
        slip: u32,
        /// When it was held.
        at: Timestamp,
        /// Whether this very call held it.
        fresh: bool,
    },
    /// The packet's guard refused them.
    Refused(Refusal),
    /// Grabs have not begun.
    NotStarted {
        /// When they begin.
        starts_at: Timestamp,
        /// How long that takes, by the hot store's clock.
        left: Duration,
    },
    /// The operator has closed the packet, and they have no slip.
    Closed {
        /// Whether that can no longer change for this user.
        certain: bool,
    },
    /// There is no slip for them.
    Nothing {
        /// Whether the packet is expired. If the answer is certain, the process's clock may say so.
        expired: bool,
        /// Whether that can no longer change for this user.
        certain: bool,
    },
}

/// What a probe of a part found for a user, from the hot store or from what the process knows of the part.
#[derive(Clone, Debug)]
pub enum ProbeResult {
    /// The answer of the hot store.
    Answer(GrabAnswer),
    /// The part is not loaded.
    NotLoaded,
}

/// How an attempt to load a part ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Loaded {
    /// It is loaded, by this call or before.
    Yes,
    /// It is expired. An expired part is not loaded again.
    Expired,
}

/// The state of a part after it was reconciled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reconciled {
    /// It is not loaded. It was only taken out of its partition's queue of pending parts.
    NotLoaded,
    /// It is loaded.
    Loaded,
    /// It is loaded, and every slip has a known decision: it is final.
    Final,
}

/// What a part shows of itself for all who wait for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SnapshotResult {
    /// Each user needs a grab: the part is not loaded, has a free slip, or has a guard, which only a grab checks.
    GrabNeeded,
    /// The part has no free slip and is not final, and the caller has use for a final one only.
    NotFinal,
    /// The part is exhausted.
    Exhausted(PartSnapshot),
}

/// What an exhausted part would answer each user, at one moment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PartSnapshot {
    /// Whether every slip has a known decision: no slip comes back to the part.
    pub is_final: bool,
    /// The time to the packet's expiry, by the hot store's clock; zero if it has expired.
    pub left: Duration,
    /// The answers to users with a claim or hold.
    pub by_user: HashMap<UserId, GrabAnswer>,
    /// The answer to everybody else.
    pub others: GrabAnswer,
}

impl PartSnapshot {
    /// The answer to a user's grab.
    pub fn answer_for(&self, user: &UserId) -> GrabAnswer {
        self.by_user.get(user).unwrap_or(&self.others).clone()
    }
}

/// What a process can do for users who are in doubt about an exhausted part.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Help {
    /// A grab has another answer by now: the part is final, expired or not loaded, or has a free slip.
    ProbeAgain,
    /// Nothing, for this time: another process helps, or the holds are so young that their own requests may still commit them.
    Wait(Duration),
    /// Somebody helped in vain. For this time nobody needs to try again.
    InVain(Doubt, Duration),
    /// The caller has the help lease.
    Acquired {
        /// The oldest holds that are old enough and not parked. If there are none, every undecided slip is parked or lost.
        holds: Vec<Hold>,
        /// The hot store's time.
        now: Timestamp,
    },
}

/// Why help left a slip undecided.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Doubt {
    /// The ledger answers, but does not take a hold.
    Blocked,
    /// The ledger does not answer, or rejects this process' load.
    Unavailable,
}

/// What a part reports of its slips, for readers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PartReport {
    /// The time of this report by the hot store's clock. Whatever was decided and reconciled before is in it.
    pub now: Timestamp,
    /// Whether the part is closed.
    pub is_closed: bool,
    /// Slips that are held, and not yet known to be in the ledger.
    pub held_count: u32,
    /// A bit for each slip of the part, the first slip's the highest of the first byte: 1 if its decision is known, claimed or refunded.
    pub known: Vec<u8>,
}

impl PartReport {
    /// The places in the part of the slips whose decision is known, in ascending order. They may go beyond the part's last slip, if the
    /// bitmap is damaged.
    pub fn known_places(&self) -> impl Iterator<Item = u32> {
        let bits = |byte: u8| (0..8).filter(move |bit| byte & (0x80 >> bit) != 0);
        (0..).step_by(8).zip(&self.known).flat_map(move |(first, byte)| bits(*byte).map(move |bit| first + bit))
    }
}

/// A slip in the outbox.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OutboxEntry {
    /// The slip, its user, and the time of the hold.
    pub hold: Hold,
    /// Why settle cannot persist it; `None`: it is not parked.
    pub parked: Option<String>,
}

/// The holds in the outboxes of a partition.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Backlog {
    /// The number of holds, parked ones included.
    pub holds: u64,
    /// A time at or before the oldest of them.
    pub oldest: Option<Timestamp>,
}

/// A part, and the users who grab from it, each once.
pub type Ask = (PartId, Vec<Grabber>);

/// The hot store. It decides only who gets which slip, and it may forget, roll back or lie.
///
/// Every operation may be executed twice, or late, without harm.
pub trait HotStore: fmt::Debug + Send + Sync + 'static {
    /// Holds a slip of a part for each of `grabbers`, who are different users. The answers are in their order; `None`: the part is
    /// not loaded.
    fn grab(
        &self,
        part: PartId,
        grabbers: &[Grabber],
    ) -> impl Future<Output = Result<Option<Vec<GrabAnswer>>, HotStoreError>> + Send;

    /// The lane of a partition. Grabs of one lane can share a call.
    fn lane(&self, partition: Partition) -> u32 {
        partition.index()
    }

    /// Grabs slips of several parts of one lane, no part twice. The answers are in the order of `asks`. If it fails, some slips
    /// may be held, as with any call that fails.
    fn grab_each(
        &self,
        asks: &[Ask],
    ) -> impl Future<Output = Result<Vec<Option<Vec<GrabAnswer>>>, HotStoreError>> + Send {
        async move {
            let mut answers = Vec::with_capacity(asks.len());
            for (part, grabbers) in asks {
                answers.push(self.grab(*part, grabbers).await?);
            }
            Ok(answers)
        }
    }

    /// Applies the ledger's `decisions` to a part of a packet of `count` slips. `resolved` are holds that these may end. A hold ends
    /// if its slip went to another user, or back. A part that is not loaded is only taken out of its partition's queue of pending
    /// parts.
    fn reconcile(
        &self,
        part: PartId,
        count: u32,
        decisions: &[Decision],
        resolved: &[Hold],
    ) -> impl Future<Output = Result<Reconciled, HotStoreError>> + Send;

    /// Loads a part, of which `decisions` are known, unless it is loaded or expired. `is_closed` says whether the operator has closed
    /// the packet.
    fn load(
        &self,
        part: PartId,
        terms: &Terms,
        is_closed: bool,
        decisions: &[Decision],
    ) -> impl Future<Output = Result<Loaded, HotStoreError>> + Send;

    /// Closes a loaded part: users who have no slip get none from then on. Returns false if the part is not loaded.
    fn close(&self, part: PartId) -> impl Future<Output = Result<bool, HotStoreError>> + Send;

    /// Acquires the load lease of a part. Returns whether the caller got it: only one caller has it, until it is released or
    /// `lease` is over.
    fn acquire_load_lease(
        &self,
        part: PartId,
        lease: Duration,
    ) -> impl Future<Output = Result<bool, HotStoreError>> + Send;

    /// Releases the load lease of a part.
    fn release_load_lease(&self, part: PartId) -> impl Future<Output = Result<(), HotStoreError>> + Send;

    /// What a process can do about the undecided slips of an exhausted part. It helps up to `most` holds that are at least
    /// `least_age` old by the hot store's clock. One process has the help lease at a time, until [`Self::end_help`] or until
    /// `lease` is over.
    fn help(
        &self,
        part: PartId,
        least_age: Duration,
        most: usize,
        lease: Duration,
    ) -> impl Future<Output = Result<Help, HotStoreError>> + Send;

    /// Releases the help lease of a part; with a doubt, leaves it there for all processes to see, for that time.
    fn end_help(
        &self,
        part: PartId,
        doubt: Option<(Doubt, Duration)>,
    ) -> impl Future<Output = Result<(), HotStoreError>> + Send;

    /// What a grab would answer each user of an exhausted part; with `only_final`, of a final one.
    fn snapshot(
        &self,
        part: PartId,
        only_final: bool,
    ) -> impl Future<Output = Result<SnapshotResult, HotStoreError>> + Send;

    /// Whether an exhausted part is not final: holds are still undecided.
    fn is_undecided(&self, part: PartId) -> impl Future<Output = Result<bool, HotStoreError>> + Send {
        async move { Ok(self.snapshot(part, true).await? == SnapshotResult::NotFinal) }
    }

    /// What a part reports of its slips; `None`: it is not loaded.
    fn report(&self, part: PartId) -> impl Future<Output = Result<Option<PartReport>, HotStoreError>> + Send;

    /// The pending parts of a partition, the longest pending first.
    fn pending_parts(&self, partition: Partition) -> impl Future<Output = Result<Vec<PartId>, HotStoreError>> + Send;

    /// The holds of a partition's parts.
    fn backlog(&self, partition: Partition) -> impl Future<Output = Result<Backlog, HotStoreError>> + Send;

    /// The holds in the outbox of a part that are at least `least_age` old by the hot store's clock, the oldest first. Of a packet
    /// that is acknowledged on the hot store's word, holds of any age: no grab commits them.
    fn outbox(
        &self,
        part: PartId,
        least_age: Duration,
    ) -> impl Future<Output = Result<Vec<OutboxEntry>, HotStoreError>> + Send;

    /// Parks a hold: notes with it why settle cannot persist it.
    fn park(&self, part: PartId, hold: &Hold, reason: &str) -> impl Future<Output = Result<(), HotStoreError>> + Send;
}
