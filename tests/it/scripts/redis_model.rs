//! The model of Redis that the simulation runs the scripts over, against the real server. Random commands, also odd ones, by
//! themselves and inside a script, must have the same answers.

use std::sync::Arc as Shared;

use ::redis_model::{Keyspace, Refusal};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use redis::Value;
use redis::aio::MultiplexedConnection;

use super::*;

const COMMANDS: usize = 4_000;

/// Every command that the scripts or the store use, with the kinds of its arguments.
const FORMS: [(&str, &[Kind]); 30] = [
    ("BITCOUNT", &[Kind::Key]),
    ("DEL", &[Kind::Key]),
    ("DEL", &[Kind::Key, Kind::Key]),
    ("EXISTS", &[Kind::Key]),
    ("GET", &[Kind::Key]),
    ("GETBIT", &[Kind::Key, Kind::Number]),
    ("HDEL", &[Kind::Key, Kind::Word, Kind::Word]),
    ("HEXISTS", &[Kind::Key, Kind::Word]),
    ("HGET", &[Kind::Key, Kind::Word]),
    ("HGETALL", &[Kind::Key]),
    ("HINCRBY", &[Kind::Key, Kind::Word, Kind::Number]),
    ("HMGET", &[Kind::Key, Kind::Word, Kind::Word]),
    ("HSET", &[Kind::Key, Kind::Word, Kind::Number]),
    ("HSET", &[Kind::Key, Kind::Word, Kind::Word, Kind::Word, Kind::Number]),
    ("LPUSH", &[Kind::Key, Kind::Word]),
    ("LREM", &[Kind::Key, Kind::Number, Kind::Word]),
    ("PERSIST", &[Kind::Key]),
    ("PEXPIRE", &[Kind::Key, Kind::Time]),
    ("PEXPIREAT", &[Kind::Key, Kind::Time]),
    ("RPOP", &[Kind::Key]),
    ("RPOP", &[Kind::Key, Kind::Number]),
    ("RPUSH", &[Kind::Key, Kind::Word, Kind::Number]),
    ("RPUSH", &[Kind::Key, Kind::Word, Kind::Word, Kind::Word]),
    ("SET", &[Kind::Key, Kind::Word]),
    ("SET", &[Kind::Key, Kind::Word, Kind::Option, Kind::Option, Kind::Time]),
    ("SETBIT", &[Kind::Key, Kind::Number, Kind::Number]),
    ("ZADD", &[Kind::Key, Kind::Option, Kind::Number, Kind::Word]),
    ("ZRANGE", &[Kind::Key, Kind::Number, Kind::Number, Kind::Option]),
    ("ZREM", &[Kind::Key, Kind::Word, Kind::Word]),
    ("ZSCORE", &[Kind::Key, Kind::Word]),
];

#[derive(Clone, Copy, Debug)]
enum Kind {
    Key,
    Word,
    Number,
    /// Past, or in a hundred years: the test itself takes time.
    Time,
    Option,
}

impl Kind {
    fn draw(self, random: &mut StdRng) -> String {
        let from: &[&str] = match self {
            Self::Key => &["a", "b", "c", "{d}"],
            Self::Word => &["x", "y", "z", "7", "-1", "", "h0:1"],
            Self::Number => &["0", "1", "7", "12", "-1", "-9", "007", "1.5", "+1", " 1", "x", "1000000"],
            Self::Time => &["0", "-5", "4900000000000", "x"],
            Self::Option => &["NX", "PX", "WITHSCORES", "nx", "x"],
        };
        (*from.choose(random).unwrap()).to_owned()
    }
}

/// A command with arguments of its kinds; one in ten has one too few, or too many.
fn command(random: &mut StdRng) -> Vec<String> {
    let (name, kinds) = FORMS.choose(random).unwrap();
    let mut words = vec![(*name).to_owned()];
    words.extend(kinds.iter().map(|kind| kind.draw(random)));
    // An option may be left out.
    if kinds.iter().any(|kind| matches!(kind, Kind::Option)) && random.random_ratio(1, 2) {
        words.retain(|word| !["NX", "PX", "WITHSCORES", "nx"].contains(&word.as_str()));
    }
    match random.random_range(0..20) {
        0 => drop(words.pop()),
        // These have options that no script uses.
        1 if !["BITCOUNT", "PEXPIRE", "PEXPIREAT", "ZRANGE"].contains(&words[0].as_str()) => {
            words.push(Kind::Word.draw(random));
        }
        _ => {}
    }
    words
}

/// Says what a script sees of a command's answer: of an error the first word, because the server adds where it came from.
const SEES: &str = "local function say(value)
  if type(value) ~= 'table' then return type(value) .. ':' .. tostring(value) end
  if value.err then return 'error:' .. value.err:match('%S+') end
  if value.ok then return 'ok:' .. value.ok end
  local all = {}
  for i, one in ipairs(value) do all[i] = say(one) end
  return '{' .. table.concat(all, ',') .. '}'
end
return say(redis.pcall(unpack(ARGV)))";

/// Passes a command's answer on, or its error.
const PASSES: &str = "return redis.pcall(unpack(ARGV))";

/// A hash may show its fields in any order.
fn in_order(words: &[String], answer: Value) -> Value {
    let mut pairs: Vec<_> = match answer {
        Value::Array(flat) if words[0] == "HGETALL" => flat.chunks(2).map(<[Value]>::to_vec).collect(),
        Value::Map(pairs) => pairs.into_iter().map(|(name, value)| vec![name, value]).collect(),
        other => return other,
    };
    pairs.sort_by_key(|pair| format!("{pair:?}"));
    Value::Array(pairs.concat())
}

/// A server and the model of it.
struct Pair {
    server: TestServer,
    connection: MultiplexedConnection,
    model: Keyspace,
}

impl Pair {
    async fn new() -> Self {
        let server = TestServer::start(&[]).await;
        let client = redis::Client::open(server.url()).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        Self { server, connection, model: Keyspace::default() }
    }

    /// The server's answer.
    async fn real(&mut self, words: &[&str]) -> Result<Value, Refusal> {
        let mut command = cmd(words[0]);
        command.arg(&words[1..]);
        let answer: redis::RedisResult<Value> = command.query_async(&mut self.connection).await;
        answer.and_then(Value::extract_error).map_err(|error| Refusal {
            code: error.code().unwrap_or("ERR").to_owned(),
            detail: error.detail().unwrap_or_default().to_owned(),
        })
    }

    fn now_us() -> u64 {
        now().ms() * 1_000
    }

    async fn compare(&mut self, words: &[String], what: &str) {
        let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        let bytes: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let before = self.model.clone();
        let (real, modelled) = match what {
            "alone" => {
                let real = self.real(&arguments).await;
                (real, self.model.command(Self::now_us(), &bytes))
            }
            script => {
                let source = if script == "seen" { SEES } else { PASSES };
                let real = self.real(&[&["EVAL", source, "0"], &arguments[..]].concat()).await;
                (real, self.model.script(Self::now_us(), &Shared::from(source), &[], &bytes))
            }
        };
        let same = match (&real, &modelled) {
            (Ok(real), Ok(modelled)) => in_order(words, real.clone()) == in_order(words, modelled.clone()),
            (Err(real), Err(modelled)) if what == "alone" => real == modelled,
            (Err(real), Err(modelled)) => real.code == modelled.code,
            _ => false,
        };
        assert!(same, "{what} {words:?}: the server {real:?}, the model {modelled:?}, of {before:?}");
    }
}

#[tokio::test]
async fn random_commands_have_the_answers_of_the_server() {
    let seed = judging_seed().unwrap_or_else(|| rand::rng().random());
    let mut random = StdRng::seed_from_u64(seed);
    println!("seed {seed}");
    let mut pair = Pair::new().await;
    for _ in 0..COMMANDS {
        if random.random_ratio(1, 50) {
            pair.model.is_full = !pair.model.is_full;
            let limit = if pair.model.is_full { "1" } else { "0" };
            pair.real(&["CONFIG", "SET", "maxmemory", limit]).await.unwrap();
        }
        let words = command(&mut random);
        // What a script sees of a hash has no order.
        let ways: &[&str] = if words[0] == "HGETALL" { &["alone", "passed"] } else { &["alone", "seen", "passed"] };
        let way = *ways.choose(&mut random).unwrap();
        pair.compare(&words, way).await;
    }
    drop(pair.server);
}

#[tokio::test]
async fn scripts_obey_their_flags_and_do_not_roll_back() {
    let mut pair = Pair::new().await;
    let writes_twice =
        "redis.call('HSET', 'a', 'x', '1') redis.call('HSET', 'b', 'x', '1') return redis.call('HGET', 'a', 'x')";
    let fails_late = "redis.call('HSET', 'a', 'y', '2') return redis.call('HGET', 'text', 'x')";
    let of = |flags: &str, code: &str| format!("{flags}\n{code}");
    let scripts = [
        of("#!lua flags=no-writes", writes_twice),
        of("#!lua flags=no-writes", "return redis.call('HGET', 'a', 'x')"),
        of("#!lua flags=allow-oom", writes_twice),
        of("#!lua", writes_twice),
        of("", writes_twice),
        of("", fails_late),
        of("", "return {1.9, -1.9, true, false, 'x', nil, 3}"),
        of("", "return {redis.call('SET', 'text', 7.5), redis.call('GET', 'text'), 1e15, 2^53}"),
        of("", "return redis.call('HSET', 'a', 'number', 1e15, 'half', 0.5, 'sum', 0.1 + 0.2)"),
        of("", "return redis.call('HGETALL', 'a')"),
        of("", "return {err = 'MINE no'}"),
        of("", "return {ok = 'FINE'}"),
    ];
    for is_full in [false, true] {
        pair.real(&["SET", "text", "t"]).await.unwrap();
        let _ = pair.model.command(Pair::now_us(), &[b"SET", b"text", b"t"]);
        pair.model.is_full = is_full;
        pair.real(&["CONFIG", "SET", "maxmemory", if is_full { "1" } else { "0" }]).await.unwrap();
        // Redis and Valkey differ in which of two reasons they give for refusing the first one when memory is full.
        for script in &scripts[usize::from(is_full)..] {
            let real = pair.real(&["EVAL", script, "0"]).await;
            let modelled = pair.model.script(Pair::now_us(), &Shared::from(script.as_str()), &[], &[]);
            let same = match (&real, &modelled) {
                (Ok(real), Ok(modelled)) => {
                    let words = [if script.contains("HGETALL") { "HGETALL" } else { "" }.to_owned()];
                    in_order(&words, real.clone()) == in_order(&words, modelled.clone())
                }
                (Err(real), Err(modelled)) => real.code == modelled.code,
                _ => false,
            };
            assert!(same, "{is_full} {script}: the server {real:?}, the model {modelled:?}");
        }
        pair.real(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
        pair.model.is_full = false;
    }
}
