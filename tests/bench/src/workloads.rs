//! The workloads. A to D and TLS are acknowledged by Redis, as in all published designs; L and E by the ledger.

use std::sync::Arc;

use client::tickets::TicketKey;
use postgres_ledger::{Database, PostgresTable};
use shared::redis::Authorities;
use tests::postgres::Postgres;

use crate::BoxError;
use crate::designs::{CheckLockPop, Design, LockCounter, LuaQueue, LuaQueuePipelined, NoLock, PureQueue};
use crate::http::{Answers, Http};
use crate::lab::Lab;
use crate::ours::{BareClaims, Collected, Engine, OneUser, TICKET_KEY};
use crate::postgres::BareSql;
use crate::rush::Rush;

const SLIPS: u32 = 100_000;
/// Requests of B, all in flight at once.
const CROWD: u32 = 10_000;
/// Requests in flight in E and L.
const WITH_LEDGER: usize = 64;
/// The workload L on `PostgreSQL`, and two of its schemes: the report compares them.
pub const POSTGRES: &str = "L postgres";
pub const FASTEST: &str = "ours on PostgreSQL";
pub const BARE_SQL: &str = "bare SQL on PostgreSQL";
/// Grabs that come at a pace.
const PACES: [(&str, f64); 2] = [
    ("ours on PostgreSQL, 10,000 come in a second", 10_000.0),
    ("ours on PostgreSQL, 5,000 come in a second", 5_000.0),
];
/// Requests in flight there: a rush.
const WITH_POSTGRES: usize = 256;

/// A to D: every design with its published client, then lua-queue and this engine with many requests in flight.
pub async fn hot(lab: &mut Lab, workload: &'static str) -> Result<(), BoxError> {
    let (rush, in_flight) = match workload {
        // Everybody wins.
        "A" => (Rush::all_win(SLIPS), 1_000),
        // Many users and few slips.
        "B" => (Rush::crowd(100, CROWD), CROWD as usize),
        // Many packets.
        "C" => (Rush::spread(1_000, 100), 1_000),
        // Everybody asks twice.
        _ => (Rush::with_repeats(SLIPS), 1_000),
    };
    let (counter, guarded, no_lock) = (LockCounter::new(false), LockCounter::new(true), NoLock::default());
    let published: [&dyn Design; 6] = [&LuaQueue, &counter, &guarded, &no_lock, &CheckLockPop, &PureQueue];
    pipelined(lab, workload, rush, in_flight, &published).await
}

/// A again, with few requests in flight.
pub async fn few_in_flight(lab: &mut Lab) -> Result<(), BoxError> {
    pipelined(lab, "A", Rush::all_win(SLIPS), 20, &[]).await
}

/// (F) A again, on a server that has each write on its disk before it answers.
pub async fn fsynced(lab: &mut Lab) -> Result<(), BoxError> {
    pipelined(lab, "F", Rush::all_win(SLIPS), 1_000, &[]).await
}

async fn pipelined(
    lab: &mut Lab,
    workload: &'static str,
    rush: Rush,
    in_flight: usize,
    published: &[&dyn Design],
) -> Result<(), BoxError> {
    let (engine, redis, rush) = (Engine::new(lab, workload, "redis").await?, lab.redis_config(), Arc::new(rush));
    let lua_queue = Arc::new(LuaQueuePipelined::new(&redis)?);
    let one_user = OneUser::new(&engine, &redis, 1, in_flight).await?;
    let collected = Collected::new(&engine);
    let name = |scheme: &str| format!("{scheme}, {in_flight} in flight");
    for _ in 0..lab.rounds {
        for design in published {
            lab.threads(workload, *design, &rush).await?;
        }
        lab.concurrent(workload, &name("lua-queue pipelined"), &lua_queue, &rush, in_flight).await?;
        lab.concurrent(workload, &name("ours, one user a call"), &one_user, &rush, in_flight).await?;
        lab.concurrent(workload, &name("ours, collected"), &collected, &rush, in_flight).await?;
    }
    Ok(())
}

/// What TLS costs Redis, one user a call. Over one connection a read or a write of the server has many calls. An execution of Lambda
/// has a connection of its own with one call in flight. There each call is a read and a write by itself, and a record of TLS.
pub async fn tls(lab: &mut Lab) -> Result<(), BoxError> {
    let Some(secure) = lab.tls_config() else { return Ok(()) };
    let (engine, rush) = (Engine::new(lab, "TLS", "redis").await?, Arc::new(Rush::all_win(SLIPS)));
    let mut schemes = Vec::new();
    for (connections, in_flight) in [(1, 1_000), (200, 1)] {
        for (what, redis) in [("plain", lab.redis_config()), ("TLS", secure.clone())] {
            let design = OneUser::new(&engine, &redis, connections, in_flight).await?;
            schemes.push((format!("{what}, {connections} × {in_flight}"), design, connections * in_flight));
        }
    }
    for _ in 0..lab.rounds {
        for (name, design, in_flight) in &schemes {
            lab.concurrent("TLS", name, design, &rush, *in_flight).await?;
        }
    }
    Ok(())
}

/// (L) 450 users and 300 slips. Then B in the same way.
pub async fn l(lab: &mut Lab) -> Result<(), BoxError> {
    let (rush, crowd) = (Arc::new(Rush::crowd(300, 450)), Arc::new(Rush::crowd(100, CROWD)));
    let ours = Collected::new(&Engine::new(lab, "L", "ledger").await?);
    for _ in 0..lab.rounds {
        lab.concurrent("L", "ours, acknowledged by the ledger", &ours, &rush, WITH_LEDGER).await?;
        lab.concurrent("B", "ours, acknowledged by the ledger", &ours, &crowd, CROWD as usize).await?;
    }
    Ok(())
}

/// (L) 10 packets of 2,000 slips, whose claims `PostgreSQL` has on its disk: as fast as they go, and as they come. Then plain statements with
/// the same rows.
pub async fn l_postgres(lab: &mut Lab) -> Result<(), BoxError> {
    let server = Postgres::start(&[]);
    let database = Database::new(&server.url(), &Authorities::System)?;
    database.migrate().await?;
    let ours = Collected::new(&Engine::over(lab, PostgresTable::new(database.clone()), "ledger").await?);
    let bare = BareSql::new(&server.url(), &database).await?;
    let rush = Arc::new(Rush::spread(10, 2_000));
    for _ in 0..lab.rounds {
        lab.concurrent(POSTGRES, FASTEST, &ours, &rush, WITH_POSTGRES).await?;
        let time = lab.time;
        lab.round(POSTGRES, BARE_SQL, &rush, async || bare.claims(&rush, time).await).await?;
        for (name, per_s) in PACES {
            let paced = Arc::new(Rush { per_s: Some(per_s), ..Rush::spread(10, 2_000) });
            lab.concurrent(POSTGRES, name, &ours, &paced, WITH_POSTGRES).await?;
        }
    }
    Ok(())
}

/// (E) Whole HTTP requests.
pub async fn e(lab: &mut Lab) -> Result<(), BoxError> {
    let (losers, winners) = (Arc::new(Rush::crowd(1, 20_000)), Arc::new(Rush::all_win(5_000)));
    let engine = Engine::new(lab, "E", "ledger").await?;
    let open = |answers, sold_out| Http::new(answers, Arc::clone(&engine), sold_out, None);
    let ours = || Answers::Grab(Box::new(engine.grab_slip()));
    let constant = open(Answers::Constant, false).await?;
    let (sold_out, winning) = (open(ours(), true).await?, open(ours(), false).await?);
    let bare = Arc::new(BareClaims(Arc::clone(&engine)));
    for _ in 0..lab.rounds {
        lab.concurrent("E", "a constant answer", &constant, &losers, WITH_LEDGER).await?;
        lab.concurrent("E", "ours, losers", &sold_out, &losers, WITH_LEDGER).await?;
        lab.concurrent("E", "ours, winners", &winning, &winners, WITH_LEDGER).await?;
        lab.concurrent("E", "bare claim transactions", &bare, &winners, WITH_LEDGER).await?;
    }
    Ok(())
}

/// (T) E with tickets and without. A packet of two parts is final for a process that has seen it sold out.
pub async fn t(lab: &mut Lab) -> Result<(), BoxError> {
    let (losers, winners) = (Arc::new(Rush::crowd(2_000, 20_000)), Arc::new(Rush::all_win(5_000)));
    let engine = Engine::new(lab, "T", "ledger").await?;
    let open = |sold_out, has_tickets: bool| {
        let key = has_tickets.then(|| TicketKey::from_jwk(TICKET_KEY)).transpose();
        let answers = Answers::Grab(Box::new(engine.grab_slip()));
        let engine = Arc::clone(&engine);
        async move { Http::new(answers, engine, sold_out, key?).await }
    };
    let mut schemes = Vec::new();
    for (who, rush, sold_out) in [("winners", &winners, false), ("losers of a final packet", &losers, true)] {
        for (how, has_tickets) in [("", false), (", with a ticket", true)] {
            schemes.push((format!("{who}{how}"), open(sold_out, has_tickets).await?, rush));
        }
    }
    for _ in 0..lab.rounds {
        for (name, http, rush) in &schemes {
            lab.concurrent("T", name, http, rush, WITH_LEDGER).await?;
        }
    }
    Ok(())
}
