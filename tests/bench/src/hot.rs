//! Workloads A to D: the hot path alone, acknowledged by Redis, as all published designs do.

use std::sync::Arc;

use crate::BoxError;
use crate::cell::Collector;
use crate::designs::{CheckLockPop, Design, LockCounter, LuaQueue, LuaQueuePipelined, NoLock, Ping, PureQueue};
use crate::lab::Lab;
use crate::limits::{self, Limit};
use crate::ours::{Collected, Engine, OneByOne};
use crate::rush::Rush;

const SLIPS: u32 = 100_000;
/// Requests under way at once.
const MANY: usize = 1_000;
const FEW: usize = 20;

/// (A) All win.
pub async fn a(lab: &mut Lab, engine: &Arc<Engine>) -> Result<(), BoxError> {
    let rush = Arc::new(Rush::all_win(SLIPS));
    published(lab, "A", &rush)?;
    pipelined(lab, engine, "A", &rush, &[MANY, FEW]).await?;
    raw(lab, engine, &rush).await?;
    let redis = lab.redis().clone();
    for limit in [Limit::TrivialScript, Limit::Lpop] {
        lab.blocking("A", limit.name(), &rush, |_| Ok(limits::heat(limit, &redis, &rush)?))?;
    }
    lab.threads("A", &Ping, &rush)
}

/// (B) A crowd, and few slips.
pub async fn b(lab: &mut Lab, engine: &Arc<Engine>) -> Result<(), BoxError> {
    let rush = Arc::new(Rush::crowd(100, 10_000));
    published(lab, "B", &rush)?;
    pipelined(lab, engine, "B", &rush, &[rush.requests.len()]).await
}

/// (C) Many packets.
pub async fn c(lab: &mut Lab, engine: &Arc<Engine>) -> Result<(), BoxError> {
    let rush = Arc::new(Rush::spread(1_000, 100));
    published(lab, "C", &rush)?;
    pipelined(lab, engine, "C", &rush, &[MANY]).await
}

/// (D) Everybody asks twice.
pub async fn d(lab: &mut Lab, engine: &Arc<Engine>) -> Result<(), BoxError> {
    let rush = Arc::new(Rush::with_repeats(SLIPS));
    published(lab, "D", &rush)?;
    pipelined(lab, engine, "D", &rush, &[MANY]).await
}

/// All designs with the client that they were published with.
fn published(lab: &mut Lab, workload: &'static str, rush: &Rush) -> Result<(), BoxError> {
    let (counter, guarded, no_lock) = (LockCounter::new(false), LockCounter::new(true), NoLock::default());
    let designs: [&dyn Design; 6] = [&LuaQueue, &counter, &guarded, &no_lock, &CheckLockPop, &PureQueue];
    designs.into_iter().try_for_each(|design| lab.threads(workload, design, rush))
}

/// lua-queue and this engine with many requests under way.
async fn pipelined(
    lab: &mut Lab,
    engine: &Arc<Engine>,
    workload: &'static str,
    rush: &Arc<Rush>,
    under_way: &[usize],
) -> Result<(), BoxError> {
    let lua_queue = Arc::new(LuaQueuePipelined::new(&lab.redis_url())?);
    let one_by_one = Arc::new(OneByOne::new(Arc::clone(engine)));
    let collected = Arc::new(Collected::new(Arc::clone(engine)));
    for &under_way in under_way {
        let name = |scheme: &str| format!("{scheme}, {under_way} under way");
        lab.flights(workload, &name("lua-queue pipelined"), &lua_queue, rush, under_way).await?;
        lab.flights(workload, &name("ours, one user a call"), &one_by_one, rush, under_way).await?;
        lab.flights(workload, &name("ours, collected"), &collected, rush, under_way).await?;
    }
    Ok(())
}

/// The script by itself.
async fn raw(lab: &mut Lab, engine: &Engine, rush: &Rush) -> Result<(), BoxError> {
    const NAME: &str = "ours, the raw script with 64 users a call";
    if lab.wants(NAME) {
        let mut rounds = Collector::new(rush);
        for _ in 0..lab.time.rounds {
            rounds.begin_round();
            while rounds.round_took() < lab.time.time {
                rounds.add(&limits::raw_heat(engine, lab.redis(), rush, lab.time.time).await?);
            }
        }
        lab.report.add(rounds.cell("A", NAME));
    }
    Ok(())
}
