use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{Response, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The service refused the request; the code is the reason.
    #[error("the service refused: {0}")]
    Problem(Box<Problem>),
    /// No answer came. The service may have carried out the request; the same request again returns its outcome.
    #[error("no answer")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The base URL is no URL, or no header can hold the key or the user's name. Nothing was sent.
    #[error("not a request")]
    Unsendable(#[source] http::Error),
    /// The body of a request or an answer is not JSON of this API.
    #[error("not JSON of this API")]
    Json(#[source] serde_json::Error),
}

impl Error {
    /// The code of a refusal; `None` for every other error.
    pub const fn code(&self) -> Option<ProblemCode> {
        if let Self::Problem(problem) = self { Some(problem.code) } else { None }
    }
}

/// Every code that a problem can have.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemCode {
    /// The request does not follow the contract.
    InvalidRequest,
    /// No verified caller.
    Unauthenticated,
    /// The wallet can't pay.
    InsufficientBalance,
    /// The packet is for others.
    NotARecipient,
    /// The passphrase is wrong, or missing.
    WrongPassphrase,
    /// The packet needs a ticket.
    TicketRequired,
    /// The ticket does not admit this user to this packet.
    TicketInvalid,
    /// The ticket has expired.
    TicketExpired,
    /// The route is not for this caller.
    Forbidden,
    /// The token is valid, but its subject is no user id of this API. A new token has the same subject.
    UserIdUnsupported,
    /// The operator has suspended the user.
    AccountSuspended,
    /// The user would have sent more than the limit of a day.
    DailyLimitExceeded,
    /// No such packet.
    PacketNotFound,
    /// No such withdrawal.
    WithdrawalNotFound,
    /// No such route.
    RouteNotFound,
    /// The route has other methods.
    MethodNotAllowed,
    /// The body is too large.
    PayloadTooLarge,
    /// The withdrawal is posted, or with another amount.
    WithdrawalPosted,
    /// The withdrawal is voided.
    WithdrawalVoided,
    /// As many withdrawals of the user are pending as may be.
    TooManyPending,
    /// The same key or id, with another payload.
    IdempotencyKeyReused,
    /// Too many requests, or too many wrong passphrases.
    TooManyRequests,
    /// The operator has paused sending.
    SendingPaused,
    /// A store did not answer, or the service is overloaded.
    Unavailable,
    /// A defect.
    Internal,
}

impl ProblemCode {
    /// Whether the same request may succeed later.
    pub const fn is_passing(self) -> bool {
        matches!(self, Self::Unavailable | Self::TooManyRequests)
    }

    /// The code of an answer that has none, because it came from API Gateway itself or from a proxy. Also that of an answer with a
    /// code that this client does not know.
    const fn of_status(status: StatusCode) -> Self {
        match status.as_u16() {
            400 => Self::InvalidRequest,
            401 => Self::Unauthenticated,
            402 => Self::InsufficientBalance,
            403 => Self::Forbidden,
            404 => Self::RouteNotFound,
            405 => Self::MethodNotAllowed,
            413 => Self::PayloadTooLarge,
            422 => Self::IdempotencyKeyReused,
            429 => Self::TooManyRequests,
            502..=504 => Self::Unavailable,
            _ => Self::Internal,
        }
    }
}

/// An invalid field of a request.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct FieldError {
    /// The field's name in the request.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

/// A rule that refused a request, with its number.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "rule", content = "value", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Limit {
    /// What a user can send in a day, in minor units.
    AmountADay(u64),
    /// The most grabs of a user in a minute, in each process of the service.
    GrabsAMinute(u64),
    /// The most pending withdrawals that a user may have asked for.
    PendingWithdrawals(u64),
    /// The most requests of a user in a second, in each process of the service.
    RequestsASecond(u64),
    /// The most wrong passphrases of a user for one packet in a minute.
    WrongPassphrasesAMinute(u64),
}

/// A refusal by the service.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The answer's HTTP status.
    pub status: u16,
    /// The kind of problem, for programs.
    pub code: ProblemCode,
    /// The kind of problem, for people.
    pub detail: String,
    /// The invalid fields, if the problem lies in them.
    pub errors: Vec<FieldError>,
    /// The id by which the operator finds the request in the logs.
    pub request_id: Option<String>,
    /// The trace of the request, if it had a well-formed one.
    pub trace_id: Option<String>,
    /// The wait that the service asks for before the same request is sent again.
    pub retry_after: Option<Duration>,
    /// The limit that refused the request.
    pub limit: Option<Limit>,
    /// With [`ProblemCode::DailyLimitExceeded`]: when the next day begins, and the user may send again.
    pub resets_at: Option<String>,
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
            #[serde(deserialize_with = "known")]
            code: Option<ProblemCode>,
            detail: String,
            /// API Gateway's name for `detail`.
            message: String,
            errors: Vec<FieldError>,
            request_id: Option<String>,
            trace_id: Option<String>,
            #[serde(deserialize_with = "known")]
            limit: Option<Limit>,
            resets_at: Option<String>,
        }
        /// A code or a limit, if this client knows it.
        fn known<'de, D: Deserializer<'de>, V: DeserializeOwned>(deserializer: D) -> Result<Option<V>, D::Error> {
            let value: Value = Deserialize::deserialize(deserializer)?;
            Ok(serde_json::from_value(value).ok())
        }
        let status = response.status();
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let retry_after = seconds.map(Duration::from_secs);
        // The status is known even if the body is not JSON.
        let body: Body = serde_json::from_slice(response.body()).unwrap_or_default();
        let detail = if body.detail.is_empty() { body.message } else { body.detail };
        let code = body.code.unwrap_or(ProblemCode::of_status(status));
        let Body { errors, request_id, trace_id, limit, resets_at, .. } = body;
        // API Gateway's own answers have it under another name.
        let of_gateway = || response.headers().get("apigw-requestid")?.to_str().ok().map(str::to_owned);
        let request_id = request_id.or_else(of_gateway);
        Self { status: status.as_u16(), code, detail, errors, request_id, trace_id, retry_after, limit, resets_at }
    }
}
