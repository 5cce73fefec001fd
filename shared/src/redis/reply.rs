//! Reads the scripts' answers. Each function accepts what the header of its script lists, and nothing else.

use std::collections::BTreeMap;
use std::str::FromStr;

use redis::Value;

use super::fields;
use crate::domain::{Amount, Claim, Hold, Refusal, Timestamp};
use crate::ports::{GrabAnswer, Loaded, OutboxEntry, PartReport, Reconciled};

/// The answer of `grab.lua`: for each part `None`, if it is not loaded, or what it had for each of its users.
pub fn grabbed(answer: &str) -> Option<Vec<Option<Vec<GrabAnswer>>>> {
    let (at, parts) = answer.split_once(';')?;
    let at = timestamp(at)?;
    let part = |answers: &str| match answers {
        "-" => Some(None),
        answers => answers.split(',').map(|answer| found(answer, at)).collect::<Option<_>>().map(Some),
    };
    parts.split(';').map(part).collect()
}

/// One user's answer, given at `at`.
fn found(answer: &str, at: Timestamp) -> Option<GrabAnswer> {
    match answer {
        "r" => return Some(GrabAnswer::Refused(Refusal::NotARecipient)),
        "p" => return Some(GrabAnswer::Refused(Refusal::WrongPassphrase)),
        _ => {}
    }
    let (kind, rest) = answer.split_at_checked(1)?;
    match kind {
        "g" => claim(answer).map(GrabAnswer::Confirmed),
        "h" => hold(rest).map(|(slip, at, _)| GrabAnswer::Held { slip, at, fresh: false }),
        "s" => Some(GrabAnswer::Nothing { expired: false, certain: flag(rest)? }),
        "e" => Some(GrabAnswer::Nothing { expired: true, certain: flag(rest)? }),
        "c" => Some(GrabAnswer::Closed { certain: flag(rest)? }),
        "n" => {
            let starts_at = timestamp(rest)?;
            Some(GrabAnswer::NotStarted { starts_at, left: starts_at.since(at) })
        }
        "t" => Some(GrabAnswer::Refused(Refusal::TooManyTries { retry_after_ms: number(rest)? })),
        _ => Some(GrabAnswer::Held { slip: number(answer)?, at, fresh: true }),
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
