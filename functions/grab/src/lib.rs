//! `POST /packets/{packet_id}/grab`: a user grabs a slip, or the operator does it for them.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod metric;

use std::time::Instant;

use lambda_http::{Body, Request, Response};
use serde::{Deserialize, Serialize};
use shared::domain::{PacketId, Passphrase, PassphraseDigest};
use shared::http::{Answer, Code, Operation, Problem, asked, before_deadline, parse_body, respond, user_of, voucher};
use shared::ports::{HotStore, Table};
use shared::service::{GrabOutcome, GrabSlip};
use shared::telemetry::{GrabEnd, Meter};

pub use metric::Telemetry;

const BODY_BYTES_MAX: usize = 16 * 1_024;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct GrabBody {
    passphrase: Option<String>,
}

#[derive(Serialize)]
struct GrabbedBody<'a> {
    outcome: &'static str,
    packet_id: PacketId,
    slip: u32,
    amount: shared::domain::Amount,
    currency: &'a str,
    grabbed_at: String,
    replayed: bool,
}

#[derive(Serialize)]
struct NotStartedBody {
    outcome: &'static str,
    packet_id: PacketId,
    starts_at: String,
    retry_after_ms: u64,
}

#[derive(Serialize)]
struct LostBody {
    outcome: &'static str,
    packet_id: PacketId,
}

/// Answers a request of the grab function.
pub async fn handle<T: Table, H: HotStore>(grab: &GrabSlip<T, H>, request: Request) -> Response<Body> {
    let begun = Instant::now();
    let result = before_deadline(&request, answer(grab, &request)).await;
    if let Err(problem) = &result {
        grab.meter().ended(end_of(problem));
    }
    respond(&request, result, begun.elapsed())
}

fn end_of(problem: &Problem) -> GrabEnd {
    if matches!(problem.code, Code::Unavailable | Code::Internal) { GrabEnd::Unavailable } else { GrabEnd::Refused }
}

async fn answer<T: Table, H: HotStore>(grab: &GrabSlip<T, H>, request: &Request) -> Result<Answer, Problem> {
    let asked = asked(request)?;
    if !matches!(asked.operation, Operation::GrabPacket | Operation::GrabPacketForUser) {
        return Err(Problem::route_not_found());
    }
    let user = user_of(request, &asked)?;
    let passphrase = passphrase(request)?;
    let packet_id: PacketId = asked.packet_id.parse().map_err(|_| Problem::packet_not_found())?;
    let passphrase = passphrase.map(|text| PassphraseDigest::new(packet_id, &Passphrase::new(&text)));

    match grab.grab(packet_id, &user, passphrase, &voucher(request, &asked)?).await? {
        GrabOutcome::Grabbed { claim, replayed } => {
            if replayed {
                grab.meter().replayed();
            }
            let outcome = GrabEnd::Grabbed.name();
            let (slip, amount, currency) = (claim.slip, claim.amount, grab.currency());
            let grabbed_at = claim.at.to_string();
            let body = GrabbedBody { outcome, packet_id, slip, amount, currency, grabbed_at, replayed };
            ended(grab.meter(), GrabEnd::Grabbed, &body).map(|answer| answer.with_slip(slip))
        }
        GrabOutcome::SoldOut => lost(grab.meter(), GrabEnd::SoldOut, packet_id),
        GrabOutcome::Expired => lost(grab.meter(), GrabEnd::Expired, packet_id),
        GrabOutcome::Closed => lost(grab.meter(), GrabEnd::Closed, packet_id),
        GrabOutcome::LimitReached => lost(grab.meter(), GrabEnd::LimitReached, packet_id),
        GrabOutcome::NotStarted { starts_at, retry_after } => {
            let outcome = GrabEnd::NotStarted.name();
            let retry_after_ms = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX);
            let body = NotStartedBody { outcome, packet_id, starts_at: starts_at.to_string(), retry_after_ms };
            ended(grab.meter(), GrabEnd::NotStarted, &body)
        }
        GrabOutcome::Refused(refusal) => Err(refusal.into()),
        GrabOutcome::NoTicket(fault) => Err(Problem::no_ticket(fault)),
        GrabOutcome::Suspended => Err(Problem::account_suspended()),
        GrabOutcome::NotFound => Err(Problem::packet_not_found()),
    }
}

fn lost(meter: &Meter, end: GrabEnd, packet_id: PacketId) -> Result<Answer, Problem> {
    ended(meter, end, &LostBody { outcome: end.name(), packet_id })
}

fn ended(meter: &Meter, end: GrabEnd, body: &impl Serialize) -> Result<Answer, Problem> {
    meter.ended(end);
    Ok(Answer::ok(body)?.with_outcome(end.name()))
}

/// The passphrase in a request's body. A text that can't be a packet's passphrase counts as a wrong one, and an
/// unneeded one is ignored. So only the body's limit applies.
pub fn passphrase(request: &Request) -> Result<Option<String>, Problem> {
    let body: GrabBody = parse_body(request, BODY_BYTES_MAX)?.unwrap_or_default();
    Ok(body.passphrase)
}
