//! Lambda's executions of the grab function.

use crate::inputs::Inputs;
use crate::outcome::Limit;
use crate::station::{Bucket, Nanos, SECOND, Window};

/// How a call gets its execution.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Start {
    /// One that has started before.
    Warm(u32),
    /// A new one.
    Cold(u32),
}

/// All executions.
#[derive(Debug)]
pub struct Pool {
    most: f64,
    /// Those that run before the rush.
    running: f64,
    ramp: f64,
    ramp_seconds: f64,
    requests_per_execution: f64,
    idle: Vec<u32>,
    /// Until when each remembers that the packet is decided.
    decided_until: Vec<Nanos>,
    ramp_left: Bucket,
    requests: Window,
    busy_most: usize,
}

impl Pool {
    pub fn new(inputs: &Inputs) -> Self {
        let most = inputs.account_concurrency;
        let running = inputs.running();
        let count = running as u32;
        Self {
            most,
            running,
            ramp: inputs.ramp,
            ramp_seconds: inputs.ramp_seconds,
            requests_per_execution: inputs.requests_per_execution,
            idle: (0..count).rev().collect(),
            decided_until: vec![0; count as usize],
            ramp_left: Bucket::new(inputs.ramp / inputs.ramp_seconds, inputs.ramp),
            requests: Window::default(),
            busy_most: 0,
        }
    }

    /// An execution for one call, or the limit that refuses it.
    pub fn start(&mut self, now: Nanos) -> Result<Start, Limit> {
        if self.idle.is_empty() {
            if self.decided_until.len() as f64 + 1.0 > self.most {
                return Err(Limit::Concurrency);
            }
            if !self.ramp_left.has(now, 1.0) {
                return Err(Limit::Ramp);
            }
        }
        // The ramp allows executions and requests alike, whether they are needed or not.
        let ramped = self.running + self.ramp * (1.0 + now as f64 / SECOND as f64 / self.ramp_seconds);
        if !self.requests.take(now, self.requests_per_execution * ramped.min(self.most)) {
            return Err(if ramped < self.most { Limit::Ramp } else { Limit::Requests });
        }
        let start = self.idle.pop().map_or_else(|| self.add(now), Start::Warm);
        self.busy_most = self.busy_most.max(self.decided_until.len() - self.idle.len());
        Ok(start)
    }

    fn add(&mut self, now: Nanos) -> Start {
        self.ramp_left.take(now, 1.0);
        self.decided_until.push(0);
        Start::Cold(self.decided_until.len() as u32 - 1)
    }

    /// A call has ended.
    pub fn end(&mut self, id: u32) {
        self.idle.push(id);
    }

    /// Whether this process remembers that the packet is decided.
    pub fn remembers(&self, id: u32, now: Nanos) -> bool {
        now < self.decided_until[id as usize]
    }

    /// It has seen that the packet is decided.
    pub fn remember(&mut self, id: u32, until: Nanos) {
        self.decided_until[id as usize] = until;
    }

    /// Calls at once, at most.
    pub const fn most(&self) -> u64 {
        self.busy_most as u64
    }
}
