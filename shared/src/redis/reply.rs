//! Reads the scripts' answers. Each function accepts what the header of its script lists, and nothing else.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use redis::Value;

use super::fields;
use crate::domain::{Amount, Claim, Hold, Refusal, Timestamp};
use crate::ports::{GrabAnswer, Loaded, OutboxEntry, PartAnswers, PartState, Reconciled};

/// The answer of `grab.lua`.
pub fn grabbed(answer: &str) -> Option<Vec<PartAnswers>> {
    let part = |answers: &str| match answers {
        "-" => Some(None),
        answers => answers.split(',').map(found).collect::<Option<_>>().map(Some),
    };
    answer.split(';').map(part).collect()
}

/// One user's answer.
fn found(answer: &str) -> Option<GrabAnswer> {
    match answer {
        "r" => return Some(GrabAnswer::Refused(Refusal::NotARecipient)),
        "p" => return Some(GrabAnswer::Refused(Refusal::WrongPassphrase)),
        _ => {}
    }
    let (kind, rest) = answer.split_at_checked(1)?;
    match kind {
        "g" => claim(answer).map(GrabAnswer::Confirmed),
        "h" => hold(rest).map(|(slip, left, _)| GrabAnswer::Held { slip, left, fresh: false }),
        "s" => Some(GrabAnswer::SoldOut { certain: flag(rest)? }),
        "e" => {
            let (certain, expires_at) = rest.split_once(':')?;
            Some(GrabAnswer::WentBack { expires_at: timestamp(expires_at)?, certain: flag(certain)? })
        }
        "c" => Some(GrabAnswer::Closed { certain: flag(rest)? }),
        "x" => Some(GrabAnswer::NoList { certain: flag(rest)? }),
        "n" => {
            let (starts_at, left) = rest.split_once(':')?;
            Some(GrabAnswer::NotStarted { starts_at: timestamp(starts_at)?, left: milliseconds(left)? })
        }
        "t" => Some(GrabAnswer::Refused(Refusal::TooManyTries { retry_after_ms: number(rest)? })),
        _ => hold(answer).map(|(slip, left, _)| GrabAnswer::Held { slip, left, fresh: true }),
    }
}

fn flag(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// A confirmed claim as the hash of a part keeps it: `g<slip>:<amount>:<at>`.
fn claim(text: &str) -> Option<Claim> {
    let mut fields = text.strip_prefix('g')?.split(':');
    let claim = Claim {
        slip: number(fields.next()?)?,
        amount: Amount::new(number(fields.next()?)?),
        at: timestamp(fields.next()?)?,
    };
    fields.next().is_none().then_some(claim)
}

/// The answer of `part_state.lua`. `Some(None)`: the part is not loaded.
#[expect(clippy::option_option, reason = "what does not read is something else than a part that is not loaded")]
pub fn part_state(reply: &Value) -> Option<Option<PartState>> {
    let Value::Array(fields) = reply else { return None };
    let [now, closed, held, known] = match fields.as_slice() {
        [] => return Some(None),
        [now, closed, held, known] => [now, closed, held, known],
        _ => return None,
    };
    let (Value::Int(now), Value::Int(held), Value::BulkString(known)) = (now, held, known) else { return None };
    let is_closed = match closed {
        Value::Int(0) => false,
        Value::Int(1) => true,
        _ => return None,
    };
    let (now, held_count) = (Timestamp::from_ms(u64::try_from(*now).ok()?), u32::try_from(*held).ok()?);
    Some(Some(PartState { now, is_closed, held_count, known: known.clone() }))
}

/// The answer of `reconcile.lua`.
pub const fn reconciled(state: u8) -> Option<Reconciled> {
    match state {
        0 => Some(Reconciled::NotLoaded),
        1 => Some(Reconciled::Loaded),
        2 => Some(Reconciled::Final),
        _ => None,
    }
}

/// The answer of `close.lua`: whether the part is loaded, and closed then.
pub const fn closed(state: u8) -> Option<bool> {
    match state {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// The answer of `load.lua`.
pub const fn loaded(state: u8) -> Option<Loaded> {
    match state {
        0 => Some(Loaded::Expired),
        1 => Some(Loaded::Yes),
        _ => None,
    }
}

/// The answer of `outbox.lua`: when the packet expires, and each user with the text of their hold. A part that is not loaded has none.
pub fn outbox(reply: &[String]) -> Option<(Timestamp, &[[String; 2]])> {
    let (expires_at, holds) = reply.split_first()?;
    if expires_at.is_empty() {
        return Some((Timestamp::default(), &[]));
    }
    let (holds, odd) = holds.as_chunks();
    Some((timestamp(expires_at)?, holds)).filter(|_| odd.is_empty())
}

/// The outbox among the fields of the hash of a part.
pub fn holds(part: &BTreeMap<String, String>) -> impl Iterator<Item = OutboxEntry> {
    let expires_at = part.get(fields::EXPIRES_AT).and_then(|expires_at| timestamp(expires_at)).unwrap_or_default();
    let users = part.iter().filter(|(user, _)| !user.starts_with(fields::PREFIX));
    users.filter_map(move |(user, entry)| held(user, entry, expires_at))
}

/// An entry of the outbox: for whom a slip is held, and `h<slip>:<left>` with, once it is parked, `:<reason>`. The packet expires at
/// `expires_at`.
pub fn held(user: &str, value: &str, expires_at: Timestamp) -> Option<OutboxEntry> {
    let (slip, left, parked) = hold(value.strip_prefix('h')?)?;
    let hold = Hold { slip, user: user.parse().ok()?, at: expires_at.before(left) };
    Some(OutboxEntry { hold, parked: parked.map(str::to_owned) })
}

/// A hold as the hash of a part keeps it, without its `h`: the slip, and how long before the expiry it was held. If it is parked, also why.
fn hold(text: &str) -> Option<(u32, Duration, Option<&str>)> {
    let mut fields = text.splitn(3, ':');
    Some((number(fields.next()?)?, milliseconds(fields.next()?)?, fields.next()))
}

fn milliseconds(text: &str) -> Option<Duration> {
    number(text).map(Duration::from_millis)
}

fn timestamp(text: &str) -> Option<Timestamp> {
    number(text).map(Timestamp::from_ms)
}

/// A number as Lua writes it: without a sign, and without zeros before it.
fn number<N: FromStr>(text: &str) -> Option<N> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| digits)
}

#[cfg(test)]
mod tests;
