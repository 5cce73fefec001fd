use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{Response, StatusCode};
use serde::{Deserialize, Serialize};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The service refused, and the code says why.
    #[error("the service refused: {0}")]
    Problem(Problem),
    /// No answer came, so nothing is known: the request may have been done. The same request again tells.
    #[error("no answer")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It can't be written as a request: a base URL that is none, a key or a name that no header takes. Nothing was sent.
    #[error("not a request")]
    Unsendable(#[source] http::Error),
    /// The answer is not one of this API.
    #[error("not JSON of this API")]
    Json(#[source] serde_json::Error),
}

impl Error {
    /// The code of a refusal; `None`: no answer came.
    pub const fn code(&self) -> Option<ProblemCode> {
        if let Self::Problem(problem) = self { Some(problem.code) } else { None }
    }
}

/// Every code that a problem can have.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemCode {
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

impl ProblemCode {
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

    /// Whether the same request may succeed later.
    pub const fn is_passing(self) -> bool {
        matches!(self, Self::Unavailable | Self::TooManyRequests)
    }

    /// What an answer without a code means: API Gateway's own, or a proxy's on the way.
    const fn of_status(status: StatusCode) -> Self {
        match status.as_u16() {
            400 => Self::InvalidRequest,
            401 => Self::Unauthenticated,
            403 => Self::Forbidden,
            404 => Self::RouteNotFound,
            405 => Self::MethodNotAllowed,
            413 => Self::PayloadTooLarge,
            429 => Self::TooManyRequests,
            502..=504 => Self::Unavailable,
            _ => Self::Internal,
        }
    }
}

/// A field at fault, and why.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct FieldError {
    /// The field's name in the request.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

/// The service refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The answer's status.
    pub status: u16,
    /// Which problem: what a program goes by.
    pub code: ProblemCode,
    /// The same for people.
    pub detail: String,
    /// The fields at fault, where there are some.
    pub errors: Vec<FieldError>,
    /// What the operator finds a defect by.
    pub request_id: Option<String>,
    /// How long to wait before the same request is sent again.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}: {}", self.status, self.code, self.detail)
    }
}

impl Problem {
    pub(crate) fn of(response: &Response<Bytes>) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Body {
            code: Option<ProblemCode>,
            detail: String,
            /// API Gateway's own word for it.
            message: String,
            errors: Vec<FieldError>,
            request_id: Option<String>,
        }
        let status = response.status();
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let retry_after = seconds.map(Duration::from_secs);
        // Whatever is in the body, the status was heard.
        let body: Body = serde_json::from_slice(response.body()).unwrap_or_default();
        let detail = if body.detail.is_empty() { body.message } else { body.detail };
        let code = body.code.unwrap_or(ProblemCode::of_status(status));
        let Body { errors, request_id, .. } = body;
        Self { status: status.as_u16(), code, detail, errors, request_id, retry_after }
    }
}
