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

/// What a process knows of the packet.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Bit by bit the final parts whose owners it has, until then.
    parts: u64,
    until: Nanos,
    /// Until then it knows that the packet is final, and reads losers' claims.
    final_until: Nanos,
    /// Until then it reads no claims, because the table refused one.
    paused_until: Nanos,
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
    known: Vec<Known>,
    ramp_left: Bucket,
    requests: Window,
    busy: u64,
    busy_most: u64,
}

impl Pool {
    pub fn new(inputs: &Inputs) -> Self {
        let most = inputs.concurrency();
        let running = inputs.grab_provisioned.max(inputs.warm_executions).min(most);
        let count = running as u32;
        Self {
            most,
            running,
            ramp: inputs.ramp,
            ramp_seconds: inputs.ramp_seconds,
            requests_per_execution: inputs.requests_per_execution,
            idle: (0..count).rev().collect(),
            known: vec![Known::default(); count as usize],
            ramp_left: Bucket::new(inputs.ramp / inputs.ramp_seconds, inputs.ramp),
            requests: Window::default(),
            busy: 0,
            busy_most: 0,
        }
    }

    /// An execution for one call, or the limit that refuses it.
    pub fn start(&mut self, now: Nanos) -> Result<Start, Limit> {
        if self.idle.is_empty() {
            if self.known.len() as f64 + 1.0 > self.most {
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
        self.busy += 1;
        self.busy_most = self.busy_most.max(self.busy);
        if let Some(id) = self.idle.pop() {
            return Ok(Start::Warm(id));
        }
        self.ramp_left.take(now, 1.0);
        self.known.push(Known::default());
        Ok(Start::Cold(self.known.len() as u32 - 1))
    }

    /// A call has ended.
    pub fn end(&mut self, id: u32) {
        self.busy -= 1;
        self.idle.push(id);
    }

    /// Whether this process knows a part to be final.
    pub fn knows(&self, id: u32, part: u32, now: Nanos) -> bool {
        let known = self.known[id as usize];
        now < known.until && known.parts >> part & 1 == 1
    }

    /// It has seen that a part is final. All that it knows ends at the same time, which is a little early for the later parts.
    pub fn remember(&mut self, id: u32, part: u32, now: Nanos, ttl: Nanos) {
        let known = &mut self.known[id as usize];
        if now >= known.until {
            (known.parts, known.until) = (0, now + ttl);
        }
        known.parts |= 1 << part;
    }

    /// Whether this process knows that the packet is final.
    pub fn knows_all(&self, id: u32, now: Nanos) -> bool {
        now < self.known[id as usize].final_until && !self.is_paused(id, now)
    }

    /// It has seen that the packet is final.
    pub fn remember_all(&mut self, id: u32, until: Nanos) {
        self.known[id as usize].final_until = until;
    }

    /// Whether it reads owners in place of claims.
    pub fn is_paused(&self, id: u32, now: Nanos) -> bool {
        now < self.known[id as usize].paused_until
    }

    /// It reads owners until then.
    pub fn pause(&mut self, id: u32, until: Nanos) {
        self.known[id as usize].paused_until = until;
    }

    /// Calls at once, at most.
    pub const fn most(&self) -> u64 {
        self.busy_most
    }
}
