//! What the fast path of `grab.lua` saves, and what a call costs beside lua-queue: the script in turn with the same script without that
//! path, and with lua-queue's. Redis itself counts the microseconds, so the network and this process are not in them.

use redis::{Client, Cmd, Connection, RedisResult, cmd, pipe};
use shared::redis::{PartKeys, Script, fields};

use crate::BoxError;
use crate::cell::Spread;
use crate::designs::LuaQueue;
use crate::heat::empty;
use crate::ours::Engine;
use crate::rush::Rush;

const ROUNDS: usize = 15;
/// Slips of the packet, and so calls of each kind. With fewer, the hash of lua-queue would be small enough to be a list.
pub const CALLS: u32 = 4_000;
/// Calls in one pipeline.
const PIPELINE: usize = 100;

/// The script.
pub const GRAB: &str = include_str!("../../../shared/src/redis/lua/grab.lua");

/// One user a call, who wins, asks again, or comes too late.
const CASES: [&str; 3] = ["winner", "repeat", "loser"];
/// The first two together: a user grabs, and repeats the grab.
const TWICE: &str = "winner and repeat";

/// A call by its number and its user.
pub type Call = Box<dyn Fn(u32, String) -> Cmd>;

/// Prints the cost of a call for each kind of user.
pub async fn run(engine: &Engine, redis: &Client) -> Result<(), BoxError> {
    let mut connection = redis.get_connection()?;
    let whole = fields::embed(GRAB);
    let general = whole.replacen("if is_one_each then", "if false then", 1);
    assert_ne!(whole, general, "the fast path is not where it was");
    let (mut with, mut without, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Which of them comes first changes.
        let mut costs = [[0.0; 3]; 3];
        for step in 0..costs.len() {
            let which = (round + step) % costs.len();
            empty(&mut connection)?;
            let call = match which {
                0 => of_ours(engine, &mut connection, &whole).await?,
                1 => of_ours(engine, &mut connection, &general).await?,
                _ => of_lua_queue(&mut connection)?,
            };
            costs[which] = costs_of(&mut connection, &call)?;
        }
        let [first, second, third] = costs;
        with.push(first);
        without.push(second);
        theirs.push(third);
    }
    print(&format!("without the fast path of grab.lua ÷ with it, {ROUNDS} rounds"), &without, &with);
    print("of grab.lua ÷ of lua-queue, which answers a repeat with nil", &with, &theirs);
    Ok(())
}

/// Prints the ratios of the costs of each round.
fn print(what: &str, costs: &[[f64; 3]], of: &[[f64; 3]]) {
    let figures = CASES.iter().enumerate().map(|(case, name)| (*name, vec![case])).chain([(TWICE, vec![0, 1])]);
    println!("Redis' time per call {what}:");
    for (name, cases) in figures {
        let sum = |costs: &[f64; 3]| cases.iter().map(|case| costs[*case]).sum::<f64>();
        let Spread { min, median, max } =
            Spread::of(costs.iter().zip(of).map(|(one, other)| sum(one) / sum(other)).collect());
        println!("  {name:17} {median:.2} [{min:.2} to {max:.2}]");
    }
}

/// Calls of this engine's script, on the parts of a new packet in turn.
pub async fn of_ours(engine: &Engine, connection: &mut Connection, source: &str) -> Result<Call, BoxError> {
    let packet = engine.send(CALLS).await?;
    let parts: Vec<PartKeys> = packet.parts().map(PartKeys::of).collect();
    let hash = loaded(connection, source)?;
    Ok(Box::new(move |n, user| {
        let PartKeys { part, pending, .. } = &parts[n as usize % parts.len()];
        let mut call = cmd("EVALSHA");
        call.arg(&hash).arg(2).arg(&[part, pending]).arg(user);
        call
    }))
}

/// Calls of lua-queue's script, on a new packet.
pub fn of_lua_queue(connection: &mut Connection) -> Result<Call, BoxError> {
    LuaQueue::fill(connection, &Rush::all_win(CALLS))?;
    let hash = loaded(connection, crate::designs::LUA_QUEUE)?;
    Ok(Box::new(move |_, user| {
        let mut call = cmd("EVALSHA");
        call.arg(&hash).arg(4).arg(&LuaQueue::keys(0)).arg(user);
        call
    }))
}

/// Gives the server a script. Returns its hash.
fn loaded(connection: &mut Connection, source: &str) -> RedisResult<String> {
    cmd("SCRIPT").arg("LOAD").arg(source).exec(connection)?;
    Ok(Script::new(source).hash().to_owned())
}

/// Microseconds per call, for each of [`CASES`].
fn costs_of(connection: &mut Connection, call: &Call) -> Result<[f64; 3], BoxError> {
    let mut costs = [0.0; 3];
    for (cost, user) in costs.iter_mut().zip(["winner", "winner", "loser"]) {
        cmd("CONFIG").arg("RESETSTAT").exec(connection)?;
        pipelined(connection, (0..CALLS).map(|n| call(n, format!("{user}-{n:06}"))))?;
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
