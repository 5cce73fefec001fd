use lambda_http::http::StatusCode;
use serde::Serialize;

use crate::domain::{Amount, Limits, Refusal, Timestamp, TraceId};
use crate::service::{Failure, ViewError};
use crate::tickets::{Flaw, TicketFault};

/// The kinds of problems. Clients branch on these codes, which are stable. Only this file assigns their statuses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Code {
    /// The request is malformed, or a field is missing or not valid.
    InvalidRequest,
    /// The request has no verified caller.
    Unauthenticated,
    /// The wallet holds too little.
    InsufficientBalance,
    /// The packet has recipients, and the caller is not one of them.
    NotARecipient,
    /// The passphrase is missing or wrong.
    WrongPassphrase,
    /// The packet wants a ticket, and there is none.
    TicketRequired,
    /// The ticket is forged, or another user's, or for another packet.
    TicketInvalid,
    /// The ticket was valid earlier.
    TicketExpired,
    /// The route is not for this caller.
    Forbidden,
    /// The caller is verified, but their id is none of ours.
    UserIdUnsupported,
    /// The user is suspended.
    AccountSuspended,
    /// The user would have sent too much on this day.
    DailyLimitExceeded,
    /// There is no such packet.
    PacketNotFound,
    /// There is no such withdrawal.
    WithdrawalNotFound,
    /// There is no such route.
    RouteNotFound,
    /// The route does not have this method.
    MethodNotAllowed,
    /// The body is too large.
    PayloadTooLarge,
    /// The withdrawal is posted, or was posted in another way.
    WithdrawalPosted,
    /// The withdrawal is voided.
    WithdrawalVoided,
    /// The user has as many pending withdrawals as they may have.
    TooManyPending,
    /// The key or id was used before, with another body.
    IdempotencyKeyReused,
    /// The caller must wait before the next request.
    TooManyRequests,
    /// The operator has paused sending.
    SendingPaused,
    /// A store did not answer, or the service is overloaded.
    Unavailable,
    /// A defect.
    Internal,
}

impl Code {
    /// All codes.
    pub const ALL: [Self; 25] = [
        Self::InvalidRequest,
        Self::Unauthenticated,
        Self::InsufficientBalance,
        Self::NotARecipient,
        Self::WrongPassphrase,
        Self::TicketRequired,
        Self::TicketInvalid,
        Self::TicketExpired,
        Self::Forbidden,
        Self::UserIdUnsupported,
        Self::AccountSuspended,
        Self::DailyLimitExceeded,
        Self::PacketNotFound,
        Self::WithdrawalNotFound,
        Self::RouteNotFound,
        Self::MethodNotAllowed,
        Self::PayloadTooLarge,
        Self::WithdrawalPosted,
        Self::WithdrawalVoided,
        Self::TooManyPending,
        Self::IdempotencyKeyReused,
        Self::TooManyRequests,
        Self::SendingPaused,
        Self::Unavailable,
        Self::Internal,
    ];

    /// The code as clients see it.
    pub const fn name(self) -> &'static str {
        self.definition().1
    }

    /// The status of every answer with this code.
    pub const fn status(self) -> StatusCode {
        self.definition().0
    }

    /// The title of every problem with this code.
    pub const fn title(self) -> &'static str {
        self.definition().2
    }

    /// Status, code and title.
    const fn definition(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::InvalidRequest => (StatusCode::BAD_REQUEST, "invalid-request", "Invalid request"),
            Self::Unauthenticated => (StatusCode::UNAUTHORIZED, "unauthenticated", "Unauthenticated"),
            Self::InsufficientBalance => (StatusCode::PAYMENT_REQUIRED, "insufficient-balance", "Insufficient balance"),
            Self::NotARecipient => (StatusCode::FORBIDDEN, "not-a-recipient", "Not a recipient"),
            Self::WrongPassphrase => (StatusCode::FORBIDDEN, "wrong-passphrase", "Wrong passphrase"),
            Self::TicketRequired => (StatusCode::FORBIDDEN, "ticket-required", "Ticket required"),
            Self::TicketInvalid => (StatusCode::FORBIDDEN, "ticket-invalid", "Ticket invalid"),
            Self::TicketExpired => (StatusCode::FORBIDDEN, "ticket-expired", "Ticket expired"),
            Self::Forbidden => (StatusCode::FORBIDDEN, "forbidden", "Forbidden"),
            Self::UserIdUnsupported => (StatusCode::FORBIDDEN, "user-id-unsupported", "User id unsupported"),
            Self::AccountSuspended => (StatusCode::FORBIDDEN, "account-suspended", "Account suspended"),
            Self::DailyLimitExceeded => (StatusCode::FORBIDDEN, "daily-limit-exceeded", "Daily limit exceeded"),
            Self::PacketNotFound => (StatusCode::NOT_FOUND, "packet-not-found", "Packet not found"),
            Self::WithdrawalNotFound => (StatusCode::NOT_FOUND, "withdrawal-not-found", "Withdrawal not found"),
            Self::RouteNotFound => (StatusCode::NOT_FOUND, "route-not-found", "Route not found"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "Method not allowed"),
            Self::PayloadTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "payload-too-large", "Payload too large"),
            Self::WithdrawalPosted => (StatusCode::CONFLICT, "withdrawal-posted", "Withdrawal posted"),
            Self::WithdrawalVoided => (StatusCode::CONFLICT, "withdrawal-voided", "Withdrawal voided"),
            Self::TooManyPending => (StatusCode::CONFLICT, "too-many-pending", "Too many pending"),
            Self::IdempotencyKeyReused => {
                (StatusCode::UNPROCESSABLE_ENTITY, "idempotency-key-reused", "Idempotency key reused")
            }
            Self::TooManyRequests => (StatusCode::TOO_MANY_REQUESTS, "too-many-requests", "Too many requests"),
            Self::SendingPaused => (StatusCode::SERVICE_UNAVAILABLE, "sending-paused", "Sending paused"),
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Unavailable"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal error"),
        }
    }
}

/// An invalid field, and the reason.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct FieldError {
    /// The field's name in the request.
    pub field: String,
    /// What is wrong with the field, without its name.
    pub reason: String,
}

/// The rule that refused a request which another number of it would allow, with that number.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "rule", content = "value", rename_all = "kebab-case")]
pub enum Limit {
    /// The most that a user can send in a day, in minor units.
    AmountADay(Amount),
    /// The most requests of a user in a second, by one process.
    RequestsASecond(u32),
    /// The most grabs of a user in a minute, by one process.
    GrabsAMinute(u32),
    /// The most pending withdrawals that a user may have asked for.
    PendingWithdrawals(u32),
    /// The most wrong passphrases of a user for one packet in a minute.
    WrongPassphrasesAMinute(u32),
}

/// A problem with a request, or a defect of ours. Its texts are for people; none comes from a driver or a store.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The kind of problem.
    pub code: Code,
    /// One sentence about this problem.
    pub detail: Box<str>,
    /// The invalid fields.
    pub errors: Box<[FieldError]>,
    /// Seconds to wait before a retry.
    pub retry_after_s: Option<u64>,
    /// The methods of the route.
    pub allow: Option<Box<str>>,
    /// The limit that refused it.
    pub limit: Option<Box<Limit>>,
    /// When a used-up limit begins anew.
    pub resets_at: Option<Timestamp>,
    /// The cause, for the log only.
    pub cause: Option<Failure>,
    /// What is wrong with the ticket, for the log only.
    pub flaw: Option<Flaw>,
}

/// The body of a problem's answer (RFC 9457).
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
    limit: Option<&'a Limit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resets_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<TraceId>,
}

impl Problem {
    /// A problem of this code.
    pub fn new(code: Code, detail: impl Into<Box<str>>) -> Self {
        Self {
            code,
            detail: detail.into(),
            errors: Box::default(),
            retry_after_s: None,
            allow: None,
            limit: None,
            resets_at: None,
            cause: None,
            flaw: None,
        }
    }

    /// A request with invalid fields.
    pub fn fields(errors: impl Into<Box<[FieldError]>>) -> Self {
        Self { errors: errors.into(), ..Self::new(Code::InvalidRequest, "The request has missing or invalid fields.") }
    }

    /// A request with one invalid field.
    pub fn field(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::fields([FieldError { field: field.into(), reason: reason.into() }])
    }

    /// No such packet. A malformed id gets the same answer as an unknown one.
    pub fn packet_not_found() -> Self {
        Self::new(Code::PacketNotFound, "There is no such packet.")
    }

    /// The user is suspended.
    pub fn account_suspended() -> Self {
        Self::new(Code::AccountSuspended, "The operator has suspended this user.")
    }

    /// There is no such route.
    pub fn route_not_found() -> Self {
        Self::new(Code::RouteNotFound, "There is no such route.")
    }

    /// The packet has recipients, and the caller is not one of them.
    pub fn not_a_recipient() -> Self {
        Self::new(Code::NotARecipient, "This packet is for other users.")
    }

    /// The user has no valid ticket.
    pub fn no_ticket(fault: TicketFault) -> Self {
        match fault {
            TicketFault::Missing => Self::new(Code::TicketRequired, "This packet needs a ticket, in Grab-Ticket."),
            TicketFault::Invalid(flaw) => {
                let detail = match flaw {
                    Flaw::Ahead(_) => {
                        "The ticket is signed in the future: the clock of the app that signed it is fast."
                    }
                    _ => "The ticket does not admit this user here.",
                };
                Self { flaw: Some(flaw), ..Self::new(Code::TicketInvalid, detail) }
            }
            TicketFault::Expired => Self::new(Code::TicketExpired, "The ticket has expired."),
        }
    }

    pub(super) fn body<'a>(&'a self, request_id: &'a str, trace_id: Option<TraceId>) -> ProblemBody<'a> {
        let (status, code, title) = self.code.definition();
        ProblemBody {
            r#type: format!("urn:hongbao:problem:{code}"),
            title,
            status: status.as_u16(),
            detail: &self.detail,
            code,
            errors: &self.errors,
            limit: self.limit.as_deref(),
            resets_at: self.resets_at.map(|at| at.to_string()),
            request_id: Some(request_id).filter(|id| !id.is_empty()),
            trace_id,
        }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let problem = match &failure {
            Failure::Unavailable(_) => Self {
                retry_after_s: Some(1),
                ..Self::new(Code::Unavailable, "The service is unavailable. Repeating the same request is safe.")
            },
            Failure::Defect(_) => Self::new(Code::Internal, "Something went wrong on our side."),
        };
        Self { cause: Some(failure), ..problem }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotARecipient => Self::not_a_recipient(),
            Refusal::WrongPassphrase => Self::new(Code::WrongPassphrase, "The passphrase is missing or wrong."),
            Refusal::TooManyTries { retry_after_ms } => Self {
                limit: Some(Box::new(Limit::WrongPassphrasesAMinute(Limits::WRONG_PASSPHRASES_A_MINUTE))),
                retry_after_s: Some(retry_after_ms.div_ceil(1_000).max(1)),
                ..Self::new(Code::TooManyRequests, "Too many wrong passphrases. Try again later.")
            },
        }
    }
}

impl From<ViewError> for Problem {
    fn from(error: ViewError) -> Self {
        match error {
            ViewError::NotForYou => Self::not_a_recipient(),
            ViewError::NoTicket(fault) => Self::no_ticket(fault),
            ViewError::NotFound => Self::packet_not_found(),
            ViewError::Failed(failure) => failure.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_begins_with_the_words_of_its_code() {
        for code in Code::ALL {
            let words = code.title().to_lowercase().replace(' ', "-");
            assert!(words.starts_with(code.name()), "{}: {words}", code.name());
        }
    }
}
