use crate::chance::Chance;

/// What goes wrong.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Fault {
    /// A read of the table is not answered.
    ReadLost,
    /// A transaction never reaches the table, and nobody knows.
    Unsent,
    /// A transaction is executed, and nobody knows.
    Unheard,
    /// A transaction is executed long after its caller has given up.
    Late,
    /// A transaction is cancelled: another one is said to be under way on one of its items.
    Conflict,
    /// A transaction is cancelled: it is throttled, which stands in the reasons.
    Throttled,
    /// A refusal whose other reasons are conflicts and throttling.
    Mixed,
    /// A refusal that does not show the items that stand in the way.
    Bare,
    /// The transaction's token is said to be spent, whether or not it was executed.
    TokenSpent,
    /// The index shows what was, not what is.
    StaleIndex,
    /// A script never reaches the hot store, and nobody knows.
    HotUnsent,
    /// A script is executed, and nobody knows.
    HotUnheard,
    /// A script is executed long after its caller has given up, perhaps by another primary than he asked.
    HotLate,
    /// A script is executed once more, at once or long after.
    HotTwice,
    /// The hot store says that it holds another slip than it does.
    Lie,
    /// A message takes seconds.
    Slow,
    /// A caller goes away in the midst of his call.
    Dropped,
    /// A process is killed.
    Killed,
    /// A job is started twice.
    Doubled,
    /// The hot store loses everything, or one node of it does.
    Wiped,
    /// The hot store goes back to an older state, or one node of it does.
    RolledBack,
    /// Two primaries take writes, until one of them wins.
    Split,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::ReadLost,
        Self::Unsent,
        Self::Unheard,
        Self::Late,
        Self::Conflict,
        Self::Throttled,
        Self::Mixed,
        Self::Bare,
        Self::TokenSpent,
        Self::StaleIndex,
        Self::HotUnsent,
        Self::HotUnheard,
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

    /// Whether the hot store loses or falsifies what it has acknowledged.
    pub const fn loses(self) -> bool {
        matches!(self, Self::Wiped | Self::RolledBack | Self::Split | Self::Lie)
    }
}

/// How often each fault strikes where it can, per mille.
#[derive(Clone, Debug, Default)]
pub struct Rates([u32; Fault::ALL.len()]);

impl Rates {
    /// The rates of a run: none at all, one kind alone, or a mixture.
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

    /// How often `fault` strikes.
    pub const fn of(&self, fault: Fault) -> u32 {
        self.0[fault as usize]
    }

    const fn set(&mut self, fault: Fault, per_mille: u32) {
        self.0[fault as usize] = per_mille;
    }
}

/// How often each fault has struck.
#[derive(Clone, Debug, Default)]
pub struct Struck([u64; Fault::ALL.len()]);

impl Struck {
    /// Once more.
    pub const fn add(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// Those of another run too.
    pub fn merge(&mut self, other: &Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }

    /// How often `fault` has.
    pub const fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }
}
