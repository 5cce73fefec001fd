//! What is written: JSON for programs, Markdown for people.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::cell::Cell;
use crate::functions::Functions;
use crate::goals::Ratio;
use crate::spread::Nodes;
use crate::{BoxError, chart, goals};

/// All that was measured.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// On what.
    pub machine: Machine,
    cells: Vec<Cell>,
    /// What each node of a cluster did.
    nodes: Vec<Nodes>,
    functions: Option<Functions>,
    ratios: Vec<Ratio>,
}

/// What it was measured on.
#[derive(Debug, Default, Serialize)]
pub struct Machine {
    /// Of its processor.
    processor: String,
    /// Logical processors.
    pub cores: usize,
    /// Which Redis.
    pub redis: String,
    /// Whether Redis had a processor of its own in A to D.
    pub redis_apart: bool,
}

impl Machine {
    /// This one.
    pub fn here() -> Result<Self, BoxError> {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(':'));
        Ok(Self {
            processor: model.map(|(_, model)| model.trim().to_owned()).unwrap_or_default(),
            cores: std::thread::available_parallelism()?.get(),
            ..Self::default()
        })
    }
}

impl Report {
    /// On a machine.
    pub fn of(machine: Machine) -> Self {
        Self { machine, ..Self::default() }
    }

    /// Adds cells.
    pub fn add_cells(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.cells.extend(cells);
    }

    /// Adds what the nodes of a cluster did.
    pub fn add_nodes(&mut self, nodes: Nodes) {
        self.nodes.push(nodes);
    }

    /// Adds the functions.
    pub fn add_functions(&mut self, functions: Functions) {
        self.functions = Some(functions);
    }

    /// Adds a goal.
    pub fn reached(&mut self, ratio: Ratio) {
        self.ratios.push(ratio);
    }

    /// Holds what was measured against the goals.
    pub fn conclude(&mut self) {
        self.ratios.splice(0..0, goals::of(&self.cells));
    }

    /// Writes `report.json` and `report.md` into a folder.
    pub fn write(&self, out: &Path) -> Result<(), BoxError> {
        std::fs::create_dir_all(out)?;
        std::fs::write(out.join("report.json"), serde_json::to_vec_pretty(self)?)?;
        std::fs::write(out.join("report.md"), self.to_string())?;
        chart::draw(&self.cells, out)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| | scheme | grabs/s (min–max) | p50 µs | p99 µs | p99.9 µs | Redis CPU µs | Redis calls | winners | oversold | two \
             slips | left |"
        )?;
        writeln!(f, "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")?;
        for cell in &self.cells {
            writeln!(
                f,
                "| {} | {} | {:.0} ({:.0}–{:.0}) | {:.0} | {:.0} | {:.0} | {:.2} | {:.3} | {} | {} | {} | {} |",
                cell.workload,
                cell.scheme,
                cell.per_s.median,
                cell.per_s.min,
                cell.per_s.max,
                cell.p50_us,
                cell.p99_us,
                cell.p999_us,
                cell.redis_cpu_us,
                cell.redis_calls,
                cell.winners,
                cell.oversold,
                cell.double_winners,
                cell.left.map_or_else(|| "–".to_owned(), |left| left.to_string()),
            )?;
        }
        if !self.nodes.is_empty() {
            writeln!(f, "\n| on a cluster | calls of each node | furthest from an equal share |\n|---|---|---:|")?;
        }
        for nodes in &self.nodes {
            let calls: Vec<String> = nodes.calls.iter().map(u64::to_string).collect();
            writeln!(f, "| {} | {} | {:.1} % |", nodes.scheme, calls.join(", "), nodes.deviation() * 100.0)?;
        }
        if let Some(functions) = &self.functions {
            write!(f, "\n{functions}")?;
        }
        writeln!(f, "\n| goal | bound | value | met |\n|---|---:|---:|---|")?;
        for ratio in &self.ratios {
            let met = if ratio.met { "yes" } else { "**no**" };
            writeln!(f, "| {} | {} | {:.3} | {met} |", ratio.name, ratio.goal, ratio.value)?;
        }
        Ok(())
    }
}
