use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;

use crate::domain::{Claim, Decision, Hold, PartId, Partition, PassphraseDigest, Refusal, Terms, Timestamp, UserId};

/// Why the hot store has no answer. Callers can do nothing about it but try again later, so the causes are for logs.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HotStoreError {
    /// It did not answer, or can't serve now. What was asked may have been done.
    #[error("the hot store did not answer")]
    Unavailable(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// It answered what can't be. A defect.
    #[error("the hot store was told or said something impossible")]
    Impossible(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

/// A user who wants a slip.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Grabber {
    /// Who.
    pub user: UserId,
    /// The digest of the passphrase he gave, if he gave one.
    pub passphrase: Option<PassphraseDigest>,
}

/// What a part had for a user.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum GrabAnswer {
    /// The claim that the ledger is known to have.
    Confirmed(Claim),
    /// A slip that is held for him, and not yet known to be in the ledger.
    Held {
        /// The slip.
        slip: u32,
        /// Since when.
        at: Timestamp,
        /// Whether it is held since this very call.
        fresh: bool,
    },
    /// The packet's guard turned him away.
    Refused(Refusal),
    /// There is no slip for him.
    Nothing {
        /// Whether the packet is expired.
        expired: bool,
        /// Whether that is beyond doubt, for him too.
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
    /// The part is final: its owners tell.
    Final(Arc<FinalPart>),
}

/// What became of an attempt to load a part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Loaded {
    /// It is loaded, by this call or before.
    Yes,
    /// It is expired, and not loaded again.
    Expired,
}

/// What a part knows, after it was told decisions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reconciled {
    /// It is not loaded: only its outbox was tidied.
    NotLoaded,
    /// It is loaded.
    Loaded,
    /// It is loaded and knows the decision of every slip: it is final.
    Final,
}

/// Whether a part is final, and who has its slips.
#[derive(Clone, Debug)]
pub enum Finality {
    /// It is not loaded.
    NotLoaded,
    /// A slip is free, or held.
    NotYet,
    /// Every slip's decision is known, but the part has a guard, whose answers only a grab gives.
    Guarded,
    /// Every slip's decision is known.
    Final(Arc<FinalPart>),
}

/// A part that can't change any more.
#[derive(Clone, Debug)]
pub struct FinalPart {
    /// From when on losers hear that it is expired.
    pub expires_at: Timestamp,
    /// Who has a slip, and which.
    pub owners: HashMap<UserId, Claim>,
}

/// What a part that gives out nothing more has for everybody, at one moment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PartSnapshot {
    /// Who has a claim or hold, and what he is told of it.
    pub by_user: HashMap<UserId, GrabAnswer>,
    /// What everybody else is told.
    pub others: GrabAnswer,
}

impl PartSnapshot {
    /// What a grab would find for a user.
    pub fn answer_for(&self, user: &UserId) -> GrabAnswer {
        self.by_user.get(user).unwrap_or(&self.others).clone()
    }
}

/// What a part has for those who only look.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ViewResult {
    /// It is not loaded.
    NotLoaded,
    /// Nothing has changed since the version that the caller has seen.
    Unchanged,
    /// It has this.
    Changed(PartView),
}

/// What a part knows of its slips, at one moment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PartView {
    /// Another one whenever a claim or hold has come or gone, save that a hold gave way to its user's claim of another part.
    pub version: String,
    /// Slips whose decision is known, claimed or refunded.
    pub decided_count: u32,
    /// Claims that the ledger is known to have, by user; also of slips of the packet's other parts.
    pub claims: BTreeMap<UserId, Claim>,
    /// Slips that are held, and not yet known to be in the ledger.
    pub holds: Vec<Hold>,
}

/// A slip in the outbox.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OutboxEntry {
    /// The slip, for whom, and since when.
    pub hold: Hold,
    /// Why settle can't persist it, if it can't.
    pub parked: Option<String>,
}

/// What a partition's outboxes hold.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Backlog {
    /// Holds, those parked too.
    pub holds: u64,
    /// The oldest of them was made then, or later.
    pub oldest: Option<Timestamp>,
}

/// A part, and who grabs a slip of it, no two of whom are the same user.
pub type Ask = (PartId, Vec<Grabber>);

/// The hot store: it decides who gets which slip, and nothing else. It may forget, roll back or lie.
///
/// Every operation may be executed twice, or late, without harm.
pub trait HotStore: fmt::Debug + Send + Sync + 'static {
    /// Takes a slip of a part for each of `grabbers`, no two of whom are the same user. `None`: it is not loaded.
    fn grab(
        &self,
        part: PartId,
        grabbers: &[Grabber],
    ) -> impl Future<Output = Result<Option<Vec<GrabAnswer>>, HotStoreError>> + Send;

    /// Which grabs can be asked in one call: those of partitions in the same lane.
    fn lane(&self, partition: Partition) -> u32 {
        partition.index()
    }

    /// The same for several parts of one lane, no part twice, each with its grabbers; the answers are in that order.
    /// Where it fails, some of it may have been done, as with any call that fails.
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

    /// Tells a part of a packet of `count` slips what the ledger says. `decided` are holds that these decisions decide:
    /// they go, also from a part that is not loaded any more or knows them by half.
    fn reconcile(
        &self,
        part: PartId,
        count: u32,
        decisions: &[Decision],
        decided: &[Hold],
    ) -> impl Future<Output = Result<Reconciled, HotStoreError>> + Send;

    /// Loads a part, of which `decisions` are known, unless it is loaded or expired.
    fn load(
        &self,
        part: PartId,
        terms: &Terms,
        decisions: &[Decision],
    ) -> impl Future<Output = Result<Loaded, HotStoreError>> + Send;

    /// Whether the caller is to load a part: one of all who ask within `lease`, until it is given up.
    fn acquire_load_lease(
        &self,
        part: PartId,
        lease: Duration,
    ) -> impl Future<Output = Result<bool, HotStoreError>> + Send;

    /// Gives up what [`Self::acquire_load_lease`] gave.
    fn release_load_lease(&self, part: PartId) -> impl Future<Output = Result<(), HotStoreError>> + Send;

    /// Whether a part is final, and its owners.
    fn finality(&self, part: PartId) -> impl Future<Output = Result<Finality, HotStoreError>> + Send;

    /// What a grab would find for each user of a part that gives out nothing more. `None`: each has to ask, because it is not
    /// loaded, has a guard or a free slip.
    fn snapshot(&self, part: PartId) -> impl Future<Output = Result<Option<PartSnapshot>, HotStoreError>> + Send;

    /// What a part knows of its slips, unless that is what the caller has `seen`: the version of an earlier look.
    fn view(&self, part: PartId, seen: Option<&str>) -> impl Future<Output = Result<ViewResult, HotStoreError>> + Send;

    /// The parts of a partition that hold something, those that have longest first.
    fn pending_parts(&self, partition: Partition) -> impl Future<Output = Result<Vec<PartId>, HotStoreError>> + Send;

    /// How much the parts of a partition hold.
    fn backlog(&self, partition: Partition) -> impl Future<Output = Result<Backlog, HotStoreError>> + Send;

    /// What a part holds, oldest first.
    fn outbox(&self, part: PartId) -> impl Future<Output = Result<Vec<OutboxEntry>, HotStoreError>> + Send;

    /// Notes with a hold why it can't be persisted.
    fn park(&self, part: PartId, hold: &Hold, reason: &str) -> impl Future<Output = Result<(), HotStoreError>> + Send;
}
