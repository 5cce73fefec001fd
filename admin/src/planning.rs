use plan::{Change, Costs, Course, Evening, Inputs, Plan, PlanError, Rush};
use serde_json::Value;

use crate::options::Plan as Asked;
use crate::text::{fields, table};
use crate::{Exit, Failed, Outcome};

/// The counts of a rush, in the order of its way.
const COUNTS: &str = "tries accepted invocations cold_starts executions redis_calls redis_busiest write_units read_units \
    committed held";

/// The columns of an evening's rounds.
const ROUND: &str = "round warm cold_starts slip sold_out too_many_requests unavailable slip_p50_ms sold_out_p50_ms last_ms binds \
    refused_tries";

/// Plans a rush or an evening of them, or prints what plans are made of.
pub fn run(options: &Asked, json: bool) -> Result<Outcome, Failed> {
    let mut inputs = Inputs::default();
    options.set.iter().try_for_each(|assignment| inputs.set(assignment))?;
    if options.inputs {
        let list = inputs.list();
        return Ok(Outcome::new(json, &list, || table(&list, "name value meaning source"), Exit::Good));
    }
    if options.sizing {
        let text = plan::sizing_table(&inputs, &Costs::recorded()?);
        return Ok(Outcome { text, exit: Exit::Good });
    }
    let (Some(users), Some(within), Some(slips)) = (options.users, options.within, options.slips) else {
        return Err(PlanError::BadRush("expected --users, --within and --slips").into());
    };
    let rush = Rush::new(users, within, slips, options.seed)?;
    let exit = |all_served| if all_served { Exit::Good } else { Exit::Wrong };
    if let (Some(rounds), Some(every)) = (options.rounds, options.every) {
        let evening = Evening::make(&rush, rounds, every, &inputs)?;
        return Ok(Outcome::new(json, &evening, || evening_in_words(&evening), exit(evening.all_served)));
    }
    let plan = Plan::make(&rush, &inputs)?;
    Ok(Outcome::new(json, &plan, || in_words(&plan), exit(plan.deployed.outcome.all_served())))
}

fn in_words(plan: &Plan) -> String {
    let raised = plan.raised.as_ref().map(course);
    paragraphs(fields(plan, "users within_ms slips seed"), course(&plan.deployed), &plan.changes, raised, &plan.costs)
}

fn evening_in_words(plan: &Evening) -> String {
    let head = fields(plan, "users within_ms slips seed every_ms idle_minutes hours");
    let rounds = |rounds: &Vec<Value>| [table(rounds, ROUND)];
    paragraphs(head, rounds(&plan.deployed), &plan.changes, plan.raised.as_ref().map(rounds), &plan.costs)
}

fn paragraphs<const N: usize>(
    head: String,
    deployed: [String; N],
    changes: &[Change],
    raised: Option<[String; N]>,
    costs: &[Value],
) -> String {
    let mut paragraphs = vec![head, "AS DEPLOYED".to_owned()];
    paragraphs.extend(deployed);
    if let Some(raised) = raised {
        paragraphs.extend(["RAISED".to_owned(), table(&changes, "raise was how")]);
        paragraphs.extend(raised);
    } else {
        paragraphs.push("Nothing has to be raised: no limit refuses a try.".to_owned());
    }
    paragraphs.push(table(&costs, "dollars deployed raised"));
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    paragraphs.join("\n\n")
}

fn course(course: &Course) -> [String; 4] {
    [
        table(&course.answers, "answer users percent p50_ms p99_ms last_ms"),
        fields(course, "binds"),
        table(&course.limits, "limit allows refused_tries"),
        fields(&course.outcome, COUNTS),
    ]
}
