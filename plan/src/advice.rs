//! What must be raised, so that a rush is served.

use serde::Serialize;

use crate::cost::Costs;
use crate::inputs::{Input, Inputs, TEMPLATE};
use crate::outcome::{Limit, Outcome};
use crate::rush::{Rush, Times, simulate};
use crate::sizing::{Needs, Size};
use crate::station::SECOND;

/// An input to raise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Its new value, as `samconfig.toml` takes a parameter.
    pub raise: String,
    /// Its value so far.
    pub was: f64,
    /// How it is raised.
    pub how: &'static str,
}

/// Room above the average, because users come at random.
const ROOM: f64 = 1.1;
/// Rounds of raising what still refuses tries. Each simulates the rush once.
const ROUNDS: usize = 6;
/// The share of a second in which a shard's core may work: more, and calls wait for each other.
const BUSY_MOST: f64 = 0.6;
/// The most shards to ask for. AWS' default is 90 nodes a cluster: docs.aws.amazon.com/general/latest/gr/elasticache-service.html
const SHARDS_MOST: f64 = 90.0;

/// Raises the limits that a rush meets: inputs that serve it, until every user is served or the rounds are over. Then the round that served most counts.
///
/// The first values come from the formulas of the sizing table, with all slips going to the users who come first. `None` if nothing
/// refused any try: then nothing has to be raised.
#[must_use]
pub fn raise(inputs: &Inputs, costs: &Costs, rush: &Rush, met: &Outcome) -> Option<Inputs> {
    met.binds()?;
    let times = &Times::of(inputs, costs);
    let rate = ROOM * rush.per_second();
    let won = rate.min(f64::from(rush.slips));
    let size = Size { grabs: rate.ceil() as u32, won: won.ceil() as u32 };
    let needs = Needs::of(size, inputs, costs);
    let mut raised = inputs.clone();
    let at_least = |value: &mut f64, need: f64| *value = value.max(rounded(need));
    for rate_of in [&mut raised.grab_rate, &mut raised.grab_burst, &mut raised.api_rate, &mut raised.api_burst] {
        at_least(rate_of, rate);
    }
    at_least(&mut raised.account_concurrency, needs.allowed as f64);
    if needs.allowed as f64 > inputs.ramp {
        at_least(&mut raised.grab_provisioned, needs.allowed as f64);
    }
    let cores = cores(times, rush, won, rate, needs.working as f64);
    // A part lies on one shard, so more shards than parts help nobody.
    let shards_most = SHARDS_MOST.min(rush.parts().into()).max(raised.redis_shards);
    raised.redis_shards = raised.redis_shards.max(needs.shards as f64).max((cores / BUSY_MOST).ceil()).min(shards_most);
    if inputs.grab_ack_ledger > 0.0 {
        warm(&mut raised, needs.write_units as f64, rate);
    }
    let mut outcome = simulate(&raised, times, rush);
    // A round may serve a few users less, because they come at random, and the next one more.
    let mut best = (raised.clone(), outcome.served());
    for _ in 1..ROUNDS {
        if outcome.all_served() {
            break;
        }
        let mut more = raised.clone();
        // As long as calls wait for Redis, executions pile up, and more of those would only add to its work.
        if outcome.redis_busiest > BUSY_MOST && raised.redis_shards < shards_most {
            more.redis_shards = (more.redis_shards * outcome.redis_busiest / BUSY_MOST).ceil().min(shards_most);
        } else {
            let refusing = Limit::ALL.into_iter().filter(|limit| outcome.refused_by(*limit) > 0);
            refusing.for_each(|limit| lift(&mut more, limit));
        }
        if more == raised {
            break;
        }
        outcome = simulate(&more, times, rush);
        raised = more;
        if outcome.served() > best.1 {
            best = (raised.clone(), outcome.served());
        }
    }
    Some(best.0)
}

/// The cores of Redis that the worst second takes: all of the first winners, and the losers. Those of a packet of one part ask it; of
/// another packet, each process at work asks each part once.
fn cores(times: &Times, rush: &Rush, won: f64, rate: f64, working: f64) -> f64 {
    let losers = if rush.parts() == 1 { rate - won } else { working * f64::from(rush.parts()) };
    (won * (times.win + times.reconcile) as f64 + losers * times.lose as f64) / SECOND as f64
}

/// Raises a limit by half.
fn lift(inputs: &mut Inputs, limit: Limit) {
    let half_more = |value: &mut f64| *value = rounded(1.5 * *value);
    match limit {
        Limit::GrabRate => {
            half_more(&mut inputs.grab_rate);
            half_more(&mut inputs.grab_burst);
        }
        Limit::ApiRate => {
            half_more(&mut inputs.api_rate);
            half_more(&mut inputs.api_burst);
        }
        Limit::Requests | Limit::Concurrency => {
            half_more(&mut inputs.account_concurrency);
            half_more(&mut inputs.grab_provisioned);
        }
        Limit::Ramp => {
            let most = inputs.account_concurrency;
            inputs.grab_provisioned = rounded((1.5 * inputs.grab_provisioned).max(inputs.ramp)).min(most);
            if inputs.grab_provisioned >= most {
                half_more(&mut inputs.account_concurrency);
            }
        }
        // Its shards are counted by its work.
        Limit::Redis => {}
        Limit::Table => {
            warm(inputs, 1.5 * inputs.table_rate(), 1.5 * inputs.reads_rate());
        }
    }
}

/// Warms the table to these rates of writes and of reads, if it takes less, and raises what would hold it below. The template takes both
/// rates together.
fn warm(inputs: &mut Inputs, writes: f64, reads: f64) {
    let (warms_writes, warms_reads) = (writes > inputs.table_rate(), reads > inputs.reads_rate());
    if warms_writes || warms_reads {
        inputs.table_warm = if warms_writes { rounded(writes) } else { inputs.table_warm.max(inputs.table_new) };
        inputs.reads_warm = if warms_reads { rounded(reads) } else { inputs.reads_warm.max(inputs.reads_new) };
        inputs.table_quota = inputs.table_quota.max(inputs.table_warm);
        inputs.reads_quota = inputs.reads_quota.max(inputs.reads_warm);
    }
}

/// Up to two digits and zeros.
pub fn rounded(value: f64) -> f64 {
    let unit = 10_f64.powf((value.max(1.0).log10().floor() - 1.0).max(0.0));
    (value / unit).ceil() * unit
}

/// The inputs that differ.
pub fn changes(from: &Inputs, to: &Inputs) -> Vec<Change> {
    let pairs = from.list().into_iter().zip(to.list());
    let differ = pairs.filter(|(from, to)| (from.value - to.value).abs() > f64::EPSILON);
    let how = |input: &Input| match input.name {
        "AccountConcurrency" => "AWS raises the quota",
        "RedisShards" if input.value > 3.0 => "by Redis=existing: the template makes 3 at most",
        _ if input.source == TEMPLATE => "in samconfig.toml",
        name if name.starts_with(char::is_uppercase) => "in the templates",
        _ => "AWS raises the quota",
    };
    differ
        .map(|(from, to)| Change { raise: format!("{}={:.0}", to.name, to.value), was: from.value, how: how(&to) })
        .collect()
}
