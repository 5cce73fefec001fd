use std::collections::HashSet;
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use futures::future;
use futures::stream::{self, StreamExt, TryStreamExt};
use shared::domain::PacketId;
use shared::ports::Key;
use tokio::time::{Instant, timeout_at};

use crate::confirm::Rereads;
use crate::follow::Lead;
use crate::progress::{Place, Progress};
use crate::reader::Reader;
use crate::report::Report;
use crate::run::{Run, Subject};
use crate::source::{Only, Range, ReadError, Source};

/// Packets and wallets that one segment checks at once.
const LOOKS_AT_ONCE: usize = 4;

/// The audit of a ledger. It only reads.
#[derive(Clone, Debug)]
pub struct Auditor {
    source: Arc<dyn Source>,
    rereads: Rereads,
}

impl Auditor {
    /// Audits the table `table` with `client`.
    pub fn new(client: Client, table: String) -> Self {
        Self::over(Arc::new(Reader::new(client, table)))
    }

    /// Audits what `source` has.
    pub fn over(source: Arc<dyn Source>) -> Self {
        Self { source, rereads: Rereads::default() }
    }

    /// The same audit with other pauses, for tables that apply a transaction's writes all at once.
    #[must_use]
    pub fn with_rereads(self, rereads: Rereads) -> Self {
        Self { rereads, ..self }
    }

    /// Continues an audit until it is done or `deadline` has come. A repeated part of an audit does no harm.
    ///
    /// If it ends early, the next run repeats the unfinished pages. A packet or wallet that needs more than a whole run
    /// is reported as unjudged, so that every run makes progress.
    pub async fn run(&self, progress: Progress, deadline: Instant) -> Result<Progress, ReadError> {
        let Progress { since_ms, places, mut report } = progress;
        let run = Run::new(Arc::clone(&self.source), self.rereads.clone(), since_ms);
        let segments = places.into_iter().zip(0..).collect::<Vec<_>>();
        let of = i32::try_from(segments.len()).unwrap_or(i32::MAX);
        let only = Only::Keys(run.since);
        let segments =
            segments.into_iter().map(|(place, index)| run.segment(Range::Segment { index, of, only }, place, deadline));
        let mut places = Vec::with_capacity(segments.len());
        for (place, found) in future::try_join_all(segments).await? {
            places.push(place);
            report.add(found);
        }
        Ok(Progress { since_ms, places, report })
    }

    /// Audits one packet like the full audit, except its claimants' wallets.
    pub async fn packet(&self, id: PacketId) -> Result<Report, ReadError> {
        let run = Run::new(Arc::clone(&self.source), self.rereads.clone(), None);
        run.check_until_sure(&Subject::Packet(id)).await
    }
}

impl Run {
    /// Audits a segment from `place` on. Returns the place where it ended, and its findings so far.
    async fn segment(&self, segment: Range, place: Place, deadline: Instant) -> Result<(Place, Report), ReadError> {
        let mut last = match place {
            Place::Done => return Ok((Place::Done, Report::default())),
            Place::Start => None,
            Place::After { pk, sk } => Some(Key { pk, sk }),
        };
        let mut report = Report::default();
        let mut is_first = true;
        loop {
            let Ok(page) = timeout_at(deadline, self.page(&segment, last.as_ref())).await else {
                return Ok((last.into(), report));
            };
            let (leads, next) = page?;
            let (found, cut_off) = self.follow_all(leads, deadline).await?;
            // A check that did not fit into a whole run would not fit into the next one either.
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

    /// The leads of the page after `last`, and the start of the next page.
    async fn page(&self, segment: &Range, last: Option<&Key>) -> Result<(HashSet<Lead>, Option<Key>), ReadError> {
        let page = self.source.scan(segment, last).await?;
        Ok((self.leads(&page.items).await?, page.next))
    }

    /// Follows leads to their ends. Returns the findings, and whether the deadline came first.
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
            Err(_) => Ok((Report::unjudged(lead.key()), true)),
        }
    }
}
