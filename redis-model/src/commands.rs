//! The commands. Each answers what Redis answers, also to odd arguments.

#![allow(clippy::unnecessary_wraps, reason = "all commands have one signature")]

use std::collections::{BTreeMap, VecDeque};

use redis::Value;

use crate::keyspace::{Call, Data, Keyspace, Score, bulk, distinct, in_order, wrong_type};
use crate::{Answer, Refusal};

/// The highest bit of a bitmap, plus one: the longest string has 512 MiB.
const BITS_MAX: u64 = 4_294_967_296;

/// What a command does, and what it may do when memory is full.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Kind {
    Reads,
    /// It changes data, and never needs more memory.
    Shrinks,
    /// It may need more memory, so a full server refuses it.
    Grows,
}

struct Command {
    name: &'static str,
    kind: Kind,
    /// The fewest arguments, with the command's name; the most, or none.
    least: usize,
    most: Option<usize>,
    run: fn(&mut Keyspace, u64, &[&[u8]]) -> Answer,
}

const fn command(
    name: &'static str,
    kind: Kind,
    least: usize,
    most: Option<usize>,
    run: fn(&mut Keyspace, u64, &[&[u8]]) -> Answer,
) -> Command {
    Command { name, kind, least, most, run }
}

const COMMANDS: [Command; 26] = [
    command("BITCOUNT", Kind::Reads, 2, Some(2), bitcount),
    command("DEL", Kind::Shrinks, 2, None, del),
    command("EXISTS", Kind::Reads, 2, None, exists),
    command("GET", Kind::Reads, 2, Some(2), get),
    command("GETBIT", Kind::Reads, 3, Some(3), getbit),
    command("HDEL", Kind::Shrinks, 3, None, hdel),
    command("HEXISTS", Kind::Reads, 3, Some(3), hexists),
    command("HGET", Kind::Reads, 3, Some(3), hget),
    command("HGETALL", Kind::Reads, 2, Some(2), hgetall),
    command("HINCRBY", Kind::Grows, 4, Some(4), hincrby),
    command("HMGET", Kind::Reads, 3, None, hmget),
    command("HSET", Kind::Grows, 4, None, hset),
    command("LPUSH", Kind::Grows, 3, None, lpush),
    command("LREM", Kind::Shrinks, 4, Some(4), lrem),
    command("PERSIST", Kind::Shrinks, 2, Some(2), persist),
    command("PEXPIRE", Kind::Shrinks, 3, Some(3), pexpire),
    command("PEXPIREAT", Kind::Shrinks, 3, Some(3), pexpireat),
    command("PTTL", Kind::Reads, 2, Some(2), pttl),
    command("RPOP", Kind::Shrinks, 2, Some(3), rpop),
    command("RPUSH", Kind::Grows, 3, None, rpush),
    command("SET", Kind::Grows, 3, None, set),
    command("SETBIT", Kind::Grows, 4, Some(4), setbit),
    command("ZADD", Kind::Grows, 4, None, zadd),
    command("ZRANGE", Kind::Reads, 4, Some(5), zrange),
    command("ZREM", Kind::Shrinks, 3, None, zrem),
    command("ZSCORE", Kind::Reads, 3, Some(3), zscore),
];

/// Runs a command.
pub fn run(keys: &mut Keyspace, call: Call, arguments: &[&[u8]]) -> Answer {
    let name = arguments.first().copied().unwrap_or_default();
    let command =
        find(name).ok_or_else(|| Refusal::err(format!("unknown command '{}'", String::from_utf8_lossy(name))))?;
    let count = arguments.len();
    if count < command.least || command.most.is_some_and(|most| count > most) {
        let name = command.name.to_ascii_lowercase();
        return Err(Refusal::err(format!("wrong number of arguments for '{name}' command")));
    }
    if call.is_read_only && command.kind != Kind::Reads {
        return Err(Refusal::err("Write commands are not allowed from read-only scripts."));
    }
    if keys.is_full && !call.may_grow && command.kind == Kind::Grows {
        return Err(Refusal::new("OOM", "command not allowed when used memory > 'maxmemory'."));
    }
    (command.run)(keys, call.now_us, &arguments[1..])
}

/// Whether a command changes data.
pub fn is_write(name: &[u8]) -> bool {
    find(name).is_some_and(|command| command.kind != Kind::Reads)
}

fn find(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

// --- Keys ------------------------------------------------------------------------------------------------------------

fn del(keys: &mut Keyspace, now: u64, names: &[&[u8]]) -> Answer {
    Ok(count(names.iter().filter(|name| keys.remove(now, name)).count()))
}

fn exists(keys: &mut Keyspace, now: u64, names: &[&[u8]]) -> Answer {
    Ok(count(names.iter().filter(|name| keys.live(now, name).is_some()).count()))
}

fn persist(keys: &mut Keyspace, now: u64, names: &[&[u8]]) -> Answer {
    let expires = keys.live_mut(now, names[0]).and_then(|entry| entry.expires_ms.take());
    Ok(flag(expires.is_some()))
}

fn pexpire(keys: &mut Keyspace, now: u64, arguments: &[&[u8]]) -> Answer {
    let at = integer(arguments[1])?.checked_add_unsigned(now / 1_000);
    expire(keys, now, arguments[0], at.ok_or_else(|| Refusal::err("invalid expire time in 'pexpire' command"))?)
}

fn pexpireat(keys: &mut Keyspace, now: u64, arguments: &[&[u8]]) -> Answer {
    expire(keys, now, arguments[0], integer(arguments[1])?)
}

fn expire(keys: &mut Keyspace, now: u64, key: &[u8], at: i64) -> Answer {
    let Some(entry) = keys.live_mut(now, key) else { return Ok(flag(false)) };
    match u64::try_from(at).ok().filter(|at| *at > now / 1_000) {
        Some(at) => entry.expires_ms = Some(at),
        // A time that is past removes the key.
        None => drop(keys.remove(now, key)),
    }
    Ok(flag(true))
}

fn pttl(keys: &mut Keyspace, now: u64, names: &[&[u8]]) -> Answer {
    Ok(Value::Int(match keys.live(now, names[0]).map(|entry| entry.expires_ms) {
        None => -2,
        Some(None) => -1,
        Some(Some(expires)) => i64::try_from(expires - now / 1_000).unwrap_or(i64::MAX),
    }))
}

// --- Strings and bitmaps ---------------------------------------------------------------------------------------------

fn text<'a>(keys: &'a Keyspace, now: u64, key: &[u8]) -> Result<Option<&'a [u8]>, Refusal> {
    match keys.live(now, key).map(|entry| &entry.value) {
        None => Ok(None),
        Some(Data::Text(text)) => Ok(Some(text)),
        Some(_) => Err(wrong_type()),
    }
}

fn get(keys: &mut Keyspace, now: u64, names: &[&[u8]]) -> Answer {
    Ok(optional(text(keys, now, names[0])?))
}

/// `SET key value [NX] [PX milliseconds]`
fn set(keys: &mut Keyspace, now: u64, arguments: &[&[u8]]) -> Answer {
    let (mut only_new, mut life) = (false, None);
    let mut options = arguments[2..].iter();
    while let Some(option) = options.next() {
        if option.eq_ignore_ascii_case(b"NX") {
            only_new = true;
        } else if option.eq_ignore_ascii_case(b"PX") && life.is_none() {
            life = Some(*options.next().ok_or_else(syntax)?);
        } else {
            return Err(syntax());
        }
    }
    let expires_ms = match life {
        None => None,
        Some(life) => {
            let life = u64::try_from(integer(life)?).ok().filter(|life| *life > 0);
            let life = life.ok_or_else(|| Refusal::err("invalid expire time in 'set' command"))?;
            Some((now / 1_000).saturating_add(life))
        }
    };
    if only_new && keys.live(now, arguments[0]).is_some() {
        return Ok(Value::Nil);
    }
    keys.put(arguments[0], Data::Text(arguments[1].to_vec()), expires_ms);
    Ok(Value::Okay)
}

fn bit_place(argument: &[u8]) -> Result<(usize, u8), Refusal> {
    let place = integer(argument).ok().and_then(|place| u64::try_from(place).ok()).filter(|place| *place < BITS_MAX);
    let place = place.ok_or_else(|| Refusal::err("bit offset is not an integer or out of range"))?;
    let byte = usize::try_from(place / 8).unwrap_or(usize::MAX);
    Ok((byte, 0x80 >> (place % 8)))
}

fn getbit(keys: &mut Keyspace, now: u64, arguments: &[&[u8]]) -> Answer {
    let (byte, mask) = bit_place(arguments[1])?;
    let bits = text(keys, now, arguments[0])?.unwrap_or_default();
    Ok(flag(bits.get(byte).is_some_and(|bits| bits & mask != 0)))
}

fn setbit(keys: &mut Keyspace, now: u64, arguments: &[&[u8]]) -> Answer {
    let (byte, mask) = bit_place(arguments[1])?;
    let is_on = match arguments[2] {
        b"0" => false,
        b"1" => true,
        _ => return Err(Refusal::err("bit is not an integer or out of range")),
    };
    let Data::Text(bits) = keys.or_new(now, arguments[0], || Data::Text(Vec::new())) else { return Err(wrong_type()) };
    if bits.len() <= byte {
        bits.resize(byte + 1, 0);
    }
    let was_on = bits[byte] & mask != 0;
    if is_on {
        bits[byte] |= mask;
    } else {
        bits[byte] &= !mask;
    }
    Ok(flag(was_on))
}

fn bitcount(keys: &mut Keyspace, now: u64, names: &[&[u8]]) -> Answer {
    let bits = text(keys, now, names[0])?.unwrap_or_default();
    Ok(Value::Int(bits.iter().map(|byte| i64::from(byte.count_ones())).sum()))
}

// --- Hashes ----------------------------------------------------------------------------------------------------------

type Fields = BTreeMap<Vec<u8>, Vec<u8>>;

fn fields<'a>(keys: &'a Keyspace, now: u64, key: &[u8]) -> Result<Option<&'a Fields>, Refusal> {
    match keys.live(now, key).map(|entry| &entry.value) {
        None => Ok(None),
        Some(Data::Hash(fields)) => Ok(Some(fields)),
        Some(_) => Err(wrong_type()),
    }
}

fn fields_mut<'a>(keys: &'a mut Keyspace, now: u64, key: &[u8]) -> Result<&'a mut Fields, Refusal> {
    match keys.or_new(now, key, || Data::Hash(Fields::new())) {
        Data::Hash(fields) => Ok(fields),
        _ => Err(wrong_type()),
    }
}

fn value_of<'a>(fields: Option<&'a Fields>, name: &[u8]) -> Option<&'a [u8]> {
    fields.and_then(|fields| fields.get(name)).map(Vec::as_slice)
}

fn hget(keys: &mut Keyspace, now: u64, arguments: &[&[u8]]) -> Answer {
    Ok(optional(value_of(fields(keys, now, arguments[0])?, arguments[1])))
}

fn hmget(keys: &mut Keyspace, now: u64, arguments: &[&[u8]]) -> Answer {
    let fields = fields(keys, now, arguments[0])?;
    Ok(Value::Array(arguments[1..].iter().map(|name| optional(value_of(fields, name))).collect()))
}

fn hexists(keys: &mut Keyspace, now: u64, arguments: &[&[u8]]) -> Answer {
    Ok(flag(value_of(fields(keys, now, arguments[0])?, arguments[1]).is_some()))
}

fn hgetall(keys: &mut Keyspace, now: u64, names: &[&[u8]]) -> Answer {
    let pairs = fields(keys, now, names[0])?.into_iter().flatten();
    Ok(Value::Array(pairs.flat_map(|(name, value)| [bulk(name.as_slice()), bulk(value.as_slice())]).collect()))
}

fn hset(keys: &mut Keyspace, now: u64, arguments: &[&[u8]]) -> Answer {
    let (pairs, odd) = arguments[1..].as_chunks::<2>();
    if !odd.is_empty() {
        return Err(Refusal::err("wrong number of arguments for 'hset' command"));
    }
    let fields = fields_mut(keys, now, arguments[0])?;
    let new = pairs.iter().filter(|[name, value]| fields.insert(name.to_vec(), value.to_vec()).is_none());
    Ok(count(new.count()))
}

fn hdel(keys: &mut Keyspace, now: u64, arguments: &[&[u8]]) -> Answer {
    if fields(keys, now, arguments[0])?.is_none() {
        return Ok(count(0));
    }
    let fields = fields_mut(keys, now, arguments[0])?;
    let removed = arguments[1..].iter().filter(|name| fields.remove(**name).is_some()).count();
    remove_if_empty(keys, now, arguments[0]);
    Ok(count(removed))
}

fn hincrby(keys: &mut Keyspace, now: u64, arguments: &[&[u8]]) -> Answer {
    let by = integer(arguments[2])?;
    let old = value_of(fields(keys, now, arguments[0])?, arguments[1]).unwrap_or(b"0");
    let old = integer(old).map_err(|_| Refusal::err("hash value is not an integer"))?;
    let new = old.checked_add(by).ok_or_else(|| Refusal::err("increment or decrement would overflow"))?;
    fields_mut(keys, now, arguments[0])?.insert(arguments[1].to_vec(), new.to_string().into_bytes());
    Ok(Value::Int(new))
}

// --- Lists -----------------------------------------------------------------------------------------------------------

type Elements = VecDeque<Vec<u8>>;

fn elements<'a>(keys: &'a Keyspace, now: u64, key: &[u8]) -> Result<Option<&'a Elements>, Refusal> {
    match keys.live(now, key).map(|entry| &entry.value) {
        None => Ok(None),
        Some(Data::List(elements)) => Ok(Some(elements)),
        Some(_) => Err(wrong_type()),
    }
}

fn elements_mut<'a>(keys: &'a mut Keyspace, now: u64, key: &[u8]) -> Result<&'a mut Elements, Refusal> {
    match keys.or_new(now, key, || Data::List(Elements::new())) {
        Data::List(elements) => Ok(elements),
        _ => Err(wrong_type()),
    }
}

fn lpush(keys: &mut Keyspace, now: u64, arguments: &[&[u8]]) -> Answer {
    let elements = elements_mut(keys, now, arguments[0])?;
    arguments[1..].iter().for_each(|element| elements.push_front(element.to_vec()));
    Ok(count(elements.len()))
}

fn rpush(keys: &mut Keyspace, now: u64, arguments: &[&[u8]]) -> Answer {
    let elements = elements_mut(keys, now, arguments[0])?;
    elements.extend(arguments[1..].iter().map(|element| element.to_vec()));
    Ok(count(elements.len()))
}

/// `LREM key count element`: so many of them, from the end if the number is below 0; all if it is 0.
fn lrem(keys: &mut Keyspace, now: u64, arguments: &[&[u8]]) -> Answer {
    let most = integer(arguments[1])?;
    if elements(keys, now, arguments[0])?.is_none() {
        return Ok(count(0));
    }
    let elements = elements_mut(keys, now, arguments[0])?;
    let mut places: Vec<usize> = (0..elements.len()).filter(|place| elements[*place] == arguments[2]).collect();
    if most < 0 {
        places.reverse();
    }
    places.truncate(if most == 0 { usize::MAX } else { usize::try_from(most.unsigned_abs()).unwrap_or(usize::MAX) });
    places.sort_unstable();
    for place in places.iter().rev() {
        elements.remove(*place);
    }
    remove_if_empty(keys, now, arguments[0]);
    Ok(count(places.len()))
}

/// `RPOP key [count]`
fn rpop(keys: &mut Keyspace, now: u64, arguments: &[&[u8]]) -> Answer {
    let most = arguments.get(1).map(|most| {
        integer(most)
            .ok()
            .and_then(|most| usize::try_from(most).ok())
            .ok_or_else(|| Refusal::err("value is out of range, must be positive"))
    });
    let most = most.transpose()?;
    if elements(keys, now, arguments[0])?.is_none() {
        return Ok(Value::Nil);
    }
    let elements = elements_mut(keys, now, arguments[0])?;
    let popped: Vec<Value> =
        std::iter::from_fn(|| elements.pop_back()).take(most.unwrap_or(1)).map(Value::BulkString).collect();
    remove_if_empty(keys, now, arguments[0]);
    Ok(match most {
        Some(_) => Value::Array(popped),
        None => popped.into_iter().next().unwrap_or(Value::Nil),
    })
}

// --- Sorted sets -----------------------------------------------------------------------------------------------------

type Members = BTreeMap<Vec<u8>, Score>;

fn members<'a>(keys: &'a Keyspace, now: u64, key: &[u8]) -> Result<Option<&'a Members>, Refusal> {
    match keys.live(now, key).map(|entry| &entry.value) {
        None => Ok(None),
        Some(Data::Sorted(members)) => Ok(Some(members)),
        Some(_) => Err(wrong_type()),
    }
}

/// `ZADD key [NX] score member [score member ...]`
fn zadd(keys: &mut Keyspace, now: u64, arguments: &[&[u8]]) -> Answer {
    let only_new = arguments[1].eq_ignore_ascii_case(b"NX");
    let (pairs, odd) = arguments[if only_new { 2 } else { 1 }..].as_chunks::<2>();
    if pairs.is_empty() || !odd.is_empty() {
        return Err(syntax());
    }
    let scored = pairs.iter().map(|[score, member]| Ok((score_of(score)?, member.to_vec())));
    let scored = scored.collect::<Result<Vec<_>, Refusal>>()?;
    let empty = || Data::Sorted(Members::new());
    let Data::Sorted(members) = keys.or_new(now, arguments[0], empty) else { return Err(wrong_type()) };
    let mut added = 0;
    for (score, member) in scored {
        let is_new = !members.contains_key(&member);
        added += usize::from(is_new);
        if is_new || !only_new {
            members.insert(member, score);
        }
    }
    Ok(count(added))
}

fn zrem(keys: &mut Keyspace, now: u64, arguments: &[&[u8]]) -> Answer {
    members(keys, now, arguments[0])?;
    let Some(Data::Sorted(members)) = keys.live_mut(now, arguments[0]).map(|entry| &mut entry.value) else {
        return Ok(count(0));
    };
    let removed = distinct(&arguments[1..]).into_iter().filter(|member| members.remove(*member).is_some()).count();
    remove_if_empty(keys, now, arguments[0]);
    Ok(count(removed))
}

fn zscore(keys: &mut Keyspace, now: u64, arguments: &[&[u8]]) -> Answer {
    let score = members(keys, now, arguments[0])?.and_then(|members| members.get(arguments[1]));
    Ok(score.map_or(Value::Nil, |score| bulk(number_text(score.0))))
}

/// `ZRANGE key start stop [WITHSCORES]`, by rank.
fn zrange(keys: &mut Keyspace, now: u64, arguments: &[&[u8]]) -> Answer {
    let with_scores = match arguments.get(3) {
        None => false,
        Some(option) if option.eq_ignore_ascii_case(b"WITHSCORES") => true,
        Some(_) => return Err(syntax()),
    };
    let (start, stop) = (integer(arguments[1])?, integer(arguments[2])?);
    let all = members(keys, now, arguments[0])?.map(in_order).unwrap_or_default();
    let shown = all[ranks(start, stop, all.len())].iter();
    let shown = shown.flat_map(|(member, score)| {
        std::iter::once(bulk(*member)).chain(with_scores.then(|| bulk(number_text(*score))))
    });
    Ok(Value::Array(shown.collect()))
}

/// The places from rank `start` to rank `stop` of `len`. A rank below 0 counts from the end.
fn ranks(start: i64, stop: i64, len: usize) -> std::ops::Range<usize> {
    let place = |rank: i64| {
        let from_start = if rank < 0 { rank.saturating_add_unsigned(len as u64) } else { rank };
        usize::try_from(from_start).ok()
    };
    let start = place(start).unwrap_or(0).min(len);
    let end = place(stop).map_or(0, |stop| stop.saturating_add(1)).min(len);
    start..end.max(start)
}

// --- Arguments and answers -------------------------------------------------------------------------------------------

fn remove_if_empty(keys: &mut Keyspace, now: u64, key: &[u8]) {
    if keys.live(now, key).is_some_and(|entry| entry.value.is_empty()) {
        keys.remove(now, key);
    }
}

/// An integer as Redis reads it: no plus sign, no zeros before it, no space.
fn integer(text: &[u8]) -> Result<i64, Refusal> {
    let number = std::str::from_utf8(text).ok().and_then(|text| {
        let number: i64 = text.parse().ok()?;
        (number.to_string() == text).then_some(number)
    });
    number.ok_or_else(|| Refusal::err("value is not an integer or out of range"))
}

fn score_of(text: &[u8]) -> Result<Score, Refusal> {
    let number =
        std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok()).filter(|score| !score.is_nan());
    number.map(Score).ok_or_else(|| Refusal::err("value is not a valid float"))
}

/// A number as Redis writes it: an integer without a point.
#[expect(clippy::cast_possible_truncation, reason = "only whole numbers below 2^53 are cast")]
pub fn number_text(number: f64) -> String {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT { (number as i64).to_string() } else { number.to_string() }
}

fn syntax() -> Refusal {
    Refusal::err("syntax error")
}

fn count(number: usize) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn flag(is_so: bool) -> Value {
    Value::Int(is_so.into())
}

fn optional(bytes: Option<&[u8]>) -> Value {
    bytes.map_or(Value::Nil, bulk)
}
