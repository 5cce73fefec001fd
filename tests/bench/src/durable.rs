//! Grabs acknowledged by the ledger, beside the designs that use a database at each grab.

use std::sync::Arc;
use std::time::{Duration, Instant};

use shared::domain::{Amount, Claim, Timestamp, UserId};
use shared::wiring;

use crate::cell::Spread;
use crate::concurrent::Grabs;
use crate::database::{Database, Way};
use crate::goals::{Goal, Ratio};
use crate::http_path::{Answers, Http};
use crate::lab::Lab;
use crate::ours::{Collected, Engine};
use crate::rush::{Got, Rush};
use crate::{BoxError, concurrent, heat};

const UNDER_WAY: usize = 64;
/// Holds that settle persists.
const SETTLED: u32 = 5_000;
const SETTLE_TIMEOUT: Duration = Duration::from_mins(1);
/// Connections of workload E.
const CONNECTIONS: usize = 64;

/// (L) 450 users and 300 slips; winners are written to a database.
pub async fn l(lab: &mut Lab, engine: &Arc<Engine>) -> Result<(), BoxError> {
    let rush = Arc::new(Rush::crowd(lab.scaled(300), lab.scaled(450)));
    let db = wiring::dynamodb_at(&lab.dynamodb_url());
    Database::create_table(&db).await?;
    let mut designs = Vec::new();
    for way in Way::ALL {
        designs.push((way, Arc::new(Database::new(way, db.clone(), &lab.redis_url()).await?)));
    }
    let ours = Arc::new(Collected::new(Arc::clone(engine)));
    // B with the ledger, and the time that its 100 winners' transactions take by themselves.
    let crowd = Arc::new(Rush::crowd(100, lab.scaled(10_000)));
    let winners = Arc::new(Rush::crowd(100, 100));
    let bare = Arc::new(BareClaims::new(Arc::clone(engine)));
    for _ in 0..lab.time.rounds {
        for (way, design) in &designs {
            lab.concurrent("L", way.name(), design, &rush, UNDER_WAY).await?;
        }
        lab.concurrent("L", "ours, acknowledged by the ledger", &ours, &rush, UNDER_WAY).await?;
        lab.concurrent("B", "ours, acknowledged by the ledger", &ours, &crowd, crowd.requests.len()).await?;
        lab.concurrent("B", "bare claim transactions of the 100 winners", &bare, &winners, winners.requests.len())
            .await?;
    }
    Ok(())
}

/// (E) Whole HTTP requests.
pub async fn e(lab: &mut Lab, engine: &Arc<Engine>) -> Result<(), BoxError> {
    let losers = Arc::new(Rush::crowd(1, lab.scaled(20_000)));
    let winners = Arc::new(Rush::all_win(lab.scaled(5_000)));
    let open = |answers, sold_out| Http::new(answers, Arc::clone(engine), sold_out);
    let constant = Arc::new(open(Answers::Constant, false).await?);
    let sold_out = Arc::new(open(Answers::Grab(Box::new(engine.grab_slip())), true).await?);
    let winning = Arc::new(open(Answers::Grab(Box::new(engine.grab_slip())), false).await?);
    let bare = Arc::new(BareClaims::new(Arc::clone(engine)));
    for _ in 0..lab.time.rounds {
        lab.concurrent("E", "a constant answer", &constant, &losers, CONNECTIONS).await?;
        lab.concurrent("E", "ours, losers", &sold_out, &losers, CONNECTIONS).await?;
        lab.concurrent("E", "ours, winners", &winning, &winners, CONNECTIONS).await?;
        lab.concurrent("E", "bare claim transactions", &bare, &winners, CONNECTIONS).await?;
    }
    Ok(())
}

/// The rate at which settle persists the holds of a rush, beside bare claim transactions.
pub async fn settle(lab: &mut Lab, engine: &Arc<Engine>) -> Result<(), BoxError> {
    let settled = lab.scaled(SETTLED);
    let rush = Arc::new(Rush::all_win(settled));
    let (held, bare) = (Arc::new(Collected::new(Arc::clone(engine))), Arc::new(BareClaims::new(Arc::clone(engine))));
    let mut ratios = Vec::new();
    for _ in 0..lab.time.rounds {
        concurrent::heat(&held, lab.redis(), &rush, UNDER_WAY, SETTLE_TIMEOUT).await?;
        let begun = Instant::now();
        let report = engine.settle().run(0..=255, tokio::time::Instant::now() + SETTLE_TIMEOUT).await?;
        let took = begun.elapsed();
        if report.persisted != u64::from(settled) {
            return Err(format!("settle did not persist all holds: {report:?}").into());
        }
        let bare = concurrent::heat(&bare, lab.redis(), &rush, UNDER_WAY, SETTLE_TIMEOUT).await?;
        ratios.push(bare.elapsed.as_secs_f64() / took.as_secs_f64());
    }
    let name = "Settle: claims/s ÷ bare claim transactions";
    lab.report.reached(Ratio::new(name, Goal::AtLeast(0.7), Spread::of(ratios).median));
    Ok(())
}

/// Only the transaction of a claim, without Redis.
struct BareClaims {
    engine: Arc<Engine>,
}

impl BareClaims {
    const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }
}

impl Grabs for BareClaims {
    async fn fill(&self, rush: &Rush) -> Result<(), BoxError> {
        self.engine.fill(rush).await
    }

    async fn grab(&self, packet: usize, user: &str) -> Result<Got, BoxError> {
        let id = self.engine.packet(packet);
        let terms = self.engine.stores().packets.terms(id).await?.ok_or("a packet that was sent")?;
        let slip: u32 = heat::number(user)?;
        let claim = Claim { slip, amount: Amount::new(1), at: Timestamp::from_ms(1) };
        let user: UserId = user.parse()?;
        self.engine.stores().ledger.claim(&terms, &user, &claim).await?;
        Ok(Got::Slip(slip.into()))
    }
}
