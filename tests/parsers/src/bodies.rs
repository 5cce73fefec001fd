use lambda_http::{Body, Request};
use serde_json::{Map, Value};
use shared::domain::{Amount, Cover, Labels, Limits, MAX_MOVEMENT, Note, OperatorReason, Passphrase, Reference, Split};
use shared::http::{Code, Problem, withdrawal_of_operator, withdrawal_of_user, withdrawal_posted, withdrawal_voided};
use shared::service::NewPacket;

/// The bodies of a send, a grab, a deposit or withdrawal, a close or suspension, and settle's event. The first byte selects one of them.
pub fn bodies(data: &[u8]) {
    let Some((which, body)) = data.split_first() else { return };
    match which % 4 {
        0 => send_body(body),
        1 => grab_body(body),
        2 => {
            movement_body(body);
            withdrawal_bodies(body);
            reason_body(body);
        }
        _ => settle_event(body),
    }
}

/// A request with this body, as API Gateway passes it on.
fn request(body: &[u8]) -> Request {
    Request::new(std::str::from_utf8(body).map_or_else(|_| Body::Binary(body.to_vec()), Body::from))
}

/// The fields of an accepted body, read by an independent JSON parser. A null counts as left out, also in metadata, and 1.0 as 1.
fn object(body: &[u8], known: &[&str]) -> Map<String, Value> {
    let Ok(Value::Object(mut fields)) = serde_json::from_slice(body) else { panic!("accepted, but no object") };
    for (name, value) in &mut fields {
        assert!(known.contains(&&**name), "{name}: {value}");
        if let Some(pairs) = value.as_object_mut() {
            pairs.retain(|_, value| !value.is_null());
        }
        let written = value.as_f64().filter(|_| value.is_f64()).map(|number| number.to_string());
        if let Some(whole) = written.and_then(|text| text.parse::<u64>().ok()) {
            *value = whole.into();
        }
    }
    fields.retain(|_, value| !value.is_null());
    fields
}

/// A refusal has the right code, and no detail that is not meant for the caller.
fn refused(problem: &Problem, body: &[u8], bytes_max: usize) {
    let too_large = body.len() > bytes_max;
    assert_eq!(problem.code, if too_large { Code::PayloadTooLarge } else { Code::InvalidRequest });
    assert!(problem.cause.is_none() && !problem.detail.contains("struct"), "{problem:?}");
    for error in &problem.errors {
        assert!(error.field.chars().count() <= 64 && !error.reason.is_empty(), "{error:?}");
    }
}

fn send_body(body: &[u8]) {
    let limits = Limits::default();
    match send::new_packet(&request(body), "alice".parse().unwrap(), &limits) {
        Ok(packet) => {
            within_limits(&packet, &limits);
            as_asked(&packet, body);
        }
        Err(problem) => refused(&problem, body, 128 * 1_024),
    }
}

fn within_limits(packet: &NewPacket, limits: &Limits) {
    assert!((1..=limits.count_max).contains(&packet.count), "{packet:?}");
    let (total, count) = (packet.total.minor_units(), u64::from(packet.count));
    assert!(count <= total && total <= count * limits.slip_amount_max.minor_units(), "{packet:?}");
    assert!((1..=259_200).contains(&packet.expires_in.as_secs()), "{packet:?}");
    assert!(packet.greeting.chars().count() <= Limits::GREETING_CHARS_MAX, "{packet:?}");
    assert!(!packet.greeting.contains(is_never_plain), "{packet:?}");
    if let Some(passphrase) = &packet.passphrase {
        let text = passphrase.as_str();
        assert!((1..=Limits::PASSPHRASE_CHARS_MAX).contains(&text.chars().count()), "{packet:?}");
        assert!(text.trim() == text && !text.contains(char::is_control), "{packet:?}");
        assert_eq!(Passphrase::new(text), *passphrase);
    }
    if let Some(recipients) = &packet.recipients {
        assert!((1..=Limits::RECIPIENTS_MAX).contains(&recipients.len()), "{packet:?}");
    }
    if let Some(metadata) = &packet.labels.metadata {
        assert!(metadata.len() <= Labels::METADATA_KEYS_MAX, "{packet:?}");
        for (key, value) in metadata {
            assert!(!key.contains(is_never_plain) && !value.contains(is_never_plain), "{packet:?}");
            let (key, value) = (key.chars().count(), value.chars().count());
            assert!((1..=Labels::METADATA_KEY_CHARS_MAX).contains(&key), "{packet:?}");
            assert!(value <= Labels::METADATA_VALUE_CHARS_MAX, "{packet:?}");
        }
    }
}

/// Some of the characters that no greeting may have, wherever they stand.
fn is_never_plain(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}' | '\u{200e}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn as_asked(packet: &NewPacket, body: &[u8]) {
    let required = ["split", "total_amount", "count"];
    let optional =
        ["greeting", "starts_at", "expires_in_s", "passphrase", "recipients", "cover", "reference", "metadata"];
    let asked = object(body, &[&required[..], &optional].concat());
    assert_eq!(asked["split"], if packet.split == Split::Equal { "equal" } else { "random" });
    assert_eq!(asked["total_amount"], packet.total.minor_units());
    assert_eq!(asked["count"], packet.count);
    assert_eq!(asked.get("greeting").map_or(Some(""), Value::as_str), Some(&*packet.greeting));
    assert_eq!(asked.contains_key("starts_at"), packet.starts_at.is_some());
    assert!(packet.starts_at.is_none_or(|at| at.to_string().parse() == Ok(at)), "{packet:?}");
    assert_eq!(asked.get("expires_in_s").map_or(Some(86_400), Value::as_u64), Some(packet.expires_in.as_secs()));
    assert_eq!(asked.get("passphrase").and_then(Value::as_str).map(Passphrase::new), packet.passphrase);
    let Labels { cover, reference, metadata } = &packet.labels;
    assert_eq!(asked.get("cover").and_then(Value::as_str), cover.as_ref().map(Cover::as_str));
    assert_eq!(asked.get("reference").and_then(Value::as_str), reference.as_ref().map(Reference::as_str));
    assert_eq!(asked.get("metadata").cloned(), metadata.as_ref().map(|metadata| serde_json::json!(metadata)));
    let recipients = asked.get("recipients").map(|users| users.as_array().unwrap());
    assert_eq!(recipients.map(Vec::len), packet.recipients.as_ref().map(std::collections::BTreeSet::len));
    for user in recipients.into_iter().flatten() {
        assert!(packet.recipients.iter().flatten().any(|recipient| recipient.as_str() == user), "{user}");
    }
}

fn grab_body(body: &[u8]) {
    match grab::passphrase(&request(body)) {
        Ok(None) if matches!(body.trim_ascii(), b"" | b"null") => {}
        Ok(passphrase) => {
            let asked = object(body, &["passphrase"]);
            assert_eq!(asked.get("passphrase").and_then(Value::as_str), passphrase.as_deref());
        }
        Err(problem) => refused(&problem, body, 16 * 1_024),
    }
}

fn movement_body(body: &[u8]) {
    match wallet::deposit(&request(body), "alice", "d1") {
        Ok((_, _, amount, reason)) => {
            let asked = object(body, &["amount", "reason"]);
            assert_eq!(asked["amount"], amount.minor_units());
            assert_eq!(asked.get("reason").and_then(Value::as_str), reason.as_ref().map(Note::as_str));
            assert!((1..=MAX_MOVEMENT.minor_units()).contains(&amount.minor_units()));
        }
        Err(problem) => refused(&problem, body, 16 * 1_024),
    }
}

fn withdrawal_bodies(body: &[u8]) {
    let amount = |asked: &Map<String, Value>, amount: Amount| {
        assert_eq!(asked["amount"], amount.minor_units());
        assert!((1..=MAX_MOVEMENT.minor_units()).contains(&amount.minor_units()));
    };
    let note = |asked: &Map<String, Value>, note: Option<&Note>| {
        assert_eq!(asked.get("note").and_then(Value::as_str), note.map(Note::as_str));
    };
    match withdrawal_of_operator(&request(body), "alice", "w1") {
        Ok((_, made, reason)) => {
            let asked = object(body, &["amount", "pending", "note", "reason"]);
            assert_eq!(asked.get("reason").and_then(Value::as_str), reason.as_ref().map(Note::as_str));
            amount(&asked, made.amount);
            note(&asked, made.note.as_ref());
            assert_eq!(asked.get("pending").and_then(Value::as_bool).unwrap_or_default(), made.pending);
        }
        Err(problem) => refused(&problem, body, 16 * 1_024),
    }
    match withdrawal_of_user(&request(body)) {
        Ok(made) => {
            let asked = object(body, &["id", "amount", "note"]);
            amount(&asked, made.amount);
            note(&asked, made.note.as_ref());
            assert!(made.pending && asked["id"] == made.id.as_str());
        }
        Err(problem) => refused(&problem, body, 16 * 1_024),
    }
    match withdrawal_posted(&request(body), "alice", "w1") {
        Ok((.., paid, reason)) if paid.is_some() || reason.is_some() => {
            let asked = object(body, &["amount", "reason"]);
            assert_eq!(asked.get("reason").and_then(Value::as_str), reason.as_ref().map(Note::as_str));
            if let Some(paid) = paid {
                amount(&asked, paid);
            }
        }
        Ok(_) => {}
        Err(problem) => refused(&problem, body, 16 * 1_024),
    }
    match withdrawal_voided(&request(body), "alice", "w1") {
        Ok((.., None)) => {}
        Ok((.., Some(reason))) => assert_eq!(object(body, &["reason"])["reason"], reason.as_str()),
        Err(problem) => refused(&problem, body, 16 * 1_024),
    }
}

fn reason_body(body: &[u8]) {
    match shared::http::reason(&request(body)) {
        Ok(reason) => {
            let asked = object(body, &["reason"]);
            let text = asked["reason"].as_str().unwrap();
            let is_good = (1..=OperatorReason::CHARS_MAX).contains(&text.chars().count());
            assert!(is_good && reason.as_str() == text && !text.contains(is_never_plain), "{text:?}");
        }
        Err(problem) => refused(&problem, body, 16 * 1_024),
    }
}

fn settle_event(body: &[u8]) {
    let Ok(event) = serde_json::from_slice::<settle::Event>(body) else { return };
    object(body, &["partitions"]);
    if let Ok(range) = event.range() {
        assert!(range.start() <= range.end() && *range.end() <= 255, "{range:?}");
    }
}
