use std::fmt::Display;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lambda_http::{Request, RequestExt};

use super::body::fields;
use super::problem::Problem;

/// Which piece of a list is asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Page<C> {
    /// At most so many rows.
    pub limit: u32,
    /// Where it starts; `None`: at the beginning.
    pub cursor: Option<C>,
}

const LIMIT_DEFAULT: u32 = 20;
const LIMIT_MAX: u32 = 100;

impl<C: Display> Page<C> {
    /// A cursor as clients get it: opaque, of `[A-Za-z0-9_-]`.
    pub fn encode(cursor: &C) -> String {
        URL_SAFE_NO_PAD.encode(cursor.to_string())
    }
}

/// The page that `limit` and `cursor` in the query ask for. A cursor says where in the caller's own list to go on, so
/// even a forged one leads nowhere else.
pub fn page<C: FromStr + Display>(request: &Request) -> Result<Page<C>, Problem> {
    let query = request.query_string_parameters_ref();
    let values = |name: &str| query.and_then(|query| query.all(name)).unwrap_or_default();
    let mut fields = fields();
    let limit = match values("limit")[..] {
        [] => Some(LIMIT_DEFAULT),
        [text] => fields.check("limit", parse_limit(text), "must be an integer from 1 to 100"),
        _ => fields.check("limit", None, "is given twice"),
    };
    let cursor = match values("cursor")[..] {
        [] => None,
        [text] => fields.check("cursor", decode(text), "is not one that a list gave"),
        _ => fields.check("cursor", None, "is given twice"),
    };
    fields.finish()?;
    Ok(Page { limit: limit.unwrap_or(LIMIT_DEFAULT), cursor })
}

fn parse_limit(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|limit| digits && (1..=LIMIT_MAX).contains(limit))
}

/// Takes the one spelling of a cursor: what it stands for must encode to it again.
fn decode<C: FromStr + Display>(text: &str) -> Option<C> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let cursor: C = std::str::from_utf8(&bytes).ok()?.parse().ok()?;
    (Page::encode(&cursor) == text).then_some(cursor)
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
        page(&Request::new(Body::Empty).with_query_string_parameters(query))
    }

    #[test]
    fn a_page_reads() {
        assert_eq!(parse(&[]).unwrap(), Page { limit: 20, cursor: None });
        let cursor = Page::encode(&7_u32);
        assert_eq!(parse(&[("limit", "100"), ("cursor", &cursor)]).unwrap(), Page { limit: 100, cursor: Some(7) });
    }

    #[test]
    fn a_bad_page_is_refused() {
        for limit in ["", "0", "101", "+5", "-1", "1.0", "ten", "99999999999999999999", " 5"] {
            assert_eq!(parse(&[("limit", limit)]).unwrap_err().errors[0].field, "limit", "{limit}");
        }
        let leading_zero = URL_SAFE_NO_PAD.encode("07");
        for cursor in ["", "!", "Nw==", "x", &leading_zero, "AAAA", "\u{0}", "/w"] {
            assert_eq!(parse(&[("cursor", cursor)]).unwrap_err().errors[0].field, "cursor", "{cursor}");
        }
        assert!(parse(&[("limit", "1"), ("limit", "1")]).is_err());
    }
}
