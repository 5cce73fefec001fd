use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lambda_http::{Request, RequestExt};
use sha2::{Digest, Sha256};

use super::body::Fields;
use super::problem::Problem;
use super::route::asked;
use crate::domain::{MovementFilter, MovementKind, Reference, Selection, Timestamp, UserId};

/// The piece of a list that a request asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Page<C> {
    /// The most rows.
    pub limit: u32,
    /// Where it starts; `None`: at the beginning of the list.
    pub cursor: Option<C>,
}

const LIMIT_DEFAULT: u32 = 20;
const LIMIT_MAX: u32 = 100;

/// The bytes of a cursor that name its list.
const LIST_BYTES: usize = 6;

impl<C: Display> Page<C> {
    /// A cursor of a list as clients receive it: an opaque text of `[A-Za-z0-9_-]`.
    pub fn encode(list: &str, cursor: &C) -> String {
        let place = cursor.to_string();
        let mut bytes = fingerprint(list, &place).to_vec();
        bytes.extend(place.into_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }
}

/// The bytes that tie a place to its list, so that a cursor is refused if it was cut short or comes from another list. They are
/// no secret. A cursor names a place in a list that its reader may see anyway, so even a forged one shows nothing else.
fn fingerprint(list: &str, place: &str) -> [u8; LIST_BYTES] {
    // No list's name and no place has this separator.
    let digest = Sha256::new().chain_update(list).chain_update("\n").chain_update(place).finalize();
    std::array::from_fn(|i| digest[i])
}

/// Refuses a query with a parameter that the route does not know, or with one twice.
pub(super) fn check_query(request: &Request) -> Result<(), Problem> {
    let known = asked(request)?.query;
    let Some(query) = request.query_string_parameters_ref() else { return Ok(()) };
    let names: BTreeSet<&str> = query.iter().map(|(name, _)| name).collect();
    let mut fields = Fields::default();
    for name in names {
        // A client chose the name.
        let shown = name.chars().take(64).collect::<String>();
        if !known.contains(&name) {
            fields.check(&shown, None::<()>, "is not known");
        } else if query.all(name).is_some_and(|values| values.len() > 1) {
            fields.check(&shown, None::<()>, "is given twice");
        }
    }
    fields.finish()
}

/// The value of a parameter of the query.
fn value<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    request.query_string_parameters_ref()?.first(name)
}

/// The value of a parameter of the query that a request must have.
pub fn parameter<V: FromStr<Err: Display>>(request: &Request, name: &str) -> Result<V, Problem> {
    let text = value(request, name).ok_or_else(|| Problem::field(name, "is required"))?;
    text.parse().map_err(|error| Problem::field(name, format!("{error}")))
}

/// The value of a parameter of the query that a request may have. `parse` returns `None` for what is not valid; `reason` says what is.
pub fn optional<V>(
    fields: &mut Fields,
    request: &Request,
    name: &str,
    reason: &str,
    parse: impl FnOnce(&str) -> Option<V>,
) -> Option<V> {
    value(request, name).and_then(|text| fields.check(name, parse(text), reason))
}

/// The place in `list` that a parameter of the query names by a cursor.
pub fn cursor<C: FromStr + Display>(fields: &mut Fields, request: &Request, name: &str, list: &str) -> Option<C> {
    optional(fields, request, name, "is not a cursor of this list", |text| decode(list, text))
}

/// The page of `list` (a name that no other list has) that `limit` and `cursor` in the query ask for.
pub fn page<C: FromStr + Display>(request: &Request, list: &str) -> Result<Page<C>, Problem> {
    page_with(Fields::default(), request, list)
}

/// The same, with what is wrong with other parameters of the query.
pub fn page_with<C: FromStr + Display>(mut fields: Fields, request: &Request, list: &str) -> Result<Page<C>, Problem> {
    let limit = optional(&mut fields, request, "limit", "must be an integer from 1 to 100", parse_limit);
    let cursor = cursor(&mut fields, request, "cursor", list);
    fields.finish()?;
    Ok(Page { limit: limit.unwrap_or(LIMIT_DEFAULT), cursor })
}

const A_NAME: &str = "must be 1 to 64 characters of A-Z a-z 0-9 _ . : -";

/// The sender in the query, and the reference and the key of a limit, of which one is needed.
pub fn selection(request: &Request) -> Result<Selection, Problem> {
    let mut fields = Fields::default();
    let sender = optional(&mut fields, request, "sender_id", "is not a user id", |text| text.parse().ok());
    if value(request, "sender_id").is_none() {
        fields.check("sender_id", None::<()>, "is required");
    }
    let reference = optional(&mut fields, request, "reference", A_NAME, |text| text.parse().ok());
    let limit_key = optional(&mut fields, request, "limit_key", A_NAME, |text| text.parse().ok());
    if value(request, "reference").or(value(request, "limit_key")).is_none() {
        fields.check("reference", None::<()>, "is required, or limit_key");
    }
    fields.complete(|| Some(Selection { sender: sender?, reference, limit_key }))
}

/// The packets of the sender in the query with a reference.
pub fn selection_of(request: &Request, reference: &str) -> Result<(Reference, Selection), Problem> {
    let reference: Reference = reference.parse().map_err(|error| Problem::field("reference", format!("{error}")))?;
    let sender = parameter(request, "sender_id")?;
    Ok((reference.clone(), Selection { sender, reference: Some(reference), limit_key: None }))
}

/// A page of a user's movements that a request asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MovementsAsked<C> {
    /// Which movements.
    pub filter: MovementFilter,
    /// The page of their list.
    pub page: Page<C>,
    /// The name of their list.
    pub list: String,
}

/// The page of a user's movements that a request asks for.
pub fn movements_asked<C: FromStr + Display>(request: &Request, user: &UserId) -> Result<MovementsAsked<C>, Problem> {
    const A_TIME: &str = "must be a time such as 2026-11-20T13:30:00.120Z";
    let mut fields = Fields::default();
    let mut time = |name| optional(&mut fields, request, name, A_TIME, |text| text.parse::<Timestamp>().ok());
    let (from, to) = (time("from"), time("to"));
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        fields.check("to", None::<()>, "must not be before from");
    }
    let kinds = MovementKind::ALL.map(MovementKind::name).join(", ");
    let kind = optional(&mut fields, request, "kind", &format!("must be one of {kinds}"), MovementKind::named);
    // A place among some movements is none among others.
    let text = |at: Option<Timestamp>| at.map_or_else(|| "any time".to_owned(), |at| at.to_string());
    let what = kind.map_or("movements", MovementKind::name);
    let list = format!("{what} of user {user} from {} to {}", text(from), text(to));
    let page = page_with(fields, request, &list)?;
    Ok(MovementsAsked { filter: MovementFilter { from, to, kind }, page, list })
}

fn parse_limit(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|limit| digits && (1..=LIMIT_MAX).contains(limit))
}

/// Reads a cursor, and accepts only its canonical spelling: the place that it names must encode to the same text.
fn decode<C: FromStr + Display>(list: &str, text: &str) -> Option<C> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let cursor: C = std::str::from_utf8(bytes.get(LIST_BYTES..)?).ok()?.parse().ok()?;
    (Page::encode(list, &cursor) == text).then_some(cursor)
}

#[cfg(test)]
mod tests {
    use lambda_http::Body;

    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Page<u32>, Problem> {
        let mut query = std::collections::HashMap::<String, Vec<String>>::new();
        for (name, value) in pairs {
            query.entry((*name).to_owned()).or_default().push((*value).to_owned());
        }
        page(&Request::new(Body::Empty).with_query_string_parameters(query), "a list")
    }

    #[test]
    fn a_page_reads() {
        assert_eq!(parse(&[]).unwrap(), Page { limit: 20, cursor: None });
        let cursor = Page::encode("a list", &7_u32);
        assert_eq!(parse(&[("limit", "100"), ("cursor", &cursor)]).unwrap(), Page { limit: 100, cursor: Some(7) });
    }

    #[test]
    fn a_bad_page_is_refused() {
        for limit in ["", "0", "101", "+5", "-1", "1.0", "ten", "99999999999999999999", " 5"] {
            assert_eq!(parse(&[("limit", limit)]).unwrap_err().errors[0].field, "limit", "{limit}");
        }
        let cursor = Page::encode("a list", &7_u32);
        let of_another = Page::encode("another", &7_u32);
        let padded = format!("{cursor}=");
        let leading_zero = [&fingerprint("a list", "7")[..], b"07"].concat();
        let leading_zero = URL_SAFE_NO_PAD.encode(leading_zero);
        for cursor in ["", "!", "Nw", "x", &cursor[1..], &of_another, &padded, &leading_zero, "AAAA", "\u{0}", "/w"] {
            assert_eq!(parse(&[("cursor", cursor)]).unwrap_err().errors[0].field, "cursor", "{cursor}");
        }
    }
}
