//! What happened in a run, and what must not have.

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::Hasher;

/// All events of a run, in order: always as a hash, and as lines on request.
#[derive(Debug, Default)]
pub struct Trace {
    // Its keys are fixed; those of a `HashMap` differ in every run.
    hash: DefaultHasher,
    lines: Option<Vec<String>>,
}

impl Trace {
    /// A trace that keeps its lines if `readable`.
    pub fn new(readable: bool) -> Self {
        Self { hash: DefaultHasher::new(), lines: readable.then(Vec::new) }
    }

    /// Notes what happened, `ms` into the run.
    pub fn note(&mut self, ms: u128, what: fmt::Arguments<'_>) {
        let line = format!("{ms:>9} {what}");
        self.hash.write(line.as_bytes());
        if let Some(lines) = &mut self.lines {
            lines.push(line);
        }
    }

    /// The hash of all lines.
    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// The lines, if they were kept.
    pub fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}

/// What kind of promise is broken.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// 1: money was made or lost.
    Conservation,
    /// 2: a slip has two decisions, no decision after settlement, or a changed decision.
    Decision,
    /// 3: a user has two claims of a packet, or a claim and its decision differ.
    Claim,
    /// 4: an answer is not in the ledger, or a later answer contradicts it.
    Promise,
    /// 5: a wallet is negative, or differs from the sum of its movements.
    Wallet,
    /// A suspended user paid or grabbed, or a user sent more than the limit of a day.
    Limit,
    /// Somebody won a slip of a closed packet that the hot store had not given out before.
    Closed,
    /// 6: the outbox is not empty, or an expired packet is not settled.
    Liveness,
    /// 7: a user was answered `sold_out` while a slip was free.
    SoldOut,
    /// 8: a packet's seed was shown while a slip was undecided.
    Secrecy,
    /// 9: a user waited for another user's fault.
    Isolation,
    /// A slip was given out before its packet's start.
    Start,
    /// An impossible answer: expired too early, not found although it exists, or a defect.
    Answer,
}

/// A broken promise.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The kind of promise.
    pub kind: Kind,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.what)
    }
}
