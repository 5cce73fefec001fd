use redis::Value;
use shared::domain::{Claim, Refusal};
use shared::redis::reply;
use shared::service::{Finality, Found, Held, Look};

/// The scripts' answers, and the entries of the outbox: which of them, the first byte says.
pub fn replies(data: &[u8]) {
    let Some((which, rest)) = data.split_first() else { return };
    match which % 3 {
        0 => grab_answer(rest),
        1 => outbox_entry(rest),
        _ => {
            owners_answer(rest);
            look_answer(rest);
            rest_answer(rest);
        }
    }
    assert_eq!(reply::learned(*which).is_some(), *which <= 2);
    assert_eq!(reply::loaded(*which).is_some(), *which <= 2);
}

fn grab_answer(data: &[u8]) {
    let Ok(answer) = std::str::from_utf8(data) else { return };
    let Some(found) = reply::grabbed(answer) else { return };
    let now = answer.split(';').next().unwrap_or_default();
    let spelled = found.iter().map(|part| match part {
        None => "-".to_owned(),
        Some(found) => found.iter().map(|found| spelled(found, now)).collect::<Vec<_>>().join(","),
    });
    let all: Vec<String> = std::iter::once(now.to_owned()).chain(spelled).collect();
    assert_eq!(all.join(";"), answer);
}

fn spelled(found: &Found, now: &str) -> String {
    match found {
        Found::Confirmed(Claim { slip, amount, at }) => format!("g{slip}:{amount}:{}", at.ms()),
        Found::Held { slip, at, fresh: false } => format!("h{slip}:{}", at.ms()),
        Found::Held { slip, at, fresh: true } => {
            assert_eq!(at.ms().to_string(), now);
            slip.to_string()
        }
        Found::Refused(Refusal::NotARecipient) => "r".to_owned(),
        Found::Refused(Refusal::WrongPassphrase) => "p".to_owned(),
        Found::Refused(Refusal::TooManyTries { retry_after_ms }) => format!("t{retry_after_ms}"),
        Found::Nothing { expired, certain } => format!("{}{}", if *expired { 'e' } else { 's' }, u8::from(*certain)),
    }
}

fn outbox_entry(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (user, value) = text.split_once('\n').unwrap_or((text, ""));
    if let Some(Held { hold, parked }) = reply::held(user, value) {
        let reason = parked.map(|reason| format!(":{reason}")).unwrap_or_default();
        assert_eq!(hold.user.as_str(), user);
        assert_eq!(format!("h{}:{}{reason}", hold.slip, hold.at.ms()), value);
    }
}

/// As the driver reads it from the wire.
fn owners_answer(data: &[u8]) {
    let Ok(answer) = redis::parse_redis_value(data) else { return };
    if let Some(Finality::Final(part)) = reply::finality(&answer) {
        let Value::Array(fields) = &answer else { panic!("{answer:?}") };
        let pairs = (fields.len() - 2) / 2;
        assert!(fields.len() % 2 == 0 && part.owners.len() <= pairs, "{answer:?}");
    }
}

fn rest_answer(data: &[u8]) {
    let Ok(answer) = redis::parse_redis_value(data) else { return };
    if let Some(Some(rest)) = reply::rest(&answer) {
        let Value::Array(fields) = &answer else { panic!("{answer:?}") };
        assert!(fields.len() % 2 == 0 && rest.has.len() <= (fields.len() - 2) / 2, "{answer:?}");
        assert!(matches!(rest.others, Found::Nothing { .. }), "{answer:?}");
        let is_theirs = |found: &Found| matches!(found, Found::Confirmed(_) | Found::Held { fresh: false, .. });
        assert!(rest.has.values().all(is_theirs), "{answer:?}");
    }
}

fn look_answer(data: &[u8]) {
    let Ok(answer) = redis::parse_redis_value(data) else { return };
    if let Some(Look::Seen(look)) = reply::look(&answer) {
        let Value::Array(fields) = &answer else { panic!("{answer:?}") };
        let pairs = (fields.len() - 3) / 2;
        assert!(fields.len() % 2 == 1 && look.claims.len() + look.holds.len() <= pairs, "{answer:?}");
    }
}
