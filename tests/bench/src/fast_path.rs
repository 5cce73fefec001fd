//! What `grab_open.lua` saves beside `grab.lua`, and what a call costs beside lua-queue: the three scripts in turn, one user a call. Redis
//! itself counts the microseconds, so the network and this process are not in them.

use redis::{Client, Cmd, Connection, RedisResult, cmd, pipe};
use shared::domain::PacketId;
use shared::ports::{Grabber, HotStore};
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

const GRAB: &str = include_str!("../../../shared/src/redis/lua/grab.lua");
const GRAB_OPEN: &str = include_str!("../../../shared/src/redis/lua/grab_open.lua");

/// One user a call, who wins, asks again, or comes too late.
const CASES: [&str; 3] = ["winner", "repeat", "loser"];
/// A user who asks twice costs the first two together.
const TWICE: &str = "winner and repeat";

/// The calls of one script on a new packet.
pub struct Calls<'a> {
    /// A call by its number and its user.
    call: Box<dyn Fn(u32, String) -> Cmd>,
    /// The packet, if it is this engine's.
    packet: Option<(&'a Engine, PacketId)>,
}

/// Prints the cost of a call for each kind of user.
pub async fn run(engine: &Engine, redis: &Client) -> Result<(), BoxError> {
    let mut connection = redis.get_connection()?;
    let (mut open, mut in_full, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Which of them comes first changes.
        let mut costs = [[0.0; 3]; 3];
        for step in 0..costs.len() {
            let which = (round + step) % costs.len();
            empty(&mut connection)?;
            let calls = match which {
                0 => Calls::open(engine, &mut connection).await?,
                1 => Calls::in_full(engine, &mut connection).await?,
                _ => Calls::of_lua_queue(&mut connection)?,
            };
            costs[which] = costs_of(&mut connection, &calls).await?;
        }
        let [first, second, third] = costs;
        open.push(first);
        in_full.push(second);
        theirs.push(third);
    }
    print(&format!("of grab.lua ÷ of grab_open.lua, {ROUNDS} rounds"), &in_full, &open);
    print("of grab_open.lua ÷ of lua-queue, which answers a repeat with nil", &open, &theirs);
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

impl<'a> Calls<'a> {
    /// Calls of `grab_open.lua`, on the parts of the packet in turn.
    pub async fn open(engine: &'a Engine, connection: &mut Connection) -> Result<Self, BoxError> {
        Self::of_ours(engine, connection, GRAB_OPEN, |PartKeys { part, .. }, call| {
            call.arg(1).arg(part);
        })
        .await
    }

    /// The same calls of `grab.lua`.
    async fn in_full(engine: &'a Engine, connection: &mut Connection) -> Result<Self, BoxError> {
        Self::of_ours(engine, connection, GRAB, |PartKeys { part, pending, .. }, call| {
            call.arg(2).arg(&[part, pending]).arg(1);
        })
        .await
    }

    async fn of_ours(
        engine: &'a Engine,
        connection: &mut Connection,
        source: &str,
        add_keys: fn(&PartKeys, &mut Cmd),
    ) -> Result<Self, BoxError> {
        let packet = engine.send(CALLS).await?;
        let parts: Vec<PartKeys> = packet.parts().map(PartKeys::of).collect();
        let hash = loaded(connection, &fields::embed(source))?;
        let call = move |n, user| {
            let mut call = cmd("EVALSHA");
            call.arg(&hash);
            add_keys(&parts[n as usize % parts.len()], &mut call);
            call.arg(user);
            call
        };
        Ok(Self { call: Box::new(call), packet: Some((engine, packet)) })
    }

    /// Calls of lua-queue's script.
    pub fn of_lua_queue(connection: &mut Connection) -> Result<Self, BoxError> {
        LuaQueue::fill(connection, &Rush::all_win(CALLS))?;
        let hash = loaded(connection, crate::designs::LUA_QUEUE)?;
        let call = move |_, user| {
            let mut call = cmd("EVALSHA");
            call.arg(&hash).arg(4).arg(&LuaQueue::keys(0)).arg(user);
            call
        };
        Ok(Self { call: Box::new(call), packet: None })
    }

    /// Grabs for one user of each part before the others of their kind come, as in any rush. The first winner opens the part; the first
    /// loser is answered a certain "no".
    pub async fn begin(&self, kind: &str) -> Result<(), BoxError> {
        let Some((engine, packet)) = self.packet else { return Ok(()) };
        let first = Grabber { user: format!("first-{kind}").parse()?, passphrase: None };
        for part in packet.parts() {
            engine.stores().hot.grab(part, std::slice::from_ref(&first)).await?;
        }
        Ok(())
    }

    /// Makes all calls of a kind, many in each round trip.
    pub fn make(&self, connection: &mut Connection, kind: &str) -> RedisResult<()> {
        let calls: Vec<_> = (0..CALLS).map(|n| (self.call)(n, format!("{kind}-{n:06}"))).collect();
        for piece in calls.chunks(PIPELINE) {
            let mut commands = pipe();
            for call in piece {
                commands.add_command(call.clone());
            }
            commands.exec(connection)?;
        }
        Ok(())
    }
}

/// Gives the server a script. Returns its hash.
fn loaded(connection: &mut Connection, source: &str) -> RedisResult<String> {
    cmd("SCRIPT").arg("LOAD").arg(source).exec(connection)?;
    Ok(Script::new(source).hash().to_owned())
}

/// Microseconds per call, for each of [`CASES`].
async fn costs_of(connection: &mut Connection, calls: &Calls<'_>) -> Result<[f64; 3], BoxError> {
    let mut costs = [0.0; 3];
    for (cost, kind) in costs.iter_mut().zip(["winner", "winner", "loser"]) {
        calls.begin(kind).await?;
        cmd("CONFIG").arg("RESETSTAT").exec(connection)?;
        calls.make(connection, kind)?;
        let stats: String = cmd("INFO").arg("commandstats").query(connection)?;
        let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).ok_or("no call was counted")?;
        let per_call = line.split(',').find_map(|field| field.strip_prefix("usec_per_call=")).ok_or("no time")?;
        *cost = per_call.parse()?;
    }
    Ok(costs)
}
