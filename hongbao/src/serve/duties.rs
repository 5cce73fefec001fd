//! What one process at a time does, the one that has the lease: settle, the daily audit and webhooks. If it dies, another one goes on when the
//! lease has ended.

use std::sync::Arc;
use std::time::Duration;

use audit::Auditor;
use local::gateway::Invoke as _;
use postgres_ledger::{Events, Lease, PostgresReader};
use shared::ports::{Clock, System};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::engine::Engine;
use super::events::Delivery;
use super::metrics;

/// How often settle runs.
const SETTLE_EVERY: Duration = Duration::from_secs(5);
/// How long a lease lasts: longer than a run of settle, or than a try to deliver.
const LEASE: Duration = Duration::from_secs(15);
/// How often an audit begins.
const AUDIT_EVERY: Duration = Duration::from_hours(24);
/// How long an audit may take before another process begins one.
const AUDIT_MAX: Duration = Duration::from_hours(2);
/// When an audit begins again that failed.
const AUDIT_AGAIN: Duration = Duration::from_mins(10);
/// How often a process looks whether an audit is due.
const AUDIT_LOOK: Duration = Duration::from_mins(1);
/// The pause between two looks at an empty queue.
const PAUSE: Duration = Duration::from_millis(500);
/// The most batches that are delivered at once.
const BATCHES_AT_ONCE: usize = 16;

/// Begins the duties. They end with what is returned.
pub fn start(engine: &Arc<Engine>, delivery: Option<Delivery>) -> JoinSet<()> {
    let mut duties = JoinSet::new();
    duties.spawn(settle(Arc::clone(engine)));
    duties.spawn(audits(Arc::clone(engine), delivery.is_some()));
    if let Some(delivery) = delivery {
        duties.spawn(deliver(Arc::clone(engine), Arc::new(delivery)));
    }
    duties
}

/// Whether this process has a lease. Without an answer it has none.
async fn has(lease: &Lease) -> bool {
    lease.take(LEASE).await.unwrap_or_else(|error| {
        tracing::warn!(error = error.chain(), "a lease can't be taken");
        false
    })
}

async fn settle(engine: Arc<Engine>) {
    let lease = Lease::new(engine.database.clone(), "settle");
    let mut ticks = interval(SETTLE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        engine.forget();
        if !has(&lease).await {
            ["Due", "Pending", "Outbox"].into_iter().for_each(metrics::forget);
            continue;
        }
        match engine.settle().await {
            Ok(report) => metrics::record(&settle::metric(&report, &engine.table, System.now())),
            Err(error) => {
                metrics::failed("settle");
                tracing::error!(error = format!("{error:#}"), "settle failed");
            }
        }
    }
}

async fn audits(engine: Arc<Engine>, publishes: bool) {
    let lease = Lease::new(engine.database.clone(), "audit");
    let auditor = Auditor::over(Arc::new(PostgresReader::new(engine.database.clone())));
    loop {
        match lease.take_if_over(AUDIT_MAX).await {
            Ok(true) => match audit(&engine, &auditor, publishes).await {
                Ok(imbalances) => {
                    if let Err(error) = lease.leave(AUDIT_EVERY, imbalances).await {
                        tracing::warn!(error = error.chain(), "the next audit comes early");
                    }
                }
                Err(error) => {
                    metrics::failed("audit");
                    tracing::error!(error = format!("{error:#}"), "the audit failed");
                    // Whatever becomes of this, the next one comes when the lease ends.
                    let _ = lease.take(AUDIT_AGAIN).await;
                }
            },
            Ok(false) => {}
            Err(error) => tracing::warn!(error = error.chain(), "a lease can't be taken"),
        }
        // Each process says what the last audit found, which may have run in another one, or before a restart.
        match lease.note().await {
            Ok(imbalances) => metrics::found(imbalances),
            Err(error) => tracing::warn!(error = error.chain(), "the result of the last audit can't be read"),
        }
        sleep(AUDIT_LOOK).await;
    }
}

/// Audits the movements of a day and a little more, and returns how much is wrong. Forgets changes of which nobody publishes events.
async fn audit(engine: &Engine, auditor: &Auditor, publishes: bool) -> anyhow::Result<i64> {
    if !publishes && let Err(error) = Events::new(engine.database.clone()).forget_old_changes().await {
        tracing::warn!(error = error.chain(), "old changes are not forgotten");
    }
    let (begun, now) = (Instant::now(), System.now());
    let answer = audit_function::handle(auditor, audit_function::Event::default(), now.ms(), begun + AUDIT_MAX).await?;
    metrics::record(&audit_function::metric(&answer, &engine.table, now, begun.elapsed()));
    for imbalance in &answer.report.imbalances {
        tracing::error!(?imbalance, "the ledger does not balance");
    }
    Ok(i64::try_from(answer.report.imbalance_count).unwrap_or(i64::MAX))
}

async fn deliver(engine: Arc<Engine>, delivery: Arc<Delivery>) {
    let lease = Lease::new(engine.database.clone(), "webhooks");
    let mut batches = JoinSet::new();
    let mut looked = Instant::now();
    loop {
        if batches.len() >= BATCHES_AT_ONCE {
            batches.join_next().await;
        }
        while batches.try_join_next().is_some() {}
        if !has(&lease).await {
            metrics::waiting(0, Duration::ZERO);
            sleep(PAUSE).await;
            continue;
        }
        if looked.elapsed() >= SETTLE_EVERY {
            looked = Instant::now();
            match delivery.waiting().await {
                Ok((dead, age)) => metrics::waiting(dead, age),
                Err(error) => tracing::warn!(error = error.chain(), "the queue of webhooks can't be read"),
            }
        }
        let done = async { Ok::<_, shared::ports::TableError>((delivery.publish().await?, delivery.receive().await?)) };
        match done.await {
            Ok((false, batch)) if batch.records.is_empty() => sleep(PAUSE).await,
            Ok((_, batch)) if batch.records.is_empty() => {}
            Ok((_, batch)) => {
                let (engine, delivery) = (Arc::clone(&engine), Arc::clone(&delivery));
                batches.spawn(async move { delivery.deliver(&engine.ledger, batch).await });
            }
            Err(error) => {
                metrics::failed("webhooks");
                tracing::warn!(error = error.chain(), "events wait: the database did not answer");
                sleep(PAUSE).await;
            }
        }
    }
}
