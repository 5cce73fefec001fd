//! One webhook: an event as a signed request, after the Standard Webhooks specification.

use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use shared::domain::Timestamp;
use shared::events::Event;
use shared::ports::{Clock as _, System};
use shared::secret::Secret;

use crate::client::{PostError, Receiver};
use crate::retry;
use crate::secret::Secrets;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Why an event was not delivered.
#[derive(Debug, thiserror::Error)]
pub enum Undelivered {
    /// The message is no event of this version.
    #[error("the message is no event")]
    NoEvent(#[source] serde_json::Error),
    /// There is no secret to sign with.
    #[error("the secret of webhooks can't be read: {0}")]
    NoSecret(String),
    /// The receiver does not have it, as far as is known.
    #[error(transparent)]
    Post(#[from] PostError),
}

impl Undelivered {
    /// Whether another event would not have been delivered either, as far as is known.
    pub const fn is_the_receivers(&self) -> bool {
        !matches!(self, Self::NoEvent(_) | Self::Post(PostError::Request(_)))
    }

    /// Whether the receiver says that it is gone.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Post(PostError::Status { status, .. }) if *status == StatusCode::GONE)
    }

    /// How long the receiver asks not to be called, from `now` on.
    pub fn retry_after(&self, now: Timestamp) -> Option<Duration> {
        let Self::Post(PostError::Status { status, retry_after: Some(header) }) = self else { return None };
        let is_busy = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(status);
        is_busy.then(|| retry::retry_after(header, now)).flatten()
    }
}

/// The body of a request.
#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    timestamp: String,
    data: &'a Event,
}

/// A request's body and headers.
struct Signed {
    headers: [(HeaderName, HeaderValue); 3],
    body: String,
}

/// Delivers events to one receiver.
#[derive(Debug)]
pub struct Webhook {
    receiver: Receiver,
    secrets: Secret<Secrets>,
}

/// Reads the event of a message.
pub fn read(text: &str) -> Result<Event, Undelivered> {
    serde_json::from_str(text).map_err(Undelivered::NoEvent)
}

/// The request of an event at `now`. However its message spells it, the request has the same bytes.
fn sign(event: &Event, secrets: &Secrets, now: Timestamp) -> Result<Signed, Undelivered> {
    let body = Body { kind: event.name(), timestamp: event.at().to_string(), data: event };
    let body = serde_json::to_string(&body).map_err(Undelivered::NoEvent)?;
    let (id, seconds) = (event.id(), now.ms() / 1000);
    let signatures = secrets.signatures(&id, seconds, &body);
    let header = |text: &str| HeaderValue::from_str(text).map_err(|error| PostError::Request(error.into()));
    let headers = [(ID, header(&id)?), (TIMESTAMP, seconds.into()), (SIGNATURE, header(&signatures)?)];
    Ok(Signed { headers, body })
}

impl Webhook {
    /// Webhooks to `receiver`, signed by `secrets`.
    pub const fn new(receiver: Receiver, secrets: Secret<Secrets>) -> Self {
        Self { receiver, secrets }
    }

    /// Tries once to deliver an event. The receiver compares the time of the signature with its own clock, so it is that of the machine,
    /// also where tests move the queue's.
    pub async fn deliver(&self, event: &Event) -> Result<(), Undelivered> {
        let secrets = self.secrets.current().await.map_err(Undelivered::NoSecret)?;
        let Signed { headers, body } = sign(event, &secrets, System.now())?;
        Ok(self.receiver.post(headers, body).await?)
    }
}

#[cfg(test)]
mod tests {
    use shared::ports::System;

    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const CLAIMED: &str = r#"{"type":"SlipClaimed","packet_id":"38FS4S83HF3Y07WMYNH727QYT0","sender_id":"alice","user_id":"bob@a.example","slip":7,"amount":1234,"currency":"CNY","grabbed_at":"2026-11-20T13:30:02.391Z"}"#;

    /// The library is the specification's own.
    #[test]
    fn the_specifications_library_verifies_a_request() {
        let event = read(CLAIMED).unwrap();
        let now = System.now();
        let Signed { headers, body } = sign(&event, &Secrets::parse(SECRET).unwrap(), now).unwrap();
        let headers: http::HeaderMap = headers.into_iter().collect();
        let verifier = standardwebhooks::Webhook::new(SECRET).unwrap();
        verifier.verify(body.as_bytes(), &headers).unwrap();
        assert!(verifier.verify(format!("{body} ").as_bytes(), &headers).is_err());
        assert_eq!(headers["webhook-id"], "evt_38FS4S83HF3Y07WMYNH727QYT0_claimed_7");
        assert_eq!(headers["webhook-timestamp"], *(now.ms() / 1000).to_string());
        let expected = format!(r#"{{"type":"SlipClaimed","timestamp":"2026-11-20T13:30:02.391Z","data":{CLAIMED}}}"#);
        assert_eq!(body, expected);
    }

    /// 14. A receiver may compare bodies, and another version may spell an event in another way than this program.
    #[test]
    fn a_body_does_not_depend_on_how_its_message_is_spelt() {
        let secrets = Secrets::parse(SECRET).unwrap();
        let body = |text: &str| sign(&read(text).unwrap(), &secrets, System.now()).unwrap().body;
        let shuffled = r#"{ "slip": 7, "amount":1234,"currency":"CN\u0059",
            "grabbed_at":"2026-11-20T13:30:02.391Z","sender_id":"alice","user_id":"bob\u0040a.example",
            "packet_id":"38FS4S83HF3Y07WMYNH727QYT0","type":"SlipClaimed","reference":null,"of a later version":[1, 2]}"#;
        assert_eq!(body(shuffled), body(CLAIMED));
    }

    #[test]
    fn a_message_that_is_no_event_is_refused() {
        for text in ["", "{}", r#"{"type":"PacketFound"}"#, "[]", &CLAIMED.replace("\"slip\":7,", "")] {
            assert!(matches!(read(text), Err(Undelivered::NoEvent(_))), "{text}");
        }
    }
}
