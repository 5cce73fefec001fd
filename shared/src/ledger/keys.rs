//! Every key name of the table. A user id has no `#`, so no user's text can reach out of its place in a key. An idempotency key can
//! have one, and is always the end of a key.
//!
//! Each key says who writes its item and who changes it. No item is ever deleted, and none expires. Besides,
//! [`Ledger::erase_texts`](super::Ledger::erase_texts) empties texts of packets, claims and withdrawals.

use serde_dynamo::AttributeValue;

use crate::domain::{
    IdempotencyKey, LimitKey, PARTITIONS, PacketId, PartId, Partition, Reference, RequestKey, Timestamp, UserId,
};
use crate::ports::{Item, Key};

/// The primary key's attributes.
pub const PK: &str = "PK";
/// See [`PK`].
pub const SK: &str = "SK";
/// The sparse index over packets that are not settled, withdrawals that are pending, and orders that are not carried out.
pub const DUE_INDEX: &str = "due";
/// The index' partition key: a packet's partition divided by 16, [`PENDING_SHARD`] or [`CLOSING_SHARD`].
pub const DUE_SHARD: &str = "due_shard";
/// The index' sort key, in milliseconds since the epoch: a packet's expiry, 0 if it is closed; or when a withdrawal was asked for, or a
/// close was ordered.
pub const DUE_AT: &str = "due_at";

/// The partition key of the index behind which users stand whom the operator has suspended or given limits of their own. Their sort key is
/// the time of that decision.
pub const DECIDED_SHARD: u32 = DUE_SHARDS + 2;

/// The number of due shards: the partition keys of packets in the index [`DUE_INDEX`].
const DUE_SHARDS: u32 = 16;

/// The due shard in which the packets of a partition wait until they are settled, 0 to 15.
pub const fn due_shard(partition: Partition) -> u32 {
    partition.index() / (PARTITIONS / DUE_SHARDS)
}

/// The partition key of the index behind which pending withdrawals wait until they end. Their sort key is the time of the request.
pub const PENDING_SHARD: u32 = DUE_SHARDS;

/// The partition key of the index behind which orders to close packets wait until they are carried out. Their sort key is their time.
pub const CLOSING_SHARD: u32 = DUE_SHARDS + 1;

/// Decisions of 64 neighbouring slips share a partition key: enough to list a packet quickly, few enough to keep a rush
/// off a single one.
pub const SLIPS_PER_KEY: u32 = 64;

/// The beginning of the sort keys of claims.
pub const CLAIM: &str = "CLAIM#";
/// The beginning of the sort keys of the days with a limit.
pub const DAY: &str = "DAY#";
/// The beginning of the sort keys of what operators did to a user.
pub const DEED: &str = "DEED#";
/// The beginning of the sort keys of deposits.
pub const DEPOSIT: &str = "DEPOSIT#";
/// The beginning of the sort keys of idempotency keys. All that follows is the key, which can have a `#`.
pub const SEND_KEY: &str = "KEY#";
/// The beginning of the sort keys of what a user has won towards limits.
pub const WON: &str = "LIMIT#";
/// The beginning of the sort keys of refunds.
pub const REFUND: &str = "REFUND#";
/// The beginning of the sort keys of what withdrawals gave back. Only timelines have such items.
pub const RETURN: &str = "RETURN#";
/// The beginning of the sort keys of debits.
pub const SENT: &str = "SENT#";
/// The beginning of the sort keys of withdrawals.
pub const WITHDRAWAL: &str = "WITHDRAW#";

/// The beginning of the sort keys of a timeline's deposits.
pub const DEPOSIT_AT: &str = "AT#DEPOSIT#";
/// The beginning of the sort keys of a timeline's refunds.
pub const REFUND_AT: &str = "AT#REFUND#";
/// The beginning of the sort keys of a timeline's returns.
pub const RETURN_AT: &str = "AT#RETURN#";
/// The beginning of the sort keys of a timeline's withdrawals.
pub const WITHDRAWAL_AT: &str = "AT#WITHDRAW#";

/// The digits of a time in a timeline: enough until 2286.
const TIME_MAX: u64 = 9_999_999_999_999;

/// The beginning of the partition keys of items that `hongbao-admin ledger-check` leaves. Nothing else reads or writes them.
pub const CHECK: &str = "CHECK#";

const PACKET: &str = "PACKET#";
const SOLD_OUT: &str = "SOLDOUT#";
const USER: &str = "USER#";

/// A packet's terms and state. Written by send, changed once by [`Ledger::close`](super::Ledger::close), and once by
/// [`Ledger::mark_settled`](super::Ledger::mark_settled).
pub fn packet(id: PacketId) -> Key {
    Key { pk: format!("{PACKET}{id}"), sk: "META".to_owned() }
}

/// That a packet is sold out. Written by the grab or the settle that knows of its last claim, never changed. Missing: that is not known.
pub fn sold_out(id: PacketId) -> Key {
    Key { pk: format!("{SOLD_OUT}{id}"), sk: "STATE".to_owned() }
}

/// The packet of which a partition key says that it is sold out.
pub fn sold_out_of(pk: &str) -> Option<PacketId> {
    pk.strip_prefix(SOLD_OUT)?.parse().ok()
}

/// The packet whose terms lie under a partition key.
pub fn packet_of(pk: &str) -> Option<PacketId> {
    pk.strip_prefix(PACKET)?.parse().ok()
}

/// The key of an item.
pub fn of_item(item: &Item) -> Option<Key> {
    let text = |name| match item.get(name) {
        Some(AttributeValue::S(text)) => Some(text.clone()),
        _ => None,
    };
    Some(Key { pk: text(PK)?, sk: text(SK)? })
}

/// All packets with a reference.
pub fn references(reference: &Reference) -> String {
    format!("REF#{reference}")
}

/// The state of the receiver of webhooks. Created and changed by notify, and by an operator. Missing: it has never failed.
pub fn receiver() -> Key {
    Key { pk: "WEBHOOK#RECEIVER".to_owned(), sk: "STATE".to_owned() }
}

/// All decisions of the operator about sending.
pub const SENDING: &str = "OPERATOR#SENDING";

/// All deeds of operators.
pub const DEEDS: &str = "DEEDS#ALL";

/// One of them, which happened `at` that time; `name` tells it from others of that time. Written with what was done, never changed.
pub fn deed(at: Timestamp, name: &str) -> Key {
    Key { pk: DEEDS.to_owned(), sk: format!("{}#{name}", time(at)) }
}

/// The same deed under the user to whom it was done, as the `number`th of theirs. Written with the other, never changed.
pub fn deed_on(owner: &UserId, number: u32) -> Key {
    Key { pk: user(owner), sk: format!("{DEED}{number:06}") }
}

/// How many partition keys the deposits and withdrawals with an id have. An app may give one id to a deposit of each of its users, at once.
pub const REQUEST_SHARDS: u32 = 16;

/// All deposits and withdrawals with an id, of the users of a shard.
pub fn requests(id: &RequestKey, shard: u32) -> String {
    format!("REQUEST#{id}#{shard}")
}

/// That a user has a deposit or a withdrawal with this id. Written with it, never changed.
pub fn request(movement: &Key, owner: &UserId, id: &RequestKey) -> Key {
    let kind = movement.sk.split_once('#').map_or(&*movement.sk, |(kind, _)| kind);
    let hash = owner.as_str().bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    Key { pk: requests(id, hash % REQUEST_SHARDS), sk: format!("{kind}#{owner}") }
}

/// The partition key of the keys of operators.
pub const OPERATOR_KEYS: &str = "OPERATOR#KEYS";

/// An operator's key, named by its hash. Written by `hongbao-admin key add`, changed once if it is revoked. Missing: there is no such key.
pub fn operator_key(hash: &str) -> Key {
    Key { pk: OPERATOR_KEYS.to_owned(), sk: hash.to_owned() }
}

/// One of them. Written by the operator, never changed. Missing: packets can be sent.
pub fn sending(at: Timestamp) -> Key {
    Key { pk: SENDING.to_owned(), sk: time(at) }
}

/// That a decision about sending follows the one of this time, or 0. Written with it, never changed.
pub fn sending_after(at: Timestamp) -> Key {
    Key { pk: "OPERATOR#FOLLOWED".to_owned(), sk: time(at) }
}

/// That a packet has a reference; the sort key is the packet's id. Written by a send with a reference, never changed.
pub fn reference(reference: &Reference, id: PacketId) -> Key {
    Key { pk: references(reference), sk: id.to_string() }
}

/// All packets of a sender whose limit has this key.
pub fn limited_packets(sender: &UserId, key: &LimitKey) -> String {
    format!("LIMIT#{sender}#{key}")
}

/// That the limit of a packet has this key; the sort key is the packet's id. Written by the send of such a packet, never changed.
pub fn limited(sender: &UserId, key: &LimitKey, id: PacketId) -> Key {
    Key { pk: limited_packets(sender, key), sk: id.to_string() }
}

/// An order to close all packets of a sender with a reference. Written by the operator, changed once, when it is carried out.
pub fn close_order(sender: &UserId, reference: &Reference, at: Timestamp) -> Key {
    Key { pk: format!("CLOSING#{sender}#{reference}"), sk: time(at) }
}

/// The amounts of one part's slips. Written by send, never changed. Each part has a key of its own, so that no single key takes a
/// whole send.
pub fn amounts(part: PartId) -> Key {
    Key { pk: format!("PART#{}#{}", part.packet, part.index), sk: "AMOUNTS".to_owned() }
}

/// A slip's decision. Written once, by a claim or a refund; never changed. Missing: the slip is undecided.
pub fn decision(id: PacketId, slip: u32) -> Key {
    Key { pk: decisions(id, slip / SLIPS_PER_KEY), sk: format!("{slip:06}") }
}

/// The partition key of the decisions of slips `64·group` to `64·group + 63`.
pub fn decisions(id: PacketId, group: u32) -> String {
    format!("SLIPS#{id}#{group}")
}

/// All of a user's items.
pub fn user(user: &UserId) -> String {
    format!("{USER}{user}")
}

/// The user whose items lie under a partition key.
pub fn user_of(pk: &str) -> Option<UserId> {
    pk.strip_prefix(USER)?.parse().ok()
}

/// A user's wallet: the balance and the totals of its histories, and the suspension of its owner. Created and changed by each movement
/// and by the operator. Missing: all are zero.
pub fn wallet(owner: &UserId) -> Key {
    Key { pk: user(owner), sk: "WALLET".to_owned() }
}

/// A user's claim of a packet. Written once, with the slip's decision; never changed. Missing: the user has no claim.
pub fn claim(owner: &UserId, id: PacketId) -> Key {
    Key { pk: user(owner), sk: format!("{CLAIM}{id}") }
}

/// A packet's debit from its sender's wallet. Written by send, never changed.
pub fn sent(sender: &UserId, id: PacketId) -> Key {
    Key { pk: user(sender), sk: format!("{SENT}{id}") }
}

/// The credit of one chunk of a refund, named by the chunk's lowest slip. Written with the decisions of its slips, never changed.
pub fn refund(sender: &UserId, id: PacketId, lowest: u32) -> Key {
    Key { pk: user(sender), sk: format!("{REFUND}{id}#{lowest:06}") }
}

/// A deposit, named by the operator's request key. Written once, never changed.
pub fn deposit(owner: &UserId, id: &RequestKey) -> Key {
    Key { pk: user(owner), sk: format!("{DEPOSIT}{id}") }
}

/// A withdrawal, named by its request key. Written once; a pending one is changed once, when it ends.
pub fn withdrawal(owner: &UserId, id: &RequestKey) -> Key {
    Key { pk: user(owner), sk: format!("{WITHDRAWAL}{id}") }
}

/// What a user sent on a day, if a daily limit applied: `DAY#2027-01-01`. Each send whose date that was, in the zone of its process, creates
/// or changes it, only ever by adding. So one send counts towards one date, and a date has one limit, whatever zone gave it its name.
/// Missing: nothing counts towards that day's limit.
pub fn day(sender: &UserId, day: &str) -> Key {
    Key { pk: user(sender), sk: format!("{DAY}{day}") }
}

/// What a user has won of all packets of a sender whose limit has this key: how often, and how much. Each claim of such a packet creates or
/// changes it, only ever by adding. Missing: nothing.
pub fn won(winner: &UserId, sender: &UserId, key: &LimitKey) -> Key {
    Key { pk: user(winner), sk: format!("{WON}{sender}#{key}") }
}

/// What a pending withdrawal gave back when it ended. Only the timeline has it: [`in_timeline`] makes its key. Never changed.
pub fn returned(owner: &UserId, id: &RequestKey) -> Key {
    Key { pk: user(owner), sk: format!("{RETURN}{id}") }
}

/// The copy of a deposit, a refund or a withdrawal in its user's timeline, where those of a kind sort by time. Written with the movement,
/// and changed with a withdrawal.
pub fn in_timeline(movement: &Key, at: Timestamp) -> Key {
    let (kind, name) = movement.sk.split_once('#').unwrap_or((&movement.sk, ""));
    Key { pk: movement.pk.clone(), sk: format!("AT#{kind}#{}#{name}", time(at)) }
}

/// A time as timelines spell it.
pub fn time(at: Timestamp) -> String {
    format!("{:013}", at.ms().min(TIME_MAX))
}

/// An idempotency key of a send. Written by send, never changed. Missing: the key has sent nothing and is free.
pub fn send_key(sender: &UserId, key: &IdempotencyKey) -> Key {
    Key { pk: user(sender), sk: format!("{SEND_KEY}{key}") }
}
