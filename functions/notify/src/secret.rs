//! The secrets that sign webhooks.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The fewest bytes of a secret, by the specification.
const BYTES_MIN: usize = 24;
/// The base64 of the shortest secret.
const CHARACTERS_MIN: usize = BYTES_MIN / 3 * 4;
const PREFIX: &str = "whsec_";

/// One secret or, while it is rotated, several.
#[derive(Clone)]
pub struct Secrets(Vec<Vec<u8>>);

/// Why a text has no secrets. The message never shows the text.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SecretError {
    /// There is none.
    #[error("there must be at least one secret")]
    None,
    /// One lacks its prefix, or a line of one is so long that it may be another.
    #[error("each secret must begin with whsec_")]
    NoPrefix,
    /// One has other characters than base64, or is cut off.
    #[error("each secret must be whsec_ and base64, whole and with its padding or without")]
    NoBase64,
    /// One has characters that only the one, and others that only the other alphabet of base64 has.
    #[error("a secret must not mix the two alphabets of base64: + and / with - and _")]
    Mixed,
    /// One is short.
    #[error("each secret must have at least {BYTES_MIN} bytes")]
    Short,
}

impl Secrets {
    /// Reads secrets that spaces, commas or lines separate. One may have line breaks inside, as tools that encode base64 make them.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let mut secrets: Vec<String> = Vec::new();
        for entry in text.split([' ', ',', '\t']) {
            let lines = entry.split(['\n', '\r']).filter(|line| !line.is_empty());
            for (index, line) in lines.enumerate() {
                match (line.strip_prefix(PREFIX), secrets.last_mut()) {
                    (Some(encoded), _) => secrets.push(encoded.to_owned()),
                    // A line that is a secret's length may be one whose prefix is missing.
                    (None, Some(begun)) if index > 0 && line.len() < CHARACTERS_MIN => begun.push_str(line),
                    (None, _) => return Err(SecretError::NoPrefix),
                }
            }
        }
        if secrets.is_empty() {
            return Err(SecretError::None);
        }
        secrets.iter().map(|encoded| decoded(encoded)).collect::<Result<_, _>>().map(Self)
    }

    /// The header `webhook-signature`: a signature by each secret.
    pub fn signatures(&self, id: &str, timestamp: u64, body: &str) -> String {
        let signed = self.0.iter().filter_map(|secret| {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
            for part in [id, ".", &timestamp.to_string(), ".", body] {
                mac.update(part.as_bytes());
            }
            Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
        });
        signed.collect::<Vec<_>>().join(" ")
    }
}

/// Decodes either alphabet of base64, with padding or without. `tests/clients/secrets.json` holds the clients to the same.
fn decoded(encoded: &str) -> Result<Vec<u8>, SecretError> {
    let is_padded = encoded.ends_with('=');
    let characters = encoded.strip_suffix("==").or_else(|| encoded.strip_suffix('=')).unwrap_or(encoded);
    let engine = match (characters.contains(['+', '/']), characters.contains(['-', '_'])) {
        (true, true) => return Err(SecretError::Mixed),
        (_, true) => URL_SAFE_NO_PAD,
        (_, false) => STANDARD_NO_PAD,
    };
    let is_whole = !is_padded || encoded.len().is_multiple_of(4);
    let bytes = engine.decode(characters).ok().filter(|_| is_whole).ok_or(SecretError::NoBase64)?;
    if bytes.len() < BYTES_MIN { Err(SecretError::Short) } else { Ok(bytes) }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn a_signature_is_the_one_that_the_specification_publishes() {
        let signature = Secrets::parse(SECRET).unwrap().signatures(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn while_secrets_are_rotated_each_signs() {
        let other = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
        let signed = |secrets: &str| Secrets::parse(secrets).unwrap().signatures("evt_1", 5, "{}");
        let both = format!("{} {}", signed(SECRET), signed(other));
        for text in [format!("{SECRET} {other}"), format!("{SECRET},{other}"), format!(" {SECRET}\n{other}\n")] {
            assert_eq!(signed(&text), both);
        }
    }

    /// `tests/it/rust_client.rs` and `tests/clients/webhooks.test.mjs` give the same texts to the clients.
    #[test]
    fn a_secret_is_read_however_base64_is_spelt_or_refused_with_the_reason_and_not_shown() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/clients/secrets.json");
        let cases: Vec<serde_json::Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert!(cases.len() > 25);
        for case in &cases {
            let (name, text) = (case["name"].as_str().unwrap(), case["secret"].as_str().unwrap());
            let has_prefix = text.contains(PREFIX);
            let expected = case["refused"].as_str().or((!has_prefix).then_some("prefix"));
            match Secrets::parse(text) {
                Ok(secrets) => {
                    let [found] = &secrets.0[..] else { panic!("{name}: {secrets:?}") };
                    let bytes = case["base64"].as_str().map(|text| STANDARD.decode(text).unwrap());
                    assert_eq!((Some(found), expected), (bytes.as_ref(), None), "{name}");
                }
                Err(error) => {
                    let reason = match error {
                        SecretError::None | SecretError::NoPrefix => "prefix",
                        SecretError::NoBase64 => "base64",
                        SecretError::Mixed => "alphabets",
                        SecretError::Short => "short",
                    };
                    assert_eq!(Some(reason), expected, "{name}: {error}");
                    assert!(text.len() < 12 || !error.to_string().contains(&text[6..12]), "{name}");
                }
            }
        }
    }

    #[test]
    fn each_of_several_secrets_obeys_the_rule() {
        let wrapped = format!("whsec_{}\n{}", "A".repeat(64), "A".repeat(22));
        let sizes =
            |text: &str| Secrets::parse(text).map(|Secrets(secrets)| secrets.iter().map(Vec::len).collect::<Vec<_>>());
        assert_eq!(sizes(&format!("{wrapped}\n{SECRET}")), Ok(vec![64, 24]));
        assert_eq!(sizes(&format!("{SECRET}, {wrapped}\r\n")), Ok(vec![24, 64]));
        for (text, error) in [
            (String::new(), SecretError::None),
            (" ,\n".to_owned(), SecretError::None),
            (format!("{SECRET} plain"), SecretError::NoPrefix),
            (format!("{SECRET},AAAA"), SecretError::NoPrefix),
            (format!("{SECRET}\nMfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), SecretError::NoPrefix),
            (format!("{SECRET} whsec_c2VjcmV0"), SecretError::Short),
        ] {
            assert_eq!(sizes(&text), Err(error), "{text:?}");
        }
        assert_eq!(format!("{:?}", Secrets::parse(SECRET).unwrap()), "Secrets(1)");
    }
}
