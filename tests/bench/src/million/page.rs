//! The workload's section of the report.

use std::fmt;

use super::{LIMITS, Latency, Limit, Million, PROCESSES, Resource, Rushed, next, part_count};
use crate::cell::float;
use crate::heat::Usage;
use crate::report::{grouped, millis};
use crate::spread::NODES;

/// The numbers of nodes that the last table is for.
const NODE_COUNTS: [u32; 5] = [1, 3, 6, 12, 24];
/// How long a process remembers what is final, in microseconds: `FINAL_TTL` and `TTL` in `shared/src/service/grab`.
const REMEMBERED_US: f64 = 60e6;

impl Resource {
    const fn name(self) -> &'static str {
        match self {
            Self::Node => "a core of the busiest node",
            Self::Process => "a core of the busiest process",
            Self::ToNode => "1 Gbit/s to the node that receives most",
            Self::FromNode => "1 Gbit/s from the node that sends most",
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::Node | Self::Process => "µs",
            Self::ToNode | Self::FromNode => "B",
        }
    }
}

impl fmt::Display for Million {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (users, slips) = (grouped(self.size.users.into()), grouped(self.size.slips.into()));
        writeln!(f, "\n## Beyond one core of Redis: {users} requests for a packet of {slips} slips\n")?;
        self.heading(f, &format!("{users} requests, {slips} slips; {NODES} nodes, {PROCESSES} processes"))?;
        self.row(f, "answers/s", |rush| grouped(rush.answers_per_s))?;
        self.row(f, "winners/s, until the last of them", |rush| grouped(rush.winners_per_s))?;
        self.row(f, "winners: p50 · p99, ms", |rush| rush.winners.to_string())?;
        self.row(f, "losers: p50 · p99, ms", |rush| rush.losers.to_string())?;
        self.row(f, "calls of each node", |rush| rush.of_nodes(|node| grouped(float(node.calls))))?;
        self.row(f, "CPU of each node, s", |rush| rush.of_nodes(|node| millions(node.cpu_us)))?;
        self.row(f, "received by each node, MB", |rush| rush.of_nodes(|node| millions(node.received)))?;
        self.row(f, "sent by each node, MB", |rush| rush.of_nodes(|node| millions(node.sent)))?;
        self.row(f, "CPU of each process, s", |rush| joined(rush.processes_us.iter().copied().map(millions)))?;

        writeln!(f)?;
        self.heading(f, "taken by an answer · full at so many answers/s")?;
        for (place, Limit { resource, .. }) in self.rushes.iter().flat_map(|rush| rush.limits).enumerate().take(LIMITS)
        {
            self.row(f, resource.name(), |rush| {
                let limit = &rush.limits[place];
                let text = format!("{:.2} {} · {}", limit.per_answer, resource.unit(), about(limit.per_s));
                if next(&rush.limits) == Some(limit) { format!("**{text}**") } else { text }
            })?;
        }

        writeln!(f)?;
        self.heading(f, "nodes: their busiest core full at answers/s · processes with a core for that")?;
        for nodes in NODE_COUNTS {
            self.row(f, &nodes.to_string(), |rush| {
                let taken = rush.taken(self.size);
                let per_s = taken.with_nodes(nodes, part_count(self.size.slips));
                format!("{} · {}", about(per_s), grouped(taken.processes_for(per_s)))
            })?;
        }

        writeln!(f)?;
        self.heading(f, "a process that knows nothing asks the busiest node for")?;
        self.row(f, "calls", |rush| grouped(float(rush.newcomer_most(|node| node.calls))))?;
        self.row(f, "CPU, ms", |rush| millis(float(rush.newcomer_most(|node| node.cpu_us))))?;
        self.row(f, "bytes, MB", |rush| millions(rush.newcomer_most(|node| node.sent)))?;
        self.row(f, "so many processes fill its core, if each asks once a minute", |rush| {
            grouped(REMEMBERED_US / float(rush.newcomer_most(|node| node.cpu_us)))
        })
    }
}

impl Million {
    fn heading(&self, f: &mut fmt::Formatter<'_>, title: &str) -> fmt::Result {
        let names: Vec<&str> = self.rushes.iter().map(|rush| rush.mode.name()).collect();
        writeln!(f, "| {title} | {} |\n|---|{}", names.join(" | "), "---:|".repeat(names.len()))
    }

    fn row(&self, f: &mut fmt::Formatter<'_>, name: &str, cell: impl Fn(&Rushed) -> String) -> fmt::Result {
        let cells: Vec<String> = self.rushes.iter().map(cell).collect();
        writeln!(f, "| {name} | {} |", cells.join(" | "))
    }
}

impl Rushed {
    fn of_nodes(&self, text: impl Fn(&Usage) -> String) -> String {
        joined(self.nodes.iter().map(text))
    }

    fn newcomer_most(&self, figure: fn(&Usage) -> u64) -> u64 {
        self.newcomer.iter().map(figure).max().unwrap_or_default()
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} · {}", brief(self.p50_ms), brief(self.p99_ms))
    }
}

fn joined(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(" · ")
}

/// Seconds of microseconds, or megabytes of bytes.
fn millions(count: u64) -> String {
    format!("{:.1}", float(count) / 1e6)
}

/// Milliseconds. Answers from memory take microseconds.
fn brief(ms: f64) -> String {
    if ms < 0.1 { format!("{ms:.3}") } else { millis(ms * 1e3) }
}

/// A rate to three digits: more would claim too much.
fn about(rate: f64) -> String {
    let unit = 10_f64.powf((rate.max(1.0).log10().floor() - 2.0).max(0.0));
    grouped((rate / unit).round() * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_claim_no_more_than_they_can() {
        assert_eq!([812_345.0, 1_237_000.0, 99.6, 5_432.0].map(about), ["812,000", "1,240,000", "100", "5,430"]);
        assert_eq!([0.0042, 0.31, 12.0].map(brief), ["0.004", "0.3", "12.0"]);
        assert_eq!(millions(1_250_000), "1.2");
    }
}
