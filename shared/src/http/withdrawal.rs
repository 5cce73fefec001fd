//! What requests for withdrawals say, and their answers.

use lambda_http::Request;
use lambda_http::http::StatusCode;
use serde::{Deserialize, Deserializer};

use super::body::{Fields, Int, parse_body, required_body};
use super::problem::{Code, Limit, Problem};
use super::support::reason_of_body;
use crate::domain::{
    Amount, Limits, MAX_MOVEMENT, OperatorReason, RequestKey, Requester, UserId, Withdrawal, WithdrawalRequest,
};
use crate::service::WithdrawalOutcome;

const BODY_BYTES_MAX: usize = 16 * 1_024;
const ID: &str = "must be 1 to 64 characters of A-Z a-z 0-9 _ -";

fn amount(fields: &mut Fields, asked: Int, most: u64) -> Option<Amount> {
    let amount = asked.within(1..=most).map(Amount::new);
    fields.check("amount", amount, format!("must be an integer from 1 to {most}"))
}

/// The user, the withdrawal and the reason of the operator's request, or all errors.
pub fn withdrawal_of_operator(
    request: &Request,
    user: &str,
    id: &str,
) -> Result<(UserId, WithdrawalRequest, Option<OperatorReason>), Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        amount: Int,
        pending: Option<bool>,
        note: Option<String>,
        reason: Option<String>,
    }
    let body: Asked = required_body(request, BODY_BYTES_MAX)?;
    let mut fields = Fields::default();
    let user = fields.check("user_id", user.parse().ok(), "is not a user id");
    let id = fields.check("withdrawal_id", id.parse().ok(), ID);
    let amount = amount(&mut fields, body.amount, MAX_MOVEMENT.minor_units());
    let note = fields.text("note", body.note);
    let reason = fields.text("reason", body.reason);
    let (pending, requester) = (body.pending.unwrap_or_default(), Requester::Operator);
    let made = || Some((user?, WithdrawalRequest { id: id?, amount: amount?, pending, note, requester }, reason));
    fields.complete(made)
}

/// The withdrawal that a user asks for, or all errors. It is always pending.
pub fn withdrawal_of_user(request: &Request) -> Result<WithdrawalRequest, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        id: String,
        amount: Int,
        note: Option<String>,
    }
    let body: Asked = required_body(request, BODY_BYTES_MAX)?;
    let mut fields = Fields::default();
    let id = fields.check("id", body.id.parse().ok(), ID);
    let amount = amount(&mut fields, body.amount, MAX_MOVEMENT.minor_units());
    let note = fields.text("note", body.note);
    let requester = Requester::User;
    fields.complete(|| Some(WithdrawalRequest { id: id?, amount: amount?, pending: true, note, requester }))
}

/// The user, the id, the amount and the reason of a request to post a withdrawal, or all errors. Left out, the amount is all of it. So it is not left
/// out where it is `null`: a program that does not know its amount must not pay all.
pub fn withdrawal_posted(
    request: &Request,
    user: &str,
    id: &str,
) -> Result<(UserId, RequestKey, Option<Amount>, Option<OperatorReason>), Problem> {
    #[derive(Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        #[expect(clippy::option_option, reason = "it is absent, null or a number")]
        #[serde(default, deserialize_with = "or_null")]
        amount: Option<Option<Int>>,
        reason: Option<String>,
    }
    let body: Asked = parse_body(request, BODY_BYTES_MAX)?.unwrap_or_default();
    let mut fields = Fields::default();
    let user = fields.check("user_id", user.parse().ok(), "is not a user id");
    let id = fields.check("withdrawal_id", id.parse().ok(), ID);
    let amount = match body.amount {
        None => None,
        Some(None) => fields.check("amount", None, "must not be null: without it, all is paid out"),
        Some(Some(asked)) => amount(&mut fields, asked, MAX_MOVEMENT.minor_units()),
    };
    let reason = fields.text("reason", body.reason);
    fields.complete(|| Some((user?, id?, amount, reason)))
}

/// A field that is there, with a value or `null`.
#[expect(clippy::option_option, reason = "it is absent, null or a value")]
fn or_null<'de, D: Deserializer<'de>, V: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<V>>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// The user, the id and the reason of a request to void a withdrawal, or all errors.
pub fn withdrawal_voided(
    request: &Request,
    user: &str,
    id: &str,
) -> Result<(UserId, RequestKey, Option<OperatorReason>), Problem> {
    let mut fields = Fields::default();
    let reason = reason_of_body(&mut fields, request)?;
    let user = fields.check("user_id", user.parse().ok(), "is not a user id");
    let id = fields.check("withdrawal_id", id.parse().ok(), ID);
    fields.complete(|| Some((user?, id?, reason)))
}

/// The withdrawal that a request has made, now or before, and the status of the answer.
///
/// # Errors
/// `invalid-request`, `idempotency-key-reused`, `insufficient-balance`, `account-suspended`, `too-many-pending`.
pub fn withdrawal_made(outcome: WithdrawalOutcome) -> Result<(StatusCode, Withdrawal), Problem> {
    match outcome {
        WithdrawalOutcome::Made(made) => Ok((StatusCode::CREATED, made)),
        WithdrawalOutcome::Replayed(made) => Ok((StatusCode::OK, made)),
        WithdrawalOutcome::IdReused => {
            Err(Problem::new(Code::IdempotencyKeyReused, "This id was used for another withdrawal."))
        }
        WithdrawalOutcome::InsufficientBalance => {
            Err(Problem::new(Code::InsufficientBalance, "The wallet holds less than the withdrawal."))
        }
        WithdrawalOutcome::BelowLimit(least) => {
            Err(Problem::field("amount", format!("must be an integer from {least} to {MAX_MOVEMENT}")))
        }
        WithdrawalOutcome::Suspended => Err(Problem::account_suspended()),
        WithdrawalOutcome::TooManyPending => Err(Problem {
            limit: Some(Box::new(Limit::PendingWithdrawals(Limits::PENDING_WITHDRAWALS))),
            ..Problem::new(Code::TooManyPending, "Too many of the user's withdrawals are pending.")
        }),
    }
}
