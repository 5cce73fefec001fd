use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::Value;
use shared::domain::{Timestamp, UserId};
use shared::tickets::TicketKeys;

const NOW_S: u64 = 1_800_000_000;

static FILE: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(include_str!("../../tickets.json")).unwrap());
static KEYS: LazyLock<TicketKeys> = LazyLock::new(|| TicketKeys::parse(&FILE["keys"].to_string()).unwrap());
static SECRET: LazyLock<hmac::Key> = LazyLock::new(|| {
    let bytes = URL_SAFE_NO_PAD.decode(FILE["keys"]["keys"][0]["k"].as_str().unwrap()).unwrap();
    hmac::Key::new(hmac::HMAC_SHA256, &bytes)
});

/// The input as a token, as the claims of one that is signed, and as keys.
pub fn tickets(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (bob, now): (UserId, _) = ("bob".parse().unwrap(), Timestamp::from_ms(NOW_S * 1_000));
    if KEYS.open(text, &bob, now).is_ok() {
        let tokens = FILE["vectors"].as_array().unwrap().iter().map(|vector| &vector["token"]);
        assert!(tokens.into_iter().any(|token| token == text), "a token that nobody signed: {text}");
    }
    if KEYS.open(&signed(data), &bob, now).is_ok() {
        let claims: Value = serde_json::from_slice(data).unwrap();
        let number = |name: &str| claims[name].as_u64();
        let (iat, exp) = (number("iat").unwrap(), number("exp").unwrap());
        assert!(iat <= NOW_S + 10 && exp + 10 > NOW_S && exp >= iat && exp - iat <= 86_400, "{text}");
        assert!(number("nbf").is_none_or(|nbf| nbf < exp), "{text}");
        assert_eq!(claims["sub"], "bob");
        assert!(claims["aud"].to_string().contains("\"hongbao:grab\""), "{text}");
        let named = ["pkt", "ref", "snd"].map(|name| claims[name].is_string());
        assert!([[true, false, false], [false, true, true]].contains(&named), "{text}");
    }
    drop(TicketKeys::parse(text));
}

/// A token with these claims, as the app would sign it.
fn signed(claims: &[u8]) -> String {
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","kid":"2027-1"}"#);
    let message = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims));
    let signature = hmac::sign(&SECRET, message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}
