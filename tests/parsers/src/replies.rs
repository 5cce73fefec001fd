use shared::domain::{Claim, Refusal};
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
    let now = text.split(';').next().unwrap_or_default();
    let spelled = parts.iter().map(|part| match part {
        None => "-".to_owned(),
        Some(answers) => answers.iter().map(|answer| spelled(answer, now)).collect::<Vec<_>>().join(","),
    });
    let all: Vec<String> = std::iter::once(now.to_owned()).chain(spelled).collect();
    assert_eq!(all.join(";"), without_reasons(text));
}

/// An answer has a parked hold without the reason.
fn without_reasons(text: &str) -> String {
    let shorter = |answer: &str| match answer.split_inclusive(':').collect::<Vec<_>>()[..] {
        [slip, at, _, ..] if slip.starts_with('h') => {
            let end = answer.chars().last().filter(|last| matches!(last, ',' | ';'));
            format!("{slip}{}{}", at.trim_end_matches(':'), end.map(String::from).unwrap_or_default())
        }
        _ => answer.to_owned(),
    };
    text.split_inclusive([',', ';']).map(shorter).collect()
}

fn spelled(answer: &GrabAnswer, now: &str) -> String {
    match answer {
        GrabAnswer::Confirmed(Claim { slip, amount, at }) => format!("g{slip}:{amount}:{}", at.ms()),
        GrabAnswer::Held { slip, at, fresh: false } => format!("h{slip}:{}", at.ms()),
        GrabAnswer::Held { slip, at, fresh: true } => {
            assert_eq!(at.ms().to_string(), now);
            slip.to_string()
        }
        GrabAnswer::Refused(Refusal::NotARecipient) => "r".to_owned(),
        GrabAnswer::Refused(Refusal::WrongPassphrase) => "p".to_owned(),
        GrabAnswer::Closed { certain } => format!("c{}", u8::from(*certain)),
        GrabAnswer::NotStarted { starts_at, .. } => format!("n{}", starts_at.ms()),
        GrabAnswer::Refused(Refusal::TooManyTries { retry_after_ms }) => format!("t{retry_after_ms}"),
        GrabAnswer::Nothing { expired, certain } => {
            format!("{}{}", if *expired { 'e' } else { 's' }, u8::from(*certain))
        }
    }
}

fn outbox_entry(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (user, value) = text.split_once('\n').unwrap_or((text, ""));
    if let Some(OutboxEntry { hold, parked }) = reply::held(user, value) {
        let reason = parked.map(|reason| format!(":{reason}")).unwrap_or_default();
        assert_eq!(hold.user.as_str(), user);
        assert_eq!(format!("h{}:{}{reason}", hold.slip, hold.at.ms()), value);
    }
}

fn view_answer(data: &[u8]) {
    let Ok(answer) = redis::parse_redis_value(data) else { return };
    if let Some(Some(report)) = reply::report(&answer) {
        assert!(report.known_places().count() <= report.known.len() * 8, "{answer:?}");
    }
}
