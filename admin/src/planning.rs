use std::time::Instant;

use plan::{Costs, Inputs, PlanError, Report, Rush};

use crate::deployment::in_file;
use crate::options::Plan;
use crate::{Exit, Failed, Outcome};

/// Plans a rush, or prints what plans are made of.
pub fn run(options: &Plan, json: bool) -> Result<Outcome, Failed> {
    let mut inputs = Inputs::default();
    options.set.iter().try_for_each(|assignment| inputs.set(assignment))?;
    if options.inputs {
        return Ok(Outcome::new(json, &inputs.list(), || plan::list_inputs(&inputs), Exit::Good));
    }
    if options.sizing {
        let text = plan::sizing_table(&inputs, &Costs::recorded()?);
        return Ok(Outcome { text, exit: Exit::Good });
    }
    let report = match &options.report {
        Some(file) => Report::parse(&std::fs::read_to_string(file).map_err(in_file(file))?),
        None => Report::parse(plan::RECORDED),
    };
    if options.check {
        let check = plan::check(&report)?;
        let exit = if check.is_met() { Exit::Good } else { Exit::Wrong };
        return Ok(Outcome::new(json, &check, || check.to_string(), exit));
    }
    let (Some(users), Some(within), Some(slips)) = (options.users, options.within, options.slips) else {
        return Err(PlanError::BadRush("expected --users, --within and --slips").into());
    };
    let rush = Rush::new(users, within, slips, options.seed)?;
    let begun = Instant::now();
    let plan = plan::Plan::make(rush, inputs, &report)?;
    let took = begun.elapsed().as_secs_f64();
    let exit = if plan.outcome.all_served() { Exit::Good } else { Exit::Wrong };
    let text = || format!("{plan}\n  {}, in {took:.1} s", plan.simulated());
    Ok(Outcome::new(json, &plan.json(), text, exit))
}
