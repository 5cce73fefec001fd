//! Reads the scripts' answers. Each function accepts what the header of its script lists, and nothing else.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use foldhash::HashMap;
use redis::{Value, from_redis_value};

use super::fields;
use crate::domain::{Amount, Claim, Hold, Refusal, Timestamp, UserId};
use crate::ports::{
    Doubt, GrabAnswer, Help, Loaded, OutboxEntry, PartReport, PartSnapshot, Reconciled, SnapshotResult,
};

/// The answer of `grab.lua`: for each part `None`, if it is not loaded, or what it had for each of its users. `now` is the time of
/// this process. It tells whether a packet that is sold out is expired too: a script that asks its clock costs a third more.
pub fn grabbed(answer: &str, now: Timestamp) -> Option<Vec<Option<Vec<GrabAnswer>>>> {
    let (at, parts) = answer.split_once(';')?;
    let at = if at.is_empty() { None } else { Some(timestamp(at)?) };
    let part = |answers: &str| match answers {
        "-" => Some(None),
        answers => answers.split(',').map(|answer| found(answer, at, now)).collect::<Option<_>>().map(Some),
    };
    parts.split(';').map(part).collect()
}

/// One user's answer, given at `at`, if the script looked at its clock.
fn found(answer: &str, at: Option<Timestamp>, now: Timestamp) -> Option<GrabAnswer> {
    match answer {
        "r" => return Some(GrabAnswer::Refused(Refusal::NotARecipient)),
        "p" => return Some(GrabAnswer::Refused(Refusal::WrongPassphrase)),
        _ => {}
    }
    let (kind, rest) = answer.split_at_checked(1)?;
    match kind {
        "g" | "h" => had(answer),
        "s" if rest != "0" => Some(GrabAnswer::Nothing { expired: expiry(rest)? <= now, certain: true }),
        "s" | "e" => nothing(answer),
        "c" => match rest {
            "0" => Some(GrabAnswer::Closed { certain: false }),
            "1" => Some(GrabAnswer::Closed { certain: true }),
            _ => None,
        },
        "n" => {
            let starts_at = timestamp(rest)?;
            Some(GrabAnswer::NotStarted { starts_at, left: starts_at.since(at?) })
        }
        "t" => Some(GrabAnswer::Refused(Refusal::TooManyTries { retry_after_ms: number(rest)? })),
        _ => Some(GrabAnswer::Held { slip: number(answer)?, at: at?, fresh: true }),
    }
}

/// What the hash of a part has of a user.
fn had(entry: &str) -> Option<GrabAnswer> {
    match entry.strip_prefix('h') {
        Some(held) => hold(held).map(|(slip, at, _)| GrabAnswer::Held { slip, at, fresh: false }),
        None => claim(entry).map(GrabAnswer::Confirmed),
    }
}

/// When a packet expires: twelve hexadecimal digits.
fn expiry(text: &str) -> Option<Timestamp> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let ms = (text.len() == 12 && text.bytes().all(is_digit)).then(|| u64::from_str_radix(text, 16).ok())?;
    ms.map(Timestamp::from_ms)
}

/// The answer of a part that has no slip for the user: `s` is sold out, `e` is expired, and 1 says that it is certain.
fn nothing(answer: &str) -> Option<GrabAnswer> {
    let (expired, certain) = match answer {
        "s0" => (false, false),
        "s1" => (false, true),
        "e0" => (true, false),
        "e1" => (true, true),
        _ => return None,
    };
    Some(GrabAnswer::Nothing { expired, certain })
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

/// The answer of `snapshot.lua`. If the part is final, it has no owners yet: [`owners`] reads them.
pub fn snapshot(reply: &Value) -> Option<SnapshotResult> {
    let Value::Array(fields) = reply else { return None };
    let (state, rest) = fields.split_first()?;
    match (from_redis_value::<u8>(state.clone()).ok()?, rest) {
        (0, []) => Some(SnapshotResult::GrabNeeded),
        (1, []) => Some(SnapshotResult::NotFinal),
        (2, [others, left, users @ ..]) if users.len() % 2 == 0 => {
            let user = |pair: &[Value]| Some((text(&pair[0])?.parse().ok()?, had(&text(&pair[1])?)?));
            let by_user = users.chunks_exact(2).map(user).collect::<Option<_>>()?;
            Some(SnapshotResult::Exhausted(exhausted(false, others, left, by_user)?))
        }
        (3, [others, left]) => Some(SnapshotResult::Exhausted(exhausted(true, others, left, HashMap::default())?)),
        _ => None,
    }
}

fn exhausted(
    is_final: bool,
    others: &Value,
    left: &Value,
    by_user: HashMap<UserId, GrabAnswer>,
) -> Option<PartSnapshot> {
    let left = Duration::from_millis(number(&text(left)?)?);
    Some(PartSnapshot { is_final, left, by_user, others: nothing(&text(others)?)? })
}

/// The answers to the owners in the hash of a part. `Some(None)`: it is not final, or it has a guard.
pub fn owners(part: &[(String, String)]) -> Option<Option<HashMap<UserId, GrabAnswer>>> {
    let field = |wanted| part.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
    let is_final = field(fields::SLIP_COUNT).is_some_and(|count| field(fields::KNOWN_COUNT) == Some(count));
    if !is_final || field(fields::EXPIRES_AT).is_none() || field(fields::GUARD).is_some() {
        return Some(None);
    }
    let users = part.iter().filter(|(name, _)| !name.starts_with(fields::PREFIX));
    users.map(|(user, entry)| Some((user.parse().ok()?, had(entry)?))).collect::<Option<_>>().map(Some)
}

/// The answer of `help.lua`.
pub fn help(reply: &Value) -> Option<Help> {
    let Value::Array(fields) = reply else { return None };
    let (state, rest) = fields.split_first()?;
    match (from_redis_value::<u8>(state.clone()).ok()?, rest) {
        (0, []) => Some(Help::ProbeAgain),
        (1, [left]) => Some(Help::Wait(left_ms(left)?)),
        (code @ (2 | 3), [left]) => {
            let doubt = [Doubt::Blocked, Doubt::Unavailable].into_iter().find(|doubt| doubt_code(*doubt) == code)?;
            Some(Help::InVain(doubt, left_ms(left)?))
        }
        (4, [now, users @ ..]) if users.len() % 2 == 0 => {
            let hold = |pair: &[Value]| Some(held(&text(&pair[0])?, &text(&pair[1])?)?.hold);
            let holds = users.chunks_exact(2).map(hold).collect::<Option<_>>()?;
            Some(Help::Acquired { holds, now: timestamp(&text(now)?)? })
        }
        _ => None,
    }
}

/// What the key of the help lease contains after a help in vain.
pub const fn doubt_code(doubt: Doubt) -> u8 {
    match doubt {
        Doubt::Blocked => 2,
        Doubt::Unavailable => 3,
    }
}

/// What is left of a key's life. A key that expires now has none.
fn left_ms(value: &Value) -> Option<Duration> {
    let left: i64 = from_redis_value(value.clone()).ok()?;
    Some(Duration::from_millis(u64::try_from(left).unwrap_or(0)))
}

/// The answer of `view.lua`. `Some(None)`: the part is not loaded.
pub fn report(reply: &Value) -> Option<Option<PartReport>> {
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
    Some(Some(PartReport { now, is_closed, held_count, known: known.clone() }))
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

/// The free slips that the hash of a part has, the next one first. `None`: the fields that name them cannot be read.
pub fn free_slips(part: &BTreeMap<String, String>) -> Option<Vec<u32>> {
    let bound = |field| part.get(field).map_or(Some(0), |bound| number::<u32>(bound));
    let mut free: Vec<u32> = (bound(fields::NEXT_FREE)?..bound(fields::RANGE_END)?).collect();
    for range in part.get(fields::OTHER_RANGES).map_or("", String::as_str).split_terminator(';') {
        let (from, to) = range.split_once(':')?;
        free.extend(number::<u32>(from)?..number(to)?);
    }
    Some(free)
}

/// An entry of the outbox: for whom a slip is held, and `h<slip>:<at>` with, once it is parked, `:<reason>`.
pub fn held(user: &str, value: &str) -> Option<OutboxEntry> {
    let (slip, at, parked) = hold(value.strip_prefix('h')?)?;
    Some(OutboxEntry { hold: Hold { slip, user: user.parse().ok()?, at }, parked: parked.map(str::to_owned) })
}

/// A hold as the hash of a part keeps it, without its `h`: the slip, since when, and why it is parked, if it is.
fn hold(text: &str) -> Option<(u32, Timestamp, Option<&str>)> {
    let mut fields = text.splitn(3, ':');
    Some((number(fields.next()?)?, timestamp(fields.next()?)?, fields.next()))
}

fn text(value: &Value) -> Option<String> {
    from_redis_value(value.clone()).ok()
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
