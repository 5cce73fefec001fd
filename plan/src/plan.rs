//! A whole plan: a rush as deployed, what would serve it, and the cost of both.

use serde_json::{Map, Value, json};

use crate::PlanError;
use crate::advice::{Advice, raise};
use crate::cost::{Cost, Costs};
use crate::inputs::Inputs;
use crate::outcome::{Answer, Limit, Outcome};
use crate::rush::{Rush, Times, simulate};

/// A plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The rush.
    pub rush: Rush,
    /// The inputs as deployed.
    pub inputs: Inputs,
    /// What becomes of the rush.
    pub outcome: Outcome,
    /// What would serve it. `None` if it is served.
    pub advice: Option<Advice>,
    costs: Costs,
}

impl Plan {
    /// Plans a rush.
    pub fn make(rush: Rush, inputs: Inputs) -> Result<Self, PlanError> {
        let costs = Costs::recorded()?;
        let outcome = simulate(&inputs, &Times::of(&inputs, &costs), &rush);
        let advice = raise(&inputs, &costs, &rush, &outcome);
        Ok(Self { rush, inputs, outcome, advice, costs })
    }

    /// The cost as deployed, and that of the advice if there is one.
    pub(crate) fn cost_columns(&self) -> Vec<[Cost; 4]> {
        let raised = self.advice.as_ref().map(|advice| self.costs.of_rush(&advice.outcome, &advice.inputs));
        std::iter::once(self.costs.of_rush(&self.outcome, &self.inputs)).chain(raised).collect()
    }

    /// The plan for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let Self { rush, inputs, outcome, advice, .. } = self;
        let costs = self.cost_columns();
        let raised = advice.as_ref().map(|Advice { inputs, changes, outcome }| {
            json!({ "changes": changes, "inputs": given(inputs), "outcome": described(outcome), "cost": costs.last() })
        });
        json!({
            "users": rush.users, "within_ms": rush.within / 1_000_000, "slips": rush.slips, "seed": rush.seed,
            "deployed": { "inputs": given(inputs), "outcome": described(outcome), "cost": costs.first() },
            "raised": raised,
        })
    }
}

fn given(inputs: &Inputs) -> Value {
    inputs.list().into_iter().map(|input| (input.name.to_owned(), json!(input.value))).collect::<Map<_, _>>().into()
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
    named.collect::<Map<_, _>>().into()
}
