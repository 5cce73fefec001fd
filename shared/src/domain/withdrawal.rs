//! Withdrawals: money that leaves a wallet for the outside, at once or in two steps.

use super::id::{RequestKey, Signer, UserId};
use super::money::Amount;
use super::operator::OperatorReason;
use super::time::Timestamp;

/// What a withdrawal says to its user: a text under the rule of the operator's reasons.
pub type Note = OperatorReason;

/// Who asked for a withdrawal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Requester {
    /// The operator.
    Operator,
    /// The wallet's owner.
    User,
}

impl Requester {
    /// The name that answers use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::User => "user",
        }
    }
}

/// A request to take money out of a wallet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WithdrawalRequest {
    /// Its id, one for each withdrawal of a user.
    pub id: RequestKey,
    /// How much.
    pub amount: Amount,
    /// Whether the money is only reserved, until the withdrawal is posted or voided.
    pub pending: bool,
    /// What the user sees of it.
    pub note: Option<Note>,
    /// Who asks for it.
    pub requester: Requester,
}

impl WithdrawalRequest {
    /// The operator's, of one that is posted at once.
    pub const fn at_once(id: RequestKey, amount: Amount) -> Self {
        Self { id, amount, pending: false, note: None, requester: Requester::Operator }
    }

    /// The operator's, of one that is pending at first.
    pub fn pending(id: RequestKey, amount: Amount) -> Self {
        Self { pending: true, ..Self::at_once(id, amount) }
    }
}

/// How far a withdrawal is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WithdrawalState {
    /// The money is reserved.
    Pending,
    /// This much of it has left. The rest is back in the wallet.
    Posted(Amount),
    /// All of it is back in the wallet.
    Voided,
}

impl WithdrawalState {
    /// The name that answers use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Posted(_) => "posted",
            Self::Voided => "voided",
        }
    }
}

/// A withdrawal.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Withdrawal {
    /// The wallet's owner.
    pub user: UserId,
    /// What was asked for.
    pub request: WithdrawalRequest,
    /// How far it is.
    pub state: WithdrawalState,
    /// When the money left the balance.
    pub at: Timestamp,
    /// The principal who signed the request. A user's own has none.
    pub by: Option<Signer>,
    /// When a pending one ended, and the principal who signed that.
    pub ended: Option<(Timestamp, Option<Signer>)>,
    /// Why it is voided, for its user.
    pub void_reason: Option<OperatorReason>,
}

/// The end of a pending withdrawal.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WithdrawalEnd {
    /// This much was paid out; `None`: all.
    Post(Option<Amount>),
    /// Nothing was, for this reason.
    Void(Option<OperatorReason>),
}
