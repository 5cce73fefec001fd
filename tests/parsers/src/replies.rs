use shared::domain::{Claim, Refusal, Timestamp};
use shared::ports::{GrabAnswer, OutboxEntry};
use shared::redis::reply;

/// The scripts' answers, and the entries of the outbox. The first byte selects one of them.
pub fn replies(data: &[u8]) {
    let Some((which, rest)) = data.split_first() else { return };
    match which % 3 {
        0 => grab_answer(rest),
        1 => outbox_entry(rest),
        _ => view_answer(rest),
    }
    assert_eq!(reply::reconciled(*which).is_some(), *which <= 2);
    assert_eq!(reply::loaded(*which).is_some(), *which <= 1);
}

fn grab_answer(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some(parts) = reply::grabbed(text) else { return };
    let spelled = parts.iter().map(|part| match part {
        None => "-".to_owned(),
        Some(answers) => answers.iter().map(spelled).collect::<Vec<_>>().join(","),
    });
    let all: Vec<String> = spelled.collect();
    assert_eq!(all.join(";"), without_reasons(text));
}

/// An answer has a parked hold without the reason.
fn without_reasons(text: &str) -> String {
    let shorter = |answer: &str| match answer.split_inclusive(':').collect::<Vec<_>>()[..] {
        [slip, left, _, ..] if !slip.starts_with(['g', 'e', 'n']) => {
            let end = answer.chars().last().filter(|last| matches!(last, ',' | ';'));
            format!("{slip}{}{}", left.trim_end_matches(':'), end.map(String::from).unwrap_or_default())
        }
        _ => answer.to_owned(),
    };
    text.split_inclusive([',', ';']).map(shorter).collect()
}

fn spelled(answer: &GrabAnswer) -> String {
    match answer {
        GrabAnswer::Confirmed(Claim { slip, amount, at }) => format!("g{slip}:{amount}:{}", at.ms()),
        GrabAnswer::Held { slip, left, fresh: false } => format!("h{slip}:{}", left.as_millis()),
        GrabAnswer::Held { slip, left, fresh: true } => format!("{slip}:{}", left.as_millis()),
        GrabAnswer::Refused(Refusal::NotARecipient) => "r".to_owned(),
        GrabAnswer::Refused(Refusal::WrongPassphrase) => "p".to_owned(),
        GrabAnswer::Closed { certain } => format!("c{}", u8::from(*certain)),
        GrabAnswer::Gone { certain } => format!("x{}", u8::from(*certain)),
        GrabAnswer::NotStarted { starts_at, left } => format!("n{}:{}", starts_at.ms(), left.as_millis()),
        GrabAnswer::Refused(Refusal::TooManyTries { retry_after_ms }) => format!("t{retry_after_ms}"),
        GrabAnswer::SoldOut { certain } => format!("s{}", u8::from(*certain)),
        GrabAnswer::Over { expires_at, certain } => format!("e{}:{}", u8::from(*certain), expires_at.ms()),
    }
}

fn outbox_entry(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (user, value) = text.split_once('\n').unwrap_or((text, ""));
    let expires_at = Timestamp::from_ms(u64::MAX);
    if let Some(OutboxEntry { hold, parked }) = reply::held(user, value, expires_at) {
        let reason = parked.map(|reason| format!(":{reason}")).unwrap_or_default();
        assert_eq!(hold.user.as_str(), user);
        assert_eq!(format!("h{}:{}{reason}", hold.slip, expires_at.since(hold.at).as_millis()), value);
    }
}

fn view_answer(data: &[u8]) {
    let Ok(answer) = redis::parse_redis_value(data) else { return };
    if let Some(Some(report)) = reply::report(&answer) {
        assert!(report.known_places().count() <= report.known.len() * 8, "{answer:?}");
    }
}
