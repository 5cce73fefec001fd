//! What an actor asks of the stores. Each call is one step; between two of them anything else may happen.

use std::fmt;

use crate::hot::{GrabAnswer, Holds};
use crate::instance::{Part, Slip, User};
use crate::ledger::ClaimOutcome;
use crate::set::Set;

/// A script, a transaction, or a consistent read.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Call {
    /// `grab.lua` for one user. (A batch of users is the same as one after another.)
    Grab {
        /// The part.
        part: Part,
        /// The user.
        user: User,
    },
    /// `reconcile.lua`.
    Reconcile {
        /// The part that is told.
        part: Part,
        /// The slips whose decisions it is told.
        decisions: Set,
        /// The holds that were decided by them.
        decided: Holds,
    },
    /// `load.lua`.
    Load {
        /// The part.
        part: Part,
        /// The slips whose decisions are known so far.
        decisions: Set,
    },
    /// The transaction of a send.
    Send,
    /// The transaction of a claim.
    Claim {
        /// The slip.
        slip: Slip,
        /// For whom.
        user: User,
    },
    /// The transaction of a refund.
    Refund {
        /// The slips that go back.
        slips: Set,
        /// What comes into the sender's wallet.
        sum: u8,
    },
    /// The transaction that marks the packet as settled.
    Close,
    /// Reads the decisions of slips.
    ReadDecisions(Set),
    /// Reads a user's claim item.
    ReadClaim(User),
    /// Reads whether the packet is settled.
    ReadPacket,
    /// Reads which parts are pending.
    ReadPending,
    /// Reads a part's outbox.
    ReadOutbox(Part),
    /// Looks up in the process's own memory what a final part has for a user.
    Remember {
        /// The part.
        part: Part,
        /// The user.
        user: User,
    },
    /// A mutant's: drops slips from the outbox.
    DropHolds(Set),
    /// A mutant's: takes a hold back.
    PutBack {
        /// The slip.
        slip: Slip,
        /// For whom it is held.
        user: User,
    },
}

/// What a call brings back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reply {
    /// Nothing but that it is done.
    Done,
    /// The ledger has no such packet.
    NoPacket,
    /// Of [`Call::Grab`].
    GrabAnswer(GrabAnswer),
    /// Of [`Call::Load`]: whether the packet is expired, and thus not loaded.
    Loaded {
        /// It is.
        expired: bool,
    },
    /// Of [`Call::Claim`].
    Claim(ClaimOutcome),
    /// Of [`Call::ReadDecisions`]: the slips that have one. Of [`Call::Refund`]: those that stood in the way. Of
    /// [`Call::ReadPending`]: the parts.
    Set(Set),
    /// Of [`Call::ReadClaim`] and [`Call::Remember`]: the user's slip.
    Slip(Option<Slip>),
    /// Of [`Call::ReadPacket`]: whether it is settled.
    Settled(bool),
    /// Of [`Call::ReadOutbox`].
    Holds(Holds),
}

impl Call {
    /// Whether it is a transaction: one whose result is unknown is sent again as it is.
    pub const fn is_transaction(self) -> bool {
        matches!(self, Self::Send | Self::Claim { .. } | Self::Refund { .. } | Self::Close)
    }

    /// Whether it changes a store.
    pub const fn is_write(self) -> bool {
        self.is_transaction() || matches!(self, Self::Grab { .. } | Self::Reconcile { .. } | Self::Load { .. })
    }
}

/// A user's name.
pub const fn name(user: User) -> char {
    (b'A' + user) as char
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Grab { part, user } => write!(f, "grab.lua: part {part} for {}", name(user)),
            Self::Reconcile { part, decisions, decided } => {
                write!(
                    f,
                    "reconcile.lua: part {part}, decisions of slips {decisions}, decided are the holds of {}",
                    decided.slips()
                )
            }
            Self::Load { part, decisions } => write!(f, "load.lua: part {part}, decisions of slips {decisions}"),
            Self::Send => f.write_str("transaction: send"),
            Self::Claim { slip, user } => write!(f, "transaction: claim slip {slip} for {}", name(user)),
            Self::Refund { slips, sum } => write!(f, "transaction: refund slips {slips}, {sum} in all"),
            Self::Close => f.write_str("transaction: settled"),
            Self::ReadDecisions(slips) => write!(f, "read the decisions of slips {slips}"),
            Self::ReadClaim(user) => write!(f, "read the claim of {}", name(user)),
            Self::ReadPacket => f.write_str("read the packet"),
            Self::ReadPending => f.write_str("read which parts are pending"),
            Self::ReadOutbox(part) => write!(f, "read the outbox of part {part}"),
            Self::Remember { part, user } => write!(f, "remember what final part {part} has for {}", name(user)),
            Self::DropHolds(slips) => write!(f, "drop the holds of slips {slips}"),
            Self::PutBack { slip, user } => write!(f, "put back slip {slip}, held for {}", name(user)),
        }
    }
}
