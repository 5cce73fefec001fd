//! An evening of several rounds: each is a rush on a packet of its own.

use std::cmp::Reverse;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::PlanError;
use crate::advice::{Change, changes, raise};
use crate::cost::Costs;
use crate::inputs::Inputs;
use crate::outcome::{Answer, Outcome};
use crate::report::{cost_rows, tenth};
use crate::rush::{Rush, Times, simulate};

/// The plan of an evening.
#[derive(Clone, Debug, Serialize)]
pub struct Evening {
    /// Users of each round.
    pub users: u32,
    /// The time within which they come, in milliseconds.
    pub within_ms: u64,
    /// Slips of each packet.
    pub slips: u32,
    /// The seed of the first round. Each later one has the next.
    pub seed: u64,
    /// Milliseconds from the beginning of a round to that of the next.
    pub every_ms: u64,
    /// Minutes for which Lambda keeps an idle environment.
    pub idle_minutes: f64,
    /// Hours for which raised environments and shards are paid: the whole evening's at least.
    pub hours: f64,
    /// What becomes of each round.
    pub deployed: Vec<Value>,
    /// Whether all users of all rounds are answered with a slip or that none is left.
    pub all_served: bool,
    /// What to raise, so that all rounds are served. Nothing, if no limit refuses a try.
    pub changes: Vec<Change>,
    /// What becomes of each round then.
    pub raised: Option<Vec<Value>>,
    /// What both cost, all rounds together.
    pub costs: Vec<Value>,
}

/// A round: its inputs, with what the rounds before left, and what becomes of it.
struct Round {
    inputs: Inputs,
    rush: Rush,
    outcome: Outcome,
    row: Value,
}

impl Evening {
    const ROUNDS_MOST: u32 = 100;
    /// How often the worst round is raised: users come at random, so what serves one round may be too little for another.
    const PASSES: usize = 3;

    /// Plans an evening of such rushes, which begin this time apart.
    pub fn make(rush: &Rush, rounds: u32, every: Duration, inputs: &Inputs) -> Result<Self, PlanError> {
        if rounds == 0 || rounds > Self::ROUNDS_MOST {
            return Err(PlanError::BadRush("expected 1 to 100 rounds"));
        }
        if every < Duration::from_nanos(rush.within).max(Duration::from_secs(1)) {
            return Err(PlanError::BadRush("expected --every to be a second or more, and no shorter than --within"));
        }
        let costs = Costs::recorded()?;
        let hours = (every.as_secs_f64() * f64::from(rounds) / 3_600.0).ceil().max(inputs.hours);
        let inputs = Inputs { hours, ..inputs.clone() };
        let follow = |inputs: &Inputs| follow(rush, rounds, every, inputs, &Times::of(inputs, &costs));
        let cost = |rounds: &[Round], inputs| {
            let mut cost = costs.of_rushes(rounds.iter().map(|round| &round.outcome), inputs);
            cost[0].of = "requests, and the packets";
            cost
        };
        let rows = |rounds: Vec<Round>| rounds.into_iter().map(|round| round.row).collect();
        let deployed = follow(&inputs);
        let (mut to, mut raised) = (inputs.clone(), None);
        for _ in 0..Self::PASSES {
            let met = raised.as_ref().unwrap_or(&deployed);
            let Some(worst) = met.iter().min_by_key(|round| rank(&round.outcome)) else { break };
            if raised.is_some() && worst.outcome.all_served() {
                break;
            }
            let Some(advice) = raise(&worst.inputs, &costs, &worst.rush, &worst.outcome) else { break };
            to = Inputs { warm_executions: inputs.warm_executions, ..advice.inputs };
            raised = Some(follow(&to));
        }
        Ok(Self {
            users: rush.users,
            within_ms: rush.within / 1_000_000,
            slips: rush.slips,
            seed: rush.seed,
            every_ms: every.as_millis() as u64,
            idle_minutes: inputs.idle_minutes,
            hours,
            all_served: deployed.iter().all(|round| round.outcome.all_served()),
            changes: changes(&inputs, &to),
            costs: cost_rows(&cost(&deployed, &inputs), raised.as_deref().map(|raised| cost(raised, &to)).as_ref()),
            deployed: rows(deployed),
            raised: raised.map(rows),
        })
    }
}

/// The worst round comes first: it served fewest users, and then refused most tries.
fn rank(outcome: &Outcome) -> (u64, Reverse<u64>) {
    (outcome.served(), Reverse(outcome.refused.iter().sum()))
}

/// Simulates all rounds. A round leaves its executions to later ones, for `idle-minutes` from its beginning. It leaves nothing else:
/// bursts and the ramp are full again, nobody retries any more, and the table's rate has not grown.
fn follow(rush: &Rush, rounds: u32, every: Duration, inputs: &Inputs, times: &Times) -> Vec<Round> {
    let is_kept = |rounds: u32| every.as_secs_f64() * f64::from(rounds) < inputs.idle_minutes * 60.0;
    // A call takes the execution that ended last. So of two rounds, the one with more executions used those of the other.
    let mut worked = vec![(0, inputs.warm_executions)];
    let mut all = Vec::new();
    for n in 0..rounds {
        let kept = worked.iter().filter(|(round, _)| n == 0 || is_kept(n - round)).map(|(_, executions)| *executions);
        let inputs = Inputs { warm_executions: kept.fold(0.0, f64::max), ..inputs.clone() };
        let rush = Rush { seed: rush.seed.wrapping_add(n.into()), ..*rush };
        let mut outcome = simulate(&inputs, times, &rush);
        worked.push((n, outcome.executions as f64));
        let row = row(n + 1, &inputs, &outcome);
        // They would fill the memory: one number for each user of each round.
        outcome.micros = Default::default();
        all.push(Round { inputs, rush, outcome, row });
    }
    all
}

fn row(round: u32, inputs: &Inputs, outcome: &Outcome) -> Value {
    let users = |answer| outcome.answers[answer as usize];
    let ms = |answer, share| outcome.quantile_ms(answer, share).map(tenth);
    let last = Answer::ALL.into_iter().filter_map(|answer| ms(answer, 1.0)).fold(0.0, f64::max);
    json!({
        "round": round, "warm": inputs.running(), "cold_starts": outcome.cold_starts,
        "slip": users(Answer::Slip), "sold_out": users(Answer::SoldOut),
        "too_many_requests": users(Answer::TooManyRequests), "unavailable": users(Answer::Unavailable),
        "slip_p50_ms": ms(Answer::Slip, 0.5), "sold_out_p50_ms": ms(Answer::SoldOut, 0.5), "last_ms": last,
        "binds": outcome.binds(), "refused_tries": outcome.refused.iter().sum::<u64>(),
    })
}
