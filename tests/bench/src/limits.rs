//! The limits of Redis itself with such a client, to compare the designs with.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redis::{Client, RedisResult, cmd, pipe};
use shared::domain::PartId;
use shared::redis::{PartKeys, Script, fields};

use crate::BoxError;
use crate::heat::{Answer, Heat, Usage, empty};
use crate::ours::Engine;
use crate::rush::{Got, Rush};

/// Commands in one pipeline.
const PIPELINE: usize = 32;
/// Users in one call of the raw script.
const BATCH: usize = 64;
/// Calls of the raw script in one pipeline.
const RAW_PIPELINE: usize = 16;

/// A script that only touches its key.
const TRIVIAL: &str = "return redis.call('exists', KEYS[1])";

/// A bare loop of commands.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// A script without work, pipelined.
    TrivialScript,
    /// LPOP, pipelined.
    Lpop,
}

impl Limit {
    /// Its name in the report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TrivialScript => "a trivial script, pipelined",
            Self::Lpop => "LPOP, pipelined",
        }
    }
}

/// Runs a pipelined loop of as many commands as the rush has requests.
pub fn heat(limit: Limit, redis: &Client, rush: &Rush) -> RedisResult<Heat> {
    let mut connection = redis.get_connection()?;
    empty(&mut connection)?;
    for chunk in (0..rush.requests.len()).collect::<Vec<_>>().chunks(1_000) {
        cmd("RPUSH").arg("list").arg(chunk).exec(&mut connection)?;
    }
    let hash: String = cmd("SCRIPT").arg("LOAD").arg(TRIVIAL).query(&mut connection)?;
    let mut piece = pipe();
    for _ in 0..PIPELINE {
        match limit {
            Limit::TrivialScript => piece.cmd("EVALSHA").arg(&hash).arg(1).arg("list"),
            Limit::Lpop => piece.cmd("LPOP").arg("list"),
        };
    }
    let before = Usage::read(&mut connection)?;
    let begun = Instant::now();
    let mut answers = Vec::with_capacity(rush.requests.len());
    while answers.len() + PIPELINE <= rush.requests.len() {
        let asked = Instant::now();
        let values: Vec<u64> = piece.query(&mut connection)?;
        let nanos = u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let first = answers.len();
        answers.extend(values.into_iter().enumerate().map(|(n, slip)| Answer {
            request: first + n,
            got: match limit {
                Limit::Lpop => Got::Slip(slip),
                Limit::TrivialScript => Got::Nothing,
            },
            nanos,
        }));
    }
    let elapsed = begun.elapsed();
    let Usage { cpu_us, .. } = Usage::read(&mut connection)?.since(&before);
    let calls = answers.len() as u64;
    Ok(Heat { elapsed, answers, calls, cpu_us })
}

/// Runs this engine's script by itself, with 64 users a call, pipelined. Each user goes straight to the first part in their
/// order that still has a slip.
pub async fn raw_heat(engine: &Engine, redis: &Client, rush: &Rush, time: Duration) -> Result<Heat, BoxError> {
    let mut connection = redis.get_connection()?;
    empty(&mut connection)?;
    let packet = engine.send(rush.slips).await?;
    let source = fields::embed(include_str!("../../../shared/src/redis/lua/grab.lua"));
    let script = Script::new(source.as_str());
    cmd("SCRIPT").arg("LOAD").arg(source).exec(&mut connection)?;

    let call_for = |part: PartId, users: &[&str]| {
        let keys = PartKeys::of(part);
        let mut call = cmd("EVALSHA");
        call.arg(script.hash()).arg(3).arg(&[&keys.part, &keys.pending, &keys.tries]).arg(users.len());
        // Nobody gives a passphrase.
        call.arg(users).arg(vec![""; users.len()]);
        call
    };
    // In order of arrival: a call is full once it has as many users of one part as fit into it.
    let mut calls = Vec::new();
    let mut waiting: BTreeMap<PartId, Vec<&str>> = BTreeMap::new();
    let mut room: BTreeMap<PartId, usize> = packet.parts().map(|part| (part, part.slips(rush.slips).len())).collect();
    for user in &rush.users {
        let user_id = user.parse()?;
        let has_room = |part: &PartId| room.get(part).is_some_and(|room| *room > 0);
        let part = PartId::probe_order(packet, &user_id).find(has_room).ok_or("more users than slips")?;
        room.entry(part).and_modify(|room| *room -= 1);
        let of_part = waiting.entry(part).or_default();
        of_part.push(user);
        if of_part.len() == BATCH {
            calls.push(call_for(part, of_part));
            of_part.clear();
        }
    }
    calls
        .extend(waiting.into_iter().filter(|(_, users)| !users.is_empty()).map(|(part, users)| call_for(part, &users)));

    let before = Usage::read(&mut connection)?;
    let begun = Instant::now();
    let mut answers = Vec::with_capacity(rush.requests.len());
    for piece in calls.chunks(RAW_PIPELINE) {
        if begun.elapsed() > time {
            break;
        }
        let mut commands = pipe();
        for call in piece {
            commands.add_command(call.clone());
        }
        let asked = Instant::now();
        let found: Vec<String> = commands.query(&mut connection)?;
        let nanos = u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX);
        // An answer is the time, then the slips.
        for slip in found.iter().flat_map(|answer| answer.split([';', ',']).skip(1)).map(|slip| slip.parse().ok()) {
            let request = answers.len();
            answers.push(Answer { request, got: slip.map_or(Got::Nothing, Got::Slip), nanos });
        }
    }
    let elapsed = begun.elapsed();
    let Usage { cpu_us, calls, .. } = Usage::read(&mut connection)?.since(&before);
    Ok(Heat { elapsed, answers, calls, cpu_us })
}
