//! The places where a request waits or is refused.

/// Nanoseconds.
pub type Nanos = u64;

/// A second.
pub const SECOND: Nanos = 1_000_000_000;

/// Milliseconds as nanoseconds.
#[must_use]
pub fn millis(ms: f64) -> Nanos {
    (ms * 1e6).round() as Nanos
}

/// A bucket of tokens, as API Gateway and `DynamoDB` have them: it begins full and fills at a rate.
#[derive(Clone, Debug)]
pub struct Bucket {
    rate: f64,
    most: f64,
    tokens: f64,
    at: Nanos,
}

impl Bucket {
    /// A full bucket of `most` tokens that gains `rate` a second.
    pub const fn new(rate: f64, most: f64) -> Self {
        Self { rate, most, tokens: most, at: 0 }
    }

    /// Whether it has this many tokens at this time, which never goes back.
    pub fn has(&mut self, now: Nanos, tokens: f64) -> bool {
        self.tokens = (self.tokens + (now - self.at) as f64 * 1e-9 * self.rate).min(self.most);
        self.at = now;
        // Rounding must not make a token that is due wait for the next request.
        self.tokens + 1e-6 >= tokens
    }

    /// Takes tokens if it has them.
    pub fn take(&mut self, now: Nanos, tokens: f64) -> bool {
        let has = self.has(now, tokens);
        if has {
            self.tokens -= tokens;
        }
        has
    }
}

/// Amounts, second by second.
#[derive(Clone, Debug, Default)]
pub struct Seconds(Vec<f64>);

impl Seconds {
    /// Adds an amount in the second of this time.
    pub fn add(&mut self, now: Nanos, amount: f64) {
        let second = (now / SECOND) as usize;
        if self.0.len() <= second {
            self.0.resize(second + 1, 0.0);
        }
        self.0[second] += amount;
    }

    /// The amount of the busiest second.
    pub fn most(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }
}

/// One core that serves calls in the order of their arrival, such as that of a Redis shard.
#[derive(Clone, Debug, Default)]
pub struct Core {
    free_at: Nanos,
    /// How long it has worked.
    busy: Seconds,
}

impl Core {
    /// Serves a call that arrives now. Returns when its answer leaves.
    pub fn serve(&mut self, now: Nanos, work: Nanos) -> Nanos {
        let begin = self.free_at.max(now);
        self.free_at = begin + work;
        self.busy.add(begin, work as f64);
        self.free_at
    }

    /// The share of its busiest second in which it worked.
    pub fn busiest(&self) -> f64 {
        (self.busy.most() / SECOND as f64).min(1.0)
    }
}

/// Counts in seconds of the clock, each with a bound: Lambda's requests a second.
#[derive(Clone, Debug, Default)]
pub struct Window {
    second: u64,
    count: f64,
}

impl Window {
    /// Counts one if fewer than `most` were counted in this second.
    pub fn take(&mut self, now: Nanos, most: f64) -> bool {
        if now / SECOND != self.second {
            *self = Self { second: now / SECOND, count: 0.0 };
        }
        let takes = self.count + 1.0 <= most;
        self.count += f64::from(u8::from(takes));
        takes
    }
}
