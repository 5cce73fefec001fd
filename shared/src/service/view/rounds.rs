//! The next round of a campaign: a packet of the same sender, with the same reference and the same key of a limit, that starts later.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::ViewPackets;
use crate::batching::{Cache, SingleFlight, cache};
use crate::domain::{LimitKey, PacketId, Status, Terms, Timestamp, UserId, WinLimit, Won};
use crate::ledger::{Ledger, Packet};
use crate::ports::{HotStore, Table};
use crate::service::admission::{Admission, Voucher, admission_of};
use crate::service::{Failure, Stores};

/// How long a process believes what it read of the rounds of a campaign. While a crowd waits for the next one, a second saves the ledger a
/// read of the same few items for each view.
const LIFE: Duration = Duration::from_secs(1);
/// The newest packets with a key of a limit, among which the next round is looked for.
const ROUNDS_MAX: u32 = 50;
/// The campaigns of which a process keeps the rounds.
const CAMPAIGNS_MAX: u64 = 100;

/// A packet of a campaign that starts later. Packets without a start are no rounds: they may be for different groups, each of which has
/// one link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NextRound {
    /// Its id.
    pub id: PacketId,
    /// When its grabs begin or began.
    pub starts_at: Timestamp,
}

/// The sender of a campaign, and the key of its limit.
type Campaign = (UserId, LimitKey);
/// When packets were read, and how they were.
type Read = (Instant, Arc<[Packet]>);

/// The packets of campaigns, each with the time at which they were read.
pub(super) struct Rounds<T> {
    ledger: Arc<Ledger<T>>,
    known: Arc<Cache<Campaign, Read>>,
    in_flight: SingleFlight<Campaign, Result<Arc<[Packet]>, Failure>>,
}

impl<T: Table> Rounds<T> {
    /// Reads from `ledger`.
    pub(super) fn new(ledger: Arc<Ledger<T>>) -> Self {
        Self { ledger, known: Arc::new(cache(CAMPAIGNS_MAX, 1, |_| 1)), in_flight: SingleFlight::default() }
    }

    /// The newest packets of a campaign, as they were at most a second ago.
    async fn newest(&self, of: Campaign) -> Result<Arc<[Packet]>, Failure> {
        if let Some((at, rounds)) = self.known.get(&of)
            && at.elapsed() < LIFE
        {
            return Ok(rounds);
        }
        let (ledger, known, (sender, key)) = (Arc::clone(&self.ledger), Arc::clone(&self.known), of.clone());
        let read = move || async move {
            let at = Instant::now();
            let rounds: Arc<[Packet]> = ledger.limited(&sender, &key, ROUNDS_MAX).await?.into();
            known.insert((sender, key), (at, Arc::clone(&rounds)));
            Ok(rounds)
        };
        self.in_flight.run(of, read).await.unwrap_or_else(|| Err(Failure::defect("reading the rounds was lost")))
    }
}

impl<T: Table, H: HotStore> ViewPackets<T, H> {
    /// The next round after a packet in which `viewer` may still win. So far they have `won` this.
    pub(super) async fn next_round(
        &self,
        terms: &Terms,
        limit: &WinLimit,
        viewer: &UserId,
        voucher: &Voucher,
        won: Won,
    ) -> Result<Option<NextRound>, Failure> {
        if terms.labels.reference.is_none() {
            return Ok(None);
        }
        let Stores { packets, ticket_keys, clock, .. } = &self.reads.stores;
        let now = clock.now();
        let this = terms.guard.starts_at.unwrap_or(terms.created_at);
        let newest = self.rounds.newest((terms.sender.clone(), limit.key.clone())).await?;
        let mut rounds: Vec<(NextRound, &Packet)> = newest
            .iter()
            .filter(|Packet { terms: other, settled, closed, .. }| {
                let is_over = settled.is_some() || closed.is_some() || now >= other.expires_at;
                let can_win = other.limit.as_ref().is_none_or(|limit| limit.allows(won, other.least_slip()));
                !is_over && can_win && other.guard.invites(viewer) && other.labels.reference == terms.labels.reference
            })
            .filter_map(|packet| {
                let round = NextRound { id: packet.terms.id, starts_at: packet.terms.guard.starts_at? };
                (round.starts_at > this).then_some((round, packet))
            })
            .collect();
        rounds.sort_by_key(|(round, _)| (round.starts_at, round.id));
        for (round, packet) in rounds {
            if let Admission::Refused(_) =
                admission_of(ticket_keys.as_deref(), packets, round.id, viewer, voucher, now).await?
            {
                continue;
            }
            if now < round.starts_at {
                return Ok(Some(round));
            }
            let view = self.view(Arc::new(packet.terms.clone()), Some(viewer)).await?;
            if view.status == Status::Open && view.mine.is_none() {
                return Ok(Some(round));
            }
        }
        Ok(None)
    }
}
