//! `/wallets/…`: the operator moves money in and out, and views wallets. `/operator/users/…`: they suspend users, and set their limits.
//! `/operator/sending`: they pause sending. `/operator/webhooks`: they enable the receiver of webhooks.

mod lists;

use std::time::Instant;

use lambda_http::http::StatusCode;
use lambda_http::{Body, Request, Response};
use serde::{Deserialize, Serialize};
use shared::domain::{
    Amount, MAX_BALANCE, MAX_MOVEMENT, Mandate, OperatorReason, ReasonError, RequestKey, Timestamp, UserId, Withdrawal,
    WithdrawalEnd,
};
use shared::http::{
    Answer, Asked, Code, Fields, Int, LimitsBody, ListBody, MovementRow, MovementsAsked, Operation, Problem,
    ReceiverBody, SendingBody, SuspensionBody, Viewer, WalletBody, Why, WithdrawalBody, WithdrawalRow, asked,
    before_deadline, movements_asked, operator, optional, page_with, required_body, respond, withdrawal_made,
    withdrawal_of_operator, withdrawal_posted, withdrawal_voided,
};
use shared::ledger::{DepositOutcome, EndOutcome};
use shared::ports::Table;
use shared::service::Wallets;

const BODY_BYTES_MAX: usize = 16 * 1_024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DepositBody {
    amount: Int,
    reason: Option<String>,
}

#[derive(Serialize)]
struct SuspendedBody<'a> {
    user_id: &'a UserId,
    #[serde(flatten)]
    suspension: SuspensionBody<'a>,
}

/// Answers a request of the wallet function.
pub async fn handle<T: Table>(wallets: &Wallets<T>, request: Request) -> Response<Body> {
    let begun = Instant::now();
    let result = before_deadline(&request, answer(wallets, &request)).await;
    respond(&request, result, begun.elapsed())
}

async fn answer<T: Table>(wallets: &Wallets<T>, request: &Request) -> Result<Answer, Problem> {
    let asked = asked(request)?;
    let by = operator(request)?;
    let Asked { user_id: user, id, .. } = asked;
    match asked.operation {
        Operation::Deposit => {
            let (user, id, amount, reason) = deposit(request, user, id)?;
            let mandate = Mandate { by: Some(&by), reason: reason.as_ref(), key: None };
            let outcome = wallets.deposit(&user, &id, amount, mandate).await?;
            deposited(wallets, &user, outcome).await
        }
        Operation::Withdraw => {
            let (user, asked, reason) = withdrawal_of_operator(request, user, id)?;
            let mandate = Mandate { by: Some(&by), reason: reason.as_ref(), key: None };
            let outcome = wallets.withdraw(&user, &asked, mandate).await?;
            let (status, made) = withdrawal_made(outcome)?;
            shown(wallets, status, &made).await
        }
        Operation::GetWithdrawal => {
            let user = user_id(user)?;
            let found = match id.parse() {
                Ok(id) => wallets.withdrawal(&user, &id).await?,
                Err(_) => None,
            };
            let found = found.ok_or_else(withdrawal_not_found)?;
            shown(wallets, StatusCode::OK, &found).await
        }
        Operation::PostWithdrawal => {
            let (user, id, amount, reason) = withdrawal_posted(request, user, id)?;
            let mandate = Mandate { by: Some(&by), reason: reason.as_ref(), key: None };
            end(wallets, &user, &id, WithdrawalEnd::Post(amount), mandate).await
        }
        Operation::VoidWithdrawal => {
            let (user, id, reason) = withdrawal_voided(request, user, id)?;
            let mandate = Mandate { by: Some(&by), reason: reason.as_ref(), key: None };
            end(wallets, &user, &id, WithdrawalEnd::Void(reason.clone()), mandate).await
        }
        Operation::ListWithdrawals => withdrawals(wallets, request).await,
        Operation::GetWallet => {
            let user = user_id(user)?;
            let (wallet, suspension) = wallets.account(&user).await?;
            Answer::ok(&WalletBody::new(&user, &wallet, wallets.currency()).with_suspension(suspension.as_ref()))
        }
        Operation::SuspendUser => {
            let (user, reason, grabs) = suspension(request, user)?;
            let why = Why::new(request, None)?;
            let suspension = wallets.suspend(&user, reason, grabs, why.mandate(&by)).await?;
            Answer::ok(&SuspendedBody { user_id: &user, suspension: SuspensionBody::new(&suspension) })
        }
        Operation::LiftSuspension => {
            let (user, why) = (user_id(user)?, Why::of_body(request)?);
            wallets.lift_suspension(&user, why.mandate(&by)).await?;
            Ok(Answer::nothing())
        }
        Operation::GetUserLimits => {
            let user = user_id(user)?;
            Answer::ok(&LimitsBody::new(&user, wallets.limits(&user).await?.as_ref()))
        }
        Operation::SetUserLimits => {
            let (user, [daily_sent_max, deposit_max], why) = limits(request, user)?;
            let limits = wallets.set_limits(&user, daily_sent_max, deposit_max, why.mandate(&by)).await?;
            Answer::ok(&LimitsBody::new(&user, Some(&limits)))
        }
        Operation::GetSending => Answer::ok(&SendingBody::new(wallets.sending().await?.as_ref())),
        Operation::DecideSending => {
            let (paused, reason) = sending(request)?;
            let why = Why::new(request, reason)?;
            let decision = wallets.decide_sending(paused, why.mandate(&by)).await?;
            Answer::ok(&SendingBody::new(Some(&decision)))
        }
        Operation::GetWebhooks => {
            let (receiver, now) = wallets.receiver().await?;
            Answer::ok(&ReceiverBody::new(&receiver, now))
        }
        Operation::EnableWebhooks => {
            let body: ReceiverAsked = required_body(request, BODY_BYTES_MAX)?;
            let mut fields = Fields::default();
            let reason = fields.text("reason", body.reason);
            fields.finish()?;
            let mandate = Mandate { by: Some(&by), reason: reason.as_ref(), key: None };
            let (receiver, now) = wallets.enable_receiver(body.enabled, mandate).await?;
            Answer::ok(&ReceiverBody::new(&receiver, now))
        }
        Operation::ListMovements => movements(wallets, request, user_id(user)?).await,
        Operation::FindMovements => lists::movements_with_id(wallets, request).await,
        Operation::ListDeeds => lists::deeds(wallets, request).await,
        Operation::ListUsers => lists::users(wallets, request).await,
        Operation::ListWins => lists::wins(wallets, request, &user_id(user)?).await,
        _ => Err(Problem::route_not_found()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SuspensionAsked {
    reason: String,
    grabs: Option<bool>,
}

/// The user and the reason of a suspension, and whether it is also for grabs; or all errors.
fn suspension(request: &Request, user: &str) -> Result<(UserId, OperatorReason, bool), Problem> {
    let body: SuspensionAsked = required_body(request, BODY_BYTES_MAX)?;
    let mut fields = Fields::default();
    let reason = fields.text("reason", Some(body.reason));
    let user = fields.check("user_id", user.parse().ok(), "is not a user id");
    fields.complete(|| Some((user?, reason?, body.grabs.unwrap_or_default())))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SendingAsked {
    paused: bool,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReceiverAsked {
    enabled: bool,
    reason: Option<String>,
}

/// Whether sending is to be paused, and why.
fn sending(request: &Request) -> Result<(bool, Option<OperatorReason>), Problem> {
    let body: SendingAsked = required_body(request, BODY_BYTES_MAX)?;
    let reason = body.reason.map(|text| text.parse()).transpose();
    let reason = reason.map_err(|error: ReasonError| Problem::field("reason", error.to_string()))?;
    if body.paused && reason.is_none() {
        return Err(Problem::field("reason", "is required"));
    }
    Ok((body.paused, reason))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsAsked {
    daily_sent_max: Option<Int>,
    deposit_max: Option<Int>,
    reason: Option<String>,
}

/// The user, the limits that a request sets for them, and why; or all errors. A limit that is left out is the deployment's.
fn limits(request: &Request, user: &str) -> Result<(UserId, [Option<Amount>; 2], Why), Problem> {
    let body: LimitsAsked = required_body(request, BODY_BYTES_MAX)?;
    let mut fields = Fields::default();
    let user = fields.check("user_id", user.parse().ok(), "is not a user id");
    let mut limit = |name: &str, asked: Option<Int>, most: Amount| {
        let most = most.minor_units();
        let amount = asked?.within(1..=most).map(Amount::new);
        fields.check(name, amount, format!("must be an integer from 1 to {most}"))
    };
    let limits = [
        limit("daily_sent_max", body.daily_sent_max, MAX_BALANCE),
        limit("deposit_max", body.deposit_max, MAX_MOVEMENT),
    ];
    let reason = fields.text("reason", body.reason);
    let why = Why::new(request, reason);
    let (user, limits) = fields.complete(|| Some((user?, limits)))?;
    Ok((user, limits, why?))
}

fn user_id(text: &str) -> Result<UserId, Problem> {
    text.parse().map_err(|error| Problem::field("user_id", format!("{error}")))
}

/// The user, the id, the amount and the reason of a deposit, or all errors.
pub fn deposit(
    request: &Request,
    user: &str,
    id: &str,
) -> Result<(UserId, RequestKey, Amount, Option<OperatorReason>), Problem> {
    let body: DepositBody = required_body(request, BODY_BYTES_MAX)?;
    let mut fields = Fields::default();
    let user = fields.check("user_id", user.parse().ok(), "is not a user id");
    let id = fields.check("deposit_id", id.parse().ok(), "must be 1 to 64 characters of A-Z a-z 0-9 _ -");
    let most = MAX_MOVEMENT.minor_units();
    let amount = body.amount.within(1..=most).map(Amount::new);
    let amount = fields.check("amount", amount, format!("must be an integer from 1 to {most}"));
    let reason = fields.text("reason", body.reason);
    fields.complete(|| Some((user?, id?, amount?, reason)))
}

async fn deposited<T: Table>(wallets: &Wallets<T>, user: &UserId, outcome: DepositOutcome) -> Result<Answer, Problem> {
    let status = match outcome {
        DepositOutcome::Moved => StatusCode::CREATED,
        DepositOutcome::Replayed => StatusCode::OK,
        DepositOutcome::IdReused => {
            return Err(Problem::new(Code::IdempotencyKeyReused, "This id was used for another amount."));
        }
        DepositOutcome::TooFull => {
            return Err(Problem::field("amount", format!("would raise the balance above {MAX_BALANCE}")));
        }
        DepositOutcome::AboveLimit(most) => {
            return Err(Problem::field("amount", format!("must be an integer from 1 to {most}")));
        }
    };
    Answer::json(status, &WalletBody::new(user, &wallets.wallet(user).await?, wallets.currency()))
}

async fn end<T: Table>(
    wallets: &Wallets<T>,
    user: &UserId,
    id: &RequestKey,
    end: WithdrawalEnd,
    mandate: Mandate<'_>,
) -> Result<Answer, Problem> {
    match wallets.end_withdrawal(user, id, end, mandate).await? {
        EndOutcome::Ended(ended) | EndOutcome::Replayed(ended) => shown(wallets, StatusCode::OK, &ended).await,
        EndOutcome::Posted => {
            Err(Problem::new(Code::WithdrawalPosted, "The withdrawal is posted, and not as this request asks."))
        }
        EndOutcome::Voided => Err(Problem::new(Code::WithdrawalVoided, "The withdrawal is voided.")),
        EndOutcome::NotFound => Err(withdrawal_not_found()),
        EndOutcome::AboveAmount(most) => {
            Err(Problem::field("amount", format!("must be an integer from 1 to {most}, the reserved amount")))
        }
    }
}

/// A withdrawal, and its user's wallet as it is now.
async fn shown<T: Table>(wallets: &Wallets<T>, status: StatusCode, withdrawal: &Withdrawal) -> Result<Answer, Problem> {
    let wallet = wallets.wallet(&withdrawal.user).await?;
    Answer::json(status, &WithdrawalBody::new(withdrawal, &wallet, wallets.currency(), Viewer::Operator))
}

fn withdrawal_not_found() -> Problem {
    Problem::new(Code::WithdrawalNotFound, "There is no such withdrawal.")
}

/// Those that are pending, of all users; or a user's, also those that ended.
async fn withdrawals<T: Table>(wallets: &Wallets<T>, request: &Request) -> Result<Answer, Problem> {
    let mut fields = Fields::default();
    let state = |text: &str| ["pending", "posted", "voided"].into_iter().find(|state| *state == text);
    let state = optional(&mut fields, request, "state", "must be pending, posted or voided", state);
    let user = optional(&mut fields, request, "user_id", "is not a user id", |text| text.parse::<UserId>().ok());
    let a_time = "must be a time such as 2026-11-20T13:30:00.120Z";
    let before = optional(&mut fields, request, "before", a_time, |text| text.parse::<Timestamp>().ok());
    let until = before.map_or(u64::MAX, Timestamp::ms);
    let row = |withdrawal| WithdrawalRow::new(withdrawal, Viewer::Operator);
    if let Some(user) = user {
        let list = format!("{} withdrawals of user {user} before {until}", state.unwrap_or("all"));
        let page = page_with(fields, request, &list)?;
        let slice = wallets.withdrawals_of(&user, state, before, page.cursor, page.limit).await?;
        return Answer::ok(&ListBody::new("withdrawals", &list, &slice, row));
    }
    if state.is_some_and(|state| state != "pending") {
        fields.check("user_id", None::<()>, "is required for those that ended");
    }
    let list = format!("pending withdrawals before {until}");
    let page = page_with(fields, request, &list)?;
    let slice = wallets.pending_withdrawals(before, page.cursor, page.limit).await?;
    Answer::ok(&ListBody::new("withdrawals", &list, &slice, row))
}

async fn movements<T: Table>(wallets: &Wallets<T>, request: &Request, user: UserId) -> Result<Answer, Problem> {
    let MovementsAsked { filter, page, list } = movements_asked(request, &user)?;
    let slice = wallets.movements(&user, filter, page.cursor, page.limit).await?;
    let row = |movement| MovementRow::new(movement, Viewer::Operator);
    Answer::ok(&ListBody::new("movements", &list, &slice, row))
}
