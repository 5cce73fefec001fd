//! Workloads A to D: the hot path by itself, acknowledged by Redis as in all published designs.

use std::sync::Arc;

use crate::BoxError;
use crate::designs::{Design, LockCounter, LuaQueue, LuaQueuePipelined, Ping, PureQueue};
use crate::lab::Lab;
use crate::limits::{self, Limit};
use crate::ours::{Collected, Engine, OneByOne};
use crate::rush::Rush;

const SLIPS: u32 = 100_000;
/// Requests of B, all in flight at once.
const CROWD: u32 = 10_000;
/// Requests in flight at once in A, C and D.
const MANY: usize = 1_000;
/// Requests in flight at once in the second part of A.
const FEW: usize = 20;

/// (A) Everybody wins.
pub async fn a(lab: &mut Lab, engine: &Arc<Engine>) -> Result<(), BoxError> {
    let rush = Arc::new(Rush::all_win(lab.scaled(SLIPS)));
    let redis = lab.redis().clone();
    let raw = async |time| limits::raw_heat(engine, &redis, &rush, time).await;
    for _ in 0..lab.time.rounds {
        published(lab, "A", &rush).await?;
        pipelined(lab, engine, "A", &rush, MANY).await?;
        lab.round("A", "ours, the raw script with 64 users a call", &rush, raw).await?;
        for limit in [Limit::TrivialScript, Limit::Lpop] {
            lab.round("A", limit.name(), &rush, async |_| Ok(limits::heat(limit, &redis, &rush)?)).await?;
        }
        lab.threads("A", &Ping, &rush).await?;
    }
    Ok(())
}

/// A again, with few requests in flight.
pub async fn a_with_few(lab: &mut Lab, engine: &Arc<Engine>) -> Result<(), BoxError> {
    let rush = Arc::new(Rush::all_win(lab.scaled(SLIPS)));
    for _ in 0..lab.time.rounds {
        pipelined(lab, engine, "A", &rush, FEW).await?;
    }
    Ok(())
}

/// (B) Many users and few slips.
pub async fn b(lab: &mut Lab, engine: &Arc<Engine>) -> Result<(), BoxError> {
    let rush = Arc::new(Rush::crowd(100, lab.scaled(CROWD)));
    for _ in 0..lab.time.rounds {
        published(lab, "B", &rush).await?;
        pipelined(lab, engine, "B", &rush, CROWD as usize).await?;
    }
    Ok(())
}

/// (C) Many packets.
pub async fn c(lab: &mut Lab, engine: &Arc<Engine>) -> Result<(), BoxError> {
    let rush = Arc::new(Rush::spread(lab.scaled(1_000), 100));
    for _ in 0..lab.time.rounds {
        published(lab, "C", &rush).await?;
        pipelined(lab, engine, "C", &rush, MANY).await?;
    }
    Ok(())
}

/// (D) Everybody asks twice.
pub async fn d(lab: &mut Lab, engine: &Arc<Engine>) -> Result<(), BoxError> {
    let rush = Arc::new(Rush::with_repeats(lab.scaled(SLIPS)));
    for _ in 0..lab.time.rounds {
        published(lab, "D", &rush).await?;
        pipelined(lab, engine, "D", &rush, MANY).await?;
    }
    Ok(())
}

/// The designs with their published clients.
async fn published(lab: &mut Lab, workload: &'static str, rush: &Rush) -> Result<(), BoxError> {
    let designs: [&dyn Design; 3] = [&LuaQueue, &LockCounter::default(), &PureQueue];
    for design in designs {
        lab.threads(workload, design, rush).await?;
    }
    Ok(())
}

/// lua-queue and this engine with so many requests in flight at once.
async fn pipelined(
    lab: &mut Lab,
    engine: &Arc<Engine>,
    workload: &'static str,
    rush: &Arc<Rush>,
    under_way: usize,
) -> Result<(), BoxError> {
    let lua_queue = Arc::new(LuaQueuePipelined::new(&lab.redis_url())?);
    let one_by_one = Arc::new(OneByOne::new(Arc::clone(engine)));
    let collected = Arc::new(Collected::new(Arc::clone(engine)));
    let name = |scheme: &str| format!("{scheme}, {under_way} under way");
    lab.concurrent(workload, &name("lua-queue pipelined"), &lua_queue, rush, under_way).await?;
    lab.concurrent(workload, &name("ours, one user a call"), &one_by_one, rush, under_way).await?;
    lab.concurrent(workload, &name("ours, collected"), &collected, rush, under_way).await
}
