//! A whole plan: a rush as deployed, what would serve it, and the cost of both.

use serde_json::{Value, json};

use crate::PlanError;
use crate::advice::{Advice, raise};
use crate::cost::{Cost, Costs};
use crate::inputs::Inputs;
use crate::outcome::{Answer, Limit, Outcome};
use crate::report::Report;
use crate::rush::{Rush, Times, simulate};

/// A plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The rush.
    pub rush: Rush,
    /// The inputs as deployed.
    pub inputs: Inputs,
    /// The run that the service times are from.
    pub run: String,
    /// What becomes of the rush.
    pub outcome: Outcome,
    /// What would serve it. `None` if it is served.
    pub advice: Option<Advice>,
    costs: Costs,
}

impl Plan {
    /// Plans a rush, with the service times of a report.
    pub fn make(rush: Rush, inputs: Inputs, report: &Report) -> Result<Self, PlanError> {
        let costs = Costs::recorded()?;
        let times = Times::of(report, &costs)?;
        let outcome = simulate(&inputs, &times, &rush);
        let advice = raise(&inputs, &times, &costs, &rush, &outcome);
        Ok(Self { rush, inputs, run: report.run.clone(), outcome, advice, costs })
    }

    /// Tries that were simulated, of all runs.
    #[must_use]
    pub fn tries(&self) -> u64 {
        self.outcome.tries + self.advice.as_ref().map_or(0, |advice| advice.tries)
    }

    /// How often the rush was simulated.
    #[must_use]
    pub fn runs(&self) -> u64 {
        1 + self.advice.as_ref().map_or(0, |advice| advice.runs)
    }

    /// How much was simulated.
    #[must_use]
    pub fn simulated(&self) -> String {
        format!("simulated {} tries in {} runs", crate::text::count(self.tries()), self.runs())
    }

    pub(crate) fn cost_columns(&self) -> Vec<Vec<Cost>> {
        let cost = |outcome: &Outcome, inputs: &Inputs| {
            let mut parts = self.costs.of_requests(outcome, inputs);
            parts.extend(self.costs.of_capacity(inputs));
            parts
        };
        let deployed = cost(&self.outcome, &self.inputs);
        let raised = self.advice.as_ref().map(|advice| cost(&advice.outcome, &advice.inputs));
        std::iter::once(deployed).chain(raised).collect()
    }

    /// The plan for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let costs = self.cost_columns();
        let raised = self.advice.as_ref().map(|advice| {
            json!({
                "changes": advice.changes, "inputs": given(&advice.inputs), "outcome": described(&advice.outcome),
                "cost": costs.last(),
            })
        });
        json!({
            "users": self.rush.users, "within_ms": self.rush.within / 1_000_000, "slips": self.rush.slips, "seed": self.rush.seed,
            "run": self.run,
            "deployed": { "inputs": given(&self.inputs), "outcome": described(&self.outcome), "cost": costs.first() },
            "raised": raised,
        })
    }
}

fn given(inputs: &Inputs) -> Value {
    inputs
        .list()
        .into_iter()
        .map(|input| (input.name.to_owned(), json!(input.value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn described(outcome: &Outcome) -> Value {
    let mut value = json!(outcome);
    let quantiles = |answer| json!([0.5, 0.99, 1.0].map(|share| outcome.quantile_ms(answer, share)));
    value["p50_p99_last_ms"] = Answer::ALL.map(quantiles).to_vec().into();
    value["binds"] = json!(outcome.binds());
    value["answers"] = named(Answer::ALL.map(|answer| (json!(answer), outcome.answers[answer as usize])));
    value["refused"] = named(Limit::ALL.map(|limit| (json!(limit), outcome.refused_by(limit))));
    value
}

fn named<const N: usize>(counts: [(Value, u64); N]) -> Value {
    let named = counts.into_iter().map(|(name, count)| (name.as_str().unwrap_or_default().to_owned(), json!(count)));
    named.collect::<serde_json::Map<_, _>>().into()
}
