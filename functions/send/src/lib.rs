//! `POST /packets`: a user sends a packet, or the operator does it for them. `POST /operator/packets/{packet_id}/close`: the operator
//! closes one; `POST /operator/references/{reference}/close`: all that have a reference. `POST /me/withdrawals`: a user asks for money out of their wallet.

mod body;

use std::sync::Arc;
use std::time::Instant;

use lambda_http::http::StatusCode;
use lambda_http::{Body, Request, Response};
use shared::domain::{End, Limits, PacketId, Summary, Terms, UserId};
use shared::http::{
    Answer, Code, Limit, Operation, PacketBody, Problem, ReferenceBody, Viewer, WithdrawalBody, admit_caller, asked,
    before_deadline, idempotency_key, operator, reason, respond, selection_of, user_of, withdrawal_made,
    withdrawal_of_user,
};
use shared::ports::{HotStore, Table};
use shared::service::{ClosePacket, PacketView, SendOutcome, SendPacket, Wallets};

pub use body::new_packet;

/// When a client may ask again while sending is paused, in seconds.
const PAUSED_RETRY_S: u64 = 60;

/// Answers a request of the send function.
pub async fn handle<T: Table, H: HotStore>(
    send: &SendPacket<T, H>,
    close: &ClosePacket<T, H>,
    wallets: &Wallets<T>,
    request: Request,
) -> Response<Body> {
    let begun = Instant::now();
    let result = before_deadline(&request, answer(send, close, wallets, &request)).await;
    respond(&request, result, begun.elapsed())
}

async fn answer<T: Table, H: HotStore>(
    send: &SendPacket<T, H>,
    close: &ClosePacket<T, H>,
    wallets: &Wallets<T>,
    request: &Request,
) -> Result<Answer, Problem> {
    let asked = asked(request)?;
    match asked.operation {
        Operation::SendPacket | Operation::SendPacketForUser => {
            send_packet(send, request, user_of(request, &asked)?).await
        }
        Operation::ClosePacket => close_packet(close, request, asked.packet_id).await,
        Operation::CloseReference => close_reference(close, request, asked.id).await,
        Operation::AskWithdrawal => ask_withdrawal(wallets, request).await,
        _ => Err(Problem::route_not_found()),
    }
}

async fn close_packet<T: Table, H: HotStore>(
    close: &ClosePacket<T, H>,
    request: &Request,
    id: &str,
) -> Result<Answer, Problem> {
    let by = operator(request)?;
    let reason = reason(request)?;
    let id: PacketId = id.parse().map_err(|_| Problem::packet_not_found())?;
    let packet = close.close(id, reason, Some(&by)).await?.ok_or_else(Problem::packet_not_found)?;
    Answer::ok_at(&PacketBody::single(&packet, Viewer::Operator), close.now())
}

async fn close_reference<T: Table, H: HotStore>(
    close: &ClosePacket<T, H>,
    request: &Request,
    reference: &str,
) -> Result<Answer, Problem> {
    let by = operator(request)?;
    let (reference, of) = selection_of(request, reference)?;
    let totals = close.close_all(&of.sender, &reference, reason(request)?, Some(&by)).await?;
    Answer::ok(&ReferenceBody::new(&reference, &of.sender, close.currency(), &totals, close.now()))
}

async fn ask_withdrawal<T: Table>(wallets: &Wallets<T>, request: &Request) -> Result<Answer, Problem> {
    let user = admit_caller(request)?;
    let asked = withdrawal_of_user(request)?;
    let refused = || Problem::new(Code::Forbidden, "Users can't ask for withdrawals here.");
    let (status, made) = withdrawal_made(wallets.ask(&user, &asked).await?.ok_or_else(refused)?)?;
    let body = WithdrawalBody::new(&made, &wallets.wallet(&user).await?, wallets.currency(), Viewer::User(&user));
    Answer::json(status, &body)
}

async fn send_packet<T: Table, H: HotStore>(
    send: &SendPacket<T, H>,
    request: &Request,
    sender: UserId,
) -> Result<Answer, Problem> {
    let key = idempotency_key(request)?;
    let packet = new_packet(request, sender, send.limits())?;
    match send.send(packet, &key).await? {
        SendOutcome::Sent(terms) => {
            let id = terms.id;
            Ok(Answer::json(StatusCode::CREATED, &first_answer(&as_sent(terms)))?.about(id))
        }
        SendOutcome::Replayed(terms) => {
            // This is the first answer again, unchanged. The packet's own route shows its current state.
            let id = terms.id;
            let answer = Answer::ok(&first_answer(&as_sent(terms)))?.about(id);
            Ok(answer.with_outcome("replayed").with_header("idempotent-replayed", "true"))
        }
        SendOutcome::KeyReused => {
            Err(Problem::new(Code::IdempotencyKeyReused, "This Idempotency-Key was used for another packet."))
        }
        SendOutcome::StartOutOfRange => {
            let days = Limits::START_AHEAD_MAX.as_secs() / 86_400;
            Err(Problem::field("starts_at", format!("must be in the future, at most {days} days ahead")))
        }
        SendOutcome::NoTicketKeys => {
            Err(Problem::field("eligibility", "needs the keys of tickets, which this deployment does not have"))
        }
        SendOutcome::LimitNeedsLedger => Err(Problem::field(
            "limit",
            "needs GRAB_ACK=ledger: this deployment answers a winner before the ledger has counted the win",
        )),
        SendOutcome::Paused => Err(Problem {
            retry_after_s: Some(PAUSED_RETRY_S),
            ..Problem::new(Code::SendingPaused, "The operator has paused sending.")
        }),
        SendOutcome::Suspended => Err(Problem::account_suspended()),
        SendOutcome::DailyLimitExceeded { most, resets_at } => Err(Problem {
            limit: Some(Box::new(Limit::AmountADay(most))),
            resets_at: Some(resets_at),
            ..Problem::new(Code::DailyLimitExceeded, "The sender would have sent more than the limit of a day.")
        }),
        SendOutcome::InsufficientBalance => {
            Err(Problem::new(Code::InsufficientBalance, "The wallet holds less than the packet's total."))
        }
    }
}

/// A packet as it is when it is sent.
fn as_sent(terms: Arc<Terms>) -> PacketView {
    let now = terms.created_at;
    PacketView::new(terms, &End::default(), Summary::default(), false, now)
}

/// What its sender, and the operator who sends for them, see of it.
fn first_answer(packet: &PacketView) -> PacketBody<'_> {
    PacketBody::single(packet, Viewer::User(&packet.terms.sender))
}
