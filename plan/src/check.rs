//! Compares the simulation's core with what a benchmark measured.
//!
//! Each workload of the benchmark has a cell of another design, lua-queue, with the same client and as many requests in flight. That
//! cell is the machine: it says how much of its core Redis can use, and for how long the machine stalls now and then. The
//! prediction for this engine then needs one figure only, Redis' processor time for an answer.

use serde::Serialize;

use crate::PlanError;
use crate::report::{Cell, Report};
use crate::station::{Core, Nanos, SECOND, millis};

/// A workload as the benchmark runs it.
#[derive(Clone, Copy, Debug)]
struct Workload {
    name: &'static str,
    lua_queue: &'static str,
    ours: &'static str,
    in_flight: usize,
    requests: usize,
    /// Whether all requests exist from the beginning, so that latencies count from there.
    at_once: bool,
}

const WORKLOADS: [Workload; 5] = [
    workload("A", "lua-queue pipelined, 1000 under way", "ours, one user a call, 1000 under way", 1_000, 100_000),
    workload("A", "lua-queue pipelined, 20 under way", "ours, one user a call, 20 under way", 20, 100_000),
    workload("B", "lua-queue pipelined, 10000 under way", "ours, one user a call, 10000 under way", 10_000, 10_000),
    workload("C", "lua-queue pipelined, 1000 under way", "ours, one user a call, 1000 under way", 1_000, 100_000),
    workload("D", "lua-queue pipelined, 1000 under way", "ours, one user a call, 1000 under way", 1_000, 200_000),
];

const fn workload(
    name: &'static str,
    lua_queue: &'static str,
    ours: &'static str,
    in_flight: usize,
    requests: usize,
) -> Workload {
    Workload { name, lua_queue, ours, in_flight, requests, at_once: in_flight == requests }
}

/// Predicted beside measured.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// The workload, for example "A".
    pub workload: &'static str,
    /// Requests in flight.
    pub in_flight: usize,
    /// How often the machine needs the time that Redis counts.
    pub machine_factor: f64,
    /// Milliseconds of the machine's stalls, one in about ten milliseconds.
    pub stall_ms: f64,
    /// Answers a second, predicted and measured.
    pub per_s: [f64; 2],
    /// Milliseconds within which 99 % of the answers came, predicted and measured.
    pub p99_ms: [f64; 2],
}

impl Compared {
    /// The larger of both errors, as a share of what was measured.
    #[must_use]
    pub fn error(&self) -> f64 {
        let error = |[predicted, measured]: [f64; 2]| (predicted / measured - 1.0).abs();
        error(self.per_s).max(error(self.p99_ms))
    }
}

/// The comparison with a report.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The report's command, commit and day.
    pub run: String,
    /// Workload by workload.
    pub workloads: Vec<Compared>,
}

/// The largest error that a prediction may have.
const ERROR_MOST: f64 = 0.25;
/// Workloads that have to be predicted as well as that.
const GOOD_LEAST: usize = 3;

impl Check {
    /// Workloads whose throughput and p99 were predicted within a quarter.
    #[must_use]
    pub fn good(&self) -> usize {
        self.workloads.iter().filter(|compared| compared.error() <= ERROR_MOST).count()
    }

    /// Whether enough of them were.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.good() >= GOOD_LEAST
    }
}

/// Predicts the workloads of a report.
pub fn check(report: &Report) -> Result<Check, PlanError> {
    let workloads: Result<_, _> = WORKLOADS.iter().map(|workload| compare(workload, report)).collect();
    Ok(Check { run: report.run.clone(), workloads: workloads? })
}

fn compare(workload: &Workload, report: &Report) -> Result<Compared, PlanError> {
    let ours = report.cell(workload.name, workload.ours)?;
    let machine = Machine::of(report.cell(workload.name, workload.lua_queue)?, workload);
    let predicted = machine.run(workload, ours.redis_cpu_us);
    Ok(Compared {
        workload: workload.name,
        in_flight: workload.in_flight,
        machine_factor: machine.factor,
        stall_ms: machine.stall as f64 / 1e6,
        per_s: [predicted.per_s, ours.per_s],
        p99_ms: [predicted.p99_ms, ours.p99_ms],
    })
}

/// The machine stalls once in so many nanoseconds of work, at random. Short enough that a hundredth of the requests meets a stall
/// even with 20 in flight.
const STALLS_EVERY: Nanos = 10_000_000;
/// Answers that a prediction is made from, at least, in rushes of the workload's size.
const ANSWERS: usize = 200_000;
const HALVINGS: usize = 12;

/// What a machine makes of Redis' processor time.
#[derive(Clone, Copy, Debug)]
struct Machine {
    factor: f64,
    stall: Nanos,
}

/// What a run shows.
#[derive(Clone, Copy, Debug)]
struct Shown {
    per_s: f64,
    p99_ms: f64,
}

impl Machine {
    /// The machine on which a design had this cell: its stalls explain the p99, and its factor the throughput.
    fn of(cell: &Cell, workload: &Workload) -> Self {
        let (mut short, mut long) = (0.0, cell.p99_ms);
        let mut machine = Self::with_stall(0, cell);
        for _ in 0..HALVINGS {
            let stall = f64::midpoint(short, long);
            machine = Self::with_stall(millis(stall), cell);
            let is_short = machine.run(workload, cell.redis_cpu_us).p99_ms < cell.p99_ms;
            *(if is_short { &mut short } else { &mut long }) = stall;
        }
        machine
    }

    /// The same for stalls of this length. Work and stalls together are the time of an answer, since the core is never idle.
    fn with_stall(stall: Nanos, cell: &Cell) -> Self {
        let stalled = 1.0 + stall as f64 / STALLS_EVERY as f64;
        Self { factor: 1e6 / (cell.per_s * cell.redis_cpu_us * stalled), stall }
    }

    /// Runs a workload in which an answer takes this much of Redis' processor.
    fn run(&self, workload: &Workload, redis_cpu_us: f64) -> Shown {
        let work = millis(redis_cpu_us * self.factor / 1e3).max(1);
        let mut stalls = Stalls::new(self.stall);
        let (mut latencies, mut elapsed) = (Vec::with_capacity(ANSWERS + workload.requests), 0);
        while latencies.len() < ANSWERS {
            elapsed += rush(workload, work, &mut stalls, &mut latencies);
        }
        latencies.sort_unstable();
        let p99 = latencies[latencies.len() * 99 / 100];
        Shown { per_s: latencies.len() as f64 * SECOND as f64 / elapsed as f64, p99_ms: p99 as f64 / 1e6 }
    }
}

/// One rush on a core: each request follows the answer to the one that had its place. Returns how long it took.
fn rush(workload: &Workload, work: Nanos, stalls: &mut Stalls, latencies: &mut Vec<Nanos>) -> Nanos {
    let mut core = Core::default();
    let mut asked = std::collections::VecDeque::from(vec![0; workload.in_flight]);
    for _ in 0..workload.requests {
        let Some(at) = asked.pop_front() else { break };
        stalls.pass(work, &mut core);
        let done = core.serve(at, work);
        latencies.push(if workload.at_once { done } else { done - at });
        asked.push_back(done);
    }
    core.free_at()
}

/// Stalls at random, the same in each run.
struct Stalls {
    length: Nanos,
    until_next: Nanos,
    random: u64,
}

impl Stalls {
    const fn new(length: Nanos) -> Self {
        Self { length, until_next: STALLS_EVERY, random: 1 }
    }

    fn pass(&mut self, work: Nanos, core: &mut Core) {
        let Some(left) = self.until_next.checked_sub(work) else {
            core.stall(self.length);
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let share = ((self.random >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
            self.until_next = (-share.ln() * STALLS_EVERY as f64) as Nanos;
            return;
        };
        self.until_next = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RECORDED;

    #[test]
    fn a_core_without_stalls_follows_the_closed_form() {
        // A closed loop on one server: the rate is that of the server, and each request waits for all others (Little's law).
        let machine = Machine { factor: 1.0, stall: 0 };
        let shown = machine.run(&WORKLOADS[0], 10.0);
        assert!((shown.per_s - 100_000.0).abs() < 1.0 && (shown.p99_ms - 10.0).abs() < 0.01, "{shown:?}");
        // All at once: the request at the 99th percentile waits for those before it.
        let shown = machine.run(&WORKLOADS[2], 10.0);
        assert!((shown.p99_ms - 99.0).abs() < 0.1, "{shown:?}");
    }

    #[test]
    fn the_recorded_run_is_predicted() {
        let check = check(&Report::parse(RECORDED)).unwrap();
        let errors: Vec<_> = check.workloads.iter().map(|compared| (compared.workload, compared.error())).collect();
        assert!(check.is_met(), "{errors:?}");
    }
}
