//! The reads behind a view: the parts' reports, the packet's own item, and groups of 64 slips, which are cached.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::time::{Instant, timeout};

use super::shown::{Group, Groups, Look, Need, Reported};
use crate::batching::{Cache, FreshSingleFlight, cache};
use crate::domain::{AckMode, Amounts, End, LimitKey, PacketId, PartId, Terms, UserId};
use crate::ledger::Packet;
use crate::ports::{HotStore, HotStoreError, Table};
use crate::service::own_claims::OwnClaims;
use crate::service::{Failure, Stores};

/// The time that a view waits for the hot store. Then the ledger answers for the parts that are missing.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a process believes, while no part hints at an end, that a packet is neither closed nor settled. A close and a settlement reach
/// all parts before they are answered. So only a hot store that was rolled back can be silent about them.
const OPEN_LIFE: Duration = Duration::from_secs(1);
/// Groups of one packet that a request reads at once.
const GROUPS_AT_ONCE: usize = 16;
/// The decisions that a process keeps, in their groups. Each takes some 90 bytes, or 200 if its user's id is as long as can be.
const DECISIONS_MAX: u64 = 150_000;
/// The packets of which a process keeps what never changes again, or when it saw them open.
const PACKETS_MAX: u64 = 10_000;

/// How long a process believes what it read of the rounds of a campaign. While a crowd waits for the next one, a second saves the ledger a
/// read of the same few items for each view.
const ROUNDS_LIFE: Duration = Duration::from_secs(1);
/// The newest packets with a key of a limit, among which the next round is looked for.
const ROUNDS_MAX: u32 = 50;
/// The campaigns of which a process keeps the rounds.
const CAMPAIGNS_MAX: u64 = 100;

/// The packets of a sender with a key of a limit.
type Rounds = (UserId, LimitKey);

/// What a process reads of packets for their viewers, and what it keeps of that by the rule of the [module](super).
pub struct Reads<T: Table, H> {
    pub(super) stores: Stores<T, H>,
    /// The viewers' own claims.
    pub(super) own_claims: OwnClaims<T>,
    looks: FreshSingleFlight<PacketId, Result<Arc<Look>, Failure>>,
    groups_in_flight: FreshSingleFlight<(PacketId, u32), Result<Arc<Group>, Failure>>,
    groups: Cache<(PacketId, u32), Arc<Group>>,
    /// Packets of which every slip is decided.
    decided: Cache<PacketId, Arc<Look>>,
    /// When the ledger was asked last that said neither closed nor settled.
    open_at: Cache<PacketId, Instant>,
    rounds_in_flight: FreshSingleFlight<Rounds, Result<Arc<[Packet]>, Failure>>,
    /// When they were read, and how they were.
    rounds: Cache<Rounds, (Instant, Arc<[Packet]>)>,
}

impl<T: Table, H: HotStore> Reads<T, H> {
    /// Reads from these stores. Nothing is known yet.
    pub fn new(stores: Stores<T, H>) -> Self {
        Self {
            own_claims: OwnClaims::new(Arc::clone(&stores.ledger)),
            stores,
            looks: FreshSingleFlight::default(),
            groups_in_flight: FreshSingleFlight::default(),
            groups: cache(DECISIONS_MAX, 64, |group| group.decided_count()),
            decided: cache(PACKETS_MAX, 1, |_| 1),
            open_at: cache(PACKETS_MAX, 1, |_| 1),
            rounds_in_flight: FreshSingleFlight::default(),
            rounds: cache(CAMPAIGNS_MAX, 1, |_| 1),
        }
    }

    /// What all viewers see of the packet with these terms.
    pub async fn look(self: &Arc<Self>, terms: &Arc<Terms>) -> Result<Arc<Look>, Failure> {
        if let Some(look) = self.decided.get(&terms.id).filter(|look| look.end.is_settled) {
            return Ok(look);
        }
        let (this, of) = (Arc::clone(self), Arc::clone(terms));
        self.looks.run(terms.id, move || async move { this.read(&of).await }).await.unwrap_or_else(|| Err(lost()))
    }

    async fn read(self: &Arc<Self>, terms: &Arc<Terms>) -> Result<Arc<Look>, Failure> {
        // This comes before all reads, so that a packet shown as over was read after its end.
        let is_past = self.stores.clock.now() >= terms.expires_at;
        if let Some(look) = self.decided.get(&terms.id) {
            let end = End::of(&self.packet(terms.id).await?, is_past);
            return Ok(self.keep(terms.id, Look::decided(end, look.summary.clone())));
        }
        let reported = self.ask(terms).await;
        let is_past = is_past || reported.is_past(terms);
        let is_open = || self.open_at.get(&terms.id).is_some_and(|at| at.elapsed() < OPEN_LIFE);
        let is_surely_open = !is_past && reported.is_calm(terms) && is_open();
        let packet = if is_surely_open { None } else { Some(self.packet(terms.id).await?) };
        let end = packet.as_ref().map_or(End { is_past, ..End::default() }, |packet| End::of(packet, is_past));
        if let Some(summary) = packet.and_then(|packet| packet.settled) {
            return Ok(self.keep(terms.id, Look::decided(end, summary)));
        }
        let need = reported.need_of_sums(terms, &end);
        let numbers = reported.groups_to_read(terms, &(0..terms.count), need);
        let groups = self.groups(terms, &reported, numbers, need).await?;
        let amounts = if reported.beyond(&groups).is_empty() { Vec::new() } else { self.amounts(terms).await? };
        let amount = |slip| {
            let (slips, amounts) = amounts.get(amounts.partition_point(|(slips, _)| slips.end <= slip))?;
            amounts.get((slip - slips.start) as usize)
        };
        let look = Look::of(terms, end, reported, &groups, amount);
        Ok(if look.is_decided { self.keep(terms.id, look) } else { Arc::new(look) })
    }

    /// The newest packets of a campaign, as they were at most a second ago.
    pub async fn rounds(self: &Arc<Self>, of: Rounds) -> Result<Arc<[Packet]>, Failure> {
        if let Some(rounds) = self.known_rounds(&of) {
            return Ok(rounds);
        }
        let (this, key) = (Arc::clone(self), of.clone());
        let read = move || async move {
            // A view that waited for another one's read finds it here.
            if let Some(rounds) = this.known_rounds(&key) {
                return Ok(rounds);
            }
            let at = Instant::now();
            let (sender, limit_key) = &key;
            let rounds: Arc<[Packet]> = this.stores.ledger.limited(sender, limit_key, ROUNDS_MAX).await?.into();
            this.rounds.insert(key, (at, Arc::clone(&rounds)));
            Ok(rounds)
        };
        self.rounds_in_flight.run(of, read).await.unwrap_or_else(|| Err(lost()))
    }

    fn known_rounds(&self, of: &Rounds) -> Option<Arc<[Packet]>> {
        let (at, rounds) = self.rounds.get(of)?;
        (at.elapsed() < ROUNDS_LIFE).then_some(rounds)
    }

    fn keep(&self, id: PacketId, look: Look) -> Arc<Look> {
        let look = Arc::new(look);
        self.decided.insert(id, Arc::clone(&look));
        look
    }

    /// The packet's own item, which tells whether it is closed or settled.
    async fn packet(&self, id: PacketId) -> Result<Packet, Failure> {
        let asked = Instant::now();
        let packet = self.stores.ledger.packet(id).await?;
        let packet = packet.ok_or_else(|| Failure::defect(format!("{id}: it existed a moment ago")))?;
        self.note_open(&packet, asked);
        Ok(packet)
    }

    /// Remembers that a packet is open, if it is, by a read that began at `asked`.
    pub fn note_open(&self, packet: &Packet, asked: Instant) {
        if packet.closed.is_none() && packet.settled.is_none() {
            self.open_at.insert(packet.terms.id, asked);
        }
    }

    /// The amounts of each part, with its slips.
    async fn amounts(&self, terms: &Terms) -> Result<Vec<(Range<u32>, Arc<Amounts>)>, Failure> {
        let read = async |part: PartId| Ok((part.slips(terms.count), self.stores.packets.amounts(part).await?));
        try_join_all(terms.id.parts().map(read)).await
    }

    /// Asks each part what it knows, all at once: those that answer do not wait for those that don't, or not for long.
    async fn ask(&self, terms: &Terms) -> Reported {
        let ask = async |part: PartId| {
            let (hot, ack) = (Arc::clone(&self.stores.hot), terms.ack);
            let call = async move {
                let report = hot.report(part).await?;
                let may_hold = report.as_ref().is_none_or(|report| report.held_count > 0);
                let has_promises = ack == AckMode::Redis && may_hold;
                let promises = if has_promises { hot.outbox(part).await? } else { Vec::new() };
                Ok((report, promises))
            };
            // It goes on in a task of its own, because a connection that is dead is only found out by a call that comes to its end.
            let answer = match timeout(ANSWER_TIMEOUT, tokio::spawn(call)).await {
                Ok(Ok(answer)) => answer.map_err(|error: HotStoreError| crate::error_chain(&error)),
                Ok(Err(_)) | Err(_) => Err("no answer in time".to_owned()),
            };
            let missing = |error: &String| tracing::warn!(%part, error, "the ledger answers in place of the hot store");
            let (report, promises) = answer.inspect_err(missing).unwrap_or_default();
            ((part.slips(terms.count), report), promises)
        };
        let (reports, promises): (Vec<_>, Vec<_>) = join_all(terms.id.parts().map(ask)).await.into_iter().unzip();
        Reported::of(reports, promises.into_iter().flatten().map(|entry| entry.hold).collect())
    }

    /// These groups. Those that the process has not read, or that are not usable, are read now.
    pub async fn groups(
        self: &Arc<Self>,
        terms: &Terms,
        reported: &Reported,
        numbers: Vec<u32>,
        need: Need,
    ) -> Result<Groups, Failure> {
        let of = numbers.len();
        let group = |number| async move {
            let known = self.groups.get(&(terms.id, number));
            let usable = known.filter(|group| reported.is_usable(group, number, terms, need, of));
            let group = match usable {
                Some(group) => group,
                None => self.read_group(terms.id, number, reported.known.group(number)).await?,
            };
            Ok::<_, Failure>((number, group))
        };
        stream::iter(numbers).map(group).buffered(GROUPS_AT_ONCE).try_collect().await
    }

    async fn read_group(self: &Arc<Self>, id: PacketId, number: u32, known: u64) -> Result<Arc<Group>, Failure> {
        let this = Arc::clone(self);
        let read = move || async move {
            let read_at = Instant::now();
            let decisions = this.stores.ledger.decisions_of_group(id, number).await?;
            let group = Arc::new(Group::new(decisions, known, read_at));
            this.groups.insert((id, number), Arc::clone(&group));
            Ok(group)
        };
        self.groups_in_flight.run((id, number), read).await.unwrap_or_else(|| Err(lost()))
    }
}

fn lost() -> Failure {
    Failure::defect("reading a packet was lost")
}
