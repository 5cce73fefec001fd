use crate::chance::Chance;

/// A kind of fault.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Fault {
    /// A read of the table fails.
    ReadLost,
    /// A transaction never reaches the table; the caller can't know.
    RequestLost,
    /// A transaction is executed, but its answer is lost.
    ReplyLost,
    /// A transaction is executed long after its caller has timed out.
    Late,
    /// A transaction is cancelled because another one seems to run on one of its items.
    Conflict,
    /// A transaction is cancelled because it is throttled; the reasons say so.
    Throttled,
    /// A transaction fails a condition; its other reasons are conflicts and throttling.
    Mixed,
    /// A transaction fails a condition; the reasons do not contain the existing items.
    Bare,
    /// The transaction's token is said to be spent, whether or not the transaction was executed.
    TokenSpent,
    /// The index shows an older state.
    StaleIndex,
    /// A script never reaches the hot store; the caller can't know.
    HotRequestLost,
    /// A script is executed, but its answer is lost.
    HotReplyLost,
    /// A script is executed long after its caller has timed out, perhaps on another primary.
    HotLate,
    /// A script is executed twice; the second time at once or long after.
    HotTwice,
    /// The hot store names another slip than the one that it holds.
    Lie,
    /// A message takes seconds.
    Slow,
    /// A caller goes away in the middle of a call.
    Dropped,
    /// A process is killed.
    Killed,
    /// A job is started twice.
    Doubled,
    /// The hot store, or one node of it, loses everything.
    Wiped,
    /// The hot store, or one node of it, goes back to an older state.
    RolledBack,
    /// Two primaries take writes, until one of them wins.
    Split,
}

impl Fault {
    /// Every kind.
    pub const ALL: [Self; 22] = [
        Self::ReadLost,
        Self::RequestLost,
        Self::ReplyLost,
        Self::Late,
        Self::Conflict,
        Self::Throttled,
        Self::Mixed,
        Self::Bare,
        Self::TokenSpent,
        Self::StaleIndex,
        Self::HotRequestLost,
        Self::HotReplyLost,
        Self::HotLate,
        Self::HotTwice,
        Self::Lie,
        Self::Slow,
        Self::Dropped,
        Self::Killed,
        Self::Doubled,
        Self::Wiped,
        Self::RolledBack,
        Self::Split,
    ];

    /// Whether the hot store loses or falsifies data that it has acknowledged.
    pub const fn loses(self) -> bool {
        matches!(self, Self::Wiped | Self::RolledBack | Self::Split | Self::Lie)
    }
}

/// How often each fault strikes, per mille of its opportunities.
#[derive(Clone, Debug, Default)]
pub struct Rates([u32; Fault::ALL.len()]);

impl Rates {
    /// The rates of a run: no faults, one kind only, or a mixture.
    pub fn draw(chance: &Chance) -> Self {
        let mut rates = Self::default();
        match chance.between(0..=9) {
            0 => {}
            1..=3 => rates.set(chance.pick(&Fault::ALL), chance.between(50..=400)),
            _ => {
                let most = chance.pick(&[20, 60, 150, 300]);
                for fault in Fault::ALL {
                    if chance.happens(400) {
                        rates.set(fault, chance.between(2..=most));
                    }
                }
                if chance.happens(300) {
                    rates.lossless();
                }
            }
        }
        rates
    }

    fn lossless(&mut self) {
        for fault in Fault::ALL.into_iter().filter(|fault| fault.loses()) {
            self.set(fault, 0);
        }
    }

    /// The rate of `fault`, per mille.
    pub const fn of(&self, fault: Fault) -> u32 {
        self.0[fault as usize]
    }

    /// Whether no fault strikes.
    pub fn is_quiet(&self) -> bool {
        self.0.iter().all(|rate| *rate == 0)
    }

    const fn set(&mut self, fault: Fault, per_mille: u32) {
        self.0[fault as usize] = per_mille;
    }
}

/// How often each fault has struck.
#[derive(Clone, Debug, Default)]
pub struct Struck([u64; Fault::ALL.len()]);

impl Struck {
    /// Counts one more `fault`.
    pub const fn add(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }

    /// How often `fault` has struck.
    pub const fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }
}
