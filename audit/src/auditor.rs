use std::collections::HashSet;

use aws_sdk_dynamodb::Client;
use futures::future;
use futures::stream::{self, StreamExt, TryStreamExt};
use shared::domain::PacketId;
use shared::ports::Key;
use tokio::time::{Instant, timeout_at};

use crate::confirm::Patience;
use crate::progress::{Place, Progress};
use crate::reader::{ReadError, Reader, Segment};
use crate::report::Report;
use crate::run::{Run, Subject};
use crate::scan::Lead;

/// Packets and wallets that one segment looks at at once.
const LOOKS_AT_ONCE: usize = 4;

/// The audit of a table. It reads, and never writes.
#[derive(Clone, Debug)]
pub struct Auditor {
    reader: Reader,
    patience: Patience,
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
        let run = Run::new(self.reader.clone(), self.patience.clone(), since_ms);
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
        let run = Run::new(self.reader.clone(), self.patience.clone(), None);
        run.look_until_sure(&Subject::Packet(id)).await
    }
}

impl Run {
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
}
