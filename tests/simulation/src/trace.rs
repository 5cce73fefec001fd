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
