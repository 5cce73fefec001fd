//! What the fast path of `grab.lua` saves: the script in turn with the same script without that path. Redis itself counts the
//! microseconds, so the network and this process are not in them.

use redis::{Client, Cmd, Connection, RedisResult, cmd, pipe};
use shared::redis::{PartKeys, Script, fields};

use crate::BoxError;
use crate::cell::Spread;
use crate::heat::empty;
use crate::ours::Engine;

const ROUNDS: usize = 15;
/// Slips of the packet, which has one part, and so winners of a round.
const SLIPS: u32 = 1_000;
/// Calls in one pipeline.
const PIPELINE: usize = 100;

/// The script.
pub const GRAB: &str = include_str!("../../../shared/src/redis/lua/grab.lua");

/// One user a call, who wins, asks again, or comes too late.
const CASES: [&str; 3] = ["winner", "replay", "loser"];

/// Prints the cost of a call for each kind of user.
pub async fn run(engine: &Engine, redis: &Client) -> Result<(), BoxError> {
    let mut connection = redis.get_connection()?;
    let whole = fields::embed(GRAB);
    let general = whole.replacen("if is_one_each then", "if false then", 1);
    assert_ne!(whole, general, "the fast path is not where it was");
    let mut ratios = CASES.map(|_| Vec::new());
    for round in 0..ROUNDS {
        let mut sources = [&whole, &general];
        if round % 2 == 1 {
            sources.reverse();
        }
        let first = costs(engine, &mut connection, sources[0]).await?;
        let second = costs(engine, &mut connection, sources[1]).await?;
        for ((ratios, first), second) in ratios.iter_mut().zip(first).zip(second) {
            ratios.push(if round % 2 == 1 { first / second } else { second / first });
        }
    }
    println!("Redis' time per call without the fast path of grab.lua ÷ with it, {ROUNDS} rounds:");
    for (case, ratios) in CASES.iter().zip(ratios) {
        let Spread { min, median, max } = Spread::of(ratios);
        println!("  {case:8} {median:.2} [{min:.2} to {max:.2}]");
    }
    Ok(())
}

/// Microseconds per call, for each of [`CASES`].
async fn costs(engine: &Engine, connection: &mut Connection, source: &str) -> Result<[f64; 3], BoxError> {
    empty(connection)?;
    let packet = engine.send(SLIPS).await?;
    let keys = PartKeys::of(packet.parts().next().ok_or("a packet without parts")?);
    let script = Script::new(source);
    cmd("SCRIPT").arg("LOAD").arg(source).exec(connection)?;
    let call = |user: String| {
        let mut call = cmd("EVALSHA");
        call.arg(script.hash()).arg(2).arg(&[&keys.part, &keys.pending]).arg(user);
        call
    };
    let users = |kind: &'static str| (0..SLIPS).map(move |n| format!("{kind}-{n:06}"));
    let mut costs = [0.0; 3];
    for (cost, users) in costs.iter_mut().zip([users("winner"), users("winner"), users("loser")]) {
        cmd("CONFIG").arg("RESETSTAT").exec(connection)?;
        pipelined(connection, users.map(call))?;
        let stats: String = cmd("INFO").arg("commandstats").query(connection)?;
        let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).ok_or("no call was counted")?;
        let per_call = line.split(',').find_map(|field| field.strip_prefix("usec_per_call=")).ok_or("no time")?;
        *cost = per_call.parse()?;
    }
    Ok(costs)
}

/// Makes calls, many in each round trip.
pub fn pipelined(connection: &mut Connection, calls: impl Iterator<Item = Cmd>) -> RedisResult<()> {
    let calls: Vec<_> = calls.collect();
    for piece in calls.chunks(PIPELINE) {
        let mut commands = pipe();
        for call in piece {
            commands.add_command(call.clone());
        }
        commands.exec(connection)?;
    }
    Ok(())
}
