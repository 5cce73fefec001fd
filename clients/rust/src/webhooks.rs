//! The check of webhooks, after the Standard Webhooks specification.
//!
//! A receiver answers a delivery with 401 if [`verify`] refuses it, and with 2xx once it has stored what the event asks for. It does
//! that within some seconds; otherwise the service delivers the event again. Events may come twice, and in any order.
//!
//! ```
//! use std::time::{Duration, SystemTime};
//!
//! use http::HeaderMap;
//! use hongbao_client::webhooks::{Data, verify_at};
//!
//! let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
//! let body = r#"{"type":"PacketThawed","timestamp":"2021-02-25T15:02:10.000Z","data":{"packet_id":"38FS4S83HF3Y07WMYNH727QYT0"}}"#;
//! let mut headers = HeaderMap::new();
//! headers.insert("webhook-id", "evt_1".parse()?);
//! headers.insert("webhook-timestamp", "1614265330".parse()?);
//! headers.insert("webhook-signature", "v1,jXscQGf7FiO6d2xFviQaRAh8bhESe3LnXGa1WtPkvmA=".parse()?);
//!
//! let event = verify_at(secret, &headers, body.as_bytes(), SystemTime::UNIX_EPOCH + Duration::from_secs(1_614_265_400))?;
//! assert_eq!(event.id, "evt_1");
//! // An event of a later version.
//! assert!(matches!(event.data, Data::Other { kind, .. } if kind == "PacketThawed"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::Sha256;

/// The longest time between a delivery's timestamp and now. A recorded delivery cannot be repeated later.
const TOLERANCE: Duration = Duration::from_mins(5);
/// The fewest bytes of a secret, by the specification, and the base64 of so many.
const SECRET_BYTES_MIN: usize = 24;
const SECRET_CHARACTERS_MIN: usize = SECRET_BYTES_MIN / 3 * 4;

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The secret can't be used, for this reason: a mistake in the receiver's configuration.
    #[error("the secret {0}")]
    Secret(&'static str),
    /// The request lacks a header.
    #[error("the header {0} is missing")]
    Header(&'static str),
    /// The request was recorded, or a clock is wrong.
    #[error("the timestamp is more than five minutes from now")]
    Timestamp,
    /// The service did not send the request.
    #[error("no signature fits the secret")]
    Signature,
    /// The signature fits, but the body is no event of this API.
    #[error("the body is not an event")]
    Body(#[source] serde_json::Error),
}

/// An event that was delivered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Event {
    /// The same each time the event is delivered.
    pub id: String,
    /// When the event happened, in RFC 3339.
    pub timestamp: String,
    /// What happened.
    pub data: Data,
}

/// What happened.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Data {
    /// A packet is paid for.
    PacketSent(PacketSent),
    /// A user owns a slip, and its amount is in their wallet.
    SlipClaimed(SlipClaimed),
    /// Every slip of a packet is claimed.
    PacketSoldOut(PacketSoldOut),
    /// The operator closed a packet.
    PacketClosed(PacketClosed),
    /// Every slip of a packet is claimed or refunded.
    PacketSettled(PacketSettled),
    /// The same, if some slips were refunded: their amount is in the sender's wallet.
    PacketRefunded(PacketSettled),
    /// A withdrawal is pending.
    WithdrawalRequested(WithdrawalRequested),
    /// A pending withdrawal is paid out.
    WithdrawalPosted(WithdrawalPosted),
    /// A pending withdrawal is back in the wallet.
    WithdrawalVoided(WithdrawalVoided),
    /// A type of event that this client does not know: ignore it.
    Other {
        /// Its type.
        kind: String,
        /// Its fields.
        data: Value,
    },
}

/// A packet is paid for.
#[expect(missing_docs, reason = "the fields are those of the contract")]
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PacketSent {
    pub packet_id: String,
    pub sender_id: String,
    pub reference: Option<String>,
    pub split: String,
    pub total_amount: u64,
    pub count: u32,
    pub currency: String,
    pub greeting: String,
    pub created_at: String,
    pub starts_at: Option<String>,
    pub expires_at: String,
    pub trace_id: Option<String>,
}

/// A user owns a slip.
#[expect(missing_docs, reason = "the fields are those of the contract")]
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SlipClaimed {
    pub packet_id: String,
    pub sender_id: String,
    pub reference: Option<String>,
    pub user_id: String,
    pub slip: u32,
    pub amount: u64,
    pub currency: String,
    pub grabbed_at: String,
    pub trace_id: Option<String>,
}

/// A withdrawal is pending.
#[expect(missing_docs, reason = "the fields are those of the contract")]
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct WithdrawalRequested {
    pub user_id: String,
    pub withdrawal_id: String,
    pub amount: u64,
    pub currency: String,
    pub requested_by: String,
    pub note: Option<String>,
    pub at: String,
    pub trace_id: Option<String>,
}

/// A pending withdrawal is paid out.
#[expect(missing_docs, reason = "the fields are those of the contract")]
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct WithdrawalPosted {
    pub user_id: String,
    pub withdrawal_id: String,
    pub amount: u64,
    pub currency: String,
    pub requested_by: String,
    pub posted_amount: u64,
    pub ended_at: String,
    pub trace_id: Option<String>,
}

/// A pending withdrawal is back in the wallet.
#[expect(missing_docs, reason = "the fields are those of the contract")]
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct WithdrawalVoided {
    pub user_id: String,
    pub withdrawal_id: String,
    pub amount: u64,
    pub currency: String,
    pub requested_by: String,
    pub void_reason: Option<String>,
    pub ended_at: String,
    pub trace_id: Option<String>,
}

/// The operator closed a packet.
#[expect(missing_docs, reason = "the fields are those of the contract")]
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PacketClosed {
    pub packet_id: String,
    pub sender_id: String,
    pub reference: Option<String>,
    pub reason: String,
    pub closed_at: String,
    pub trace_id: Option<String>,
}

/// Every slip of a packet is claimed.
#[expect(missing_docs, reason = "the fields are those of the contract")]
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PacketSoldOut {
    pub packet_id: String,
    pub sender_id: String,
    pub reference: Option<String>,
    pub count: u32,
    pub total_amount: u64,
    pub currency: String,
    pub sold_out_at: String,
    /// From the moment in which users could grab until then, rounded up.
    pub seconds: u64,
}

/// A packet is settled.
#[expect(missing_docs, reason = "the fields are those of the contract")]
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PacketSettled {
    pub packet_id: String,
    pub sender_id: String,
    pub reference: Option<String>,
    pub refunded_count: u32,
    pub refunded_amount: u64,
    pub claimed_count: u32,
    pub claimed_amount: u64,
    pub total_amount: u64,
    pub currency: String,
    pub settled_at: Option<String>,
}

/// Returns the event of a delivery that the service sent in the last five minutes.
///
/// `secret` is that of the webhook: `whsec_` and base64 in either alphabet, with padding or without; it may have line breaks. `body` is the
/// body exactly as it came: not parsed and serialised again.
///
/// # Errors
/// If the request is not such a delivery: answer it with 401. [`WebhookError::Secret`] is a mistake of the receiver.
pub fn verify(secret: &str, headers: &HeaderMap, body: &[u8]) -> Result<Event, WebhookError> {
    verify_at(secret, headers, body, SystemTime::now())
}

/// The same as [`verify`] at another time, for tests.
pub fn verify_at(secret: &str, headers: &HeaderMap, body: &[u8], now: SystemTime) -> Result<Event, WebhookError> {
    let mac = Hmac::<Sha256>::new_from_slice(&key_of(secret)?).map_err(|_| WebhookError::Secret("is no key"))?;
    let header = |name: &'static str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.filter(|value| !value.is_empty()).ok_or(WebhookError::Header(name))
    };
    let (id, timestamp, signatures) =
        (header("webhook-id")?, header("webhook-timestamp")?, header("webhook-signature")?);
    if !is_recent(timestamp, now) {
        return Err(WebhookError::Timestamp);
    }
    let signed = mac.chain_update(id).chain_update(".").chain_update(timestamp).chain_update(".").chain_update(body);
    // There are several signatures while a secret is replaced.
    let mut offered = signatures.split(' ').filter_map(|text| STANDARD.decode(text.strip_prefix("v1,")?).ok());
    // The comparison takes the same time for each signature of the right length.
    if !offered.any(|signature| signed.clone().verify_slice(&signature).is_ok()) {
        return Err(WebhookError::Signature);
    }
    event(id, body).map_err(WebhookError::Body)
}

/// The bytes of a secret. An error never shows them.
fn key_of(secret: &str) -> Result<Vec<u8>, WebhookError> {
    let mut lines = secret.split(['\n', '\r']).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let mut encoded = first.strip_prefix("whsec_").unwrap_or(first).to_owned();
    for line in lines {
        if line.len() >= SECRET_CHARACTERS_MIN {
            return Err(WebhookError::Secret("has a line that may be a secret of its own"));
        }
        encoded += line;
    }
    let is_whole = !encoded.ends_with('=') || encoded.len().is_multiple_of(4);
    let characters = encoded.strip_suffix("==").or_else(|| encoded.strip_suffix('=')).unwrap_or(&encoded);
    let engine = match (characters.contains(['+', '/']), characters.contains(['-', '_'])) {
        (true, true) => return Err(WebhookError::Secret("mixes the two alphabets of base64")),
        (_, true) => URL_SAFE_NO_PAD,
        (_, false) => STANDARD_NO_PAD,
    };
    match engine.decode(characters) {
        Ok(key) if is_whole && key.len() >= SECRET_BYTES_MIN => Ok(key),
        Ok(_) if is_whole => Err(WebhookError::Secret("is shorter than 24 bytes")),
        _ => Err(WebhookError::Secret("is not whsec_ and base64")),
    }
}

fn is_recent(timestamp: &str, now: SystemTime) -> bool {
    let is_number = timestamp.bytes().all(|byte| byte.is_ascii_digit());
    let Some(seconds) = timestamp.parse().ok().filter(|_| is_number) else { return false };
    let Some(at) = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)) else { return false };
    let apart = now.duration_since(at).unwrap_or_else(|early| early.duration());
    apart <= TOLERANCE
}

fn event(id: &str, body: &[u8]) -> Result<Event, serde_json::Error> {
    #[derive(Deserialize)]
    struct Body {
        #[serde(rename = "type")]
        kind: String,
        timestamp: String,
        data: serde_json::Map<String, Value>,
    }
    let Body { kind, timestamp, data } = serde_json::from_slice(body)?;
    let data = Value::Object(data);
    let data = match &*kind {
        "PacketSent" => Data::PacketSent(serde_json::from_value(data)?),
        "SlipClaimed" => Data::SlipClaimed(serde_json::from_value(data)?),
        "PacketSoldOut" => Data::PacketSoldOut(serde_json::from_value(data)?),
        "PacketClosed" => Data::PacketClosed(serde_json::from_value(data)?),
        "PacketSettled" => Data::PacketSettled(serde_json::from_value(data)?),
        "PacketRefunded" => Data::PacketRefunded(serde_json::from_value(data)?),
        "WithdrawalRequested" => Data::WithdrawalRequested(serde_json::from_value(data)?),
        "WithdrawalPosted" => Data::WithdrawalPosted(serde_json::from_value(data)?),
        "WithdrawalVoided" => Data::WithdrawalVoided(serde_json::from_value(data)?),
        _ => Data::Other { kind, data },
    };
    Ok(Event { id: id.to_owned(), timestamp, data })
}
