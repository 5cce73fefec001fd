//! Users who wait for a packet's start, beside as many who come to an open packet (B).
//!
//! They ask early, and again when the answer says so. The spread is 0 here: all of them come at the start itself. With a longer one
//! they come one after another, and the last is answered that much later, as intended.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use shared::domain::{PacketId, Timestamp, UserId};
use shared::dynamodb::SdkTable;
use shared::ports::{Clock, System};
use shared::redis::RedisStore;
use shared::service::{GrabOutcome, GrabSlip};

use crate::cell::Spread;
use crate::goals::{Goal, Ratio};
use crate::heat::empty;
use crate::lab::Lab;
use crate::ours::{Collected, Engine};
use crate::rush::Rush;
use crate::{BoxError, concurrent};

const USERS: u32 = 10_000;
const SLIPS: u32 = 100;
/// How long after the send the packet starts. All users have their first answer by then.
const AHEAD: Duration = Duration::from_secs(1);

/// Measures both in turn.
pub async fn run(lab: &mut Lab, engine: &Arc<Engine>) -> Result<(), BoxError> {
    let rush = Arc::new(Rush::crowd(SLIPS, lab.scaled(USERS)));
    let open = Arc::new(Collected::new(Arc::clone(engine)));
    let mut ratios = Vec::new();
    for _ in 0..lab.time.pairs {
        let heat = concurrent::heat(&open, lab.redis(), &rush, rush.requests.len(), lab.time.rush_most).await?;
        let waited = wait_and_grab(lab, engine, &rush).await?;
        ratios.push(waited.as_secs_f64() / heat.elapsed.as_secs_f64());
    }
    let Spread { min, median, max } = Spread::of(ratios);
    eprintln!("start: {median:.2} of the time of B [{min:.2} to {max:.2}]");
    let name = "Start: time from the start to the last answer ÷ time of B";
    lab.report.reached(Ratio::new(name, Goal::AtMost(1.2), median));
    Ok(())
}

/// All users of `rush` wait for a packet's start. Returns the time from the start to the last answer.
async fn wait_and_grab(lab: &Lab, engine: &Engine, rush: &Rush) -> Result<Duration, BoxError> {
    empty(&mut lab.redis().get_connection()?)?;
    let starts_at = System.now().after(AHEAD);
    // Milliseconds of the system's clock are too coarse: a rush takes about ten.
    let begins =
        Instant::now() + (UNIX_EPOCH + Duration::from_millis(starts_at.ms())).duration_since(SystemTime::now())?;
    let id = engine.send_starting(rush.slips, starts_at).await?;
    let grab = Arc::new(engine.grab_slip().with_start_spread(Duration::ZERO));
    let mut tasks = Vec::with_capacity(rush.users.len());
    for user in &rush.users {
        tasks.push(tokio::spawn(one_user(Arc::clone(&grab), id, user.parse()?, starts_at)));
    }
    let (mut last, mut winners) = (begins, 0);
    for task in tasks.into_iter().rev() {
        let (answered, has_won) = task.await??;
        last = last.max(answered);
        winners += u32::from(has_won);
    }
    if winners != rush.slips {
        return Err(format!("{winners} users have one of {} slips", rush.slips).into());
    }
    Ok(last - begins)
}

/// Asks until the packet has started. Returns the time of the last answer, and whether the user has a slip.
async fn one_user(
    grab: Arc<GrabSlip<SdkTable, RedisStore>>,
    id: PacketId,
    user: UserId,
    starts_at: Timestamp,
) -> Result<(Instant, bool), BoxError> {
    let mut was_early = false;
    loop {
        match grab.grab(id, &user, None).await? {
            GrabOutcome::NotStarted { retry_after, .. } => {
                was_early = true;
                tokio::time::sleep(retry_after).await;
            }
            GrabOutcome::Grabbed { claim, .. } if claim.at < starts_at => return Err("a slip before the start".into()),
            _ if !was_early => return Err(format!("{user} did not ask before the start").into()),
            GrabOutcome::Grabbed { .. } => return Ok((Instant::now(), true)),
            GrabOutcome::SoldOut => return Ok((Instant::now(), false)),
            other => return Err(format!("a grab ended with {other:?}").into()),
        }
    }
}
