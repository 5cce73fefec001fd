//! The plan as text of at most 100 columns.

use std::fmt;

use crate::advice::{Advice, Change};
use crate::cost::Costs;
use crate::inputs::Inputs;
use crate::outcome::{Answer, Limit, Outcome};
use crate::plan::Plan;
use crate::sizing::{Needs, SIZES};

/// A whole number with commas between its thousands.
fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut grouped = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn count(number: u64) -> String {
    grouped(number as f64)
}

/// Milliseconds, to a tenth if they are few.
fn millis(ms: f64) -> String {
    if ms < 99.95 { format!("{ms:.1}") } else { grouped(ms) }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rush = &self.rush;
        writeln!(
            f,
            "{} users within {} s, {} slips, GrabAck={}; seed {}",
            count(rush.users.into()),
            rush.within as f64 / 1e9,
            count(rush.slips.into()),
            if self.inputs.grab_ack_ledger > 0.0 { "ledger" } else { "redis" },
            rush.seed,
        )?;
        writeln!(f, "\nAS DEPLOYED\n")?;
        answers(f, &self.outcome)?;
        limits(f, &self.inputs, &self.outcome)?;
        match &self.advice {
            None => writeln!(f, "\nNo limit refuses a try: nothing has to be raised.")?,
            Some(advice) => advised(f, advice)?,
        }
        costs(f, self)
    }
}

fn answers(f: &mut fmt::Formatter<'_>, outcome: &Outcome) -> fmt::Result {
    writeln!(
        f,
        "  {:<14}{:>12}{:>9}{:>12}{:>12}{:>12}",
        "last answer", "users", "share", "p50 ms", "p99 ms", "last ms"
    )?;
    let users = outcome.users().max(1) as f64;
    for answer in Answer::ALL {
        let of = outcome.answers[answer as usize];
        let at = |share| outcome.quantile_ms(answer, share).map_or_else(|| "-".to_owned(), millis);
        let share = of as f64 / users * 100.0;
        let row = [at(0.5), at(0.99), at(1.0)];
        writeln!(
            f,
            "  {:<14}{:>12}{share:>7.1} %{:>12}{:>12}{:>12}",
            answer.text(),
            count(of),
            row[0],
            row[1],
            row[2]
        )?;
    }
    if outcome.held > 0 {
        writeln!(f, "  {} slips are held and not yet in the ledger: settle commits them", count(outcome.held))?;
    }
    Ok(())
}

fn limits(f: &mut fmt::Formatter<'_>, inputs: &Inputs, outcome: &Outcome) -> fmt::Result {
    writeln!(f, "\n  {:<28}{:<34}{:>15}", "limit", "allows", "tries refused")?;
    for limit in Limit::ALL {
        let binds = if outcome.binds() == Some(limit) { "  binds" } else { "" };
        let refused = count(outcome.refused_by(limit));
        writeln!(f, "  {:<28}{:<34}{refused:>15}{binds}", limit.text(), allows(limit, inputs))?;
    }
    let facts = [
        ("tries of all clients", count(outcome.tries)),
        ("calls of the function", count(outcome.invocations)),
        ("executions at once", format!("{}, {} cold starts", count(outcome.executions), count(outcome.cold_starts))),
        (
            "calls of Redis",
            format!(
                "{}, the busiest shard works {:.0} % of its busiest second",
                count(outcome.redis_calls),
                outcome.redis_busiest * 100.0
            ),
        ),
        ("write units", format!("{} in the busiest second", grouped(outcome.write_units))),
        ("reads of losers' claims", format!("{} in the busiest second", grouped(outcome.read_units))),
    ];
    writeln!(f)?;
    facts.iter().try_for_each(|(name, text)| writeln!(f, "  {name:<28}{text}"))
}

fn allows(limit: Limit, inputs: &Inputs) -> String {
    let (number, most) = (grouped, inputs.concurrency());
    match limit {
        Limit::GrabRate => format!("{}/s, burst {}", number(inputs.grab_rate), number(inputs.grab_burst)),
        Limit::ApiRate => format!("{}/s, burst {}", number(inputs.api_rate), number(inputs.api_burst)),
        Limit::Requests => format!("{}/s", number(most * inputs.requests_per_execution)),
        Limit::Ramp => format!("{} more in {} s", number(inputs.ramp), number(inputs.ramp_seconds)),
        Limit::Concurrency => format!("{}, {} always run", number(most), number(inputs.grab_provisioned)),
        Limit::Redis => {
            format!("an answer in {} ms; shards: {}", number(inputs.redis_timeout_ms), number(inputs.redis_shards))
        }
        Limit::Table => {
            format!("{} writes/s, {} reads/s", number(inputs.table_rate()), number(inputs.reads_rate()))
        }
    }
}

fn advised(f: &mut fmt::Formatter<'_>, advice: &Advice) -> fmt::Result {
    let served = if advice.outcome.all_served() { "WHAT SERVES THIS RUSH" } else { "WHAT SERVES MORE OF THIS RUSH" };
    writeln!(f, "\n{served}\n")?;
    let (parameters, quotas): (Vec<&Change>, Vec<&Change>) =
        advice.changes.iter().partition(|change| change.is_parameter);
    writeln!(f, "  parameters in samconfig.toml, parameter_overrides")?;
    for change in parameters {
        writeln!(f, "    \"{}={:.0}\",{}", change.name, change.to, remark(change))?;
    }
    let meanings = advice.inputs.list();
    if !quotas.is_empty() {
        writeln!(f, "  quotas that AWS has to raise")?;
    }
    for change in quotas {
        let meaning = meanings.iter().find(|input| input.name == change.name).map_or("", |input| input.meaning);
        writeln!(f, "    {:<16}{:>12} to {:>12}  {meaning}", change.name, grouped(change.from), grouped(change.to))?;
    }
    writeln!(f)?;
    answers(f, &advice.outcome)?;
    if let Some(limit) = advice.outcome.binds() {
        let refused = count(advice.outcome.refused_by(limit));
        writeln!(f, "  {} still refuses {refused} tries", limit.text())?;
    }
    writeln!(
        f,
        "  {} executions at once; the busiest shard works {:.0} % of its busiest second",
        count(advice.outcome.executions),
        advice.outcome.redis_busiest * 100.0,
    )?;
    Ok(())
}

/// What to know of a parameter before it is raised.
fn remark(change: &Change) -> String {
    let was = grouped(change.from);
    let more = match change.name {
        "AccountConcurrency" => "; the quota of AWS goes with it",
        "RedisShards" if change.to > 3.0 => "; the template makes 3 at most, more need Redis=existing",
        _ => "",
    };
    format!("  # was {was}{more}")
}

fn costs(f: &mut fmt::Formatter<'_>, plan: &Plan) -> fmt::Result {
    let columns = plan.cost_columns();
    let titles = ["as deployed", "raised"];
    write!(f, "\n  {:<34}", "dollars")?;
    titles.iter().take(columns.len()).try_for_each(|title| write!(f, "{title:>14}"))?;
    writeln!(f)?;
    for place in 0..columns[0].len() {
        if columns.iter().all(|column| column[place].dollars <= 0.0) {
            continue;
        }
        write!(f, "  {:<34}", columns[0][place].of)?;
        columns.iter().try_for_each(|column| write!(f, "{:>14.2}", column[place].dollars))?;
        writeln!(f)?;
    }
    write!(f, "  {:<34}", "together")?;
    columns.iter().try_for_each(|column| write!(f, "{:>14.2}", column.iter().map(|cost| cost.dollars).sum::<f64>()))?;
    write!(f, "\n  environments and shards for {} h; scripts/cost.py prints the prices", plan.inputs.hours)
}

/// The sizing table of `docs/PERFORMANCE.md`.
#[must_use]
pub fn sizing(inputs: &Inputs, costs: &Costs) -> String {
    let header = "| grabs a second | won | executions at work | executions allowed | Redis shards | DynamoDB, write units a second |";
    let rows = SIZES.map(|size| {
        let needs = Needs::of(size, inputs, costs);
        let row =
            [u64::from(size.grabs), size.won.into(), needs.working, needs.allowed, needs.shards, needs.write_units];
        format!("| {} |", row.map(count).join(" | "))
    });
    format!("{header}\n|---:|---:|---:|---:|---:|---:|\n{}", rows.join("\n"))
}

/// All inputs, with their sources.
#[must_use]
pub fn inputs(inputs: &Inputs) -> String {
    let rows = inputs.list().into_iter().map(|input| {
        let value = input.word().map_or_else(|| short(input.value), str::to_owned);
        format!("{:<24}{value:>12}\n    {}\n    {}", input.name, input.meaning, input.source)
    });
    rows.collect::<Vec<_>>().join("\n")
}

/// A value as `--set` takes it.
fn short(value: f64) -> String {
    if value.fract() == 0.0 { grouped(value) } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!([7.0, 999.6, 1_234_567.0].map(grouped), ["7", "1,000", "1,234,567"]);
        assert_eq!([0.24, 99.94, 1_380.6].map(millis), ["0.2", "99.9", "1,381"]);
    }
}
