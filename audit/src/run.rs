//! One run of an audit: its memory, and the subjects that it checks.

use std::collections::HashMap;

use shared::batching::{Cache, cache};
use shared::domain::{LimitKey, PacketId, Reference, UserId};
use shared::ledger::keys;
use shared::ports::Key;

use crate::confirm::{Check, Rereads};
use crate::item::{Fields, Malformed, lists};
use crate::layout::shown;
use crate::reader::{Item, ReadError, Reader, Since};
use crate::report::Report;

/// Number of packets whose outlines are cached.
const OUTLINES_MAX: u64 = 10_000;
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
    pub reader: Reader,
    pub since: Option<Since>,
    /// Users who are known to have a wallet.
    pub wallets: Cache<UserId, ()>,
    /// Subjects that were checked because of a change. A rush for one packet needs one check, not one for each slip.
    pub seen: Cache<Subject, ()>,
    rereads: Rereads,
    outlines: Cache<PacketId, Outline>,
}

/// The unchanging attributes of a packet.
#[derive(Clone, Debug)]
pub(crate) struct Outline {
    pub sender: UserId,
    pub total: u64,
    pub count: u32,
    pub reference: Option<Reference>,
    pub limit_key: Option<LimitKey>,
    pub created_at: u64,
    pub expires_at: u64,
}

/// The subject of a check.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Subject {
    Packet(PacketId),
    Wallet(UserId),
}

impl Run {
    /// A run over the items written since `since_ms`, in milliseconds since the epoch; `None`: over all items.
    pub fn new(reader: Reader, rereads: Rereads, since_ms: Option<u64>) -> Self {
        let since = |written_ms: u64| Since { written_ms, expired_ms: written_ms.saturating_sub(SETTLED_WITHIN_MS) };
        Self {
            reader,
            since: since_ms.map(since),
            wallets: cache(REMEMBERED_MAX, 1, |()| 1),
            seen: cache(REMEMBERED_MAX, 1, |()| 1),
            rereads,
            outlines: cache(OUTLINES_MAX, 1, |_| 1),
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

    /// The existing packets among these that can be parsed. The run remembers that a packet exists, but not that one is
    /// missing.
    pub(crate) async fn outlines(&self, ids: Vec<PacketId>) -> Result<HashMap<PacketId, Outline>, ReadError> {
        let mut outlines = HashMap::new();
        let mut missing = Vec::new();
        for id in ids {
            match self.outlines.get(&id) {
                Some(outline) => drop(outlines.insert(id, outline)),
                None => missing.push(id),
            }
        }
        let items = self.reader.batch_get(missing.iter().map(|id| keys::packet(*id)).collect()).await?;
        for id in missing {
            if let Some(Ok(outline)) = items.get(&keys::packet(id)).map(Outline::read) {
                self.outlines.insert(id, outline.clone());
                outlines.insert(id, outline);
            }
        }
        Ok(outlines)
    }
}

impl Outline {
    fn read(item: &Item) -> Result<Self, Malformed> {
        let fields = Fields(item);
        Ok(Self {
            sender: fields.user("sender_id")?,
            total: fields.number("total_amount")?,
            count: fields.slip("slip_count")?,
            reference: fields.reference()?,
            limit_key: fields.limit()?,
            created_at: fields.number("created_at")?,
            expires_at: fields.number("expires_at")?,
        })
    }

    /// The items of the lists that the packet with this id must be in.
    pub fn lists(&self, id: PacketId) -> Vec<Key> {
        lists(id, &self.sender, self.reference.as_ref(), self.limit_key.as_ref())
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
