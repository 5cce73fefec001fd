//! Calls of the actors to the stores. Each call is one step; between two calls any other actor may act.

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
        /// The holds that these decisions resolve.
        holds: Holds,
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
    /// The transaction of a refund of these slips.
    Refund(Set),
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
    /// Reads a part's holds.
    ReadOutbox(Part),
}

/// A call's result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reply {
    /// Done; no result. Or the actor goes on without it.
    Done,
    /// The ledger has no such packet.
    NoPacket,
    /// The result of [`Call::Grab`].
    GrabAnswer(GrabAnswer),
    /// The result of [`Call::Load`] and [`Call::Close`]: whether the part is loaded now.
    Loaded(bool),
    /// The result of [`Call::Claim`].
    Claim(ClaimOutcome),
    /// [`Call::ReadDecisions`]: the slips with a decision. [`Call::Refund`]: the slips whose decisions prevented it.
    /// [`Call::ReadPending`]: the parts.
    Set(Set),
    /// The result of [`Call::ReadClaim`]: the user's slip.
    Slip(Option<Slip>),
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
        matches!(self, Self::Send | Self::Claim { .. } | Self::Refund(_) | Self::MarkClosed | Self::MarkSettled)
    }

    /// Whether it changes a store.
    pub const fn is_write(self) -> bool {
        self.is_transaction()
            || matches!(self, Self::Grab { .. } | Self::Reconcile { .. } | Self::Load { .. } | Self::Close(_))
    }
}
