use plan::{Costs, Course, Inputs, Plan, PlanError, Rush};

use crate::options::Plan as Asked;
use crate::text::{fields, table};
use crate::{Exit, Failed, Outcome};

/// The counts of a rush, in the order of its way.
const COUNTS: &str = "tries accepted invocations cold_starts executions redis_calls redis_busiest write_units read_units \
    committed held";

/// Plans a rush, or prints what plans are made of.
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
    let plan = Plan::make(&Rush::new(users, within, slips, options.seed)?, &inputs)?;
    let exit = if plan.deployed.outcome.all_served() { Exit::Good } else { Exit::Wrong };
    Ok(Outcome::new(json, &plan, || in_words(&plan), exit))
}

fn in_words(plan: &Plan) -> String {
    let mut paragraphs = vec![fields(plan, "users within_ms slips seed"), "AS DEPLOYED".to_owned()];
    paragraphs.extend(course(&plan.deployed));
    if let Some(raised) = &plan.raised {
        paragraphs.extend(["RAISED".to_owned(), table(&plan.changes, "raise was how")]);
        paragraphs.extend(course(raised));
    } else {
        paragraphs.push("Nothing has to be raised: no limit refuses a try.".to_owned());
    }
    paragraphs.push(table(&plan.costs, "dollars deployed raised"));
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
