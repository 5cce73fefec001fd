use lambda_http::http::HeaderValue;
use lambda_http::request::RequestContext;
use lambda_http::{Request, RequestExt};

use super::edge::within_rate;
use super::edge_key::came_through;
use super::entrance::Subject;
use super::page::check_query;
use super::problem::{Code, Problem};
use super::route::Asked;
use crate::domain::{IdError, IdempotencyKey, Signer, TraceId, UserId};
use crate::service::Voucher;

/// The id under which API Gateway knows the request. A load balancer gives it none of its own, so there it is Lambda's.
pub(super) fn request_id(request: &Request) -> &str {
    match request.request_context_ref() {
        Some(RequestContext::ApiGatewayV2(context)) => context.request_id.as_deref().unwrap_or_default(),
        Some(RequestContext::Alb(_)) => request.lambda_context_ref().map_or("", |context| &context.request_id),
        _ => "",
    }
}

/// The trace that the request belongs to: that of `traceparent`, or else the one that AWS gives it. A value that is not well-formed is none, nor
/// is one of several.
pub(super) fn trace_id(request: &Request) -> Option<TraceId> {
    let single = |name: &str| {
        let mut values = request.headers().get_all(name).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return None };
        value.to_str().ok()
    };
    let of_caller = single("traceparent").and_then(TraceId::of_traceparent);
    of_caller.or_else(|| single("x-amzn-trace-id").and_then(TraceId::of_amazon))
}

/// Admits a request of a user, and returns them. Their request counts towards their rate. [`Edge`](super::Edge) has left in it what this
/// needs: whether it came through `CloudFront`, and the counts.
///
/// # Errors
/// `invalid-request` for two tokens, of which nobody knows which one counts. Then those of the token. Then `forbidden`, if it went round
/// `CloudFront`. Then `too-many-requests`, if the user asks too often. Then `invalid-request` for a
/// parameter of the query that the route does not know, or that is given twice.
pub fn admit_caller(request: &Request) -> Result<UserId, Problem> {
    single(request, "Authorization")?;
    let user = user_of_token(request)?;
    came_through(request)?;
    within_rate(request, &user)?;
    check_query(request)?;
    Ok(user)
}

/// The `sub` of the token that API Gateway's authorizer or the load balancer verified ([`Subject`]). Nothing else that a client can write
/// counts. A verified token without a user id of ours is no 401, for which clients fetch a new token: that would have the same `sub`.
pub(super) fn user_of_token(request: &Request) -> Result<UserId, Problem> {
    let subject = match request.request_context_ref() {
        Some(RequestContext::ApiGatewayV2(context)) => {
            let jwt = context.authorizer.as_ref().and_then(|authorizer| authorizer.jwt.as_ref());
            jwt.map(|jwt| jwt.claims.get("sub").map_or("", String::as_str))
        }
        Some(RequestContext::Alb(_)) => request.extensions().get().map(|Subject(subject)| &**subject),
        _ => None,
    };
    subject.ok_or_else(unauthenticated)?.parse().map_err(|error: IdError| {
        Problem::new(Code::UserIdUnsupported, format!("The user id, the subject of the token, {error}"))
    })
}

fn unauthenticated() -> Problem {
    Problem::new(Code::Unauthenticated, "The request has no verified caller.")
}

/// The principal of the account who signed the operator's request with IAM credentials. Credentials that an identity pool gives to
/// users do not count, and a user's token never does. The query is checked as in [`admit_caller`].
pub fn operator(request: &Request) -> Result<Signer, Problem> {
    let signer = signer(request).ok_or_else(|| match request.request_context_ref() {
        Some(RequestContext::ApiGatewayV2(context)) if context.authorizer.is_some() => {
            Problem::new(Code::Forbidden, "This route is for the operator only.")
        }
        _ => unauthenticated(),
    })?;
    check_query(request)?;
    Ok(signer)
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

/// The user whose request it is: the one in its path, for whom the operator makes it, or the caller.
pub fn user_of(request: &Request, asked: &Asked) -> Result<UserId, Problem> {
    if asked.user_id.is_empty() {
        return admit_caller(request);
    }
    operator(request)?;
    asked.user_id.parse().map_err(|error| Problem::field("user_id", format!("{error}")))
}

/// The value of a header that a request may have once. API Gateway joins two with a comma, which no value of these headers has.
fn single<'a>(request: &'a Request, name: &str) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut values = request.headers().get_all(name).iter();
    let value = values.next();
    let is_list = value.is_some_and(|value| value.as_bytes().contains(&b','));
    if is_list || values.next().is_some() {
        return Err(Problem::field(name, "must be there once, without a comma"));
    }
    Ok(value)
}

/// Who vouches for the user whose request it is.
pub fn voucher(request: &Request, asked: &Asked) -> Result<Voucher, Problem> {
    if !asked.user_id.is_empty() {
        return Ok(Voucher::Operator);
    }
    let ticket = single(request, "Grab-Ticket")?;
    Ok(Voucher::User(ticket.map(|value| value.to_str().unwrap_or_default().into())))
}

/// The header `Idempotency-Key` of a request that may have one.
pub fn optional_key(request: &Request) -> Result<Option<IdempotencyKey>, Problem> {
    if request.headers().contains_key("Idempotency-Key") { idempotency_key(request).map(Some) } else { Ok(None) }
}

/// The header `Idempotency-Key`: the key as it stands, or as a string of structured fields, which has quotes around it.
pub fn idempotency_key(request: &Request) -> Result<IdempotencyKey, Problem> {
    let value = single(request, "Idempotency-Key")?;
    let key = value
        .and_then(|value| value.to_str().ok())
        .and_then(|text| unquoted(text).map_or_else(|| text.parse(), |text| text.parse()).ok());
    key.ok_or_else(|| Problem::field("Idempotency-Key", "is required: 1 to 255 visible ASCII characters, no comma"))
}

/// The content of a structured field's string (RFC 9651, 3.3.3); `None` if the text is none.
fn unquoted(text: &str) -> Option<String> {
    let mut letters = text.strip_prefix('"')?.strip_suffix('"')?.chars();
    let mut content = String::new();
    while let Some(letter) = letters.next() {
        content.push(match letter {
            '\\' => letters.next().filter(|escaped| matches!(escaped, '"' | '\\'))?,
            '"' => return None,
            _ => letter,
        });
    }
    Some(content)
}

#[cfg(test)]
mod tests {
    use lambda_http::Body;

    use super::*;

    #[test]
    fn a_key_in_quotes_is_the_key_without_them() {
        let all: String = ('!'..='~').filter(|letter| *letter != ',').collect();
        let (longest, long) = ("k".repeat(255), "k".repeat(256));
        let quoted = |text: &str| format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""));
        for (value, key) in [
            ("order:17", "order:17"),
            ("\"order:17\"", "order:17"),
            (&all, &all),
            (&quoted(&all), &all),
            (&longest, &longest),
            (&quoted(&longest), &longest),
            (&quoted(&"\"".repeat(255)), &"\"".repeat(255)),
            // These are no strings, so they are keys as they stand.
            ("\"", "\""),
            ("\"a", "\"a"),
            ("a\"", "a\""),
            ("\"a\"b\"", "\"a\"b\""),
            ("\"a\\\"", "\"a\\\""),
            (r#""a\b""#, r#""a\b""#),
            ("\"a\";b=1", "\"a\";b=1"),
            ("'a'", "'a'"),
        ] {
            assert_eq!(key_of(value).as_deref(), Some(key), "{value}");
        }
        for bad in [
            "",
            "\"\"",
            " ",
            "a b",
            "\"a b\"",
            "\"a\tb\"",
            "a,b",
            "\"a,b\"",
            "\"a\",\"a\"",
            "ключ",
            &long,
            &quoted(&long),
        ] {
            assert_eq!(key_of(bad), None, "{bad}");
        }
    }

    fn key_of(value: &str) -> Option<String> {
        let mut request = Request::new(Body::Empty);
        request.headers_mut().insert("idempotency-key", value.parse().unwrap());
        idempotency_key(&request).ok().map(String::from)
    }
}
