use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

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
        /// How long before the packet's expiry it was held, by the hot store's clock.
        left: Duration,
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
    /// Every slip is taken, and they have none.
    SoldOut {
        /// Whether that can no longer change for this user.
        certain: bool,
    },
    /// A slip went back, as happens after the expiry or a close, and they have none.
    WentBack {
        /// When the packet expires or has expired.
        expires_at: Timestamp,
        /// Whether that can no longer change for this user.
        certain: bool,
    },
    /// No slip is free, and not every one is taken: the packet has expired, or the hot store has lost its free slips.
    NoList {
        /// Whether, if it has expired, that can no longer change for this user.
        certain: bool,
    },
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

/// The state of a part, for readers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PartState {
    /// The time by the hot store's clock. Whatever was decided and reconciled before is in it.
    pub now: Timestamp,
    /// Whether the part is closed.
    pub is_closed: bool,
    /// Slips that are held, and not yet known to be in the ledger.
    pub held_count: u32,
    /// A bit for each slip of the part, the first slip's the highest of the first byte: 1 if its decision is known, claimed or refunded.
    pub known: Vec<u8>,
}

impl PartState {
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

/// Users who grab from a part.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PartGrabs {
    /// The part.
    pub part: PartId,
    /// The users, each once.
    pub grabbers: Vec<Grabber>,
}

/// The answers of a part to its grabbers, in their order; `None`: it is not loaded.
pub type PartAnswers = Option<Vec<GrabAnswer>>;

/// The hot store. It decides only who gets which slip, and it may forget, roll back or lie.
///
/// Every operation may be executed twice, or late, without harm.
pub trait HotStore: fmt::Debug + Send + Sync + 'static {
    /// Holds a slip for each user of each of `grabs`, which are parts of one lane. The answers are in their order. If it fails, some slips
    /// may be held, as with any call that fails.
    fn grab_each(&self, grabs: &[PartGrabs]) -> impl Future<Output = Result<Vec<PartAnswers>, HotStoreError>> + Send;

    /// Holds slips of a single part, for users who are all different.
    fn grab(
        &self,
        part: PartId,
        grabbers: &[Grabber],
    ) -> impl Future<Output = Result<PartAnswers, HotStoreError>> + Send {
        let grabs = PartGrabs { part, grabbers: grabbers.to_vec() };
        async move { Ok(self.grab_each(&[grabs]).await?.pop().flatten()) }
    }

    /// The lane of a part. Grabs of one lane can share a call.
    fn lane(&self, part: PartId) -> u32;

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

    /// Ends a hold of a user who may not have its slip. The slip is free again, unless it has a decision.
    fn release(&self, part: PartId, count: u32, hold: &Hold) -> impl Future<Output = Result<(), HotStoreError>> + Send;

    /// Counts the holds of a part anew. If there are none, it is taken out of its partition's queue of pending parts.
    fn tidy(&self, part: PartId) -> impl Future<Output = Result<(), HotStoreError>> + Send;

    /// Loads a part, of which `decisions` are known, unless it is expired. If it is loaded, only what the hot store has lost of it is made
    /// anew. `is_closed` says whether the operator has closed the packet.
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

    /// The state of a part, for readers; `None`: it is not loaded, or its bitmap is lost.
    fn part_state(&self, part: PartId) -> impl Future<Output = Result<Option<PartState>, HotStoreError>> + Send;

    /// The pending parts of a partition, the longest pending first.
    fn pending_parts(&self, partition: Partition) -> impl Future<Output = Result<Vec<PartId>, HotStoreError>> + Send;

    /// The holds of a partition's parts.
    fn backlog(&self, partition: Partition) -> impl Future<Output = Result<Backlog, HotStoreError>> + Send;

    /// The holds in the outbox of a part, the oldest first.
    fn outbox(&self, part: PartId) -> impl Future<Output = Result<Vec<OutboxEntry>, HotStoreError>> + Send;

    /// Parks a hold: notes with it why settle cannot persist it.
    fn park(&self, part: PartId, hold: &Hold, reason: &str) -> impl Future<Output = Result<(), HotStoreError>> + Send;
}
