//! The events of `docs/INTEGRATE.md`: what an event says, and how a commit to the ledger becomes one.
//!
//! On AWS a state machine translates items (`stacks/events.yaml`), and the local stack does it here. `tests/events.json` holds both
//! to the same events.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::domain::{Amount, PacketId, Reference, Split, Timestamp, UserId};
use crate::ledger::keys;
use crate::ports::{Item, Key};

/// An event. Its JSON is `detail` on the event bus, the message of the queue, and `data` of a webhook.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type")]
pub enum Event {
    /// A packet is paid for.
    PacketSent(PacketSent),
    /// A user owns a slip for good.
    SlipClaimed(SlipClaimed),
    /// The operator closed a packet.
    PacketClosed(PacketClosed),
    /// Every slip of a packet has a decision.
    PacketSettled(PacketSettled),
    /// Some of them went back to the sender. A packet's [`Event::PacketSettled`] says the same.
    PacketRefunded(PacketSettled),
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
    #[serde(with = "rfc3339")]
    pub grabbed_at: Timestamp,
}

/// See [`Event::PacketClosed`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[expect(missing_docs, reason = "openapi.yaml describes the fields of packets")]
pub struct PacketClosed {
    pub packet_id: PacketId,
    pub sender_id: UserId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    pub reason: String,
    #[serde(with = "rfc3339")]
    pub closed_at: Timestamp,
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

/// What happened to an item.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// It was written for the first time.
    Insert,
    /// It was changed.
    Modify,
}

/// The attributes of items that events are made of. The seed, the passphrase's digest and the recipients are not among them.
pub const ATTRIBUTES: [&str; 24] = [
    keys::PK,
    keys::SK,
    "packet_id",
    "sender_id",
    "reference",
    "split",
    "total_amount",
    "slip_count",
    "currency",
    "greeting",
    "created_at",
    "start",
    "expires_at",
    "slip",
    "amount",
    "at",
    "status",
    "closed_at",
    "close_reason",
    "claimed_count",
    "claimed_amount",
    "refunded_count",
    "refunded_amount",
    "settled_at",
];

/// Where the ledger has an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    /// In the item of the packet.
    Packet(PacketId),
    /// In the claim of the slip's owner.
    Slip(PacketId, u32),
}

/// An item that is not as the ledger writes it.
#[derive(Debug, thiserror::Error)]
#[error("an item of {pk} does not read as an event")]
pub struct Unreadable {
    pk: String,
    source: serde_dynamo::Error,
}

/// Whether changes of items with this key can be events.
pub fn concerns(key: &Key) -> bool {
    is_packet(key) || is_claim(key)
}

/// Where the ledger has the event of an id, if it is one.
pub fn source(id: &str) -> Option<Source> {
    let (packet, what) = id.strip_prefix("evt_")?.split_once('_')?;
    let packet = packet.parse().ok()?;
    match what.strip_prefix("claimed_") {
        Some(slip) => slip.parse().ok().map(|slip| Source::Slip(packet, slip)),
        None => Some(Source::Packet(packet)),
    }
}

/// The events of an item so far. They are the same as those that its changes were.
pub fn of_item(key: &Key, image: Item, currency: &str) -> Result<Vec<Event>, Unreadable> {
    if !is_packet(key) {
        return of_change(Change::Insert, key, image, currency);
    }
    let unreadable = |source| Unreadable { pk: key.pk.clone(), source };
    let state: StateImage = read(image.clone()).map_err(unreadable)?;
    let mut events = of_change(Change::Insert, key, image, currency)?;
    events.extend(state.closed());
    events.extend(state.settled());
    Ok(events)
}

/// The events of one change, of an item as it is since. They say only what the item says, so they are the same whenever they are made.
pub fn of_change(change: Change, key: &Key, image: Item, currency: &str) -> Result<Vec<Event>, Unreadable> {
    let unreadable = |source| Unreadable { pk: key.pk.clone(), source };
    match change {
        Change::Insert if is_claim(key) => {
            let claim: ClaimImage = read(image).map_err(unreadable)?;
            Ok(user_of(key).map(|user| Event::SlipClaimed(claim.claimed(user, currency))).into_iter().collect())
        }
        Change::Insert if is_packet(key) => {
            Ok(vec![Event::PacketSent(read::<SentImage>(image).map_err(unreadable)?.sent())])
        }
        Change::Modify if is_packet(key) => read::<StateImage>(image).map_err(unreadable).map(StateImage::events),
        Change::Insert | Change::Modify => Ok(Vec::new()),
    }
}

impl Event {
    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::PacketSent(_) => "PacketSent",
            Self::SlipClaimed(_) => "SlipClaimed",
            Self::PacketClosed(_) => "PacketClosed",
            Self::PacketSettled(_) => "PacketSettled",
            Self::PacketRefunded(_) => "PacketRefunded",
        }
    }

    /// A name for what happened: the same each time that this event arrives, and no other event's.
    pub fn id(&self) -> String {
        match self {
            Self::PacketSent(event) => format!("evt_{}_sent", event.packet_id),
            Self::SlipClaimed(event) => format!("evt_{}_claimed_{}", event.packet_id, event.slip),
            Self::PacketClosed(event) => format!("evt_{}_closed", event.packet_id),
            Self::PacketSettled(event) => format!("evt_{}_settled", event.packet_id),
            Self::PacketRefunded(event) => format!("evt_{}_refunded", event.packet_id),
        }
    }

    /// When it happened.
    pub const fn at(&self) -> Timestamp {
        match self {
            Self::PacketSent(event) => event.created_at,
            Self::SlipClaimed(event) => event.grabbed_at,
            Self::PacketClosed(event) => event.closed_at,
            Self::PacketSettled(event) | Self::PacketRefunded(event) => event.settled_at,
        }
    }
}

fn is_packet(key: &Key) -> bool {
    keys::packet_of(&key.pk).is_some_and(|id| keys::packet(id) == *key)
}

fn is_claim(key: &Key) -> bool {
    key.sk.starts_with(keys::CLAIM)
}

fn user_of(key: &Key) -> Option<UserId> {
    keys::user_of(&key.pk)
}

fn read<I: DeserializeOwned>(image: Item) -> Result<I, serde_dynamo::Error> {
    serde_dynamo::from_item(image)
}

/// What an event says of a packet that was sent.
#[derive(Deserialize)]
struct SentImage {
    packet_id: PacketId,
    sender_id: UserId,
    reference: Option<Reference>,
    split: Split,
    total_amount: Amount,
    slip_count: u32,
    currency: String,
    greeting: String,
    created_at: Timestamp,
    expires_at: Timestamp,
    start: Option<StartImage>,
}

#[derive(Deserialize)]
struct StartImage {
    at: Timestamp,
}

impl SentImage {
    fn sent(self) -> PacketSent {
        PacketSent {
            packet_id: self.packet_id,
            sender_id: self.sender_id,
            reference: self.reference,
            split: self.split,
            total_amount: self.total_amount,
            count: self.slip_count,
            currency: self.currency,
            greeting: self.greeting,
            created_at: self.created_at,
            starts_at: self.start.map(|start| start.at),
            expires_at: self.expires_at,
        }
    }
}

/// What an event says of a claim.
#[derive(Deserialize)]
struct ClaimImage {
    packet_id: PacketId,
    sender_id: UserId,
    reference: Option<Reference>,
    slip: u32,
    amount: Amount,
    at: Timestamp,
}

impl ClaimImage {
    fn claimed(self, user_id: UserId, currency: &str) -> SlipClaimed {
        SlipClaimed {
            packet_id: self.packet_id,
            sender_id: self.sender_id,
            reference: self.reference,
            user_id,
            slip: self.slip,
            amount: self.amount,
            currency: currency.to_owned(),
            grabbed_at: self.at,
        }
    }
}

/// What an event says of a packet's state. A packet that is open and not closed has no event here.
#[derive(Deserialize)]
struct StateImage {
    packet_id: PacketId,
    sender_id: UserId,
    reference: Option<Reference>,
    total_amount: Amount,
    currency: String,
    closed_at: Option<Timestamp>,
    close_reason: Option<String>,
    /// Absent in a closed packet until it is settled.
    status: Option<String>,
    refunded_count: Option<u32>,
    refunded_amount: Option<Amount>,
    claimed_count: Option<u32>,
    claimed_amount: Option<Amount>,
    settled_at: Option<Timestamp>,
}

impl StateImage {
    /// The events of the last change. A packet is closed before it is settled.
    fn events(self) -> Vec<Event> {
        let settled = self.settled();
        if settled.is_empty() { self.closed().into_iter().collect() } else { settled }
    }

    fn closed(&self) -> Option<Event> {
        Some(Event::PacketClosed(PacketClosed {
            packet_id: self.packet_id,
            sender_id: self.sender_id.clone(),
            reference: self.reference.clone(),
            reason: self.close_reason.clone().unwrap_or_default(),
            closed_at: self.closed_at?,
        }))
    }

    fn settled(&self) -> Vec<Event> {
        let sums = (self.claimed_count, self.claimed_amount, self.refunded_count, self.refunded_amount);
        if self.status.as_deref() == Some(crate::ledger::SETTLED)
            && let (Some(claimed_count), Some(claimed_amount), Some(refunded_count), Some(refunded_amount)) = sums
            && let Some(settled_at) = self.settled_at
        {
            let settled = PacketSettled {
                packet_id: self.packet_id,
                sender_id: self.sender_id.clone(),
                reference: self.reference.clone(),
                refunded_count,
                refunded_amount,
                claimed_count,
                claimed_amount,
                total_amount: self.total_amount,
                currency: self.currency.clone(),
                settled_at,
            };
            let refunded = (refunded_count > 0).then(|| Event::PacketRefunded(settled.clone()));
            return std::iter::once(Event::PacketSettled(settled)).chain(refunded).collect();
        }
        Vec::new()
    }
}

/// A moment as answers show it.
mod rfc3339 {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::domain::Timestamp;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(at)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        String::deserialize(from)?.parse().map_err(|()| de::Error::custom("not a time (RFC 3339)"))
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
    use serde_json::Value;

    use super::*;

    /// `tests/aws/test_events.py` gives the same changes to the state machine.
    #[test]
    fn changes_become_the_events_that_the_state_machine_makes_of_them() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/events.json");
        let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert!(cases.len() > 10);
        for case in &cases {
            let record = &case["record"];
            let (keys, image) = (&record["dynamodb"]["Keys"], &record["dynamodb"]["NewImage"]);
            let text = |value: &Value| value["S"].as_str().unwrap().to_owned();
            let key = Key { pk: text(&keys["PK"]), sk: text(&keys["SK"]) };
            let change = match record["eventName"].as_str().unwrap() {
                "INSERT" => Change::Insert,
                "MODIFY" => Change::Modify,
                // The ledger removes nothing, so the local stack never sees this.
                _ => continue,
            };
            let events = if concerns(&key) {
                of_change(change, &key, serde_json::from_value(image.clone()).unwrap(), "CNY").unwrap()
            } else {
                Vec::new()
            };
            assert_eq!(serde_json::to_value(&events).unwrap(), case["events"], "{}", case["case"]);
            for event in events {
                let text = serde_json::to_string(&event).unwrap();
                assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event, "it reads as it was written");
                assert!(event.at().ms() > 0 && text.contains(event.name()));
            }
        }
    }

    /// 13. What is delivered again, from the attributes that a scan reads, is what was delivered the first time.
    #[test]
    fn an_item_tells_all_events_that_its_changes_were() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/events.json");
        let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for case in cases.iter().filter(|case| !case["events"].as_array().unwrap().is_empty()) {
            let body = &case["record"]["dynamodb"];
            let text = |value: &Value| value["S"].as_str().unwrap().to_owned();
            let key = Key { pk: text(&body["Keys"]["PK"]), sk: text(&body["Keys"]["SK"]) };
            let mut image: Item = serde_json::from_value(body["NewImage"].clone()).unwrap();
            image.inner_mut().retain(|name, _| ATTRIBUTES.contains(&name.as_str()));
            let is_closed = image.contains_key("closed_at");
            let events = of_item(&key, image, "CNY").unwrap();
            let expected: Vec<Event> = serde_json::from_value(case["events"].clone()).unwrap();
            assert!(expected.iter().all(|event| events.contains(event)), "{}: {events:?}", case["case"]);
            let names: Vec<&str> = events.iter().map(Event::name).collect();
            let is_settled = names.contains(&"PacketSettled");
            assert_eq!(names.contains(&"PacketSent"), is_packet(&key));
            assert_eq!(names.contains(&"PacketClosed"), is_closed, "{}", case["case"]);
            assert_eq!(is_settled, case["events"][0]["type"] == "PacketSettled");
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
        for bad in [
            "",
            "evt_",
            "evt_x_sent",
            "38FS4S83HF3Y07WMYNH727QYT0",
            &format!("evt_{id}_claimed_x"),
            &format!("evt_{id}"),
        ] {
            assert_eq!(source(bad), None, "{bad}");
        }
    }

    #[test]
    fn no_two_events_of_a_packet_have_the_same_id() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/events.json");
        let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let events = cases.iter().flat_map(|case| case["events"].as_array().unwrap());
        let events: Vec<Event> = events.map(|event| serde_json::from_value(event.clone()).unwrap()).collect();
        let ids: std::collections::BTreeMap<String, &str> =
            events.iter().map(|event| (event.id(), event.name())).collect();
        assert_eq!(ids.len(), 5, "{ids:?}");
        // The specification forbids dots, which separate the parts of the signed text.
        assert!(ids.keys().all(|id| !id.contains('.')));
    }
}
