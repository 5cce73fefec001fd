//! This engine beside lua-queue with the same client and as many requests in flight.

use crate::cell::Cell;

/// How this engine is called.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// As the report names it.
    pub title: &'static str,
    /// As the files of its charts are named.
    pub file: &'static str,
    /// The beginning of its schemes' names.
    scheme: &'static str,
}

/// One user per call to Redis: what a Lambda function does that serves one request at a time.
pub const ONE_USER: Mode = Mode { title: "One user a call", file: "one-user", scheme: "ours, one user a call" };
/// Collected calls: what a process does that serves many requests at once.
pub const COLLECTED: Mode = Mode { title: "Collected calls", file: "collected", scheme: "ours, collected" };

/// Two cells of one workload.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// Of this engine.
    pub ours: &'a Cell,
    /// Of lua-queue.
    pub theirs: &'a Cell,
    /// The number of requests in flight as the scheme's name has it, for example "1000 under way".
    pub under_way: &'a str,
}

/// The pairs of a mode, in the order of the cells. A cell without its counterpart is left out.
pub fn pairs(cells: &[Cell], mode: Mode) -> impl Iterator<Item = Pair<'_>> {
    cells.iter().filter_map(move |theirs| {
        let under_way = theirs.scheme.strip_prefix("lua-queue pipelined, ")?;
        let scheme = format!("{}, {under_way}", mode.scheme);
        let ours = cells.iter().find(|cell| cell.workload == theirs.workload && cell.scheme == scheme)?;
        Some(Pair { ours, theirs, under_way })
    })
}
