//! Tickets: the app's word on who may grab, in a compact JWS (RFC 7515) that it signs. Nothing of a ticket is stored.

mod keys;

use serde::Deserialize;

pub use keys::{KeysError, TicketKeys};

use crate::domain::{PacketId, Reference, Terms, Timestamp, UserId};

/// The longest ticket, in characters. One has about 300.
pub const CHARACTERS_MAX: usize = 2_048;
/// What a ticket says of its audience.
const AUDIENCE: &str = "hongbao:grab";
/// How far the clock of the one who signed may be off, in seconds.
const LEEWAY_S: u64 = 10;
/// The longest time from `iat` to `exp`, in seconds.
const LIFE_MAX_S: u64 = 24 * 60 * 60;

/// Why a ticket admits nobody.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TicketFault {
    /// There is none.
    Missing,
    /// It is not signed by a known key, or is not this user's, or not for this packet.
    Invalid(Flaw),
    /// It was valid until its `exp`.
    Expired,
}

/// What is wrong with a ticket that is not valid: for logs, which have nothing of the ticket itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Flaw {
    /// Nobody can check it.
    #[error("it is no JWS that names one of the keys, with that key's algorithm")]
    Key,
    /// Somebody else signed it, or it was changed.
    #[error("its signature is not that of the key that it names")]
    Signature,
    /// It lacks one, or one has another type.
    #[error("its claims are not sub, aud, iat and exp, each as it must be")]
    Claims,
    /// It is for something else.
    #[error("its aud is not {AUDIENCE}")]
    Audience,
    /// It is another user's.
    #[error("its sub is another user")]
    User,
    /// It is for no packet, or for more than one.
    #[error("it names neither one packet nor a reference with its sender")]
    Scope,
    /// Its times contradict each other.
    #[error("its exp is before its iat or its nbf, or more than {LIFE_MAX_S} s after its iat")]
    Life,
    /// By so many seconds, or more than a number here can say.
    #[error("its iat is {0} s ahead of the clock here: the clock of its signer is fast")]
    Ahead(u16),
    /// It is for others.
    #[error("it is for another packet")]
    Packet,
}

/// A ticket whose signature and times are right.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ticket {
    /// What it is for.
    pub scope: Scope,
    /// From when on it admits its user; `None`: at once.
    pub not_before: Option<Timestamp>,
}

/// The packets that a ticket is for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Scope {
    /// One packet.
    Packet(PacketId),
    /// All packets of a sender with a reference.
    Reference(UserId, Reference),
}

#[derive(Deserialize)]
struct Claims {
    aud: Audience,
    sub: String,
    pkt: Option<String>,
    r#ref: Option<String>,
    snd: Option<String>,
    iat: u64,
    exp: u64,
    nbf: Option<u64>,
}

/// RFC 7519 allows one text, or a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl TicketKeys {
    /// The ticket in `text`, if it is `user`'s and valid at `now`. The caller checks with [`Ticket::is_for`] whether it is for the packet.
    pub fn open(&self, text: &str, user: &UserId, now: Timestamp) -> Result<Ticket, TicketFault> {
        let claims: Claims = self.claims(text).map_err(TicketFault::Invalid)?;
        let is_ours = match &claims.aud {
            Audience::One(one) => one == AUDIENCE,
            Audience::Several(all) => all.iter().any(|one| one == AUDIENCE),
        };
        if !is_ours {
            return Err(TicketFault::Invalid(Flaw::Audience));
        }
        if claims.sub != user.as_str() {
            return Err(TicketFault::Invalid(Flaw::User));
        }
        let scope = claims.scope().ok_or(TicketFault::Invalid(Flaw::Scope))?;
        let now_s = now.ms() / 1_000;
        let life = claims.exp.checked_sub(claims.iat).filter(|life| *life <= LIFE_MAX_S);
        let is_never = claims.nbf.is_some_and(|nbf| nbf >= claims.exp);
        if life.is_none() || is_never {
            return Err(TicketFault::Invalid(Flaw::Life));
        }
        if claims.iat > now_s + LEEWAY_S {
            let ahead = u16::try_from(claims.iat - now_s).unwrap_or(u16::MAX);
            return Err(TicketFault::Invalid(Flaw::Ahead(ahead)));
        }
        if claims.exp + LEEWAY_S <= now_s {
            return Err(TicketFault::Expired);
        }
        let not_before = claims.nbf.filter(|nbf| *nbf > now_s + LEEWAY_S);
        let not_before = not_before.map(|nbf| Timestamp::from_ms(nbf.saturating_mul(1_000)));
        Ok(Ticket { scope, not_before })
    }
}

impl Claims {
    /// Exactly one of a packet and a reference. A reference is its sender's.
    fn scope(&self) -> Option<Scope> {
        match (&self.pkt, &self.r#ref, &self.snd) {
            (Some(id), None, None) => Some(Scope::Packet(id.parse().ok()?)),
            (None, Some(reference), Some(sender)) => {
                Some(Scope::Reference(sender.parse().ok()?, reference.parse().ok()?))
            }
            _ => None,
        }
    }
}

impl Ticket {
    /// Whether it is for the packet of these terms.
    pub fn is_for(&self, terms: &Terms) -> bool {
        match &self.scope {
            Scope::Packet(id) => *id == terms.id,
            Scope::Reference(sender, reference) => {
                *sender == terms.sender && terms.labels.reference.as_ref() == Some(reference)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::domain::Labels;

    /// Tokens and their verdicts, which other implementations check too.
    fn vectors() -> Value {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/tickets.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn each_token_has_its_verdict() {
        let file = vectors();
        let keys = TicketKeys::parse(&file["keys"].to_string()).unwrap();
        let text = |vector: &Value, name: &str| vector[name].as_str().unwrap().to_owned();
        for vector in file["vectors"].as_array().unwrap() {
            let now = Timestamp::from_ms(vector["at"].as_u64().unwrap() * 1_000);
            let terms = Terms {
                id: text(vector, "packet").parse().unwrap(),
                sender: text(vector, "sender").parse().unwrap(),
                labels: Labels { reference: Some(text(vector, "reference").parse().unwrap()), ..Labels::default() },
                ..Terms::sample()
            };
            let opened = keys.open(&text(vector, "token"), &text(vector, "user").parse().unwrap(), now);
            let verdict = match &opened {
                Ok(ticket) if !ticket.is_for(&terms) => "foreign",
                Ok(Ticket { not_before: Some(_), .. }) => "early",
                Ok(_) => "valid",
                Err(TicketFault::Expired) => "expired",
                Err(_) => "invalid",
            };
            assert_eq!(verdict, vector["verdict"], "{}: {opened:?}", vector["name"]);
            if verdict == "early" {
                let not_before = opened.unwrap().not_before.map(|at| at.ms() / 1_000);
                assert_eq!(not_before, vector["not_before"].as_u64(), "{}", vector["name"]);
            }
        }
    }

    #[test]
    fn what_a_client_signs_is_valid() {
        let file = vectors();
        let keys = TicketKeys::parse(&file["keys"].to_string()).unwrap();
        for signed in file["signed"].as_array().unwrap() {
            let now = Timestamp::from_ms(signed["now"].as_u64().unwrap() * 1_000);
            let user = signed["ticket"]["user"].as_str().unwrap().parse().unwrap();
            let opened = keys.open(signed["token"].as_str().unwrap(), &user, now);
            assert!(opened.is_ok(), "{}: {opened:?}", signed["name"]);
        }
    }

    #[test]
    fn keys_are_one_or_two_of_the_two_kinds() {
        for set in vectors()["key_sets"].as_array().unwrap() {
            let fault = TicketKeys::parse(set["text"].as_str().unwrap()).err().map(|error| error.to_string());
            assert_eq!(fault.as_deref(), set["fault"].as_str(), "{set}");
        }
    }
}
