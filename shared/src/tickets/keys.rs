use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};
use serde::de::DeserializeOwned;

use super::{CHARACTERS_MAX, Flaw};
use crate::jws::use_ring;

/// The most keys: an old one and a new one.
const KEYS_MAX: usize = 2;
/// The fewest bytes of a key of HS256 (RFC 7518, 3.2).
const SECRET_BYTES_MIN: usize = 32;
/// The bytes of a public key of Ed25519 (RFC 8032, 5.1.5).
const PUBLIC_BYTES: usize = 32;

/// The points of small order on Ed25519's curve, in all their spellings, without the sign of `x`, the highest bit. A key that is one of
/// them has signatures that nobody needs a private key for.
const SMALL_ORDER: [&str; 7] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
];

/// The keys that sign tickets, each with its id and its algorithm.
#[derive(Clone)]
pub struct TicketKeys(Vec<Key>);

#[derive(Clone)]
struct Key {
    id: String,
    algorithm: Algorithm,
    verifying: DecodingKey,
}

/// Why a text has no keys. The message never shows the text.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum KeysError {
    /// It is no set of keys.
    #[error("must be a JWK Set (RFC 7517), {{\"keys\": [...]}}")]
    NoSet,
    /// There is none, or there are too many.
    #[error("must have one key or two")]
    Count,
    /// One has no id, or both have the same.
    #[error("each key must have a `kid` of its own")]
    Id,
    /// One is of another kind.
    #[error("each key must be for HS256 (`kty` oct) or EdDSA (`kty` OKP, `crv` Ed25519)")]
    Algorithm,
    /// One is short.
    #[error("a key for HS256 must have at least {SECRET_BYTES_MIN} bytes, in base64url without padding")]
    Short,
    /// A public one has another length.
    #[error("a key for EdDSA must have an `x` of {PUBLIC_BYTES} bytes, in base64url without padding")]
    Public,
    /// A public one has no private one.
    #[error("a key for EdDSA must not be one of the few for which anybody can sign")]
    Weak,
    /// One is private.
    #[error("a key for EdDSA must be the public one, without `d`")]
    Private,
}

impl TicketKeys {
    /// Reads a JWK Set.
    pub fn parse(text: &str) -> Result<Self, KeysError> {
        use_ring();
        let value: serde_json::Value = serde_json::from_str(text).map_err(|_| KeysError::NoSet)?;
        let is_private = |key: &serde_json::Value| key.get("d").is_some();
        if value["keys"].as_array().is_some_and(|keys| keys.iter().any(is_private)) {
            return Err(KeysError::Private);
        }
        let set: JwkSet = serde_json::from_value(value).map_err(|_| KeysError::NoSet)?;
        if set.keys.is_empty() || set.keys.len() > KEYS_MAX {
            return Err(KeysError::Count);
        }
        let keys: Vec<Key> = set.keys.iter().map(Key::read).collect::<Result<_, _>>()?;
        let is_twice = keys.iter().enumerate().any(|(place, key)| keys[..place].iter().any(|other| other.id == key.id));
        if is_twice { Err(KeysError::Id) } else { Ok(Self(keys)) }
    }

    /// Whether the key that a token names is among them, if it names one. Another may be one that the app has just added.
    pub fn has_key_named_by(&self, token: &str) -> bool {
        let named = header_of(token).and_then(|header| header.kid);
        named.is_none_or(|named| self.0.iter().any(|key| key.id == named))
    }

    /// The claims of a token that one of the keys has signed. The key decides the algorithm, never the token alone.
    pub(super) fn claims<C: DeserializeOwned>(&self, token: &str) -> Result<C, Flaw> {
        let key = self.key_of(token).ok_or(Flaw::Key)?;
        let mut validation = Validation::new(key.algorithm);
        // The caller knows the time and the user.
        validation.required_spec_claims.clear();
        (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
        let opened = decode(token, &key.verifying, &validation);
        opened.map(|token| token.claims).map_err(|error| match error.kind() {
            ErrorKind::InvalidSignature => Flaw::Signature,
            _ => Flaw::Claims,
        })
    }

    fn key_of(&self, token: &str) -> Option<&Key> {
        let header = header_of(token)?;
        self.0.iter().find(|key| header.kid.as_deref() == Some(&key.id) && header.alg == key.algorithm)
    }
}

/// The header of a token that is short enough, and has nothing that must be understood and is not (RFC 7515, 4.1.11).
fn header_of(token: &str) -> Option<Header> {
    if token.len() > CHARACTERS_MAX {
        return None;
    }
    decode_header(token).ok().filter(|header| header.crit.is_none())
}

impl Key {
    fn read(jwk: &Jwk) -> Result<Self, KeysError> {
        let id = jwk.common.key_id.clone().filter(|id| !id.is_empty()).ok_or(KeysError::Id)?;
        let algorithm = match (&jwk.algorithm, jwk.common.key_algorithm) {
            (AlgorithmParameters::OctetKey(key), None | Some(KeyAlgorithm::HS256)) => {
                let bytes = URL_SAFE_NO_PAD.decode(&key.value).map_err(|_| KeysError::Short)?;
                if bytes.len() < SECRET_BYTES_MIN {
                    return Err(KeysError::Short);
                }
                Algorithm::HS256
            }
            (AlgorithmParameters::OctetKeyPair(pair), None | Some(KeyAlgorithm::EdDSA))
                if pair.curve == EllipticCurve::Ed25519 =>
            {
                let bytes = URL_SAFE_NO_PAD.decode(&pair.x).ok().and_then(|bytes| bytes.try_into().ok());
                let mut point: [u8; PUBLIC_BYTES] = bytes.ok_or(KeysError::Public)?;
                point[PUBLIC_BYTES - 1] &= 0x7f;
                if SMALL_ORDER.contains(&&*hex::encode(point)) {
                    return Err(KeysError::Weak);
                }
                Algorithm::EdDSA
            }
            _ => return Err(KeysError::Algorithm),
        };
        let verifying = DecodingKey::from_jwk(jwk).map_err(|_| KeysError::Algorithm)?;
        Ok(Self { id, algorithm, verifying })
    }
}

impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.id)).finish()
    }
}
