use lambda_http::http::StatusCode;
use serde::Serialize;

use crate::service::Failure;

/// What can be wrong: the stable codes that clients go by. The one place that says which status each has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Code {
    /// The request is not one of this API.
    InvalidRequest,
    /// No verified caller.
    Unauthenticated,
    /// The wallet can't pay.
    InsufficientBalance,
    /// The packet is for others.
    NotARecipient,
    /// The passphrase is wrong, or missing.
    WrongPassphrase,
    /// The route is not for this caller.
    Forbidden,
    /// No such packet.
    PacketNotFound,
    /// No such route.
    RouteNotFound,
    /// The route has other methods.
    MethodNotAllowed,
    /// The body is too large.
    PayloadTooLarge,
    /// The same key or id, with another payload.
    IdempotencyKeyReused,
    /// Slow down.
    TooManyRequests,
    /// A store did not answer.
    Unavailable,
    /// A defect.
    Internal,
}

impl Code {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::InvalidRequest,
        Self::Unauthenticated,
        Self::InsufficientBalance,
        Self::NotARecipient,
        Self::WrongPassphrase,
        Self::Forbidden,
        Self::PacketNotFound,
        Self::RouteNotFound,
        Self::MethodNotAllowed,
        Self::PayloadTooLarge,
        Self::IdempotencyKeyReused,
        Self::TooManyRequests,
        Self::Unavailable,
        Self::Internal,
    ];

    /// The code as clients see it.
    pub const fn name(self) -> &'static str {
        self.decisions().1
    }

    /// The status that goes with it.
    pub const fn status(self) -> StatusCode {
        self.decisions().0
    }

    /// Its title, the same for every problem of this code.
    pub const fn title(self) -> &'static str {
        self.decisions().2
    }

    const fn decisions(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::InvalidRequest => (StatusCode::BAD_REQUEST, "invalid-request", "Invalid request"),
            Self::Unauthenticated => (StatusCode::UNAUTHORIZED, "unauthenticated", "Unauthenticated"),
            Self::InsufficientBalance => (StatusCode::PAYMENT_REQUIRED, "insufficient-balance", "Insufficient balance"),
            Self::NotARecipient => (StatusCode::FORBIDDEN, "not-a-recipient", "Not a recipient"),
            Self::WrongPassphrase => (StatusCode::FORBIDDEN, "wrong-passphrase", "Wrong passphrase"),
            Self::Forbidden => (StatusCode::FORBIDDEN, "forbidden", "Forbidden"),
            Self::PacketNotFound => (StatusCode::NOT_FOUND, "packet-not-found", "Packet not found"),
            Self::RouteNotFound => (StatusCode::NOT_FOUND, "route-not-found", "Route not found"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "Method not allowed"),
            Self::PayloadTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "payload-too-large", "Payload too large"),
            Self::IdempotencyKeyReused => {
                (StatusCode::UNPROCESSABLE_ENTITY, "idempotency-key-reused", "Idempotency key reused")
            }
            Self::TooManyRequests => (StatusCode::TOO_MANY_REQUESTS, "too-many-requests", "Too many requests"),
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Unavailable"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal error"),
        }
    }
}

/// A field at fault, and why.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct FieldError {
    /// The field's name in the request.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

/// What is wrong with a request, or with us. Its texts are for people; none of them comes from a driver or a store.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Which problem.
    pub code: Code,
    /// What happened, in a sentence.
    pub detail: String,
    /// The fields at fault.
    pub errors: Vec<FieldError>,
    /// After how many seconds to try again.
    pub retry_after_s: Option<u64>,
    /// The methods that the route has.
    pub allow: Option<&'static str>,
    /// The cause: for the log alone.
    pub cause: Option<Failure>,
}

/// How a problem is written.
#[derive(Serialize)]
pub(super) struct ProblemBody<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    code: &'static str,
    #[serde(skip_serializing_if = "<[FieldError]>::is_empty")]
    errors: &'a [FieldError],
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

impl Problem {
    /// A problem of this code.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), errors: Vec::new(), retry_after_s: None, allow: None, cause: None }
    }

    /// A request with fields at fault.
    pub fn fields(errors: Vec<FieldError>) -> Self {
        Self { errors, ..Self::new(Code::InvalidRequest, "The request has fields that are missing or not valid.") }
    }

    /// A request with one field at fault.
    pub fn field(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::fields(vec![FieldError { field: field.into(), reason: reason.into() }])
    }

    /// No such packet, whatever the reason: an id that can't be one is no packet's.
    pub fn packet_not_found() -> Self {
        Self::new(Code::PacketNotFound, "There is no such packet.")
    }

    /// No such route.
    pub fn route_not_found() -> Self {
        Self::new(Code::RouteNotFound, "There is no such route.")
    }

    /// The packet is for others.
    pub fn not_a_recipient() -> Self {
        Self::new(Code::NotARecipient, "The packet is for others.")
    }

    pub(super) fn body<'a>(&'a self, request_id: &'a str) -> ProblemBody<'a> {
        let (status, code, title) = self.code.decisions();
        ProblemBody {
            r#type: format!("urn:hongbao:problem:{code}"),
            title,
            status: status.as_u16(),
            detail: &self.detail,
            code,
            errors: &self.errors,
            request_id: (self.code == Code::Internal).then_some(request_id),
        }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let problem = match &failure {
            Failure::Unavailable(_) => Self {
                retry_after_s: Some(1),
                ..Self::new(Code::Unavailable, "The service can't answer now. The same request may be repeated.")
            },
            Failure::Defect(_) => Self::new(Code::Internal, "Something went wrong on our side."),
        };
        Self { cause: Some(failure), ..problem }
    }
}
