//! The report: JSON for programs, Markdown for people, charts for both.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use crate::cell::Cell;
use crate::functions::Functions;
use crate::goals::Ratio;
use crate::million::Million;
use crate::spread::Nodes;
use crate::summary::{self, Mode};
use crate::tls::OverTls;
use crate::{BoxError, chart, goals};

/// The workloads whose cells are tables of the report, with their titles.
const WORKLOADS: [(&str, &str); 7] = [
    ("A", "one packet of 100,000 slips, everybody wins"),
    ("B", "10,000 requests at once for 100 slips"),
    ("C", "1,000 packets of 100 slips"),
    ("D", "as A, every user asks twice"),
    ("L", "300 slips for 450 users, each grab in a database"),
    ("E", "HTTP requests through the gateway and the handlers"),
    ("cluster", "a Redis cluster of three nodes"),
];

/// The name of the server that `SERVER=valkey` means.
const VALKEY: &str = "Valkey";

/// All that was measured.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    run: Run,
    /// The machine of the run.
    pub machine: Machine,
    cells: Vec<Cell>,
    nodes: Vec<Nodes>,
    functions: Option<Functions>,
    tls: Option<OverTls>,
    million: Option<Million>,
    ratios: Vec<Ratio>,
}

/// When and of what the figures are.
#[derive(Debug, Default, Serialize)]
struct Run {
    /// What repeats the run.
    command: String,
    /// The commit of the working directory, with `-dirty` if files differ from it. Empty without Git.
    commit: String,
    /// The day in UTC, as in 2026-01-31.
    date: String,
}

impl Run {
    fn now() -> Self {
        Self {
            command: String::new(),
            commit: output("git", &["describe", "--always", "--dirty", "--exclude=*"]),
            date: output("date", &["-u", "+%F"]),
        }
    }
}

/// The command that repeats a run with these arguments on a server such as "Valkey 9.1.2".
fn command(server: &str, arguments: &[String]) -> String {
    let server = if server.starts_with(VALKEY) { " SERVER=valkey" } else { "" };
    let quoted =
        |argument: &String| if argument.contains([' ', ';']) { format!("'{argument}'") } else { argument.clone() };
    match &*arguments.iter().map(quoted).collect::<Vec<_>>().join(" ") {
        "" => format!("make bench{server}"),
        arguments => format!("make bench{server} ARGS=\"{arguments}\""),
    }
}

/// What a program prints. Empty if it can't be run.
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// The machine of a run.
#[derive(Debug, Default, Serialize)]
pub struct Machine {
    /// The processor's model.
    processor: String,
    /// Logical processors.
    pub cores: usize,
    /// The name and version of the server, such as "Redis 7.0.15" or "Valkey 9.1.2".
    server: String,
    /// Whether Redis had a processor of its own in A to D, start and tls.
    pub redis_apart: bool,
}

impl Machine {
    /// This machine.
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
    /// An empty report of a run that begins now.
    pub fn of(machine: Machine) -> Self {
        Self { run: Run::now(), machine, ..Self::default() }
    }

    /// Names the server that the figures are of, such as "Valkey 9.1.2".
    pub fn served_by(&mut self, server: String) {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        self.run.command = command(&server, &arguments);
        self.machine.server = server;
    }

    /// The folder for the report, unless another one is given: each server has its own.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        if self.machine.server.starts_with(VALKEY) { "target/bench-valkey".into() } else { "target/bench".into() }
    }

    /// Adds cells.
    pub fn add_cells(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.cells.extend(cells);
    }

    /// Adds the calls that each node of a cluster served.
    pub fn add_nodes(&mut self, nodes: Nodes) {
        self.nodes.push(nodes);
    }

    /// Adds the functions.
    pub fn add_functions(&mut self, functions: Functions) {
        self.functions = Some(functions);
    }

    /// Adds what TLS costs.
    pub fn add_tls(&mut self, tls: OverTls) {
        self.tls = Some(tls);
    }

    /// Adds the rush of a million requests.
    pub fn add_million(&mut self, million: Million) {
        self.million = Some(million);
    }

    /// Adds a goal.
    pub fn reached(&mut self, ratio: Ratio) {
        self.ratios.push(ratio);
    }

    /// Compares the cells with the goals.
    pub fn conclude(&mut self) {
        self.ratios.splice(0..0, goals::of(&self.cells));
    }

    /// Writes `report.json`, `report.md` and the charts into a folder.
    pub fn write(&self, out: &Path) -> Result<(), BoxError> {
        std::fs::create_dir_all(out)?;
        std::fs::write(out.join("report.json"), serde_json::to_vec_pretty(self)?)?;
        std::fs::write(out.join("report.md"), self.to_string())?;
        chart::draw(&self.cells, out)
    }

    fn header(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, machine, .. } = self;
        let apart = if machine.redis_apart { ", on a processor of its own in A to D, start and tls" } else { "" };
        writeln!(f, "# Report of a benchmark run\n")?;
        writeln!(f, "- Run: `{}`, commit `{}`, {}", run.command, run.commit, run.date)?;
        writeln!(f, "- Machine: {}, {} logical processors; {}{apart}", machine.processor, machine.cores, machine.server)
    }

    fn beside_lua_queue(&self, f: &mut fmt::Formatter<'_>, mode: Mode) -> fmt::Result {
        let mut pairs = summary::pairs(&self.cells, mode).peekable();
        if pairs.peek().is_none() {
            return Ok(());
        }
        writeln!(f, "\n## {}\n", mode.title)?;
        writeln!(
            f,
            "| | ours, grabs/s | lua-queue, grabs/s | ratio | ours, Redis CPU µs | lua-queue, Redis CPU µs | ratio | ours, p50 ms | \
             ours, p99 ms |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|---:|---:|---:|")?;
        for pair in pairs {
            let (ours, theirs) = (pair.ours, pair.theirs);
            writeln!(
                f,
                "| {}, {} | {} | {} | {:.2} | {:.1} | {:.1} | {:.2} | {} | {} |",
                ours.workload,
                pair.under_way,
                grouped(ours.per_s.median),
                grouped(theirs.per_s.median),
                ours.per_s.median / theirs.per_s.median,
                ours.redis_cpu_us,
                theirs.redis_cpu_us,
                ours.redis_cpu_us / theirs.redis_cpu_us,
                millis(ours.p50_us),
                millis(ours.p99_us),
            )?;
        }
        Ok(())
    }

    fn workload(&self, f: &mut fmt::Formatter<'_>, name: &str, title: &str) -> fmt::Result {
        let mut cells = self.cells.iter().filter(|cell| cell.workload == name).peekable();
        if cells.peek().is_none() {
            return Ok(());
        }
        writeln!(f, "\n## {name}: {title}\n")?;
        writeln!(
            f,
            "| scheme | grabs/s (min–max) | p50 ms | p99 ms | Redis CPU µs | Redis calls | oversold | two slips |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|---:|---:|")?;
        for cell in cells {
            let bold = if cell.scheme.starts_with("ours") { "**" } else { "" };
            writeln!(
                f,
                "| {bold}{}{bold} | {} ({}–{}) | {} | {} | {:.1} | {:.2} | {} | {} |",
                cell.scheme,
                grouped(cell.per_s.median),
                grouped(cell.per_s.min),
                grouped(cell.per_s.max),
                millis(cell.p50_us),
                millis(cell.p99_us),
                cell.redis_cpu_us,
                cell.redis_calls,
                cell.oversold,
                cell.double_winners,
            )?;
        }
        Ok(())
    }
}

/// A whole number with commas between its thousands.
pub fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut grouped = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Microseconds as milliseconds.
pub fn millis(micros: f64) -> String {
    let millis = micros / 1e3;
    if millis < 99.95 { format!("{millis:.1}") } else { format!("{millis:.0}") }
}

/// A value of a goal, to three digits where it has them.
fn short(value: f64) -> String {
    let decimals = if value < 1.0 {
        3
    } else if value < 10.0 {
        2
    } else {
        1
    };
    format!("{value:.decimals$}")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.header(f)?;
        self.beside_lua_queue(f, summary::ONE_USER)?;
        self.beside_lua_queue(f, summary::COLLECTED)?;
        for (name, title) in WORKLOADS {
            self.workload(f, name, title)?;
        }
        if !self.nodes.is_empty() {
            writeln!(f, "\n## Calls of each node\n")?;
            writeln!(f, "| on a cluster | calls of each node | furthest from an equal share |\n|---|---|---:|")?;
        }
        for nodes in &self.nodes {
            let calls: Vec<String> = nodes.calls.iter().map(|calls| grouped(crate::cell::float(*calls))).collect();
            writeln!(f, "| {} | {} | {:.1} % |", nodes.scheme, calls.join(" · "), nodes.deviation() * 100.0)?;
        }
        if let Some(tls) = &self.tls {
            write!(f, "{tls}")?;
        }
        if let Some(million) = &self.million {
            write!(f, "{million}")?;
        }
        if let Some(functions) = &self.functions {
            write!(f, "\n## Functions\n\n{functions}")?;
        }
        if !self.ratios.is_empty() {
            writeln!(f, "\n## Goals\n\n| goal | bound | value | met |\n|---|---:|---:|---|")?;
        }
        for ratio in &self.ratios {
            let met = if ratio.met { "yes" } else { "**no**" };
            let range =
                ratio.range.map(|(least, most)| format!(" ({}–{})", short(least), short(most))).unwrap_or_default();
            writeln!(f, "| {} | {} | {}{range} | {met} |", ratio.name, ratio.goal, short(ratio.value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_names_the_server_that_make_would_not_take_by_itself() {
        let quick = ["--quick".to_owned()];
        assert_eq!(command("Redis 7.0.15", &[]), "make bench");
        assert_eq!(command("Redis 7.0.15", &quick), "make bench ARGS=\"--quick\"");
        assert_eq!(command("Valkey 9.1.2", &[]), "make bench SERVER=valkey");
        assert_eq!(command("Valkey 9.1.2", &quick), "make bench SERVER=valkey ARGS=\"--quick\"");
        let some = ["--scheme", "a b;c"].map(str::to_owned);
        assert_eq!(command("Redis 7.0.15", &some), "make bench ARGS=\"--scheme 'a b;c'\"");
    }

    #[test]
    fn figures_are_written_for_people() {
        assert_eq!([7.0, 999.6, 1_234_567.0].map(grouped), ["7", "1,000", "1,234,567"]);
        assert_eq!([240.0, 99_940.0, 1_380_600.0].map(millis), ["0.2", "99.9", "1381"]);
        assert_eq!([0.0123, 1.0, 13.58].map(short), ["0.012", "1.00", "13.6"]);
    }
}
