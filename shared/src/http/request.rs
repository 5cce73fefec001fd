use lambda_http::request::RequestContext;
use lambda_http::{Request, RequestExt};

use super::problem::{Code, Problem};
use super::route::Who;
use crate::domain::{Signer, UserId};

/// The id under which API Gateway knows the request.
pub(super) fn request_id(request: &Request) -> &str {
    match request.request_context_ref() {
        Some(RequestContext::ApiGatewayV2(context)) => context.request_id.as_deref().unwrap_or_default(),
        _ => "",
    }
}

/// The caller: the `sub` of the token that API Gateway's authorizer verified. Nothing that a client can write counts.
pub fn caller(request: &Request) -> Result<UserId, Problem> {
    let claims = match request.request_context_ref() {
        Some(RequestContext::ApiGatewayV2(context)) => {
            context.authorizer.as_ref().and_then(|authorizer| authorizer.jwt.as_ref()).map(|jwt| &jwt.claims)
        }
        _ => None,
    };
    claims
        .and_then(|claims| claims.get("sub"))
        .and_then(|subject| subject.parse().ok())
        .ok_or_else(|| Problem::new(Code::Unauthenticated, "The request has no verified caller."))
}

/// The principal of the account who signed the operator's request with IAM credentials. Credentials that an identity pool gives to
/// users do not count, and a user's token never does.
pub fn operator(request: &Request) -> Result<Signer, Problem> {
    signer(request).ok_or_else(|| match request.request_context_ref() {
        Some(RequestContext::ApiGatewayV2(context)) if context.authorizer.is_some() => {
            Problem::new(Code::Forbidden, "This route is for the operator only.")
        }
        _ => Problem::new(Code::Unauthenticated, "The request has no verified caller."),
    })
}

/// The signer of an operator's request, if it is one.
pub(super) fn signer(request: &Request) -> Option<Signer> {
    let authorizer = match request.request_context_ref() {
        Some(RequestContext::ApiGatewayV2(context)) => context.authorizer.as_ref(),
        _ => None,
    };
    let iam = authorizer?.iam.as_ref().filter(|iam| iam.cognito_identity.is_none())?;
    iam.user_arn.as_deref()?.parse().ok()
}

/// The user whose request it is. Only the operator's request can name one in its path.
pub fn user_of(request: &Request, who: Who) -> Result<UserId, Problem> {
    match who {
        Who::Caller => caller(request),
        Who::User(id) => {
            operator(request)?;
            id.parse().map_err(|error| Problem::field("user_id", format!("{error}")))
        }
    }
}

/// The one value of a header; `None` if it is absent, given twice, or not text.
pub fn header<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    let mut values = request.headers().get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}
