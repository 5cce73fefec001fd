//! The events of `docs/INTEGRATE.md`: what an event says, and how a commit to the ledger becomes one.
//!
//! An event's fields are attributes of the item that its commit wrote. An `alias` is the attribute's name where the two differ.

pub mod batch;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Serialize};
use serde_dynamo::AttributeValue;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::domain::{
    Amount, Note, OperatorReason, PacketId, Reference, RequestKey, Requester, Split, Timestamp, TraceId, UserId,
};
use crate::ledger::{ERASED_AT, SETTLED, keys};
use crate::ports::{Item, Key};

/// An event. Its JSON is `detail` on the event bus, the message of the queue, and `data` of a webhook.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type")]
pub enum Event {
    /// A packet is paid for.
    PacketSent(PacketSent),
    /// A user owns a slip for good.
    SlipClaimed(SlipClaimed),
    /// Every slip of a packet is claimed.
    PacketSoldOut(PacketSoldOut),
    /// The operator closed a packet.
    PacketClosed(PacketClosed),
    /// Every slip of a packet has a decision.
    PacketSettled(PacketSettled),
    /// Some of them went back to the sender. A packet's [`Event::PacketSettled`] says the same.
    PacketRefunded(PacketSettled),
    /// A withdrawal is pending: its money is reserved.
    WithdrawalRequested(WithdrawalRequested),
    /// A pending withdrawal is paid out.
    WithdrawalPosted(WithdrawalPosted),
    /// A pending withdrawal is back in the wallet.
    WithdrawalVoided(WithdrawalVoided),
}

/// See [`Event::PacketSent`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[expect(missing_docs, reason = "openapi.yaml describes the fields of packets")]
pub struct PacketSent {
    pub packet_id: PacketId,
    pub sender_id: UserId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    pub split: Split,
    pub total_amount: Amount,
    #[serde(alias = "slip_count")]
    pub count: u32,
    pub currency: String,
    pub greeting: String,
    #[serde(with = "rfc3339")]
    pub created_at: Timestamp,
    /// Absent where users may grab at once.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "rfc3339::optional")]
    pub starts_at: Option<Timestamp>,
    #[serde(with = "rfc3339")]
    pub expires_at: Timestamp,
    #[serde(default, alias = "trace", skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<TraceId>,
}

/// See [`Event::SlipClaimed`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[expect(missing_docs, reason = "openapi.yaml describes the fields of claims")]
pub struct SlipClaimed {
    pub packet_id: PacketId,
    pub sender_id: UserId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    pub user_id: UserId,
    pub slip: u32,
    pub amount: Amount,
    pub currency: String,
    #[serde(alias = "at", with = "rfc3339")]
    pub grabbed_at: Timestamp,
    #[serde(default, alias = "trace", skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<TraceId>,
}

/// See [`Event::PacketSoldOut`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[expect(missing_docs, reason = "openapi.yaml describes the fields")]
pub struct PacketSoldOut {
    pub packet_id: PacketId,
    pub sender_id: UserId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    #[serde(alias = "slip_count")]
    pub count: u32,
    pub total_amount: Amount,
    pub currency: String,
    #[serde(with = "rfc3339")]
    pub sold_out_at: Timestamp,
    pub seconds: u64,
}

/// See [`Event::PacketClosed`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[expect(missing_docs, reason = "openapi.yaml describes the fields of packets")]
pub struct PacketClosed {
    pub packet_id: PacketId,
    pub sender_id: UserId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    #[serde(alias = "close_reason")]
    pub reason: String,
    #[serde(with = "rfc3339")]
    pub closed_at: Timestamp,
    #[serde(default, alias = "close_trace", skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<TraceId>,
}

/// See [`Event::PacketSettled`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[expect(missing_docs, reason = "openapi.yaml describes the fields of packets")]
pub struct PacketSettled {
    pub packet_id: PacketId,
    pub sender_id: UserId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    pub refunded_count: u32,
    pub refunded_amount: Amount,
    pub claimed_count: u32,
    pub claimed_amount: Amount,
    pub total_amount: Amount,
    pub currency: String,
    #[serde(with = "rfc3339")]
    pub settled_at: Timestamp,
}

/// See [`Event::WithdrawalRequested`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[expect(missing_docs, reason = "openapi.yaml describes the fields of withdrawals")]
pub struct WithdrawalRequested {
    pub user_id: UserId,
    #[serde(alias = "id")]
    pub withdrawal_id: RequestKey,
    pub amount: Amount,
    pub currency: String,
    pub requested_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Note>,
    #[serde(with = "rfc3339")]
    pub at: Timestamp,
    #[serde(default, alias = "trace", skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<TraceId>,
}

/// See [`Event::WithdrawalPosted`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[expect(missing_docs, reason = "openapi.yaml describes the fields of withdrawals")]
pub struct WithdrawalPosted {
    pub user_id: UserId,
    #[serde(alias = "id")]
    pub withdrawal_id: RequestKey,
    pub amount: Amount,
    pub posted_amount: Amount,
    pub currency: String,
    pub requested_by: String,
    #[serde(with = "rfc3339")]
    pub ended_at: Timestamp,
    #[serde(default, alias = "end_trace", skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<TraceId>,
}

/// See [`Event::WithdrawalVoided`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[expect(missing_docs, reason = "openapi.yaml describes the fields of withdrawals")]
pub struct WithdrawalVoided {
    pub user_id: UserId,
    #[serde(alias = "id")]
    pub withdrawal_id: RequestKey,
    pub amount: Amount,
    pub currency: String,
    pub requested_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void_reason: Option<OperatorReason>,
    #[serde(with = "rfc3339")]
    pub ended_at: Timestamp,
    #[serde(default, alias = "end_trace", skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<TraceId>,
}

/// What happened to an item.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Change {
    /// It was written for the first time.
    Insert,
    /// It was changed.
    Modify,
    /// It was removed.
    Remove,
}

/// Where the ledger has an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    /// In the item of the packet.
    Packet(PacketId),
    /// In the item that says that the packet is sold out.
    SoldOut(PacketId),
    /// In the claim of the slip's owner.
    Slip(PacketId, u32),
}

/// What is not as the ledger writes it.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// A record of the stream.
    #[error("a record of the stream can't be read")]
    Record(#[from] serde_json::Error),
    /// An item. The error names its packet.
    #[error("an item of {packet} does not read as an event")]
    Item {
        /// The part of the item's key that names the packet.
        packet: String,
        /// What is wrong with it.
        source: serde_dynamo::Error,
    },
}

/// A record of the table's stream, as far as events need it.
#[derive(Deserialize)]
struct Record {
    #[serde(rename = "eventName")]
    change: Change,
    dynamodb: Changed,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Changed {
    keys: Item,
    /// Absent if the item was removed.
    #[serde(default)]
    new_image: Item,
}

/// Whether changes of items with this key can be events.
pub fn concerns(key: &Key) -> bool {
    is_packet(key) || is_sold_out(key) || is_claim(key) || is_withdrawal(key)
}

/// Whether an event's id is one of a withdrawal.
pub fn is_of_withdrawal(id: &str) -> bool {
    id.strip_prefix("evt_w").and_then(|rest| rest.get(..33)).is_some_and(|hash| hash.ends_with('_'))
}

/// Where the ledger has the event of an id, if it is one. The id of a withdrawal's event does not say.
pub fn source(id: &str) -> Option<Source> {
    let (packet, what) = id.strip_prefix("evt_")?.split_once('_')?;
    let packet = packet.parse().ok()?;
    match what.strip_prefix("claimed_") {
        None if what == "sold_out" => Some(Source::SoldOut(packet)),
        Some(slip) => slip.parse().ok().map(|slip| Source::Slip(packet, slip)),
        None => Some(Source::Packet(packet)),
    }
}

/// The events of a record of the table's stream. A claim's item has no currency; the deployment's is `currency`.
pub fn of_record(record: &Value, currency: &str) -> Result<Vec<Event>, Unreadable> {
    let Record { change, dynamodb } = Record::deserialize(record)?;
    let key = keys::of_item(&dynamodb.keys).ok_or_else(|| serde_json::Error::custom("the key is missing"))?;
    of_change(change, &key, &dynamodb.new_image, currency)
}

/// The events of an item so far. They are the same as those that its changes were.
pub fn of_item(key: &Key, image: &Item, currency: &str) -> Result<Vec<Event>, Unreadable> {
    let mut events = of_change(Change::Insert, key, image, currency)?;
    if is_packet(key) {
        events.extend(closed(key, image)?);
        events.extend(settled(key, image)?);
    }
    if is_withdrawal(key) {
        events.extend(ended(key, image, currency)?);
    }
    Ok(events)
}

/// The events of one change, of an item as it is since. They say only what the item says, so they are the same whenever they are made.
fn of_change(change: Change, key: &Key, image: &Item, currency: &str) -> Result<Vec<Event>, Unreadable> {
    match change {
        // It happened before, and lost its texts now.
        Change::Modify if image.contains_key(ERASED_AT) => Ok(Vec::new()),
        Change::Insert if is_claim(key) => Ok(match owned(key, image, currency) {
            Some(image) => vec![Event::SlipClaimed(read(key, &image)?)],
            None => Vec::new(),
        }),
        // One that is posted at once has no state.
        Change::Insert if is_withdrawal(key) && image.contains_key("status") => Ok(match owned(key, image, currency) {
            Some(image) => vec![Event::WithdrawalRequested(read(key, &image)?)],
            None => Vec::new(),
        }),
        Change::Modify if is_withdrawal(key) => Ok(ended(key, image, currency)?.into_iter().collect()),
        Change::Insert if is_sold_out(key) => Ok(vec![Event::PacketSoldOut(read(key, image)?)]),
        Change::Insert if is_packet(key) => Ok(vec![Event::PacketSent(read(key, image)?)]),
        // A packet is closed before it is settled.
        Change::Modify if is_packet(key) => match settled(key, image)? {
            settled if settled.is_empty() => Ok(closed(key, image)?.into_iter().collect()),
            settled => Ok(settled),
        },
        Change::Insert | Change::Modify | Change::Remove => Ok(Vec::new()),
    }
}

/// A user's item, with what only its key and the deployment say.
fn owned(key: &Key, image: &Item, currency: &str) -> Option<Item> {
    let user = keys::user_of(&key.pk)?;
    let requester = if image.contains_key("asked") { Requester::User } else { Requester::Operator };
    let mut image = image.clone();
    for (name, value) in [("user_id", user.as_str()), ("currency", currency), ("requested_by", requester.name())] {
        image.insert(name.to_owned(), AttributeValue::S(value.to_owned()));
    }
    Some(image)
}

/// The event of a withdrawal's end, if it was pending and has ended.
fn ended(key: &Key, image: &Item, currency: &str) -> Result<Option<Event>, Unreadable> {
    let Some(image) = owned(key, image, currency).filter(|image| image.contains_key("ended_at")) else {
        return Ok(None);
    };
    let is_posted = image.contains_key("posted_amount");
    Ok(Some(if is_posted {
        Event::WithdrawalPosted(read(key, &image)?)
    } else {
        Event::WithdrawalVoided(read(key, &image)?)
    }))
}

fn closed(key: &Key, image: &Item) -> Result<Option<Event>, Unreadable> {
    image.contains_key("closed_at").then(|| read(key, image).map(Event::PacketClosed)).transpose()
}

fn settled(key: &Key, image: &Item) -> Result<Vec<Event>, Unreadable> {
    if image.get("status") != Some(&AttributeValue::S(SETTLED.to_owned())) {
        return Ok(Vec::new());
    }
    let settled: PacketSettled = read(key, image)?;
    let refunded = (settled.refunded_count > 0).then(|| Event::PacketRefunded(settled.clone()));
    Ok(std::iter::once(Event::PacketSettled(settled)).chain(refunded).collect())
}

impl Event {
    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::PacketSent(_) => "PacketSent",
            Self::SlipClaimed(_) => "SlipClaimed",
            Self::PacketSoldOut(_) => "PacketSoldOut",
            Self::PacketClosed(_) => "PacketClosed",
            Self::PacketSettled(_) => "PacketSettled",
            Self::PacketRefunded(_) => "PacketRefunded",
            Self::WithdrawalRequested(_) => "WithdrawalRequested",
            Self::WithdrawalPosted(_) => "WithdrawalPosted",
            Self::WithdrawalVoided(_) => "WithdrawalVoided",
        }
    }

    /// A name for what happened: the same each time that this event arrives, and no other event's.
    pub fn id(&self) -> String {
        match self {
            Self::PacketSent(event) => format!("evt_{}_sent", event.packet_id),
            Self::SlipClaimed(event) => format!("evt_{}_claimed_{}", event.packet_id, event.slip),
            Self::PacketSoldOut(event) => format!("evt_{}_sold_out", event.packet_id),
            Self::PacketClosed(event) => format!("evt_{}_closed", event.packet_id),
            Self::PacketSettled(event) => format!("evt_{}_settled", event.packet_id),
            Self::PacketRefunded(event) => format!("evt_{}_refunded", event.packet_id),
            Self::WithdrawalRequested(event) => id_of_withdrawal(&event.user_id, &event.withdrawal_id, "requested"),
            Self::WithdrawalPosted(event) => id_of_withdrawal(&event.user_id, &event.withdrawal_id, "posted"),
            Self::WithdrawalVoided(event) => id_of_withdrawal(&event.user_id, &event.withdrawal_id, "voided"),
        }
    }

    /// When it happened.
    pub const fn at(&self) -> Timestamp {
        match self {
            Self::PacketSent(event) => event.created_at,
            Self::SlipClaimed(event) => event.grabbed_at,
            Self::PacketSoldOut(event) => event.sold_out_at,
            Self::PacketClosed(event) => event.closed_at,
            Self::PacketSettled(event) | Self::PacketRefunded(event) => event.settled_at,
            Self::WithdrawalRequested(event) => event.at,
            Self::WithdrawalPosted(event) => event.ended_at,
            Self::WithdrawalVoided(event) => event.ended_at,
        }
    }
}

/// Logs have the ids of events, and no user's. So the user is in it as a part of a hash.
fn id_of_withdrawal(user: &UserId, id: &RequestKey, what: &str) -> String {
    let digest = Sha256::new().chain_update(user.as_str()).chain_update("#").chain_update(id.as_str()).finalize();
    format!("evt_w{}_{what}", hex::encode(&digest[..16]))
}

fn is_withdrawal(key: &Key) -> bool {
    key.sk.starts_with(keys::WITHDRAWAL)
}

fn is_packet(key: &Key) -> bool {
    keys::packet_of(&key.pk).is_some_and(|id| keys::packet(id) == *key)
}

fn is_sold_out(key: &Key) -> bool {
    keys::sold_out_of(&key.pk).is_some_and(|id| keys::sold_out(id) == *key)
}

fn is_claim(key: &Key) -> bool {
    key.sk.starts_with(keys::CLAIM)
}

fn read<E: DeserializeOwned>(key: &Key, image: &Item) -> Result<E, Unreadable> {
    let packet = if is_packet(key) || is_sold_out(key) { &key.pk } else { &key.sk };
    serde_dynamo::from_item(image.clone()).map_err(|source| Unreadable::Item { packet: packet.clone(), source })
}

/// A moment as answers show it. An item has it in milliseconds.
mod rfc3339 {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::domain::Timestamp;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Moment {
        Text(String),
        Ms(Timestamp),
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(at)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        match Moment::deserialize(from)? {
            Moment::Text(text) => text.parse().map_err(|()| de::Error::custom("not a time (RFC 3339)")),
            Moment::Ms(at) => Ok(at),
        }
    }

    pub mod optional {
        use serde::{Deserializer, Serializer};

        use crate::domain::Timestamp;

        #[expect(clippy::ref_option, reason = "serde passes a reference")]
        pub fn serialize<S: Serializer>(at: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
            match at {
                Some(at) => super::serialize(at, to),
                None => to.serialize_none(),
            }
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
            super::deserialize(from).map(Some)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases() -> Vec<Value> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/events.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn events(case: &Value) -> Vec<Event> {
        serde_json::from_value(case["events"].clone()).unwrap()
    }

    #[test]
    fn changes_become_events_that_read_as_they_were_written() {
        assert!(cases().len() > 10);
        for case in cases() {
            let found = of_record(&case["record"], "CNY").unwrap();
            assert_eq!(serde_json::to_value(&found).unwrap(), case["events"], "{}", case["case"]);
            assert_eq!(found, events(&case));
            for secret in ["seed", "passphrase", "recipients", "metadata", "5e5e", "d1d1", "shop"] {
                assert!(!case["events"].to_string().contains(secret), "{secret}");
            }
        }
    }

    #[test]
    fn what_the_ledger_never_writes_is_refused_without_naming_a_user() {
        let claim = cases().into_iter().find(|case| case["events"][0]["type"] == "SlipClaimed").unwrap();
        let mut half = claim["record"].clone();
        half["dynamodb"]["NewImage"].as_object_mut().unwrap().remove("amount");
        let error = of_record(&half, "CNY").unwrap_err();
        assert!(error.to_string().starts_with("an item of CLAIM#"), "{error}");
        for broken in [Value::Null, serde_json::json!({"eventName": "INSERT"})] {
            assert!(matches!(of_record(&broken, "CNY"), Err(Unreadable::Record(_))));
        }
    }

    /// 13. What is delivered again is what was delivered the first time.
    #[test]
    fn an_item_tells_all_events_that_its_changes_were() {
        for case in cases().iter().filter(|case| !events(case).is_empty()) {
            let body = &case["record"]["dynamodb"];
            let image: Item = serde_json::from_value(body["NewImage"].clone()).unwrap();
            let key = keys::of_item(&image).unwrap();
            let found = of_item(&key, &image, "CNY").unwrap();
            assert!(events(case).iter().all(|event| found.contains(event)), "{}: {found:?}", case["case"]);
            let has = |name| found.iter().any(|event| event.name() == name);
            assert_eq!(has("PacketSent"), is_packet(&key));
            assert_eq!(has("WithdrawalRequested"), is_withdrawal(&key));
            assert_eq!(has("PacketClosed"), image.contains_key("closed_at"), "{}", case["case"]);
            assert_eq!(has("PacketSettled"), case["events"][0]["type"] == "PacketSettled");
        }
    }

    #[test]
    fn an_id_names_the_place_of_its_event() {
        let id: PacketId = "38FS4S83HF3Y07WMYNH727QYT0".parse().unwrap();
        let of = |what: &str| source(&format!("evt_{id}_{what}"));
        for what in ["sent", "closed", "settled", "refunded"] {
            assert_eq!(of(what), Some(Source::Packet(id)));
        }
        assert_eq!(of("claimed_7"), Some(Source::Slip(id, 7)));
        assert_eq!(of("sold_out"), Some(Source::SoldOut(id)));
        for bad in ["", "evt_", "evt_x_sent", &id.to_string(), &format!("evt_{id}_claimed_x"), &format!("evt_{id}")] {
            assert_eq!(source(bad), None, "{bad}");
        }
    }

    #[test]
    fn no_two_events_of_a_packet_have_the_same_id() {
        let all: Vec<Event> = cases().iter().flat_map(events).collect();
        let ids: std::collections::BTreeMap<String, &str> =
            all.iter().map(|event| (event.id(), event.name())).collect();
        assert_eq!(ids.len(), 9, "{ids:?}");
        // The specification forbids dots, which separate the parts of the signed text.
        assert!(ids.keys().all(|id| !id.contains('.')));
    }
}
