use std::collections::{HashMap, HashSet};

use aws_sdk_dynamodb::Client;
use futures::future;
use futures::stream::{self, StreamExt, TryStreamExt};
use shared::batching::{Cache, cache};
use shared::domain::{PacketId, UserId};
use shared::ledger::keys;
use shared::ports::Key;
use tokio::time::{Instant, timeout_at};

use crate::confirm::Patience;
use crate::event::{Place, Progress};
use crate::item::{Fields, Malformed};
use crate::reader::{Item, ReadError, Reader, Segment, Since};
use crate::report::Report;
use crate::scan::Lead;

/// Packets and wallets that one segment looks at at once.
const LOOKS_AT_ONCE: usize = 4;
/// Packets of which the outlines are kept.
const OUTLINES_MAX: u64 = 10_000;
/// Wallets that are remembered to exist, and subjects that are remembered to have been looked at.
const REMEMBERED_MAX: u64 = 50_000;
/// A packet is settled soon after it expired, but that has no time of its own. One that expired up to so long before the
/// bound counts as changed, in case it was settled late.
const SETTLED_WITHIN_MS: u64 = 24 * 60 * 60 * 1_000;

/// The audit of a table. It reads, and never writes.
#[derive(Clone, Debug)]
pub struct Auditor {
    reader: Reader,
    patience: Patience,
}

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

impl Auditor {
    /// Of the table `table`, as `client` reaches it.
    pub fn new(client: Client, table: String) -> Self {
        Self { reader: Reader::new(client, table), patience: Patience::default() }
    }

    /// With another patience: for tables that show a transaction's writes all at once.
    #[must_use]
    pub fn with_patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// Goes on with an audit until it is done or `deadline` is there. Doing a part of it twice does no harm.
    ///
    /// Where it ends early, the pages that were under way are audited anew by the next run. A packet or wallet that would
    /// take a whole run and more is reported as undecided, so that each run comes further than the one before.
    pub async fn run(&self, progress: Progress, deadline: Instant) -> Result<Progress, ReadError> {
        let Progress { since_ms, places, mut report } = progress;
        let run = Run::new(self, since_ms);
        let segments = places.into_iter().zip(0..).collect::<Vec<_>>();
        let of = i32::try_from(segments.len()).unwrap_or(i32::MAX);
        let segments = segments.into_iter().map(|(place, index)| run.segment(Segment { index, of }, place, deadline));
        let mut places = Vec::with_capacity(segments.len());
        for (place, found) in future::try_join_all(segments).await? {
            places.push(place);
            report.add(found);
        }
        Ok(Progress { since_ms, places, report })
    }

    /// Audits one packet: all that the full audit holds against it, save its claimants' wallets.
    pub async fn packet(&self, id: PacketId) -> Result<Report, ReadError> {
        let run = Run::new(self, None);
        run.look_until_sure(&Subject::Packet(id)).await
    }
}

impl Run {
    fn new(auditor: &Auditor, since_ms: Option<u64>) -> Self {
        let since = |written_ms: u64| Since { written_ms, expired_ms: written_ms.saturating_sub(SETTLED_WITHIN_MS) };
        Self {
            reader: auditor.reader.clone(),
            since: since_ms.map(since),
            wallets: cache(REMEMBERED_MAX, 1, |()| 1),
            seen: cache(REMEMBERED_MAX, 1, |()| 1),
            patience: auditor.patience.clone(),
            outlines: cache(OUTLINES_MAX, 1, |_| 1),
        }
    }

    /// Audits a segment from `place` on. Returns where it ended, and what it found up to there.
    async fn segment(&self, segment: Segment, place: Place, deadline: Instant) -> Result<(Place, Report), ReadError> {
        let mut last = match place {
            Place::Done => return Ok((Place::Done, Report::default())),
            Place::Start => None,
            Place::After { pk, sk } => Some(Key { pk, sk }),
        };
        let mut report = Report::default();
        let mut is_first = true;
        loop {
            let Ok(page) = timeout_at(deadline, self.page(segment, last.as_ref())).await else {
                return Ok((last.into(), report));
            };
            let (leads, next) = page?;
            let (found, cut_off) = self.follow_all(leads, deadline).await?;
            // What had no time from the run's beginning on would have none in the next run either.
            if cut_off && !is_first {
                return Ok((last.into(), report));
            }
            is_first = false;
            report.add(found);
            if next.is_none() {
                return Ok((Place::Done, report));
            }
            last = next;
        }
    }

    /// The leads of the page after `last`, and where the next page begins.
    async fn page(&self, segment: Segment, last: Option<&Key>) -> Result<(HashSet<Lead>, Option<Key>), ReadError> {
        let page = self.reader.scan(segment, self.since, last).await?;
        Ok((self.leads(&page.items).await?, page.next))
    }

    /// Follows leads to their ends. Returns what it found, and whether the deadline came in between.
    async fn follow_all(&self, leads: HashSet<Lead>, deadline: Instant) -> Result<(Report, bool), ReadError> {
        let followed: Vec<(Report, bool)> = stream::iter(leads)
            .map(|lead| self.follow_until(lead, deadline))
            .buffer_unordered(LOOKS_AT_ONCE)
            .try_collect()
            .await?;
        let mut report = Report::default();
        let mut cut_off = false;
        for (found, was_cut_off) in followed {
            report.add(found);
            cut_off |= was_cut_off;
        }
        Ok((report, cut_off))
    }

    async fn follow_until(&self, lead: Lead, deadline: Instant) -> Result<(Report, bool), ReadError> {
        match timeout_at(deadline, self.follow(&lead)).await {
            Ok(report) => Ok((report?, false)),
            Err(_) => Ok((Report::undecided(lead.key()), true)),
        }
    }

    /// Looks at a packet or a wallet until it is in order or wrong beyond doubt.
    pub(crate) async fn look_until_sure(&self, subject: &Subject) -> Result<Report, ReadError> {
        let key = || subject.key();
        match subject {
            Subject::Packet(id) => self.sure(key, || self.look_at_packet(*id)).await,
            Subject::Wallet(user) => self.sure(key, || self.look_at_wallet(user)).await,
        }
    }

    /// [`Patience::confirm`]; what is wrong is logged.
    pub(crate) async fn sure<F>(&self, key: impl Fn() -> String, look: impl Fn() -> F) -> Result<Report, ReadError>
    where
        F: Future<Output = Result<crate::confirm::Look, ReadError>>,
    {
        let report = self.patience.confirm(key, look).await?;
        report.log();
        Ok(report)
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
        crate::packet::shown(&match self {
            Self::Packet(id) => keys::packet(*id),
            Self::Wallet(user) => keys::wallet(user),
        })
    }
}
