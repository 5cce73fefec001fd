//! A whole plan as a report: a rush as deployed, what would serve it, and the cost of both.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::PlanError;
use crate::advice::{Change, raise};
use crate::cost::{Cost, Costs};
use crate::inputs::Inputs;
use crate::outcome::{Answer, Limit, Outcome};
use crate::rush::{Rush, Times, simulate};

/// A plan.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Users, each of whom grabs once.
    pub users: u32,
    /// The time within which they come, in milliseconds.
    pub within_ms: u64,
    /// Slips of the packet.
    pub slips: u32,
    /// The seed of all that is random.
    pub seed: u64,
    /// What becomes of the rush.
    pub deployed: Course,
    /// What to raise, so that it is served. Nothing, if it is served.
    pub changes: Vec<Change>,
    /// What becomes of the rush then.
    pub raised: Option<Course>,
    /// What both cost.
    pub costs: Vec<Value>,
}

/// A rush under some inputs.
#[derive(Clone, Debug, Serialize)]
pub struct Course {
    /// The inputs by their names.
    pub inputs: Map<String, Value>,
    /// The users by their last answer, and how long that took.
    pub answers: Vec<Value>,
    /// What each limit allows, and how many tries it refused.
    pub limits: Vec<Value>,
    /// The limit that refused most.
    pub binds: Option<Limit>,
    /// The counts.
    pub outcome: Outcome,
}

impl Plan {
    /// Plans a rush.
    pub fn make(rush: &Rush, inputs: &Inputs) -> Result<Self, PlanError> {
        let costs = Costs::recorded()?;
        let outcome = simulate(inputs, &Times::of(inputs, &costs), rush);
        let advice = raise(inputs, &costs, rush, &outcome);
        let cost = costs.of_rushes([&outcome], inputs);
        let raised = advice.as_ref().map(|advice| costs.of_rushes([&advice.outcome], &advice.inputs));
        Ok(Self {
            users: rush.users,
            within_ms: rush.within / 1_000_000,
            slips: rush.slips,
            seed: rush.seed,
            deployed: Course::new(inputs, outcome),
            changes: advice.as_ref().map(|advice| advice.changes.clone()).unwrap_or_default(),
            raised: advice.map(|advice| Course::new(&advice.inputs, advice.outcome)),
            costs: cost_rows(&cost, raised.as_ref()),
        })
    }
}

impl Course {
    fn new(inputs: &Inputs, outcome: Outcome) -> Self {
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
            |limit| json!({"limit": limit, "allows": allows(limit, inputs), "refused_tries": outcome.refused_by(limit)}),
        );
        // What Lambda keeps after a rush changes nothing in it.
        let of_rush = inputs.list().into_iter().filter(|input| input.name != "idle-minutes");
        Self {
            inputs: of_rush.map(|input| (input.name.to_owned(), json!(input.value))).collect(),
            answers: answers.into(),
            limits: limits.into(),
            binds: outcome.binds(),
            outcome,
        }
    }
}

/// Rows of what each part costs, and of all together.
pub fn cost_rows(deployed: &[Cost; 4], raised: Option<&[Cost; 4]>) -> Vec<Value> {
    let cents = |dollars: f64| (dollars * 100.0).round() / 100.0;
    let row = |of, deployed, raised: Option<f64>| json!({"dollars": of, "deployed": cents(deployed), "raised": raised.map(cents)});
    let sum = |costs: &[Cost; 4]| costs.iter().map(|cost| cost.dollars).sum();
    let parts =
        (0..deployed.len()).map(|n| row(deployed[n].of, deployed[n].dollars, raised.map(|raised| raised[n].dollars)));
    parts.chain([row("together", sum(deployed), raised.map(sum))]).collect()
}

/// To a tenth.
pub fn tenth(number: f64) -> f64 {
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
