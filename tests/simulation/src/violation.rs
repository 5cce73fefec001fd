use std::fmt;

/// What kind of promise is broken.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// 1: money was made or lost.
    Conservation,
    /// 2: a slip has two decisions, none after settlement, or one that changed.
    Decision,
    /// 3: a user has two claims of a packet, or a claim and its decision differ.
    Claim,
    /// 4: an answer is not in the ledger, or a later one says otherwise.
    Promise,
    /// 5: a wallet is negative, or not the sum of its movements.
    Wallet,
    /// 6: the outbox is not empty, or an expired packet is not settled.
    Liveness,
    /// 7: somebody was told `sold_out` while a slip was free.
    SoldOut,
    /// The history of a packet is none that one user at a time could make.
    Linearizability,
    /// An answer that can't be: expired before its time, not found although it is there, a defect.
    Answer,
}

/// A promise that is broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which.
    pub kind: Kind,
    /// How.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.what)
    }
}
