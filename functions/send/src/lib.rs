//! `POST /packets`: a user sends a packet.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lambda_http::http::StatusCode;
use lambda_http::{Body, Request, Response};
use serde::Deserialize;
use shared::domain::{Amount, Limits, Passphrase, RequestKey, Split, UserId, is_plain};
use shared::http::{
    Answer, Code, Int, PacketBody, Problem, Route, before_deadline, caller, fields, given, header, parse_body, respond,
    route,
};
use shared::ports::{HotStore, Table};
use shared::service::{NewPacket, SendOutcome, SendPacket, Status};

const BODY_BYTES_MAX: usize = 128 * 1_024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SendBody {
    split: String,
    total_amount: Int,
    count: Int,
    #[serde(default, deserialize_with = "given")]
    greeting: Option<String>,
    #[serde(default, deserialize_with = "given")]
    starts_at: Option<String>,
    #[serde(default, deserialize_with = "given")]
    expires_in_s: Option<Int>,
    #[serde(default, deserialize_with = "given")]
    passphrase: Option<String>,
    #[serde(default, deserialize_with = "given")]
    recipients: Option<Vec<String>>,
}

/// Answers a request of the send function.
pub async fn handle<T: Table, H: HotStore>(send: &SendPacket<T, H>, request: Request) -> Response<Body> {
    let begun = Instant::now();
    let result = before_deadline(&request, answer(send, &request)).await;
    respond(&request, result, begun.elapsed())
}

async fn answer<T: Table, H: HotStore>(send: &SendPacket<T, H>, request: &Request) -> Result<Answer, Problem> {
    let Route::Send = route(request)? else { return Err(Problem::route_not_found()) };
    let sender = caller(request)?;
    let key: RequestKey = header(request, "idempotency-key")
        .and_then(|key| key.parse().ok())
        .ok_or_else(|| Problem::field("Idempotency-Key", "is required once: 1 to 64 characters of A-Z a-z 0-9 _ -"))?;
    let packet = new_packet(request, sender, send.limits())?;
    match send.send(packet, &key).await? {
        SendOutcome::Sent(terms) => {
            Ok(Answer::json(StatusCode::CREATED, &PacketBody::new(&terms, Status::Open))?.about(terms.id))
        }
        SendOutcome::Replayed(terms) => {
            // This is the first answer again, unchanged. The packet's own route shows its current state.
            let answer = Answer::ok(&PacketBody::new(&terms, Status::Open))?.about(terms.id);
            Ok(answer.with_outcome("replayed").with_header("idempotent-replayed", "true"))
        }
        SendOutcome::KeyReused => {
            Err(Problem::new(Code::IdempotencyKeyReused, "This Idempotency-Key was used for another packet."))
        }
        SendOutcome::StartOutOfRange => {
            let most = Limits::START_AHEAD_MAX.as_secs() / 86_400;
            Err(Problem::field("starts_at", format!("must be in the future, at most {most} days ahead")))
        }
        SendOutcome::InsufficientBalance => {
            Err(Problem::new(Code::InsufficientBalance, "The wallet holds less than the packet's total."))
        }
    }
}

/// The packet of a request's body, or the body's errors.
pub fn new_packet(request: &Request, sender: UserId, limits: &Limits) -> Result<NewPacket, Problem> {
    let body = parse_body(request, BODY_BYTES_MAX)?
        .ok_or_else(|| Problem::new(Code::InvalidRequest, "The body must be a JSON object."))?;
    within_limits(sender, body, limits)
}

/// The packet, or all errors.
fn within_limits(sender: UserId, body: SendBody, limits: &Limits) -> Result<NewPacket, Problem> {
    let mut fields = fields();
    let split = match &*body.split {
        "random" => Some(Split::Random),
        "equal" => Some(Split::Equal),
        _ => None,
    };
    let split = fields.check("split", split, "must be random or equal");
    let count = body.count.within(1..=limits.count_max.into()).and_then(|count| u32::try_from(count).ok());
    let count = fields.check("count", count, format!("must be an integer from 1 to {}", limits.count_max));
    // The limits of the total depend on the count.
    let total = count.and_then(|count| {
        let most = limits.slip_amount_max.checked_mul(count.into())?.minor_units();
        let total = body.total_amount.within(count.into()..=most).map(Amount::new);
        fields.check("total_amount", total, format!("must be an integer from {count} to {most} for {count} slips"))
    });
    let greeting = body.greeting.unwrap_or_default();
    let most = Limits::GREETING_CHARS_MAX;
    let greeting = Some(greeting).filter(|text| text.chars().count() <= most && is_plain(text));
    let reason = format!("must be at most {most} characters, without control or invisible characters");
    let greeting = fields.check("greeting", greeting, reason);
    let starts_at = match body.starts_at {
        None => Some(None),
        Some(text) => fields.check("starts_at", text.parse().ok().map(Some), "must be a time, as 2027-01-01T00:00:00.000Z"),
    };
    let expires_in = match body.expires_in_s {
        None => Some(Limits::EXPIRY_DEFAULT),
        Some(seconds) => {
            let most = Limits::EXPIRY_MAX.as_secs();
            let expiry = seconds.within(1..=most).map(Duration::from_secs);
            fields.check("expires_in_s", expiry, format!("must be an integer from 1 to {most}"))
        }
    };
    let passphrase = match body.passphrase {
        None => Some(None),
        Some(text) => passphrase(&text, &mut fields).map(Some),
    };
    let recipients = match body.recipients {
        None => Some(None),
        Some(users) => recipients(&users, &mut fields).map(Some),
    };
    fields.finish()?;
    match (split, total, count, greeting, starts_at, expires_in, passphrase, recipients) {
        (
            Some(split),
            Some(total),
            Some(count),
            Some(greeting),
            Some(starts_at),
            Some(expires_in),
            Some(passphrase),
            Some(recipients),
        ) => Ok(NewPacket { sender, split, total, count, greeting, starts_at, expires_in, passphrase, recipients }),
        _ => Err(Problem::new(Code::InvalidRequest, "The request is not valid.")),
    }
}

/// The passphrase, normalised. Its limits are those of the normalised form.
fn passphrase(text: &str, fields: &mut shared::http::Fields) -> Option<Passphrase> {
    let most = Limits::PASSPHRASE_CHARS_MAX;
    let passphrase = Passphrase::new(text);
    let good = (1..=most).contains(&passphrase.as_str().chars().count()) && !text.chars().any(char::is_control);
    let reason = format!("must be 1 to {most} characters after normalisation, without control characters");
    fields.check("passphrase", Some(passphrase).filter(|_| good), reason)
}

fn recipients(users: &[String], fields: &mut shared::http::Fields) -> Option<BTreeSet<UserId>> {
    let most = Limits::RECIPIENTS_MAX;
    let good_number = (1..=most).contains(&users.len()).then_some(());
    fields.check("recipients", good_number, format!("must be 1 to {most} user ids"))?;
    let mut distinct = BTreeSet::new();
    for (i, user) in users.iter().enumerate() {
        let field = format!("recipients[{i}]");
        let user: UserId = fields.check(&field, user.parse().ok(), "is not a user id")?;
        fields.check(&field, distinct.insert(user).then_some(()), "is a duplicate")?;
    }
    Some(distinct)
}
