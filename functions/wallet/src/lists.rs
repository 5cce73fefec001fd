//! The lists of those who answer users: what operators did, of whom they have decided, whose a movement is, and what limits are used.

use lambda_http::Request;
use shared::domain::{RequestKey, UserId};
use shared::http::{
    Answer, DecidedRow, DeedRow, Fields, ListBody, Problem, RequestedRow, WinsRow, optional, page, page_with, parameter,
};
use shared::ports::Table;
use shared::service::Wallets;

/// What operators did, or did to a user.
pub async fn deeds<T: Table>(wallets: &Wallets<T>, request: &Request) -> Result<Answer, Problem> {
    let mut fields = Fields::default();
    let user = optional(&mut fields, request, "user_id", "is not a user id", |text| text.parse::<UserId>().ok());
    let list = user.as_ref().map_or_else(|| "deeds".to_owned(), |user| format!("deeds on user {user}"));
    let page = page_with(fields, request, &list)?;
    let slice = wallets.deeds(user.as_ref(), page.cursor, page.limit).await?;
    Answer::ok(&ListBody::new("deeds", &list, &slice, DeedRow::new))
}

/// Users who are suspended, or have limits of their own.
pub async fn users<T: Table>(wallets: &Wallets<T>, request: &Request) -> Result<Answer, Problem> {
    let mut fields = Fields::default();
    let is_suspended = |text: &str| match text {
        "suspended" => Some(true),
        "limited" => Some(false),
        _ => None,
    };
    let suspended = optional(&mut fields, request, "state", "must be suspended or limited", is_suspended);
    let list = format!("users, suspended: {suspended:?}");
    let page = page_with(fields, request, &list)?;
    let slice = wallets.decided_users(suspended, page.cursor, page.limit).await?;
    Answer::ok(&ListBody::new("users", &list, &slice, DecidedRow::new))
}

/// What a user has won towards each key of a limit.
pub async fn wins<T: Table>(wallets: &Wallets<T>, request: &Request, user: &UserId) -> Result<Answer, Problem> {
    let list = format!("wins of user {user}");
    let page = page(request, &list)?;
    let slice = wallets.limit_uses(user, page.cursor, page.limit).await?;
    Answer::ok(&ListBody::new("wins", &list, &slice, WinsRow::new))
}

/// The deposits and withdrawals with an id.
pub async fn movements_with_id<T: Table>(wallets: &Wallets<T>, request: &Request) -> Result<Answer, Problem> {
    let id: RequestKey = parameter(request, "id")?;
    let list = format!("movements with id {id}");
    let page = page(request, &list)?;
    let slice = wallets.requests(&id, page.cursor, page.limit).await?;
    Answer::ok(&ListBody::new("movements", &list, &slice, |found| RequestedRow::new(found, &id)))
}
