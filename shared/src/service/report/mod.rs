//! Reports: what a sender's packets that belong together gave to whom. They read the ledger, so they know each claim, and no promise.

mod sheet;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use futures::future::ready;
use futures::stream::{self, Stream, StreamExt, TryStreamExt};

pub use self::sheet::{Bounded, SheetError, sheet_name, text_cell, text_of_cell, write_sheet};

use super::Failure;
use crate::domain::{Amount, Claim, DayZone, Decision, Owner, PacketId, Selection, Status, Terms, Timestamp, UserId};
use crate::ledger::keys::SLIPS_PER_KEY;
use crate::ledger::{Ledger, Packet, Slice};
use crate::ports::Table;

/// Groups of decisions that are read at once.
const GROUPS_AT_ONCE: usize = 16;
/// Packets of one read.
const PACKETS_AT_ONCE: u32 = 100;

/// A claim of one of the packets.
#[derive(Clone, Debug)]
pub struct ReportedClaim {
    /// The packet's terms.
    pub terms: Arc<Terms>,
    /// The winner.
    pub user: UserId,
    /// Their claim.
    pub claim: Claim,
}

/// A place in the list of all claims: that of the last one read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReportPlace {
    packet: PacketId,
    slip: u32,
}

impl fmt::Display for ReportPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.packet, self.slip)
    }
}

impl FromStr for ReportPlace {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (packet, slip) = text.split_once('#').ok_or(())?;
        Ok(Self { packet: packet.parse().map_err(drop)?, slip: slip.parse().map_err(drop)? })
    }
}

/// What became of the money of a packet.
#[derive(Clone, Debug)]
pub struct PacketTotals {
    /// The packet as it was before its decisions were read.
    pub packet: Arc<Packet>,
    /// How many slips are claimed.
    pub won_count: u32,
    /// What these hold.
    pub won: Amount,
    /// What went back to the sender.
    pub refunded: Amount,
}

impl PacketTotals {
    /// What is neither claimed nor refunded.
    pub fn undecided(&self) -> Amount {
        let decided: Amount = [self.won, self.refunded].into_iter().sum();
        self.packet.terms.total.checked_sub(decided).unwrap_or(Amount::ZERO)
    }

    /// The packet's state at `now`, as the ledger knows it.
    pub fn status(&self, now: Timestamp) -> Status {
        let terms = &self.packet.terms;
        Status::of(terms, &self.packet.end(now >= terms.expires_at), self.won_count, now)
    }
}

/// What became of the money of all packets, the oldest first.
#[derive(Clone, Debug)]
pub struct SelectionTotals {
    /// Each packet.
    pub packets: Vec<PacketTotals>,
    /// How many users have won.
    pub users: usize,
}

/// The use case of reports on all packets of a sender that belong together.
pub struct CampaignReports<T> {
    ledger: Arc<Ledger<T>>,
    day_zone: DayZone,
}

impl<T: Table> CampaignReports<T> {
    /// Reports on the packets of `ledger`.
    pub const fn new(ledger: Arc<Ledger<T>>) -> Self {
        Self { ledger, day_zone: DayZone::UTC }
    }

    /// The same, whose files for people have times of this zone.
    #[must_use]
    pub fn in_zone(self, day_zone: DayZone) -> Self {
        Self { day_zone, ..self }
    }

    /// The zone of times in files for people.
    pub const fn day_zone(&self) -> &DayZone {
        &self.day_zone
    }

    /// The packets, the oldest first, from `from` on.
    pub fn packets<'a>(
        &'a self,
        of: &'a Selection,
        from: Option<PacketId>,
    ) -> impl Stream<Item = Result<Arc<Packet>, Failure>> + Send + 'a {
        let pages = stream::try_unfold(Some(None), move |after: Option<Option<PacketId>>| async move {
            let Some(after) = after else { return Ok::<_, Failure>(None) };
            let page = self.ledger.selected(of, from, after, PACKETS_AT_ONCE).await?;
            Ok(Some((stream::iter(page.rows.into_iter().map(|packet| Ok(Arc::new(packet)))), page.next.map(Some))))
        });
        pages.try_flatten()
    }

    /// Up to `limit` claims of all these packets after `after`: the oldest packet first, and of each in the order of its slips.
    ///
    /// # Errors
    /// The ledger did not answer.
    pub async fn claims(
        &self,
        of: &Selection,
        after: Option<ReportPlace>,
        limit: u32,
    ) -> Result<Slice<ReportedClaim, ReportPlace>, Failure> {
        let packets = self.packets(of, after.map(|after| after.packet));
        let all =
            self.decisions(packets, after).try_filter_map(|(packet, decision)| ready(Ok(claim(&packet, decision))));
        let most = limit as usize;
        let mut rows: Vec<ReportedClaim> = all.take(most + 1).try_collect().await?;
        let is_end = rows.len() <= most;
        rows.truncate(most);
        let place = |row: &ReportedClaim| ReportPlace { packet: row.terms.id, slip: row.claim.slip };
        let next = if is_end { None } else { rows.last().map(place) };
        Ok(Slice { rows, next })
    }

    /// All claims of packets that were read before, in the same order.
    pub fn claims_of<'a>(
        &'a self,
        packets: &'a [Arc<Packet>],
    ) -> impl Stream<Item = Result<ReportedClaim, Failure>> + Send + 'a {
        let packets = stream::iter(packets.iter().map(|packet| Ok(Arc::clone(packet))));
        self.decisions(packets, None).try_filter_map(|(packet, decision)| ready(Ok(claim(&packet, decision))))
    }

    /// What became of the money of all these packets. A packet that is settled when it is read has no decision that would come later.
    ///
    /// # Errors
    /// The ledger did not answer.
    pub async fn totals(&self, of: &Selection) -> Result<SelectionTotals, Failure> {
        let packets: Vec<Arc<Packet>> = self.packets(of, None).try_collect().await?;
        let fresh = |packet: &Arc<Packet>| PacketTotals {
            packet: Arc::clone(packet),
            won_count: 0,
            won: Amount::ZERO,
            refunded: Amount::ZERO,
        };
        let mut totals: Vec<PacketTotals> = packets.iter().map(fresh).collect();
        let mut users = HashSet::new();
        let all = stream::iter(packets.iter().map(|packet| Ok(Arc::clone(packet))));
        let mut decisions = Box::pin(self.decisions(all, None));
        let mut place = 0;
        while let Some((packet, decision)) = decisions.try_next().await? {
            while totals[place].packet.terms.id != packet.terms.id {
                place += 1;
            }
            let of_packet = &mut totals[place];
            let sum = if let Owner::User(user) = decision.owner {
                users.insert(user);
                of_packet.won_count += 1;
                &mut of_packet.won
            } else {
                &mut of_packet.refunded
            };
            *sum = [*sum, decision.amount].into_iter().sum();
        }
        drop(decisions);
        Ok(SelectionTotals { packets: totals, users: users.len() })
    }

    /// The decisions of packets, in their order and in that of their slips. Of the packet of `after` only those behind it.
    fn decisions<'a>(
        &'a self,
        packets: impl Stream<Item = Result<Arc<Packet>, Failure>> + Send + 'a,
        after: Option<ReportPlace>,
    ) -> impl Stream<Item = Result<(Arc<Packet>, Decision), Failure>> + Send + 'a {
        let start = move |packet: &Packet| match after {
            Some(after) if after.packet == packet.terms.id => after.slip.saturating_add(1),
            _ => 0,
        };
        packets
            .map_ok(move |packet| {
                let groups = start(&packet) / SLIPS_PER_KEY..packet.terms.count.div_ceil(SLIPS_PER_KEY);
                stream::iter(groups.map(move |group| Ok::<_, Failure>((Arc::clone(&packet), group))))
            })
            .try_flatten()
            .map_ok(move |(packet, group)| async move {
                let decisions = self.ledger.decisions_of_group(packet.terms.id, group).await?;
                let decisions = decisions.into_iter().map(move |decision| Ok((Arc::clone(&packet), decision)));
                Ok(stream::iter(decisions))
            })
            .try_buffered(GROUPS_AT_ONCE)
            .try_flatten()
            .try_filter(move |(packet, decision)| ready(decision.slip >= start(packet)))
    }
}

fn claim(packet: &Packet, decision: Decision) -> Option<ReportedClaim> {
    let Decision { slip, owner, amount, at } = decision;
    let Owner::User(user) = owner else { return None };
    // The terms are small beside the reads.
    Some(ReportedClaim { terms: Arc::new(packet.terms.clone()), user, claim: Claim { slip, amount, at } })
}
