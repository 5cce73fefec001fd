//! `POST /packets`: a user sends a packet, or the operator does it for them.

mod body;

use std::sync::Arc;
use std::time::Instant;

use lambda_http::http::StatusCode;
use lambda_http::{Body, Request, Response};
use shared::domain::{Limits, RequestKey, Summary, Terms};
use shared::http::{
    Answer, Code, PacketBody, Problem, Route, Viewer, before_deadline, header, respond, route, user_of,
};
use shared::ports::{HotStore, Table};
use shared::service::{PacketView, SendOutcome, SendPacket, Status};

pub use body::new_packet;

/// Answers a request of the send function.
pub async fn handle<T: Table, H: HotStore>(send: &SendPacket<T, H>, request: Request) -> Response<Body> {
    let begun = Instant::now();
    let result = before_deadline(&request, answer(send, &request)).await;
    respond(&request, result, begun.elapsed())
}

async fn answer<T: Table, H: HotStore>(send: &SendPacket<T, H>, request: &Request) -> Result<Answer, Problem> {
    let Route::Send(who) = route(request)? else { return Err(Problem::route_not_found()) };
    let sender = user_of(request, who)?;
    let key: RequestKey = header(request, "idempotency-key")
        .and_then(|key| key.parse().ok())
        .ok_or_else(|| Problem::field("Idempotency-Key", "is required once: 1 to 64 characters of A-Z a-z 0-9 _ -"))?;
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
        SendOutcome::InsufficientBalance => {
            Err(Problem::new(Code::InsufficientBalance, "The wallet holds less than the packet's total."))
        }
    }
}

/// A packet as it is when it is sent.
fn as_sent(terms: Arc<Terms>) -> PacketView {
    let status = if terms.guard.starts_at.is_some() { Status::Scheduled } else { Status::Open };
    PacketView { terms, status, summary: Summary::default(), mine: None, is_decided: false }
}

/// What its sender, and the operator who sends for them, see of it.
fn first_answer(packet: &PacketView) -> PacketBody<'_> {
    PacketBody::single(packet, Viewer::User(&packet.terms.sender))
}
