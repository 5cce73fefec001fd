//! Calls of the actors to the stores. Each call is one step; between two calls any other actor may act.

use std::fmt;

use crate::bounds::Bits;
use crate::hot::{GrabAnswer, Holds};
use crate::instance::{Part, Slip, User};
use crate::ledger::ClaimOutcome;
use crate::set::Set;

/// A script, a transaction, or a consistent read.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Call {
    /// `grab.lua` for one user. (A batch of users equals one call after another.)
    Grab {
        /// The part.
        part: Part,
        /// The user.
        user: User,
    },
    /// `reconcile.lua`.
    Reconcile {
        /// The part to reconcile.
        part: Part,
        /// The slips whose decisions it receives.
        decisions: Set,
        /// The holds that these decisions settle.
        decided: Holds,
    },
    /// `load.lua`.
    Load {
        /// The part.
        part: Part,
        /// The slips whose decisions are known so far.
        decisions: Set,
        /// Whether it is loaded as closed.
        closed: bool,
    },
    /// `close.lua`.
    Close(Part),
    /// The transaction of a send.
    Send,
    /// The transaction of a claim.
    Claim {
        /// The slip.
        slip: Slip,
        /// The user.
        user: User,
    },
    /// The transaction of a refund.
    Refund {
        /// The refunded slips.
        slips: Set,
        /// The amount for the sender's wallet.
        sum: Bits,
    },
    /// The transaction that marks the packet as closed.
    MarkClosed,
    /// The transaction that marks the packet as settled.
    MarkSettled,
    /// Reads the decisions of slips.
    ReadDecisions(Set),
    /// Reads a user's claim item.
    ReadClaim(User),
    /// Reads whether the packet is settled, and whether it is closed.
    ReadPacket,
    /// Reads which parts are pending.
    ReadPending,
    /// Reads a part's outbox.
    ReadOutbox(Part),
    /// Looks up a user in the process's cache of final parts.
    Remember {
        /// The part.
        part: Part,
        /// The user.
        user: User,
    },
    /// Only with a mutant: drops slips from the outbox.
    DropHolds(Set),
    /// Only with a mutant: makes a held slip free.
    PutBack {
        /// The slip.
        slip: Slip,
        /// The user of the hold.
        user: User,
    },
}

/// A call's result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reply {
    /// Done; no result.
    Done,
    /// The ledger has no such packet.
    NoPacket,
    /// The result of [`Call::Grab`].
    GrabAnswer(GrabAnswer),
    /// The result of [`Call::Load`].
    Loaded {
        /// Whether the packet is expired, and thus not loaded.
        expired: bool,
    },
    /// The result of [`Call::Claim`].
    Claim(ClaimOutcome),
    /// [`Call::ReadDecisions`]: the slips with a decision. [`Call::Refund`]: the slips whose decisions prevented it.
    /// [`Call::ReadPending`]: the parts.
    Set(Set),
    /// [`Call::ReadClaim`] and [`Call::Remember`]: the user's slip.
    Slip(Option<Slip>),
    /// The result of [`Call::Close`]: whether the part is loaded.
    Closed(bool),
    /// The result of [`Call::ReadPacket`] and of [`Call::MarkClosed`], after which the packet is read.
    Packet {
        /// Whether it is settled.
        settled: bool,
        /// Whether it is closed.
        closed: bool,
    },
    /// The result of [`Call::ReadOutbox`].
    Holds(Holds),
}

impl Call {
    /// Whether it is a transaction. A transaction with an unknown result is sent again unchanged.
    pub const fn is_transaction(self) -> bool {
        matches!(self, Self::Send | Self::Claim { .. } | Self::Refund { .. } | Self::MarkClosed | Self::MarkSettled)
    }

    /// Whether it changes a store.
    pub const fn is_write(self) -> bool {
        self.is_transaction()
            || matches!(self, Self::Grab { .. } | Self::Reconcile { .. } | Self::Load { .. } | Self::Close(_))
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
                    "reconcile.lua: part {part}, decisions of slips {decisions}, settling the holds of {}",
                    decided.slips()
                )
            }
            Self::Load { part, decisions, closed } => {
                let closed = if closed { ", closed" } else { "" };
                write!(f, "load.lua: part {part}, decisions of slips {decisions}{closed}")
            }
            Self::Close(part) => write!(f, "close.lua: part {part}"),
            Self::Send => f.write_str("transaction: send"),
            Self::Claim { slip, user } => write!(f, "transaction: claim slip {slip} for {}", name(user)),
            Self::Refund { slips, sum } => write!(f, "transaction: refund slips {slips}, {sum} in all"),
            Self::MarkClosed => f.write_str("transaction: mark the packet as closed"),
            Self::MarkSettled => f.write_str("transaction: mark the packet as settled"),
            Self::ReadDecisions(slips) => write!(f, "read the decisions of slips {slips}"),
            Self::ReadClaim(user) => write!(f, "read the claim of {}", name(user)),
            Self::ReadPacket => f.write_str("read the packet"),
            Self::ReadPending => f.write_str("read which parts are pending"),
            Self::ReadOutbox(part) => write!(f, "read the outbox of part {part}"),
            Self::Remember { part, user } => write!(f, "cached final part {part}: claim of {}", name(user)),
            Self::DropHolds(slips) => write!(f, "drop the holds of slips {slips}"),
            Self::PutBack { slip, user } => write!(f, "put back slip {slip}, held for {}", name(user)),
        }
    }
}
