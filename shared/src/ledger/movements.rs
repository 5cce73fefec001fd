//! A user's movements by time, the newest first.
//!
//! Six kinds are merged. Deposits, refunds, returns and withdrawals have copies in the user's timeline, which sort by time. The packets that a
//! user sent sort by their ids, which begin with the time of the send. Claims have no item of their own for this: that would make each
//! claim dearer. But a claim sorts by its packet's id, and its time lies between the packet's creation and its latest possible expiry.
//! So a page reads the claims of the packets of ten days, and keeps the newest ones.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use futures::future::try_join_all;
use serde_dynamo::AttributeValue;

use super::history::{Slice, cut};
use super::items::{self, ClaimItem, OutsideItem, RefundItem, SentItem, WithdrawalItem};
use super::{Ledger, LedgerError, keys};
use crate::domain::{Limits, Movement, MovementFilter, MovementKind, PacketId, RequestKey, Timestamp, UserId};
use crate::ports::{Item, Query, Table};

/// How long after a packet's creation a claim of it can be, at most: it starts later, and stays open for a while.
const CLAIMED_WITHIN: Duration = Duration::from_secs(Limits::START_AHEAD_MAX.as_secs() + Limits::EXPIRY_MAX.as_secs());
/// How far the hot store's clock, which times claims, may be behind the clock of the process that sent the packet.
const CLOCKS_APART: Duration = Duration::from_hours(1);
/// Claims that one query reads.
const CLAIMS_READ: u32 = 200;

/// A place in the list of a user's movements: that of the last one read. Later places come first: by the time, then by the kind,
/// then by the name.
///
/// The time is the movement's own. Only where clocks were further apart than `CLOCKS_APART`, a claim counts as made at the end of
/// the time in which its packet could be claimed. So no page can miss it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct MovementCursor {
    at: Timestamp,
    kind: MovementKind,
    /// What follows the kind in the sort key of the movement.
    name: String,
}

/// The beginning of the sort keys of this kind of movement.
const fn prefix(kind: MovementKind) -> &'static str {
    match kind {
        MovementKind::Claim => keys::CLAIM,
        MovementKind::Deposit => keys::DEPOSIT,
        MovementKind::Refund => keys::REFUND,
        MovementKind::Return => keys::RETURN,
        MovementKind::Sent => keys::SENT,
        MovementKind::Withdrawal => keys::WITHDRAWAL,
    }
}

impl fmt::Display for MovementCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}{}", self.at.ms(), prefix(self.kind), self.name)
    }
}

impl FromStr for MovementCursor {
    type Err = ();

    /// Accepts only a time and the sort key of a movement, so no cursor names another kind of item.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (at, sk) = text.split_once('#').ok_or(())?;
        let at = at.parse().map(Timestamp::from_ms).map_err(drop)?;
        let split = |kind: MovementKind| Some((kind, sk.strip_prefix(prefix(kind))?));
        let (kind, name) = MovementKind::ALL.into_iter().find_map(split).ok_or(())?;
        let well_formed = match kind {
            MovementKind::Claim | MovementKind::Sent => name.parse::<PacketId>().is_ok(),
            MovementKind::Deposit | MovementKind::Return | MovementKind::Withdrawal => {
                name.parse::<RequestKey>().is_ok()
            }
            MovementKind::Refund => name.split_once('#').is_some_and(|(packet, slip)| {
                packet.parse::<PacketId>().is_ok() && slip.len() == 6 && slip.bytes().all(|byte| byte.is_ascii_digit())
            }),
        };
        if well_formed { Ok(Self { at, kind, name: name.to_owned() }) } else { Err(()) }
    }
}

/// The end of a list, where its first movements would be: all of them are before this place.
#[derive(Clone, Debug)]
struct End(Option<MovementCursor>);

impl End {
    fn of(filter: MovementFilter, after: Option<MovementCursor>) -> Self {
        let first = |at| MovementCursor { at, kind: MovementKind::Claim, name: String::new() };
        Self(filter.to.map(first).into_iter().chain(after).min())
    }

    fn has(&self, place: &MovementCursor) -> bool {
        self.0.as_ref().is_none_or(|end| place < end)
    }

    /// The end among the movements of a kind: a time, and the name at that time; empty: before all names.
    fn among(&self, kind: MovementKind) -> Option<(Timestamp, &str)> {
        let end = self.0.as_ref()?;
        Some(match kind.cmp(&end.kind) {
            std::cmp::Ordering::Less => (end.at.after(Duration::from_millis(1)), ""),
            std::cmp::Ordering::Equal => (end.at, &end.name),
            std::cmp::Ordering::Greater => (end.at, ""),
        })
    }
}

type Row = (MovementCursor, Movement);

impl<T: Table> Ledger<T> {
    /// Up to `limit` movements of a user's wallet, the newest first, after `after`.
    pub async fn movements(
        &self,
        user: &UserId,
        filter: MovementFilter,
        after: Option<MovementCursor>,
        limit: u32,
    ) -> Result<Slice<Movement, MovementCursor>, LedgerError> {
        let end = End::of(filter, after);
        let kinds = MovementKind::ALL.into_iter().filter(|kind| filter.kind.is_none_or(|only| only == *kind));
        // One more shows whether there are more.
        let of_kind = |kind| self.newest_of(user, kind, filter.from.unwrap_or_default(), &end, limit + 1);
        let mut rows: Vec<Row> = try_join_all(kinds.map(of_kind)).await?.into_iter().flatten().collect();
        rows.sort_by(|(one, _), (other, _)| other.cmp(one));
        let slice = cut(rows, limit, |(place, _)| place.clone());
        Ok(Slice { rows: slice.rows.into_iter().map(|(_, movement)| movement).collect(), next: slice.next })
    }

    /// Up to `limit` movements of a kind, in no order: the newest of those from `from` on and before `end`.
    async fn newest_of(
        &self,
        user: &UserId,
        kind: MovementKind,
        from: Timestamp,
        end: &End,
        limit: u32,
    ) -> Result<Vec<Row>, LedgerError> {
        let among = end.among(kind);
        let timed = |sk_prefix| (sk_prefix, among.map(|(at, name)| format!("{sk_prefix}{}#{name}", keys::time(at))));
        let (sk_prefix, after) = match kind {
            MovementKind::Claim => return self.newest_claims(user, from, end, limit).await,
            MovementKind::Sent => {
                let id = |(at, name): (Timestamp, &str)| name.parse().unwrap_or_else(|_| PacketId::first_at(at));
                (keys::SENT, among.map(|among| keys::sent(user, id(among)).sk))
            }
            MovementKind::Deposit => timed(keys::DEPOSIT_AT),
            MovementKind::Refund => timed(keys::REFUND_AT),
            MovementKind::Return => timed(keys::RETURN_AT),
            MovementKind::Withdrawal => timed(keys::WITHDRAWAL_AT),
        };
        let query = Query { pk: keys::user(user), sk_prefix, after, descending: true, limit: Some(limit) };
        let rows = self.table.query(query).await?.into_iter().map(|item| read_movement(kind, sk_prefix, item));
        let rows: Vec<Row> = rows.collect::<Result<_, _>>()?;
        Ok(rows.into_iter().filter(|(place, _)| place.at >= from).collect())
    }

    /// The same for claims. They come by their packets' times, so this reads on until no older packet can have one that belongs here.
    async fn newest_claims(
        &self,
        user: &UserId,
        from: Timestamp,
        end: &End,
        limit: u32,
    ) -> Result<Vec<Row>, LedgerError> {
        let latest = end.0.as_ref().map(|end| end.at.after(CLOCKS_APART).after(Duration::from_millis(1)));
        let mut after = latest.map(|at| keys::claim(user, PacketId::first_at(at)).sk);
        let mut newest: BTreeMap<MovementCursor, Movement> = BTreeMap::new();
        loop {
            let query = Query {
                pk: keys::user(user),
                sk_prefix: keys::CLAIM,
                after: after.take(),
                descending: true,
                limit: Some(CLAIMS_READ),
            };
            let claims = self.table.query(query).await?;
            let is_end = claims.len() < CLAIMS_READ as usize;
            let mut last = None;
            for item in claims {
                let (place, movement) = read_movement(MovementKind::Claim, keys::CLAIM, item)?;
                last = Some(packet(&place.name)?);
                if place.at >= from && end.has(&place) {
                    newest.insert(place, movement);
                    if newest.len() > limit as usize {
                        newest.pop_first();
                    }
                }
            }
            let Some(last) = last.filter(|_| !is_end) else { break };
            let left = last.created_at().after(CLAIMED_WITHIN);
            let oldest = newest.first_key_value().filter(|_| newest.len() == limit as usize);
            if left < from || oldest.is_some_and(|(place, _)| left < place.at) {
                break;
            }
            after = Some(keys::claim(user, last).sk);
        }
        Ok(newest.into_iter().collect())
    }
}

/// The packet of a claim or a send, from the name in its sort key.
fn packet(name: &str) -> Result<PacketId, LedgerError> {
    name.parse().map_err(|_| LedgerError::Impossible("a sort key that names no packet".to_owned()))
}

fn read_movement(kind: MovementKind, sk_prefix: &str, item: Item) -> Result<Row, LedgerError> {
    let Some(AttributeValue::S(sk)) = item.get(keys::SK).cloned() else {
        return Err(LedgerError::Impossible("an item without a sort key".to_owned()));
    };
    let name = sk.strip_prefix(sk_prefix).unwrap_or_default();
    let is_timed = !matches!(kind, MovementKind::Claim | MovementKind::Sent);
    let name = if is_timed { name.split_once('#').map_or("", |(_, name)| name) } else { name }.to_owned();
    let (mut sent, mut status, mut note, mut void_reason) = (None, None, None, None);
    let (id, amount, at, packet_id, by) = match kind {
        MovementKind::Claim => {
            let item: ClaimItem = items::read(item)?;
            sent = Some((item.sender_id, item.greeting));
            (name.clone(), item.amount, item.at, Some(item.packet_id), item.by)
        }
        MovementKind::Sent => {
            let item: SentItem = items::read(item)?;
            (name.clone(), item.amount, item.at, Some(item.packet_id), None)
        }
        MovementKind::Refund => {
            let lowest = name.split_once('#').and_then(|(_, slip)| slip.parse::<u32>().ok()).unwrap_or_default();
            let item: RefundItem = items::read(item)?;
            (format!("{}-{lowest}", item.packet_id), item.amount, item.at, Some(item.packet_id), None)
        }
        MovementKind::Deposit | MovementKind::Return => {
            let item: OutsideItem = items::read(item)?;
            (item.id, item.amount, item.at, None, item.by)
        }
        MovementKind::Withdrawal => {
            let item: WithdrawalItem = items::read(item)?;
            status = Some(item.state()?.name());
            (note, void_reason) = (item.note, item.void_reason);
            (item.id.to_string(), item.amount, item.at, None, item.by)
        }
    };
    let amount = items::signed(amount)?;
    let outgoing = matches!(kind, MovementKind::Sent | MovementKind::Withdrawal);
    let amount = if outgoing { -amount } else { amount };
    let place = match kind {
        MovementKind::Claim => {
            let created = packet(&name)?.created_at();
            at.clamp(created.before(CLOCKS_APART), created.after(CLAIMED_WITHIN))
        }
        MovementKind::Sent => packet(&name)?.created_at(),
        MovementKind::Deposit | MovementKind::Refund | MovementKind::Return | MovementKind::Withdrawal => at,
    };
    let movement = Movement { kind, id, amount, at, packet_id, sent, by, status, note, void_reason };
    Ok((MovementCursor { at: place, kind, name }, movement))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_among_movements_is_a_time_and_the_sort_key_of_one() {
        let id = "38FS4S83HF3Y07WMYNH727QYT0";
        let refund = |slip: &str| format!("7#REFUND#{id}#{slip}");
        let good = [
            format!("0#CLAIM#{id}"),
            format!("1795181400120#SENT#{id}"),
            "7#DEPOSIT#d-1".to_owned(),
            "18446744073709551615#WITHDRAW#w_1".to_owned(),
            "8#RETURN#w_1".to_owned(),
        ];
        for text in good.into_iter().chain([refund("000090")]) {
            assert_eq!(text.parse::<MovementCursor>().map(|cursor| cursor.to_string()), Ok(text));
        }
        let bad =
            ["", "7#", "7#WALLET", "7#KEY#k", "7#CLAIM#", "7#CLAIM#x", "7#DEPOSIT#", "7#DEPOSIT#a b", "7#REFUND#"];
        let no_time =
            ["DEPOSIT#d-1", "#DEPOSIT#d-1", "x#DEPOSIT#d-1", "-1#DEPOSIT#d-1", "18446744073709551616#DEPOSIT#d-1"];
        let bad = bad.into_iter().chain(no_time).map(str::to_owned);
        for text in bad.chain(["", "90", "+00090", "0000090", "00009x"].map(refund)) {
            assert!(text.parse::<MovementCursor>().is_err(), "{text}");
        }
    }
}
