//! The figures of a recorded benchmark, from the tables of its report.

use crate::PlanError;

/// The cells of the recorded report that a plan uses, as `scripts/record-bench.py` keeps them.
pub const RECORDED: &str = include_str!("recorded.txt");

/// A scheme in a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The workload, for example "A".
    pub workload: String,
    /// The scheme, as the report names it.
    pub scheme: String,
    /// Answers a second: the median of the rounds.
    pub per_s: f64,
    /// Milliseconds within which half of the answers came.
    pub p50_ms: f64,
    /// Milliseconds within which 99 % of them came.
    pub p99_ms: f64,
    /// Microseconds of Redis' processor for an answer.
    pub redis_cpu_us: f64,
    /// Calls of Redis for an answer.
    pub redis_calls: f64,
}

/// A report.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its command, commit and day.
    pub run: String,
    cells: Vec<Cell>,
}

impl Report {
    /// Reads `report.md` as `make bench` writes it. Rows that are not of this form are passed over.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let run = text.lines().find_map(|line| line.strip_prefix("- Run: ")).unwrap_or("unknown").to_owned();
        let (mut workload, mut cells) = ("", Vec::new());
        for line in text.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                workload = title.split_once(':').map_or("", |(name, _)| name);
            } else if !workload.is_empty() {
                cells.extend(row(workload, line));
            }
        }
        Self { run, cells }
    }

    /// A cell.
    pub fn cell(&self, workload: &'static str, scheme: &'static str) -> Result<&Cell, PlanError> {
        let found = self.cells.iter().find(|cell| cell.workload == workload && cell.scheme == scheme);
        found.ok_or(PlanError::NoCell(scheme, workload))
    }
}

/// `| scheme | grabs/s (min–max) | p50 ms | p99 ms | Redis CPU µs | Redis calls | …`
fn row(workload: &str, line: &str) -> Option<Cell> {
    let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
    let number = |place: usize| -> Option<f64> {
        let text = cells.get(place)?.split(' ').next()?;
        text.replace(',', "").parse().ok()
    };
    Some(Cell {
        workload: workload.to_owned(),
        scheme: cells.first()?.trim_matches('*').to_owned(),
        per_s: number(1)?,
        p50_ms: number(2)?,
        p99_ms: number(3)?,
        redis_cpu_us: number(4)?,
        redis_calls: number(5)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_read_from_the_tables() {
        let text = "- Run: `make bench`, commit `abc`\n\n## Goals\n\n| a | b |\n## A: all win\n\n\
            | scheme | grabs/s (min–max) | p50 ms | p99 ms | Redis CPU µs | Redis calls | oversold | two slips |\n|---|---:|\n\
            | **ours, one user a call, 20 under way** | 46,474 (45,317–49,770) | 0.4 | 1.2 | 17.9 | 1.05 | 0 | 0 |\n";
        let report = Report::parse(text);
        assert_eq!(report.run, "`make bench`, commit `abc`");
        let cell = report.cell("A", "ours, one user a call, 20 under way").unwrap();
        assert_eq!((cell.per_s, cell.p99_ms, cell.redis_cpu_us, cell.redis_calls), (46_474.0, 1.2, 17.9, 1.05));
        assert!(report.cell("A", "other").is_err());
    }
}
