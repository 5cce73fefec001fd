//! Signs tickets: your app's word on who may grab a packet with `eligibility: ticket`. For your server only: the holder of the key
//! decides who wins. HS256 only: for `EdDSA` take a library for JWTs.
//!
//! ```
//! use hongbao_client::tickets::{Scope, Ticket, TicketKey};
//!
//! let key = r#"{"kty":"oct","kid":"2027-1","k":"PYbn25y-McoGFfH72cvSQG_cjLHINbaqjMUQ0RBIIGU"}"#;
//! let ticket = Ticket::new("bob", Scope::Packet("38FS4S83HF3Y07WMYNH727QYT0"));
//! let token = TicketKey::from_jwk(key)?.sign(&ticket)?;
//! assert_eq!(token.split('.').count(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// The fewest bytes of a key (RFC 7518, 3.2).
const KEY_BYTES_MIN: usize = 32;
/// The longest ticket that the engine accepts.
const EXPIRES_IN_MAX: Duration = Duration::from_hours(24);

/// A key of HS256, with its id. It signs no other algorithm.
#[derive(Clone)]
pub struct TicketKey {
    id: String,
    secret: Vec<u8>,
}

/// Why a text is no key. The message never shows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the key must be a JWK of kty oct, with a kid, and with at least {KEY_BYTES_MIN} bytes in base64url")]
pub struct TicketKeyError;

/// Why a ticket is not signed: the engine would refuse it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TicketError {
    /// The user, or what they may grab, is empty.
    #[error("a ticket names its user, and what it is for")]
    Empty,
    /// It would be valid for less than a second, or for more than a day.
    #[error("a ticket is valid for a second to a day")]
    Life,
    /// The user's turn would come once it has expired.
    #[error("a ticket's turn comes before it expires")]
    Turn,
}

/// The packets that a ticket is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope<'a> {
    /// The packet with this id.
    Packet(&'a str),
    /// All packets of a sender with a reference.
    Reference {
        /// The sender's user id.
        sender: &'a str,
        /// The packets' reference.
        reference: &'a str,
    },
}

/// What a ticket says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ticket<'a> {
    /// The user who may grab: the `sub` of their token.
    pub user: &'a str,
    /// What they may grab.
    pub scope: Scope<'a>,
    /// How long it is valid: a second to a day, in whole seconds.
    pub expires_in: Duration,
    /// When the user's turn comes, before the ticket expires; `None`: at once.
    pub not_before: Option<SystemTime>,
}

impl<'a> Ticket<'a> {
    /// A ticket that is valid at once, and for an hour.
    pub const fn new(user: &'a str, scope: Scope<'a>) -> Self {
        Self { user, scope, expires_in: Duration::from_hours(1), not_before: None }
    }
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: String,
    k: String,
}

#[derive(Serialize)]
struct Header<'a> {
    alg: &'static str,
    kid: &'a str,
}

#[derive(Serialize)]
struct Claims<'a> {
    aud: &'static str,
    sub: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pkt: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#ref: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snd: Option<&'a str>,
    iat: u64,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    nbf: Option<u64>,
}

impl TicketKey {
    /// Reads a JWK.
    pub fn from_jwk(text: &str) -> Result<Self, TicketKeyError> {
        let jwk: Jwk = serde_json::from_str(text).map_err(|_| TicketKeyError)?;
        let secret = URL_SAFE_NO_PAD.decode(&jwk.k).map_err(|_| TicketKeyError)?;
        let is_good = jwk.kty == "oct" && !jwk.kid.is_empty() && secret.len() >= KEY_BYTES_MIN;
        if is_good { Ok(Self { id: jwk.kid, secret }) } else { Err(TicketKeyError) }
    }

    /// The ticket, signed: the value of the header `Grab-Ticket`. Fails if the engine would refuse it.
    pub fn sign(&self, ticket: &Ticket<'_>) -> Result<String, TicketError> {
        self.sign_at(ticket, SystemTime::now())
    }

    /// The same, signed at this time.
    pub fn sign_at(&self, ticket: &Ticket<'_>, now: SystemTime) -> Result<String, TicketError> {
        let seconds = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let (pkt, r#ref, snd) = match ticket.scope {
            Scope::Packet(id) => (Some(id), None, None),
            Scope::Reference { sender, reference } => (None, Some(reference), Some(sender)),
        };
        if [Some(ticket.user), pkt, r#ref, snd].contains(&Some("")) {
            return Err(TicketError::Empty);
        }
        if ticket.expires_in < Duration::from_secs(1) || ticket.expires_in > EXPIRES_IN_MAX {
            return Err(TicketError::Life);
        }
        let iat = seconds(now);
        let exp = iat + ticket.expires_in.as_secs();
        let nbf = ticket.not_before.map(seconds);
        if nbf.is_some_and(|nbf| nbf >= exp) {
            return Err(TicketError::Turn);
        }
        let claims = Claims { aud: "hongbao:grab", sub: ticket.user, pkt, r#ref, snd, iat, exp, nbf };
        let signed = format!("{}.{}", encoded(&Header { alg: "HS256", kid: &self.id }), encoded(&claims));
        // HMAC takes keys of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.secret) else { unreachable!() };
        mac.update(signed.as_bytes());
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())))
    }
}

fn encoded(value: &impl Serialize) -> String {
    // Texts and numbers are JSON.
    let Ok(text) = serde_json::to_string(value) else { unreachable!() };
    URL_SAFE_NO_PAD.encode(text)
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TicketKey").field(&self.id).finish()
    }
}
