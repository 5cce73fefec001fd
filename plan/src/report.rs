//! A whole plan as a report: rushes as deployed, what would serve them, and the cost of both.

use std::cmp::Reverse;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::PlanError;
use crate::advice::{Change, changes, raise};
use crate::cost::{Cost, Costs};
use crate::inputs::Inputs;
use crate::outcome::{Answer, Limit, Outcome};
use crate::rush::{Rush, Times, simulate};

/// The rounds of an evening: each is a rush on a packet of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rounds {
    count: u32,
    /// From the beginning of one to that of the next.
    every: Duration,
}

/// A plan of a rush, or of an evening of them.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Users of each round, each of whom grabs once.
    pub users: u32,
    /// The time within which they come, in milliseconds.
    pub within_ms: u64,
    /// Slips of each packet.
    pub slips: u32,
    /// The seed of all that is random in the first round. Each later one has the next.
    pub seed: u64,
    /// Milliseconds from the beginning of a round to that of the next.
    pub every_ms: u64,
    /// Minutes for which Lambda keeps an idle environment.
    pub idle_minutes: f64,
    /// Hours for which raised environments and shards are paid: the whole evening's at least.
    pub hours: f64,
    /// The inputs by their names.
    pub inputs: Map<String, Value>,
    /// What becomes of each round.
    pub deployed: Vec<Course>,
    /// Whether all users of all rounds are answered with a slip or that none is left.
    pub all_served: bool,
    /// What to raise, so that all rounds are served. Nothing, if no limit refuses a try.
    pub changes: Vec<Change>,
    /// What becomes of each round then.
    pub raised: Option<Vec<Course>>,
    /// What both cost, all rounds together.
    pub costs: Vec<Value>,
}

/// What becomes of a round.
#[derive(Clone, Debug, Serialize)]
pub struct Course {
    /// Its number, from 1.
    pub round: u32,
    /// Environments that run when it begins.
    pub warm: f64,
    /// The users by their last answer, and how long that took.
    pub answers: Vec<Value>,
    /// What each limit allows, and how many tries it refused.
    pub limits: Vec<Value>,
    /// The limit that refused most.
    pub binds: Option<Limit>,
    /// The counts.
    pub outcome: Outcome,
    /// The inputs, with what the rounds before left.
    #[serde(skip)]
    inputs: Inputs,
    #[serde(skip)]
    rush: Rush,
}

impl Rounds {
    const MOST: u32 = 100;
    /// A rush by itself.
    pub const ONE: Self = Self { count: 1, every: Duration::ZERO };

    /// Rounds of `rush` that begin this time apart.
    pub fn new(count: u32, every: Duration, rush: &Rush) -> Result<Self, PlanError> {
        if count == 0 || count > Self::MOST {
            return Err(PlanError::BadRush("expected 1 to 100 rounds"));
        }
        if every < Duration::from_nanos(rush.within).max(Duration::from_secs(1)) {
            return Err(PlanError::BadRush("expected --every to be a second or more, and no shorter than --within"));
        }
        Ok(Self { count, every })
    }

    /// The time from the beginning to that of a later round.
    fn after(self, rounds: u32) -> f64 {
        self.every.as_secs_f64() * f64::from(rounds)
    }

    /// Simulates all rounds. A round leaves its executions to later ones, for `idle-minutes` from its beginning. It leaves nothing else:
    /// bursts and the ramp are full again, nobody retries any more, and the table's rate has not grown.
    fn follow(self, rush: &Rush, inputs: &Inputs, costs: &Costs) -> Vec<Course> {
        let is_kept = |rounds| self.after(rounds) < inputs.idle_minutes * 60.0;
        // A call takes the execution that ended last. So of two rounds, the one with more executions used those of the other.
        let mut worked = vec![(0, inputs.warm_executions)];
        let mut all = Vec::new();
        for n in 0..self.count {
            let kept = worked.iter().filter(|(round, _)| n == 0 || is_kept(n - round)).map(|(_, some)| *some);
            let inputs = Inputs { warm_executions: kept.fold(0.0, f64::max), ..inputs.clone() };
            let rush = Rush { seed: rush.seed.wrapping_add(n.into()), ..*rush };
            let course = Course::of(n + 1, inputs, rush, costs);
            worked.push((n, course.outcome.executions as f64));
            all.push(course);
        }
        all
    }
}

impl Plan {
    /// How often the worst round is raised: users come at random, so what serves one round may be too little for another.
    const PASSES: usize = 3;

    /// Plans rounds of a rush.
    pub fn make(rush: &Rush, rounds: Rounds, inputs: &Inputs) -> Result<Self, PlanError> {
        let costs = Costs::recorded()?;
        let hours = (rounds.after(rounds.count) / 3_600.0).ceil().max(inputs.hours);
        let inputs = Inputs { hours, ..inputs.clone() };
        let cost = |all: &[Course], inputs| costs.of_rushes(all.iter().map(|course| &course.outcome), inputs);
        let deployed = rounds.follow(rush, &inputs, &costs);
        let (mut to, mut raised) = (inputs.clone(), None);
        for _ in 0..Self::PASSES {
            let met = raised.as_ref().unwrap_or(&deployed);
            let Some(worst) = met.iter().min_by_key(|course| rank(&course.outcome)) else { break };
            if raised.is_some() && worst.outcome.all_served() {
                break;
            }
            let Some(more) = raise(&worst.inputs, &costs, &worst.rush, &worst.outcome) else { break };
            to = Inputs { warm_executions: inputs.warm_executions, ..more };
            raised = Some(rounds.follow(rush, &to, &costs));
        }
        Ok(Self {
            users: rush.users,
            within_ms: rush.within / 1_000_000,
            slips: rush.slips,
            seed: rush.seed,
            every_ms: rounds.every.as_millis() as u64,
            idle_minutes: inputs.idle_minutes,
            hours,
            inputs: inputs.list().into_iter().map(|input| (input.name.to_owned(), json!(input.value))).collect(),
            all_served: deployed.iter().all(|course| course.outcome.all_served()),
            changes: changes(&inputs, &to),
            costs: cost_rows(&cost(&deployed, &inputs), raised.as_deref().map(|raised| cost(raised, &to)).as_ref()),
            deployed,
            raised,
        })
    }
}

/// The worst round comes first: it served fewest users, and then refused most tries.
fn rank(outcome: &Outcome) -> (u64, Reverse<u64>) {
    (outcome.served(), Reverse(outcome.refused.iter().sum()))
}

impl Course {
    fn of(round: u32, inputs: Inputs, rush: Rush, costs: &Costs) -> Self {
        let mut outcome = simulate(&inputs, &Times::of(&inputs, costs), &rush);
        let answers = Answer::ALL.map(|answer| {
            let users = outcome.answers[answer as usize];
            let ms = |share| outcome.quantile_ms(answer, share).map(tenth);
            let percent = tenth(users as f64 / outcome.users().max(1) as f64 * 100.0);
            json!({
                "answer": answer, "users": users, "percent": percent,
                "p50_ms": ms(0.5), "p99_ms": ms(0.99), "last_ms": ms(1.0),
            })
        });
        let limits = Limit::ALL.map(
            |limit| json!({"limit": limit, "allows": allows(limit, &inputs), "refused_tries": outcome.refused_by(limit)}),
        );
        // They would fill the memory: one number for each user of each round.
        outcome.micros = Default::default();
        let (answers, limits) = (answers.into(), limits.into());
        Self { round, warm: inputs.running(), answers, limits, binds: outcome.binds(), outcome, inputs, rush }
    }
}

/// Rows of what each part costs, and of all together.
fn cost_rows(deployed: &[Cost; 4], raised: Option<&[Cost; 4]>) -> Vec<Value> {
    let cents = |dollars: f64| (dollars * 100.0).round() / 100.0;
    let row = |of, deployed, raised: Option<f64>| json!({"dollars": of, "deployed": cents(deployed), "raised": raised.map(cents)});
    let sum = |costs: &[Cost; 4]| costs.iter().map(|cost| cost.dollars).sum();
    let parts =
        (0..deployed.len()).map(|n| row(deployed[n].of, deployed[n].dollars, raised.map(|raised| raised[n].dollars)));
    parts.chain([row("together", sum(deployed), raised.map(sum))]).collect()
}

/// To a tenth.
fn tenth(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

fn allows(limit: Limit, inputs: &Inputs) -> String {
    match limit {
        Limit::GrabRate => format!("{}/s, burst {}", inputs.grab_rate, inputs.grab_burst),
        Limit::ApiRate => format!("{}/s, burst {}", inputs.api_rate, inputs.api_burst),
        Limit::Requests => format!("{}/s", inputs.account_concurrency * inputs.requests_per_execution),
        Limit::Ramp => format!("{} more in {} s", inputs.ramp, inputs.ramp_seconds),
        Limit::Concurrency => format!("{}, {} always run", inputs.account_concurrency, inputs.grab_provisioned),
        Limit::Redis => format!("an answer in {} ms; shards: {}", inputs.redis_timeout_ms, inputs.redis_shards),
        Limit::Table => format!("{} writes/s, {} reads/s", inputs.table_rate(), inputs.reads_rate()),
    }
}
