use std::time::Duration;

use lambda_http::http::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, ETAG, HeaderName, HeaderValue,
    IF_NONE_MATCH, RETRY_AFTER, VARY,
};
use lambda_http::http::{HeaderMap, Response, StatusCode};
use lambda_http::{Body, Request};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::problem::{Code, Problem};
use super::request::{request_id, signer, trace_id, user_of_token};
use super::route::asked;
use crate::domain::{PacketId, Timestamp};
use crate::logs;
use crate::service::Failure;

/// Every answer has the id under which logs have its request.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// An answer that went well.
#[derive(Debug)]
pub struct Answer {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Vec<u8>,
    content_type: &'static str,
    keeping: Option<Keeping>,
    /// The tag of the body, if it is not one of its every byte.
    weak_tag: Option<String>,
    /// How the request ended, for the log.
    outcome: &'static str,
    /// The packet, if the request's path does not name it.
    packet_id: Option<PacketId>,
    /// The slip that the caller has, for the log.
    slip: Option<u32>,
}

/// How long a client may keep an answer and show it again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Keeping {
    /// The client must ask each time whether the answer is still valid.
    UntilAsked,
    /// The client may show it for a day without asking: it never changes.
    ForADay,
}

impl Keeping {
    const fn cache_control(self) -> &'static str {
        match self {
            Self::UntilAsked => "private, no-cache",
            Self::ForADay => "private, max-age=86400",
        }
    }
}

impl Answer {
    /// An answer with this status, and `body` as JSON.
    pub fn json(status: StatusCode, body: &impl Serialize) -> Result<Self, Problem> {
        let body =
            serde_json::to_vec(body).map_err(|_| Problem::new(Code::Internal, "Something went wrong on our side."))?;
        Ok(Self { status, body, ..Self::nothing() })
    }

    /// 200 with `body` as JSON.
    pub fn ok(body: &impl Serialize) -> Result<Self, Problem> {
        Self::json(StatusCode::OK, body)
    }

    /// 200 with `body` as JSON and the server's time `now` as its last field. The time is no part of the answer's tag, or no client
    /// would ever have the current answer. The tag is therefore weak (RFC 9110, 8.8.1).
    pub fn ok_at(body: &impl Serialize, now: Timestamp) -> Result<Self, Problem> {
        #[derive(Serialize)]
        struct Dated<'a, B> {
            #[serde(flatten)]
            body: &'a B,
            now: String,
        }
        let weak_tag = Some(format!("W/{}", tag(&Self::ok(body)?.body)));
        Ok(Self { weak_tag, ..Self::ok(&Dated { body, now: now.to_string() })? })
    }

    /// 200 with a CSV file of this name, which browsers store.
    pub fn sheet(name: &str, body: Vec<u8>) -> Self {
        let disposition = HeaderValue::try_from(format!("attachment; filename=\"{name}\"")).ok();
        let headers = disposition.into_iter().map(|value| (CONTENT_DISPOSITION, value)).collect();
        Self { status: StatusCode::OK, headers, body, content_type: "text/csv; charset=utf-8", ..Self::nothing() }
    }

    /// 204, without a body.
    #[must_use]
    pub const fn nothing() -> Self {
        Self {
            status: StatusCode::NO_CONTENT,
            headers: Vec::new(),
            body: Vec::new(),
            content_type: "application/json",
            keeping: None,
            weak_tag: None,
            outcome: "ok",
            packet_id: None,
            slip: None,
        }
    }

    /// The same answer, for which the log says `outcome` and not "ok".
    #[must_use]
    pub fn with_outcome(self, outcome: &'static str) -> Self {
        Self { outcome, ..self }
    }

    /// The same answer, for which the log names this slip of the packet.
    #[must_use]
    pub fn with_slip(self, slip: u32) -> Self {
        Self { slip: Some(slip), ..self }
    }

    /// The same answer, for which the log names this packet: the request's path does not.
    #[must_use]
    pub fn about(self, packet_id: PacketId) -> Self {
        Self { packet_id: Some(packet_id), ..self }
    }

    /// The same answer with one more header.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((HeaderName::from_static(name), HeaderValue::from_static(value)));
        self
    }

    /// An answer that the client may keep. It carries an `ETag`; a client that has it already receives 304.
    #[must_use]
    pub const fn to_keep(mut self, keeping: Keeping) -> Self {
        self.keeping = Some(keeping);
        self
    }

    /// The response to `request`.
    fn into_response(self, request: &Request) -> Response<Body> {
        let Self { status, mut headers, body, content_type, keeping, weak_tag, .. } = self;
        let Some(keeping) = keeping else { return response(status, content_type, headers, body) };
        let tag = weak_tag.unwrap_or_else(|| tag(&body));
        let is_known = names_tag(request.headers(), &tag);
        headers.push((CACHE_CONTROL, HeaderValue::from_static(keeping.cache_control())));
        // Another user on the same machine receives an answer of their own.
        headers.push((VARY, HeaderValue::from_name(AUTHORIZATION)));
        headers.extend(HeaderValue::try_from(tag).ok().map(|tag| (ETAG, tag)));
        if !is_known {
            return response(status, content_type, headers, body);
        }
        let mut response = Response::new(Body::Empty);
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response.headers_mut().extend(headers);
        response
    }
}

/// A strong tag of these bytes.
fn tag(bytes: &[u8]) -> String {
    format!("\"{}\"", hex::encode(&Sha256::digest(bytes)[..16]))
}

/// A tag without the mark of a weak one.
fn opaque(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

/// Whether a request's `If-None-Match` says that its client has the answer with this `tag`. Weak tags count too (RFC 9110,
/// 13.1.2).
pub fn names_tag(headers: &HeaderMap, tag: &str) -> bool {
    let lists = headers.get_all(IF_NONE_MATCH).iter().filter_map(|list| list.to_str().ok());
    let mut tags = lists.flat_map(|list| list.split(',')).map(str::trim);
    tags.any(|known| known == "*" || opaque(known) == opaque(tag))
}

/// Turns the result of a handler after `took` into the response, and logs one line. It has the ids of request and trace, the operation, the user's name
/// in logs and the signer of an operator's request. Then come the packet, the slip, the outcome, the duration and a problem's cause. Nothing else
/// that a client sent is logged. Packet and slip are in the lines of every function that has to do with a hold, so a query for both
/// finds what became of it.
pub fn respond(request: &Request, result: Result<Answer, Problem>, took: Duration) -> Response<Body> {
    let id = request_id(request);
    log(request, &result, took);
    let mut response = match result {
        Ok(answer) => answer.into_response(request),
        Err(problem) => {
            let mut headers = Vec::new();
            if let Some(seconds) = problem.retry_after_s {
                headers.push((RETRY_AFTER, HeaderValue::from(seconds)));
            }
            if let Some(methods) = problem.allow.as_deref().and_then(|methods| methods.parse().ok()) {
                headers.push((ALLOW, methods));
            }
            // A problem's body has only strings and numbers, which always serialize.
            let body = serde_json::to_vec(&problem.body(id, trace_id(request))).unwrap_or_default();
            response(problem.code.status(), "application/problem+json", headers, body)
        }
    };
    if let Ok(id) = HeaderValue::from_str(id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

fn log(request: &Request, result: &Result<Answer, Problem>, took: Duration) {
    if result.is_ok() && !tracing::enabled!(tracing::Level::INFO) {
        return;
    }
    let request_id = request_id(request);
    let trace_id = trace_id(request).map(tracing::field::display);
    // A malformed id is any text that a client chose, so it is not logged.
    let asked = asked(request).ok();
    let packet_id = match result {
        Ok(Answer { packet_id: Some(id), .. }) => Some(*id),
        _ => asked.and_then(|asked| asked.packet_id.parse().ok()),
    };
    let packet_id = packet_id.map(tracing::field::display::<PacketId>);
    let by = signer(request).map(tracing::field::display);
    let operation = asked.map(|asked| tracing::field::display(asked.operation));
    // The user in the path of the operator's request, or the caller. Logs have no other name of a user.
    let named = asked.map(|asked| asked.user_id).filter(|id| !id.is_empty());
    let user = named.map_or_else(|| user_of_token(request).ok(), |id| id.parse().ok());
    let user = user.and_then(|user| logs::name_of(&user));
    let duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let (outcome, slip, cause) = match result {
        Ok(answer) => (answer.outcome, answer.slip, None),
        Err(Problem { code, cause, flaw, .. }) => {
            let slip = cause.as_ref().and_then(Failure::held_slip);
            let flaw = || flaw.map(|flaw| flaw.to_string());
            (code.name(), slip, cause.as_ref().map(|cause| crate::error_chain(cause)).or_else(flaw))
        }
    };
    macro_rules! line {
        ($level:ident, $message:literal) => {
            tracing::$level!(
                request_id,
                trace_id,
                operation,
                user,
                by,
                packet_id,
                slip,
                outcome,
                duration_us,
                cause,
                $message
            )
        };
    }
    match result.as_ref().err().map(|problem| problem.code) {
        Some(Code::Internal) => line!(error, "failed"),
        Some(Code::Unavailable) => line!(warn, "not answered"),
        Some(_) => line!(info, "refused"),
        None => line!(info, "answered"),
    }
}

fn response(
    status: StatusCode,
    content_type: &'static str,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Vec<u8>,
) -> Response<Body> {
    // JSON from serde is UTF-8; as text it passes API Gateway without base64.
    let body = String::from_utf8(body).map_or_else(|error| Body::Binary(error.into_bytes()), Body::Text);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    if status != StatusCode::NO_CONTENT {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // These replace the headers that most answers have.
    for (name, value) in headers {
        response.headers_mut().insert(name, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(if_none_match: &[&'static str]) -> Response<Body> {
        let mut request = Request::new(Body::Empty);
        for tags in if_none_match {
            request.headers_mut().append(IF_NONE_MATCH, HeaderValue::from_static(tags));
        }
        respond(&request, Answer::ok(&"a body").map(|answer| answer.to_keep(Keeping::UntilAsked)), Duration::ZERO)
    }

    #[test]
    fn a_client_with_the_current_answer_gets_304() {
        // Half of the digest of "a body", with its quotes.
        const TAG: &str = "\"a5801e62e5b32db97edaa7ccee25ec54\"";
        const WEAK: &str = "W/\"a5801e62e5b32db97edaa7ccee25ec54\"";
        const LISTED: &str = "\"x\" ,W/\"a5801e62e5b32db97edaa7ccee25ec54\"";
        let full = answer(&[]);
        assert_eq!((full.status(), full.body()), (StatusCode::OK, &Body::Text("\"a body\"".to_owned())));
        assert_eq!(full.headers()[ETAG], TAG);
        for known in [&[TAG][..], &[WEAK], &[LISTED], &["*"], &["\"x\"", TAG]] {
            let known = answer(known);
            assert_eq!((known.status(), known.body()), (StatusCode::NOT_MODIFIED, &Body::Empty));
            for header in [ETAG, CACHE_CONTROL, VARY] {
                assert_eq!(known.headers()[&header], full.headers()[&header], "{header}");
            }
            assert!(!known.headers().contains_key(CONTENT_TYPE));
        }
        for other in [&["\"x\""][..], &[""], &["a5801e62e5b32db97edaa7ccee25ec54"], &["\"a5801e62e5b32db9\""]] {
            assert_eq!(answer(other).status(), StatusCode::OK, "{other:?}");
        }
    }

    #[test]
    fn a_problem_has_the_trace_of_its_request() {
        const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
        let of = |headers: &[(&'static str, String)]| {
            let mut request = Request::new(Body::Empty);
            for (name, value) in headers {
                request.headers_mut().append(*name, value.parse().unwrap());
            }
            let answer = respond(&request, Err(Problem::packet_not_found()), Duration::ZERO);
            let Body::Text(body) = answer.body() else { panic!("{answer:?}") };
            serde_json::from_str::<serde_json::Value>(body).unwrap()["trace_id"].as_str().map(str::to_owned)
        };
        let w3c = ("traceparent", format!("00-{ID}-00f067aa0ba902b7-01"));
        let amazons = ("x-amzn-trace-id", "Root=1-5759e988-bd862e3fe1be46a994272793".to_owned());
        let hostile = ("traceparent", format!("00-{ID}\"}}-00f067aa0ba902b7-01"));
        for (headers, expected) in [
            (vec![w3c.clone()], Some(ID)),
            (vec![amazons.clone(), w3c.clone()], Some(ID)),
            (vec![amazons.clone()], Some("5759e988bd862e3fe1be46a994272793")),
            (vec![hostile.clone(), amazons], Some("5759e988bd862e3fe1be46a994272793")),
            (vec![hostile], None),
            (vec![w3c.clone(), w3c], None),
            (vec![], None),
        ] {
            assert_eq!(of(&headers).as_deref(), expected, "{headers:?}");
        }
    }

    #[test]
    fn the_time_of_an_answer_is_no_part_of_its_tag() {
        #[derive(Serialize)]
        struct Content {
            count: u32,
        }
        let ask = |count: u32, now: u64, known: Option<&HeaderValue>| {
            let mut request = Request::new(Body::Empty);
            request.headers_mut().extend(known.map(|known| (IF_NONE_MATCH, known.clone())));
            let answer = Answer::ok_at(&Content { count }, Timestamp::from_ms(now));
            respond(&request, answer.map(|answer| answer.to_keep(Keeping::UntilAsked)), Duration::ZERO)
        };
        let first = ask(1, 0, None);
        assert_eq!(first.body(), &Body::Text(r#"{"count":1,"now":"1970-01-01T00:00:00.000Z"}"#.to_owned()));
        let tag = &first.headers()[ETAG];
        assert!(tag.to_str().unwrap().starts_with("W/\""), "{tag:?}");
        let later = ask(1, 7, Some(tag));
        assert_eq!((later.status(), &later.headers()[ETAG]), (StatusCode::NOT_MODIFIED, tag));
        assert_eq!(ask(1, 7, None).headers()[ETAG], tag);
        assert_eq!(ask(2, 0, Some(tag)).status(), StatusCode::OK);
    }

    #[test]
    fn what_is_not_to_be_kept_is_not() {
        let response = respond(&Request::new(Body::Empty), Answer::ok(&1), Duration::ZERO);
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
        assert!(!response.headers().contains_key(ETAG));
    }
}
