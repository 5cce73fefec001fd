use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::try_join_all;
use futures::stream::TryStreamExt;
use tokio::time::{Instant, timeout};

use super::evidence::{CHECK_INTERVAL, Depth, Evidence, SMALL_SLIPS_MAX, Span};
use crate::batching::{Cache, FreshSingleFlight, SingleFlight, cache_of_large};
use crate::domain::{AckMode, Claim, PacketId, PartId, Partition, Terms, Timestamp, UserId};
use crate::lock;
use crate::ports::{HotStore, HotStoreError, Table, ViewResult};
use crate::service::{Failure, Stores};

/// The time after which a partition that did not answer is asked again. Meanwhile its parts show what is known of them, and what the
/// ledger has.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The time that a read waits for a part. Meanwhile it waits for nothing else.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// The same within [`RETRY_INTERVAL`] of another partition that did not answer: it may lie in the same shard. A list of packets reads many
/// partitions, a few at a time.
const SHORT_TIMEOUT: Duration = Duration::from_millis(100);
/// Groups of slips that are read at once while a page of claims is filled.
const GROUPS_AT_ONCE: usize = 16;
/// The bytes of the cache of packets. A packet of 100,000 slips takes 11 MB if its users' ids have twelve letters, 25 MB if they are
/// as long as can be.
const BYTES_MAX: u64 = 32 << 20;
/// The bytes of a packet of some 100 slips.
const PACKET_BYTES: u64 = 16 << 10;

/// The evidence about a packet, which the reads of a process add to.
pub type Shared = Arc<Mutex<Evidence>>;

/// Evidence in the cache, with the bytes that it took when it was put there: the cache needs weights that don't change.
#[derive(Clone)]
pub(super) struct Kept {
    shared: Shared,
    bytes: usize,
}

/// What a process knows of packets. While a packet changes, it is from the hot store; the ledger confirms it.
///
/// What is shown of a packet that changes is never older than the request for it: readers receive the result of a read that began
/// after they asked. A decision never changes, so what is known of one is not read again.
pub struct Live<T, H> {
    stores: Stores<T, H>,
    flights: FreshSingleFlight<(PacketId, Depth), Result<Shared, Failure>>,
    /// Reads of pages of claims, by the address of the evidence that they add to and by their first group.
    pages: SingleFlight<(usize, u32), Result<(), Failure>>,
    pub(super) packets: Cache<PacketId, Kept>,
    /// The partitions that did not answer, and since when.
    mute: Mutex<HashMap<u32, Instant>>,
}

/// Whether partitions are not asked, because they did not answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mute {
    None,
    /// The one that is asked for.
    This,
    /// Only others.
    Another,
}

impl<T: Table, H: HotStore> Live<T, H> {
    /// Reads from these stores. Nothing is known yet.
    pub fn new(stores: Stores<T, H>) -> Self {
        Self {
            stores,
            flights: FreshSingleFlight::default(),
            pages: SingleFlight::default(),
            packets: cache_of_large(BYTES_MAX, PACKET_BYTES, |kept| kept.bytes),
            mute: Mutex::default(),
        }
    }

    /// The stores that it reads from.
    pub const fn stores(&self) -> &Stores<T, H> {
        &self.stores
    }

    /// The evidence about the packet with these terms, brought up to date.
    pub async fn look(self: &Arc<Self>, terms: &Arc<Terms>, depth: Depth) -> Result<Shared, Failure> {
        if let Some(shared) = self.decided(terms.id) {
            return Ok(shared);
        }
        // A small packet is read as a whole by all, so they share the reads.
        let depth = if terms.count <= SMALL_SLIPS_MAX { Depth::Whole } else { depth };
        let (this, of) = (Arc::clone(self), Arc::clone(terms));
        let read = move || async move { this.read(&of, depth).await };
        self.flights.run((terms.id, depth), read).await.unwrap_or_else(|| Err(lost()))
    }

    /// A packet of which nothing changes any more.
    fn decided(&self, id: PacketId) -> Option<Shared> {
        self.packets.get(&id).map(|kept| kept.shared).filter(|shared| lock(shared).is_decided())
    }

    fn known(&self, terms: &Terms) -> Shared {
        self.packets.get(&terms.id).map_or_else(|| Arc::new(Mutex::new(Evidence::new(terms))), |kept| kept.shared)
    }

    /// Keeps the evidence in the cache by its new weight.
    fn keep(&self, id: PacketId, shared: &Shared) {
        let bytes = lock(shared).bytes();
        self.packets.insert(id, Kept { shared: Arc::clone(shared), bytes });
    }

    async fn read(&self, terms: &Terms, depth: Depth) -> Result<Shared, Failure> {
        // A request may have joined this read before an earlier one saw the end.
        if let Some(shared) = self.decided(terms.id) {
            return Ok(shared);
        }
        // This comes before all reads, so that a packet shown as over was read after its end.
        let is_past = self.stores.clock.now() >= terms.expires_at;
        let shared = self.known(terms);
        let is_over = is_past || self.stores.packets.is_known_closed(terms.id);
        let updated = self.update(terms, &shared, depth, is_past, is_over).await;
        // Also what a read that failed has found.
        self.keep(terms.id, &shared);
        updated.map(|()| shared)
    }

    /// Brings evidence up to date, of a packet that has expired (`is_past`), or for another reason changes no more (`is_over`).
    async fn update(
        &self,
        terms: &Terms,
        shared: &Shared,
        depth: Depth,
        is_past: bool,
        is_over: bool,
    ) -> Result<(), Failure> {
        if is_over && terms.count > SMALL_SLIPS_MAX && lock(shared).looks_for_settled(Instant::now()) {
            let packet = self.stores.ledger.packet(terms.id).await?;
            if let Some(sums) = packet.and_then(|packet| packet.settled) {
                lock(shared).set_settled(sums);
                return Ok(());
            }
        }
        self.ask(terms, shared).await?;
        let mut read = BTreeSet::new();
        // What was read may refute a report, or show that slips beyond it are given out. Then more is read.
        loop {
            let groups = lock(shared).plan(depth, is_over, &read, Instant::now());
            if groups.is_empty() {
                break;
            }
            read.extend(&groups);
            self.read_groups(terms, shared, groups).await?;
        }
        lock(shared).conclude(is_past);
        Ok(())
    }

    /// When the operator closed a packet, if they did. The hot store says that it is closed, and the ledger says since when. Where the
    /// hot store does not report, or is not asked because every slip is decided, the ledger is asked now and then.
    pub async fn closed_at(&self, terms: &Terms, shared: &Shared) -> Result<Option<Timestamp>, Failure> {
        let max_age = match lock(shared).says_closed() {
            Some(true) => Duration::ZERO,
            Some(false) => CHECK_INTERVAL,
            None => RETRY_INTERVAL,
        };
        self.stores.packets.closed(terms.id, max_age).await
    }

    /// Reads groups of slips from the ledger. Each is known as soon as it is read, even if a later one fails.
    async fn read_groups(&self, terms: &Terms, shared: &Shared, groups: Vec<u32>) -> Result<(), Failure> {
        let begun = (lock(shared).begin(), Instant::now());
        let mut read = Box::pin(self.stores.ledger.decision_groups(terms.id, groups));
        while let Some((group, decisions)) = read.try_next().await? {
            if lock(shared).add(group, decisions, begun) {
                tracing::error!(packet = %terms.id, "the hot store reports a claim that the ledger does not have");
            }
        }
        Ok(())
    }

    /// Asks each part what it knows, all at once: those that answer do not wait for those that don't.
    async fn ask(&self, terms: &Terms, shared: &Shared) -> Result<(), Failure> {
        let ask = async |part: PartId| {
            let (asked, version) = {
                let mut evidence = lock(shared);
                (evidence.begin(), evidence.version(part))
            };
            match self.answer(terms, part, version).await {
                None => lock(shared).is_mute(part, asked, Instant::now()),
                Some(ViewResult::NotLoaded) => lock(shared).is_lost(part, asked, Instant::now()),
                Some(ViewResult::Unchanged(now)) => lock(shared).is_unchanged(part, asked, now),
                Some(ViewResult::Changed(view)) => {
                    let needs_amounts = lock(shared).needs_amounts(part, &view);
                    let amounts = if needs_amounts { Some(self.stores.packets.amounts(part).await?) } else { None };
                    if lock(shared).report(part, asked, view, amounts.as_deref(), Instant::now()) {
                        tracing::error!(%part, "the hot store contradicts the ledger or itself");
                    }
                }
            }
            Ok(())
        };
        try_join_all(terms.id.parts().map(ask)).await.map(drop)
    }

    /// The answer of a part; `None` if the hot store does not answer for it.
    async fn answer(&self, terms: &Terms, part: PartId, version: Option<String>) -> Option<ViewResult> {
        let partition = part.partition();
        let within = match self.mute(partition) {
            Mute::None => ANSWER_TIMEOUT,
            // Only the hot store knows the promises that were made on its word, so such a packet is always asked for.
            Mute::This if terms.ack == AckMode::Ledger => return None,
            Mute::This | Mute::Another => SHORT_TIMEOUT,
        };
        let hot = Arc::clone(&self.stores.hot);
        // The call goes on in a task of its own, because a connection that is dead is only found out by a call that comes to its end.
        let call = tokio::spawn(async move { hot.view(part, version.as_deref()).await });
        let (answer, is_mute) = match timeout(within, call).await {
            Ok(Ok(Ok(answer))) => (Ok(answer), false),
            Ok(Ok(Err(error))) => (Err(crate::error_chain(&error)), matches!(error, HotStoreError::Unavailable(_))),
            Ok(Err(error)) => (Err(crate::error_chain(&error)), false),
            Err(error) => (Err(crate::error_chain(&error)), true),
        };
        let mut mute = lock(&self.mute);
        if is_mute {
            mute.insert(partition.index(), Instant::now());
        } else {
            mute.remove(&partition.index());
        }
        drop(mute);
        let unheard = |error: &String| tracing::warn!(%part, error, "the ledger answers in place of the hot store");
        answer.inspect_err(unheard).ok()
    }

    /// Which partitions did not answer within the last [`RETRY_INTERVAL`]: this one, only others, or none.
    fn mute(&self, partition: Partition) -> Mute {
        let mut mute = lock(&self.mute);
        mute.retain(|_, since| since.elapsed() < RETRY_INTERVAL);
        match mute.contains_key(&partition.index()) {
            true => Mute::This,
            false if mute.is_empty() => Mute::None,
            false => Mute::Another,
        }
    }

    /// Reads what a list of `limit` claims shows and was not read yet.
    pub async fn read_page(
        self: &Arc<Self>,
        terms: &Arc<Terms>,
        shared: &Shared,
        span: Span,
        limit: usize,
    ) -> Result<(), Failure> {
        let mut last = None;
        loop {
            let groups = lock(shared).unread(span, limit, GROUPS_AT_ONCE);
            let Some(first) = groups.first().copied() else { return Ok(()) };
            if last.replace(first) == Some(first) {
                return Err(Failure::defect(format!("{}: settled, but not every slip is decided", terms.id)));
            }
            let (this, of, known) = (Arc::clone(self), Arc::clone(terms), Arc::clone(shared));
            let read = move || async move {
                this.read_groups(&of, &known, groups).await?;
                this.keep(of.id, &known);
                Ok(())
            };
            let key = (Arc::as_ptr(shared).addr(), first);
            self.pages.run(key, read).await.unwrap_or_else(|| Err(lost()))?;
        }
    }

    /// A user's claim. It is read from the ledger if what is known may lack it: a winner finds their slip right after the answer to
    /// their grab, however Redis fares.
    pub async fn claim_of(&self, terms: &Terms, shared: &Shared, user: &UserId) -> Result<Option<Claim>, Failure> {
        let (known, may_miss) = {
            let evidence = lock(shared);
            (evidence.claim_of(user), evidence.may_miss(user))
        };
        if known.is_some() || !may_miss {
            return Ok(known);
        }
        let claim = self.stores.ledger.claim_of(user, terms.id).await?;
        if let Some(claim) = &claim {
            lock(shared).add_one(claim.decision(user));
        }
        Ok(claim)
    }
}

fn lost() -> Failure {
    Failure::defect("reading a packet was lost")
}
