use plan::{Answer, Costs, Course, Inputs, Plan, PlanError, Rounds, Rush};
use serde_json::{Value, json};

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
    let rounds = match options.rounds.zip(options.every) {
        Some((count, every)) => Rounds::new(count, every, &rush)?,
        None => Rounds::ONE,
    };
    let plan = Plan::make(&rush, rounds, &inputs)?;
    let exit = if plan.all_served { Exit::Good } else { Exit::Wrong };
    Ok(Outcome::new(json, &plan, || in_words(&plan), exit))
}

fn in_words(plan: &Plan) -> String {
    let rounds = plan.deployed.len();
    let courses = |courses: &[Course]| match rounds {
        1 => courses.iter().flat_map(in_full).collect(),
        _ => vec![table(&courses.iter().map(as_row).collect::<Vec<_>>(), ROUND)],
    };
    let mut head = "users within_ms slips seed".to_owned();
    if rounds > 1 {
        head += " every_ms idle_minutes hours";
    }
    let mut paragraphs = vec![fields(plan, &head), "AS DEPLOYED".to_owned()];
    paragraphs.extend(courses(&plan.deployed));
    if let Some(raised) = &plan.raised {
        paragraphs.extend(["RAISED".to_owned(), table(&plan.changes, "raise was how")]);
        paragraphs.extend(courses(raised));
    } else {
        paragraphs.push("Nothing has to be raised: no limit refuses a try.".to_owned());
    }
    paragraphs.push(table(&plan.costs, "dollars deployed raised"));
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    paragraphs.join("\n\n")
}

fn in_full(course: &Course) -> [String; 4] {
    [
        table(&course.answers, "answer users percent p50_ms p99_ms last_ms"),
        fields(course, "binds"),
        table(&course.limits, "limit allows refused_tries"),
        fields(&course.outcome, COUNTS),
    ]
}

fn as_row(course: &Course) -> Value {
    let of = |answer: Answer, what: &str| course.answers[answer as usize][what].clone();
    let last = course.answers.iter().filter_map(|answer| answer["last_ms"].as_f64()).fold(0.0, f64::max);
    json!({
        "round": course.round, "warm": course.warm, "cold_starts": course.outcome.cold_starts,
        "slip": of(Answer::Slip, "users"), "sold_out": of(Answer::SoldOut, "users"),
        "too_many_requests": of(Answer::TooManyRequests, "users"), "unavailable": of(Answer::Unavailable, "users"),
        "slip_p50_ms": of(Answer::Slip, "p50_ms"), "sold_out_p50_ms": of(Answer::SoldOut, "p50_ms"), "last_ms": last,
        "binds": course.binds, "refused_tries": course.outcome.refused.iter().sum::<u64>(),
    })
}
