//! One run of an audit: what it remembers, and what is audited in it.

use std::collections::HashMap;

use shared::batching::{Cache, cache};
use shared::domain::{PacketId, UserId};
use shared::ledger::keys;

use crate::confirm::{Look, Patience};
use crate::item::{Fields, Malformed};
use crate::layout::shown;
use crate::reader::{Item, ReadError, Reader, Since};
use crate::report::Report;

/// Packets of which the outlines are kept.
const OUTLINES_MAX: u64 = 10_000;
/// Wallets that are remembered to exist, and subjects that are remembered to have been looked at.
const REMEMBERED_MAX: u64 = 50_000;
/// A packet is settled soon after it expired, but that has no time of its own. One that expired up to so long before the
/// bound counts as changed, in case it was settled late.
const SETTLED_WITHIN_MS: u64 = 24 * 60 * 60 * 1_000;

/// One run of an audit.
///
/// Its memory does not grow with the table: a page of items for each segment; for each packet that is looked at its
/// amounts and the chunks of its refund (at most 100,000 slips each); pages of one wallet's movements; bounded caches.
pub(crate) struct Run {
    pub reader: Reader,
    pub since: Option<Since>,
    /// Users who are known to have a wallet.
    pub wallets: Cache<UserId, ()>,
    /// What was looked at because something of it changed: a rush for one packet is worth one look, not one for each slip.
    pub seen: Cache<Subject, ()>,
    patience: Patience,
    outlines: Cache<PacketId, Outline>,
}

/// What never changes of a packet.
#[derive(Clone, Debug)]
pub(crate) struct Outline {
    pub sender: UserId,
    pub total: u64,
    pub count: u32,
    pub created_at: u64,
    pub expires_at: u64,
}

/// What a look is at.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Subject {
    Packet(PacketId),
    Wallet(UserId),
}

impl Run {
    /// A run over `reader` of what was written since `since_ms`, in milliseconds since the epoch; `None`: of everything.
    pub fn new(reader: Reader, patience: Patience, since_ms: Option<u64>) -> Self {
        let since = |written_ms: u64| Since { written_ms, expired_ms: written_ms.saturating_sub(SETTLED_WITHIN_MS) };
        Self {
            reader,
            since: since_ms.map(since),
            wallets: cache(REMEMBERED_MAX, 1, |()| 1),
            seen: cache(REMEMBERED_MAX, 1, |()| 1),
            patience,
            outlines: cache(OUTLINES_MAX, 1, |_| 1),
        }
    }

    /// [`Patience::confirm`]; what is wrong is logged.
    pub(crate) async fn sure<F>(&self, key: impl Fn() -> String, look: impl Fn() -> F) -> Result<Report, ReadError>
    where
        F: Future<Output = Result<Look, ReadError>>,
    {
        let report = self.patience.confirm(key, look).await?;
        report.log();
        Ok(report)
    }

    /// Whether this run has not had a subject before, as far as it remembers.
    pub fn is_first_sight(&self, subject: &Subject) -> bool {
        let is_new = !self.seen.contains_key(subject);
        if is_new {
            self.seen.insert(subject.clone(), ());
        }
        is_new
    }

    /// Those of the packets that exist, and read. That a packet exists is remembered, that one does not is not.
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
            created_at: fields.number("created_at")?,
            expires_at: fields.number(keys::EXPIRES_AT)?,
        })
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
