use super::id::{PacketId, Signer, UserId};
use super::money::Amount;
use super::operator::OperatorReason;
use super::slip::Claim;
use super::time::Timestamp;
use super::withdrawal::Note;

/// A user's wallet, and the totals that their histories show. A user never seen before has nothing.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Wallet {
    /// The money in it that its owner can use.
    pub balance: Amount,
    /// The money that pending withdrawals have reserved.
    pub pending: Amount,
    /// Packets that the user sent.
    pub sent_count: u64,
    /// What was in them. Refunds are not subtracted.
    pub sent_amount: Amount,
    /// Slips that the user claimed.
    pub claim_count: u64,
    /// What was in them.
    pub claim_amount: Amount,
}

/// What moved money in or out of a wallet.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum MovementKind {
    /// A slip was claimed.
    Claim,
    /// Money came in from outside.
    Deposit,
    /// Slips of an expired packet came back.
    Refund,
    /// A pending withdrawal ended, and gave back what was not paid out.
    Return,
    /// A packet was paid for.
    Sent,
    /// Money went outside.
    Withdrawal,
}

impl MovementKind {
    /// All of them, in the order of their names.
    pub const ALL: [Self; 6] = [Self::Claim, Self::Deposit, Self::Refund, Self::Return, Self::Sent, Self::Withdrawal];

    /// The kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The name that answers use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Deposit => "deposit",
            Self::Refund => "refund",
            Self::Return => "return",
            Self::Sent => "sent",
            Self::Withdrawal => "withdrawal",
        }
    }
}

/// One change of a wallet's balance.
#[derive(Clone, Debug)]
pub struct Movement {
    /// What moved it.
    pub kind: MovementKind,
    /// The movement's name among those of its kind.
    pub id: String,
    /// How much; negative where it left the wallet. Minor units.
    pub amount: i64,
    /// When it was moved.
    pub at: Timestamp,
    /// The packet, where one moved it.
    pub packet_id: Option<PacketId>,
    /// Who sent a claim's packet, and with which greeting. Others have none.
    pub sent: Option<(UserId, String)>,
    /// The principal who signed a deposit or a withdrawal, or who repaired a claim. Older items don't say.
    pub by: Option<Signer>,
    /// How far a withdrawal is now. Others have none.
    pub status: Option<&'static str>,
    /// What a withdrawal says to its user.
    pub note: Option<Note>,
    /// Why a withdrawal is voided, for its user.
    pub void_reason: Option<OperatorReason>,
}

/// Which movements are asked for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct MovementFilter {
    /// Not before this time.
    pub from: Option<Timestamp>,
    /// Before this time.
    pub to: Option<Timestamp>,
    /// Only of this kind.
    pub kind: Option<MovementKind>,
}

/// A line of a user's history of claims.
#[derive(Clone, Debug)]
pub struct ClaimRecord {
    /// The packet.
    pub packet_id: PacketId,
    /// Who sent it.
    pub sender: UserId,
    /// The greeting that came with it.
    pub greeting: String,
    /// The slip.
    pub claim: Claim,
}
