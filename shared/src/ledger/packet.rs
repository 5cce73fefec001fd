use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use serde_dynamo::AttributeValue;
use serde_json::json;
use tokio::time::Instant;

use super::commit::{BACKOFF_FIRST, BACKOFF_MOST, Committed};
use super::history::{Slice, cut};
use super::items::{self, AmountsItem, PacketItem, ReferenceItem, SendKeyItem, SentItem};
use super::wallet::Unpaid;
use super::{Ledger, LedgerError, keys};
use crate::domain::{
    Amounts, Best, DailyLimit, Decision, Deed, DeedKind, End, IdempotencyKey, Intervention, Mandate, OperatorReason,
    PacketId, PartId, Signer, Summary, Terms, Timestamp,
};
use crate::ports::{Batch, Bound, Expect, Item, Key, Query, Reason, Table, TableError, Write, current_trace};

/// The place of the wallet among the writes of a send. The day follows it, if a limit applies.
const WALLET_PLACE: usize = 3;
/// How long packets are read together, with pauses: half of the time in which a request is answered.
pub(super) const READ_ALL: Duration = Duration::from_secs(5);
/// The most queries for one packet's decisions in flight.
const DECISION_QUERIES: usize = 16;

/// All that a send writes.
pub struct SendRequest<'a> {
    /// The packet's terms.
    pub terms: &'a Terms,
    /// The amounts of each part, in order.
    pub amounts: &'a [Amounts],
    /// The client's idempotency key.
    pub key: &'a IdempotencyKey,
    /// A hash of what the client asked for.
    pub body_hash: [u8; 32],
    /// The most that a user may send on a day, if there is a limit.
    pub daily_limit: Option<&'a DailyLimit>,
}

/// How a send ended.
#[derive(Debug, Eq, PartialEq)]
pub enum SendOutcome {
    /// The packet is paid for and stored.
    Sent,
    /// This key has sent this packet before.
    Replayed(PacketId),
    /// This key has sent another packet.
    KeyReused,
    /// The wallet can't pay. The key stays free.
    InsufficientBalance,
    /// The sender is suspended. The key stays free.
    Suspended,
    /// The sender would have sent too much on this day. The key stays free.
    DailyLimitExceeded,
}

/// A packet as the ledger knows it.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Its terms.
    pub terms: Terms,
    /// When it was settled, if it is.
    pub settled_at: Option<Timestamp>,
    /// What its decisions sum to; known once it is settled.
    pub settled: Option<Summary>,
    /// What the operator did, if they have closed it.
    pub closed: Option<Intervention>,
}

impl Packet {
    /// How it has ended; `is_past`: it has expired, by a clock.
    #[must_use]
    pub fn end(&self, is_past: bool) -> End {
        End { is_past, closed_at: self.closed.as_ref().map(|closing| closing.at), is_settled: self.settled.is_some() }
    }
}

/// A packet that is past its expiry, or closed, as the index shows it. It may have been settled since.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Due {
    /// The packet.
    pub id: PacketId,
    /// When it expired. `None`: it is closed, and due at once.
    pub expired_at: Option<Timestamp>,
}

/// A place in the list of all packets that are not settled, which goes shard by shard: that of the last one read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DueCursor(Due);

impl DueCursor {
    /// The place of this packet.
    #[must_use]
    pub const fn of(due: Due) -> Self {
        Self(due)
    }
}

impl fmt::Display for DueCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.0.expired_at.map_or(0, Timestamp::ms), self.0.id)
    }
}

impl FromStr for DueCursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (at, id) = text.split_once('#').ok_or(())?;
        let at: u64 = at.parse().map_err(drop)?;
        let expired_at = (at > 0).then(|| Timestamp::from_ms(at));
        Ok(Self(Due { id: id.parse().map_err(drop)?, expired_at }))
    }
}

impl<T: Table> Ledger<T> {
    /// Creates a packet and takes its money from the sender's wallet, all in one transaction: the key, the terms, the
    /// amounts, the debit, the wallet. A packet with a reference has one item more, so has one with a limit of wins, and so has one that a daily limit applies to.
    pub async fn send(&self, request: &SendRequest<'_>) -> Result<SendOutcome, LedgerError> {
        let SendRequest { terms, amounts, key, body_hash, daily_limit } = request;
        let total = items::signed(terms.total)?;
        let send_key = SendKeyItem { packet_id: terms.id, body_hash: hex::encode(body_hash) };
        let day = daily_limit.map(|limit| limit.zone.day_of(terms.created_at).date.to_string());
        let sent = SentItem { packet_id: terms.id, amount: terms.total, at: terms.created_at, day: day.clone() };
        let mut writes = vec![
            Write::PutNew { key: keys::send_key(&terms.sender, key), item: items::write(&send_key)? },
            Write::PutNew { key: keys::packet(terms.id), item: items::write(&PacketItem::new(terms))? },
            Write::PutNew { key: keys::sent(&terms.sender, terms.id), item: items::write(&sent)? },
            Write::Add {
                key: keys::wallet(&terms.sender),
                deltas: vec![("balance", -total), ("sent_count", 1), ("sent_amount", total)],
                bounds: vec![Bound::AtLeast("balance", terms.total.minor_units())],
                absent: Some(items::SUSPENDED),
            },
        ];
        if let Some((limit, day)) = daily_limit.zip(day) {
            let Some(left) = limit.most.minor_units().checked_sub(terms.total.minor_units()) else {
                return self.above_daily_limit(request).await;
            };
            writes.push(Write::Add {
                key: keys::day(&terms.sender, &day),
                deltas: vec![("sent_count", 1), ("sent_amount", total)],
                bounds: vec![Bound::AtMost("sent_amount", left)],
                absent: None,
            });
        }
        for (part, amounts) in terms.id.parts().zip(*amounts) {
            let item = AmountsItem { amounts: amounts.as_bytes().to_vec().into() };
            writes.push(Write::PutNew { key: keys::amounts(part), item: items::write(&item)? });
        }
        if let Some(reference) = &terms.labels.reference {
            let item = ReferenceItem { packet_id: terms.id, at: terms.created_at };
            writes.push(Write::PutNew { key: keys::reference(reference, terms.id), item: items::write(&item)? });
        }
        if let Some(limit) = &terms.limit {
            let item = ReferenceItem { packet_id: terms.id, at: terms.created_at };
            writes.push(Write::PutNew {
                key: keys::limited(&terms.sender, &limit.key, terms.id),
                item: items::write(&item)?,
            });
        }
        match self.commit(&writes).await? {
            Committed::Yes => Ok(SendOutcome::Sent),
            Committed::No(reasons) => self.why_not_sent(request, reasons).await,
        }
    }

    /// An existing key decides before the wallet does: this very send may have emptied the wallet, if its answer was lost. Then a
    /// suspension counts, then the day's limit, then the balance.
    async fn why_not_sent(&self, request: &SendRequest<'_>, reasons: Vec<Reason>) -> Result<SendOutcome, LedgerError> {
        let mut reasons = reasons.into_iter();
        if let Some(Reason::ConditionFailed(Some(item))) = reasons.next() {
            return judge_key(request, item);
        }
        let (wallet, day) = (reasons.nth(WALLET_PLACE - 1), reasons.next());
        let is_limited = request.daily_limit.is_some() && matches!(day, Some(Reason::ConditionFailed(_)));
        let why = if is_limited && matches!(wallet, Some(Reason::None)) {
            Ok(SendOutcome::DailyLimitExceeded)
        } else {
            match self.why_unpaid(&request.terms.sender, request.terms.total, wallet).await {
                Ok(Unpaid::Suspended) => Ok(SendOutcome::Suspended),
                _ if is_limited => Ok(SendOutcome::DailyLimitExceeded),
                Ok(Unpaid::InsufficientBalance) => Ok(SendOutcome::InsufficientBalance),
                Err(error) => Err(error),
            }
        };
        // The key is read last: if it is free now, it was free when the wallet was read.
        match self.sent_before(request).await? {
            Some(outcome) => Ok(outcome),
            None => why,
        }
    }

    /// How a send ends that is larger than a whole day's limit.
    async fn above_daily_limit(&self, request: &SendRequest<'_>) -> Result<SendOutcome, LedgerError> {
        let (_, suspension) = self.account(&request.terms.sender).await?;
        // The key is read last, as above.
        Ok(match self.sent_before(request).await? {
            Some(outcome) => outcome,
            None if suspension.is_some() => SendOutcome::Suspended,
            None => SendOutcome::DailyLimitExceeded,
        })
    }

    /// How an earlier send with this key ended, if it sent a packet.
    pub async fn sent_before(&self, request: &SendRequest<'_>) -> Result<Option<SendOutcome>, LedgerError> {
        let item = self.table.get(keys::send_key(&request.terms.sender, request.key)).await?;
        item.map(|item| judge_key(request, item)).transpose()
    }

    /// A packet.
    pub async fn packet(&self, id: PacketId) -> Result<Option<Packet>, LedgerError> {
        self.table.get(keys::packet(id)).await?.map(read_packet).transpose()
    }

    /// The packets with these ids (at most 100) that exist, in no order.
    pub async fn packets(&self, ids: &[PacketId]) -> Result<Vec<Packet>, LedgerError> {
        let keys: Vec<Key> = ids.iter().map(|id| keys::packet(*id)).collect();
        self.read_all(keys).await?.into_iter().map(read_packet).collect()
    }

    /// The items with these keys (at most 100) that exist. A busy table leaves some out. A request at once would only add to its load.
    pub(super) async fn read_all(&self, mut keys: Vec<Key>) -> Result<Vec<Item>, LedgerError> {
        let (give_up, mut backoff, mut found) =
            (Instant::now() + READ_ALL, BACKOFF_FIRST, Vec::with_capacity(keys.len()));
        while !keys.is_empty() {
            let Batch { items, left } = self.table.batch_get(keys).await?;
            found.extend(items);
            if !left.is_empty() {
                if Instant::now() + backoff >= give_up {
                    return Err(TableError::Unavailable("a batch was not read in time".into()).into());
                }
                tokio::time::sleep(self.entropy.jitter(backoff)).await;
                backoff = (backoff * 2).min(BACKOFF_MOST);
            }
            keys = left;
        }
        Ok(found)
    }

    /// The amounts of one part's slips.
    pub async fn amounts(&self, part: PartId) -> Result<Amounts, LedgerError> {
        let item = self.table.get(keys::amounts(part)).await?;
        let item = item.ok_or_else(|| LedgerError::Impossible(format!("{part}: a packet without amounts")))?;
        Amounts::from_bytes(items::read::<AmountsItem>(item)?.amounts.into_vec())
            .map_err(|error| LedgerError::Impossible(format!("{part}: {error}")))
    }

    /// The decisions of `slips`, in ascending order. Slips without one are left out.
    pub async fn decisions(
        &self,
        id: PacketId,
        slips: impl IntoIterator<Item = u32>,
    ) -> Result<Vec<Decision>, LedgerError> {
        let slips: BTreeSet<u32> = slips.into_iter().collect();
        let groups: BTreeSet<u32> = slips.iter().map(|slip| slip / keys::SLIPS_PER_KEY).collect();
        let read = stream::iter(groups).map(|group| self.decisions_of_group(id, group)).buffered(DECISION_QUERIES);
        let groups: Vec<Vec<Decision>> = read.try_collect().await?;
        Ok(groups.into_iter().flatten().filter(|decision| slips.contains(&decision.slip)).collect())
    }

    /// The decisions of a group of slips, in ascending order: group `n` has the slips 64 × `n` to 64 × `n` + 63.
    pub async fn decisions_of_group(&self, id: PacketId, group: u32) -> Result<Vec<Decision>, LedgerError> {
        let pk = keys::decisions(id, group);
        let query = Query { pk, sk_prefix: "", after: None, descending: false, limit: None };
        self.table.query(query).await?.into_iter().map(items::read_decision).collect()
    }

    /// Closes an open packet. Returns false if the packet was closed or settled before.
    ///
    /// A closed packet is due at once, before those that expired.
    pub async fn close(&self, terms: &Terms, closing: &Intervention) -> Result<bool, LedgerError> {
        #[derive(serde::Serialize)]
        struct ClosedItem<'a> {
            status: &'a str,
            due_at: Timestamp,
            closed_at: Timestamp,
            close_reason: &'a OperatorReason,
            #[serde(skip_serializing_if = "Option::is_none")]
            closed_by: Option<&'a Signer>,
        }
        let mut set = items::write(&ClosedItem {
            status: items::CLOSED,
            due_at: Timestamp::from_ms(0),
            closed_at: closing.at,
            close_reason: &closing.reason,
            closed_by: closing.by.as_ref(),
        })?;
        set.extend(current_trace().map(|trace| (items::CLOSE_TRACE.to_owned(), AttributeValue::S(trace.to_string()))));
        let expect = Expect::Is(items::STATUS, items::OPEN);
        let write = Write::Change { key: keys::packet(terms.id), expect, set, remove: &[] };
        let mandate = Mandate { by: closing.by.as_ref(), reason: Some(&closing.reason), key: None };
        let deed = Deed {
            packet_id: Some(terms.id),
            reference: terms.labels.reference.clone(),
            before: Some(json!({"status": items::OPEN})),
            after: Some(json!({"status": items::CLOSED})),
            ..Deed::new(DeedKind::Close, mandate, closing.at)
        };
        Ok(matches!(self.commit_deed(&deed, &[write]).await?, Committed::Yes))
    }

    /// Up to `limit` packets of a due shard after `after`: closed ones, then those that expired at or before `until`, the earliest first.
    /// The index may still show one that is settled.
    pub async fn due(
        &self,
        shard: u32,
        until: Timestamp,
        after: Option<Due>,
        limit: u32,
    ) -> Result<Vec<Due>, LedgerError> {
        let after = after.map(|due| (keys::packet(due.id), due.expired_at.map_or(0, Timestamp::ms)));
        let items = self.table.due(shard, until.ms(), after, limit).await?;
        items.into_iter().map(read_due).collect()
    }
}

impl<T: Table> Ledger<T> {
    /// Up to `limit` packets that are not settled, after `after`: shard by shard, in each the closed ones, then those that expire first. The
    /// index may still show one that is settled.
    pub async fn all_due(&self, after: Option<DueCursor>, limit: u32) -> Result<Slice<Due, DueCursor>, LedgerError> {
        let mut after = after.map(|DueCursor(due)| due);
        let first = after.map_or(0, |due| keys::due_shard(due.id.partition()));
        let mut rows = Vec::new();
        for shard in first..keys::PENDING_SHARD {
            let left = limit + 1 - u32::try_from(rows.len()).unwrap_or(limit);
            rows.extend(self.due(shard, Timestamp::from_ms(u64::MAX), after.take(), left).await?);
            if rows.len() > limit as usize {
                break;
            }
        }
        Ok(cut(rows, limit, |due| DueCursor(*due)))
    }
}

/// What the item of an idempotency key says about a send with this key.
fn judge_key(request: &SendRequest<'_>, item: Item) -> Result<SendOutcome, LedgerError> {
    let found: SendKeyItem = items::read(item)?;
    Ok(if found.packet_id == request.terms.id {
        SendOutcome::Sent
    } else if found.body_hash == hex::encode(request.body_hash) {
        SendOutcome::Replayed(found.packet_id)
    } else {
        SendOutcome::KeyReused
    })
}

fn read_packet(item: Item) -> Result<Packet, LedgerError> {
    let mut item: PacketItem = items::read(item)?;
    let settled_at = item.settling.as_ref().map(|settling| settling.settled_at);
    let settled = item.settling.take().map(|settling| Summary {
        claimed_count: settling.claimed_count,
        claimed_amount: settling.claimed_amount,
        refunded_count: settling.refunded_count,
        refunded_amount: settling.refunded_amount,
        best: match (settling.best_slip, settling.best_user, settling.best_amount) {
            (Some(slip), Some(user), Some(amount)) => Some(Best { slip, user, amount }),
            _ => None,
        },
    });
    let closed = item.closing()?;
    if settled.is_some() != (item.status == items::SETTLED) {
        return Err(LedgerError::Impossible("a packet is settled if and only if it has its sums".to_owned()));
    }
    Ok(Packet { terms: item.into_terms()?, settled_at, settled, closed })
}

fn read_due(item: Item) -> Result<Due, LedgerError> {
    #[derive(serde::Deserialize)]
    struct DueItem {
        #[serde(rename = "PK")]
        pk: String,
        due_at: Timestamp,
    }
    let DueItem { pk, due_at } = items::read(item)?;
    let id = keys::packet_of(&pk).ok_or_else(|| LedgerError::Impossible(format!("{pk} in the index of packets")))?;
    Ok(Due { id, expired_at: (due_at.ms() > 0).then_some(due_at) })
}
