//! HTTP: a request of API Gateway (payload 2.0) or of an Application Load Balancer becomes typed input, and an outcome becomes an
//! answer. A failure becomes a problem (RFC 9457) from one closed list.

mod answer;
mod body;
mod deadline;
mod edge;
mod edge_key;
mod entrance;
mod page;
mod problem;
mod request;
mod right;
mod route;
mod runtime;
mod support;
#[cfg(any(test, feature = "test-support"))]
pub mod test_policies;
mod views;
mod withdrawal;

pub use answer::{Answer, Keeping, REQUEST_ID, names_tag, respond};
pub use body::{Fields, Int, parse_body, reason, required_body, whole};
pub use deadline::before_deadline;
pub use edge::{Edge, Now, steady};
pub use entrance::{Alb, Entrance};
pub use page::{
    MovementsAsked, Page, cursor, movements_asked, optional, page, page_with, parameter, selection, selection_of,
};
pub use problem::{Code, FieldError, Limit, Problem};
pub use request::{admit_caller, idempotency_key, operator, user_of, voucher};
pub use right::rights_for;
pub use route::{Asked, Function, Operation, ROUTES, Route, asked, find};
pub use runtime::run;
pub use support::{DecidedRow, DeedRow, PacketsAsked, RequestedRow, Why, WinsRow};
pub use views::{
    ClaimRow, LimitsBody, ListBody, MineView, MovementRow, PacketBody, ReceiverBody, ReferenceBody, ReportedRow,
    SendingBody, ShareBody, SuspensionBody, Viewer, WalletBody, WithdrawalBody, WithdrawalRow,
};
pub use withdrawal::{
    withdrawal_made, withdrawal_of_operator, withdrawal_of_user, withdrawal_posted, withdrawal_voided,
};
