use plan::{Costs, Inputs, Plan, PlanError, Rush};

use crate::options::Plan as Asked;
use crate::{Exit, Failed, Outcome};

/// Plans a rush, or prints what plans are made of.
pub fn run(options: &Asked, json: bool) -> Result<Outcome, Failed> {
    let mut inputs = Inputs::default();
    options.set.iter().try_for_each(|assignment| inputs.set(assignment))?;
    if options.inputs {
        return Ok(Outcome::new(json, &inputs.list(), || plan::list_inputs(&inputs), Exit::Good));
    }
    if options.sizing {
        let text = plan::sizing_table(&inputs, &Costs::recorded()?);
        return Ok(Outcome { text, exit: Exit::Good });
    }
    let (Some(users), Some(within), Some(slips)) = (options.users, options.within, options.slips) else {
        return Err(PlanError::BadRush("expected --users, --within and --slips").into());
    };
    let plan = Plan::make(Rush::new(users, within, slips, options.seed)?, inputs)?;
    let exit = if plan.outcome.all_served() { Exit::Good } else { Exit::Wrong };
    Ok(Outcome::new(json, &plan.json(), || plan.to_string(), exit))
}
