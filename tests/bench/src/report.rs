//! The report, in Markdown.

use std::fmt;
use std::path::Path;
use std::process::Command;

use crate::cell::{Cell, Spread};
use crate::functions::Measured;
use crate::workloads::{BARE_SQL, FASTEST, POSTGRES};
use crate::{BoxError, chart};

/// The workloads, in the order of the report, with their titles.
const WORKLOADS: [(&str, &str); 10] = [
    ("A", "one packet of 100,000 slips, everybody wins"),
    ("B", "10,000 requests at once for 100 slips"),
    ("C", "1,000 packets of 100 slips"),
    ("D", "as A, every user asks twice"),
    ("F", "as A, Redis has each write on its disk before it answers"),
    ("TLS", "A with one user a call, connections × calls in flight on each"),
    ("L", "300 slips for 450 users, each claim in the ledger"),
    (POSTGRES, "10 packets of 2,000 slips, everybody wins, each claim on the disk of PostgreSQL"),
    ("E", "HTTP requests through the gateway and the handlers"),
    ("T", "E with tickets and without, signed by the clients"),
];
/// How this engine is called, beside lua-queue with the same client. A Lambda function that serves one request at a time calls for
/// one user; a process that serves many collects calls.
const MODES: [(&str, &str); 2] =
    [("One user a call", "ours, one user a call, "), ("Collected calls", "ours, collected, ")];
/// The name of the server that `SERVER=valkey` means.
const VALKEY: &str = "Valkey";

/// All that was measured.
#[derive(Debug, Default)]
pub struct Report {
    /// The commit of the working directory, with `-dirty` if files differ from it. Empty without Git.
    commit: String,
    /// The day in UTC, as in 2026-01-31.
    date: String,
    /// The name and version of the server, such as "Redis 7.0.15" or "Valkey 9.1.2".
    pub server: String,
    /// Whether Redis had a processor of its own in A to D and TLS.
    pub redis_apart: bool,
    /// The cells, by workload.
    pub cells: Vec<Cell>,
    /// The deployed functions.
    pub functions: Vec<Measured>,
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

impl Report {
    /// An empty report of a run that begins now.
    pub fn now() -> Self {
        Self {
            commit: output("git", &["describe", "--always", "--dirty", "--exclude=*"]),
            date: output("date", &["-u", "+%F"]),
            ..Self::default()
        }
    }

    /// Writes `report.md` and the chart into a folder.
    pub fn write(&self, out: Option<&Path>) -> Result<(), BoxError> {
        let by_server = if self.server.starts_with(VALKEY) { "target/bench-valkey" } else { "target/bench" };
        let out = out.unwrap_or_else(|| Path::new(by_server));
        std::fs::create_dir_all(out)?;
        std::fs::write(out.join("report.md"), self.to_string())?;
        if let Some(chart) = chart::at_a_glance(&self.cells) {
            std::fs::write(out.join("at-a-glance.svg"), chart)?;
        }
        Ok(())
    }

    fn header(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { commit, date, server, .. } = self;
        let command = command(server, &std::env::args().skip(1).collect::<Vec<_>>());
        let on = if server.is_empty() { String::new() } else { format!(", on {server}") };
        let apart = if self.redis_apart { ", on a processor of its own in A to D and TLS" } else { "" };
        writeln!(f, "# Report of a benchmark run\n\n`{command}`, commit `{commit}`, {date}{on}{apart}")
    }

    fn beside_lua_queue(&self, f: &mut fmt::Formatter<'_>, title: &str, mode: &str) -> fmt::Result {
        let pairs = self.cells.iter().filter_map(|ours| {
            let in_flight = ours.scheme.strip_prefix(mode)?;
            let their_scheme = format!("lua-queue pipelined, {in_flight}");
            let is_theirs = |cell: &&Cell| cell.workload == ours.workload && cell.scheme == their_scheme;
            Some((ours, self.cells.iter().find(is_theirs)?, in_flight))
        });
        let mut pairs = pairs.peekable();
        if pairs.peek().is_none() {
            return Ok(());
        }
        writeln!(f, "\n## {title}\n")?;
        writeln!(
            f,
            "| | ours, grabs/s | lua-queue, grabs/s | ratio (min–max) | ours, Redis CPU µs | lua-queue, Redis CPU µs | ratio | \
             ours, p50 ms | ours, p99 ms |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|---:|---:|---:|")?;
        for (ours, theirs, in_flight) in pairs {
            let Spread { min, median, max } = ours.speed_beside(theirs);
            writeln!(
                f,
                "| {}, {in_flight} | {} | {} | {median:.2} ({min:.2}–{max:.2}) | {:.1} | {:.1} | {:.2} | {} | {} |",
                ours.workload,
                grouped(ours.per_s().median),
                grouped(theirs.per_s().median),
                ours.redis_cpu_us().median,
                theirs.redis_cpu_us().median,
                ours.cost_beside(theirs).median,
                millis(ours.ms_within(0.5)),
                millis(ours.ms_within(0.99)),
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
            let bold = if cell.is_ours() { "**" } else { "" };
            let Spread { min, median, max } = cell.per_s();
            writeln!(
                f,
                "| {bold}{}{bold} | {} ({}–{}) | {} | {} | {:.1} | {:.2} | {} | {} |",
                cell.scheme,
                grouped(median),
                grouped(min),
                grouped(max),
                millis(cell.ms_within(0.5)),
                millis(cell.ms_within(0.99)),
                cell.redis_cpu_us().median,
                cell.redis_calls().median,
                cell.oversold,
                cell.double_winners,
            )?;
        }
        let cell = |scheme| self.cells.iter().find(|cell| cell.workload == name && cell.scheme == scheme);
        if let (Some(ours), Some(bare)) = (cell(FASTEST), cell(BARE_SQL)) {
            let Spread { min, median, max } = ours.speed_beside(bare);
            writeln!(f, "\n{FASTEST} ÷ {BARE_SQL}: {median:.2} ({min:.2}–{max:.2})")?;
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

fn millis(millis: f64) -> String {
    if millis < 99.95 { format!("{millis:.1}") } else { format!("{millis:.0}") }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.header(f)?;
        for (title, mode) in MODES {
            self.beside_lua_queue(f, title, mode)?;
        }
        for (name, title) in WORKLOADS {
            self.workload(f, name, title)?;
        }
        if !self.functions.is_empty() {
            writeln!(f, "\n## Functions\n")?;
            writeln!(f, "| function | zipped MB | init ms (min–max) | peak memory MB |\n|---|---:|---:|---:|")?;
        }
        for Measured { name, zipped_mb, init_ms, memory_mb } in &self.functions {
            let Spread { min, median, max } = init_ms;
            writeln!(f, "| {name} | {zipped_mb:.2} | {median:.1} ({min:.1}–{max:.1}) | {memory_mb:.1} |")?;
        }
        Ok(())
    }
}
