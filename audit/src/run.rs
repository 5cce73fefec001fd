//! One run of an audit: its memory, and the subjects that it checks.

use std::collections::HashMap;
use std::sync::Arc;

use shared::batching::{Cache, cache};
use shared::domain::{PacketId, UserId};
use shared::ledger::keys;

use crate::confirm::{Check, Rereads};
use crate::item::Terms;
use crate::report::Report;
use crate::source::{ReadError, Since, Source, shown};

/// Number of packets whose terms are cached.
const TERMS_MAX: u64 = 10_000;
/// Number of cached wallets, and of cached subjects that were checked.
const REMEMBERED_MAX: u64 = 50_000;
/// A packet is settled soon after its expiry, but the settlement has no time of its own. A packet that expired up to
/// this long before the bound counts as changed, in case it was settled late.
const SETTLED_WITHIN_MS: u64 = 24 * 60 * 60 * 1_000;

/// One run of an audit.
///
/// Its memory does not grow with the table. It has:
/// - a page of items for each segment;
/// - for each packet under check its amounts and its refunds' chunks, at most 100,000 slips each;
/// - pages of one wallet's movements;
/// - bounded caches.
pub(crate) struct Run {
    pub source: Arc<dyn Source>,
    pub since: Option<Since>,
    /// Users who are known to have a wallet.
    pub wallets: Cache<UserId, ()>,
    /// Subjects that were checked because of a change. A rush for one packet needs one check, not one for each slip.
    pub seen: Cache<Subject, ()>,
    rereads: Rereads,
    terms: Cache<PacketId, Terms>,
}

/// The subject of a check.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Subject {
    Packet(PacketId),
    Wallet(UserId),
}

impl Run {
    /// A run over the items written since `since_ms`, in milliseconds since the epoch; `None`: over all items.
    pub fn new(source: Arc<dyn Source>, rereads: Rereads, since_ms: Option<u64>) -> Self {
        let since = |written_ms: u64| Since { written_ms, expired_ms: written_ms.saturating_sub(SETTLED_WITHIN_MS) };
        Self {
            source,
            since: since_ms.map(since),
            wallets: cache(REMEMBERED_MAX, 1, |()| 1),
            seen: cache(REMEMBERED_MAX, 1, |()| 1),
            rereads,
            terms: cache(TERMS_MAX, 1, |_| 1),
        }
    }

    /// [`Rereads::confirm`], which also logs the imbalances.
    pub(crate) async fn sure<F>(&self, key: impl Fn() -> String, check: impl Fn() -> F) -> Result<Report, ReadError>
    where
        F: Future<Output = Result<Check, ReadError>>,
    {
        let report = self.rereads.confirm(key, check).await?;
        report.log();
        Ok(report)
    }

    /// Whether this run has not checked a subject before, as far as its cache knows.
    pub fn is_first_sight(&self, subject: &Subject) -> bool {
        let is_new = !self.seen.contains_key(subject);
        if is_new {
            self.seen.insert(subject.clone(), ());
        }
        is_new
    }

    /// The terms of the existing packets among these. The run remembers that a packet exists, but not that one is missing.
    pub(crate) async fn terms(&self, ids: Vec<PacketId>) -> Result<HashMap<PacketId, Terms>, ReadError> {
        let mut all = HashMap::new();
        let mut missing = Vec::new();
        for id in ids {
            match self.terms.get(&id) {
                Some(terms) => drop(all.insert(id, terms)),
                None => missing.push(id),
            }
        }
        let items = self.source.batch(missing.iter().map(|id| keys::packet(*id)).collect()).await?;
        for id in missing {
            if let Some(Ok(terms)) = items.get(&keys::packet(id)).map(|item| Terms::read(id, item)) {
                self.terms.insert(id, terms.clone());
                all.insert(id, terms);
            }
        }
        Ok(all)
    }
}

impl Subject {
    /// The key of its item, as reports show it.
    pub fn key(&self) -> String {
        shown(&match self {
            Self::Packet(id) => keys::packet(*id),
            Self::Wallet(user) => keys::wallet(user),
        })
    }
}
