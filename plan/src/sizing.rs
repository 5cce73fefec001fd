//! What a load needs, by the formulas of a steady load.

use crate::cost::Costs;
use crate::inputs::Inputs;

/// A load to size for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Size {
    /// Grabs a second.
    pub grabs: u32,
    /// Those of them that win.
    pub won: u32,
}

/// The loads of the table in `docs/PERFORMANCE.md`.
const SIZES: [Size; 3] =
    [Size { grabs: 1_000, won: 1_000 }, Size { grabs: 100_000, won: 5_000 }, Size { grabs: 1_000_000, won: 20_000 }];

/// What a load needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Needs {
    /// Executions that work at once, by Little's law.
    pub working: u64,
    /// Executions that have to be allowed: as many, or a share of the requests a second.
    pub allowed: u64,
    /// Shards of Redis.
    pub shards: u64,
    /// Write units of the table a second.
    pub write_units: u64,
}

impl Needs {
    /// What a load needs.
    #[must_use]
    pub fn of(size: Size, inputs: &Inputs, costs: &Costs) -> Self {
        let (grabs, won) = (f64::from(size.grabs), f64::from(size.won));
        let lost = (grabs - won).max(0.0);
        // Whole microseconds, or rounding errors would ask for one execution more.
        let micros = lost * 1e3 * costs.work("loser-ms") + won * 1e3 * costs.work("winner-ms");
        let working = (micros / 1e6).ceil();
        Self {
            working: working as u64,
            allowed: working.max(grabs / inputs.requests_per_execution).ceil() as u64,
            shards: (grabs / costs.work("shard-grabs")).ceil() as u64,
            write_units: (won * costs.work("winner-writes")).ceil() as u64,
        }
    }
}

/// The sizing table of `docs/PERFORMANCE.md`.
#[must_use]
pub fn table(inputs: &Inputs, costs: &Costs) -> String {
    let header = "| grabs a second | won | executions at work | executions allowed | Redis shards | DynamoDB, write units a second |";
    let rows = SIZES.map(|size| {
        let needs = Needs::of(size, inputs, costs);
        let row =
            [u64::from(size.grabs), size.won.into(), needs.working, needs.allowed, needs.shards, needs.write_units];
        format!("| {} |", row.map(grouped).join(" | "))
    });
    format!("{header}\n|---:|---:|---:|---:|---:|---:|\n{}", rows.join("\n"))
}

/// A number with commas between its thousands.
fn grouped(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1_000), number % 1_000),
    }
}
