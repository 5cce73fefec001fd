use std::collections::HashMap;
use std::fmt::{Debug, Display};
use std::str::FromStr;

use lambda_http::http::Method;
use lambda_http::{Body, Request, RequestExt};
use shared::domain::{Cover, IdempotencyKey, PARTITIONS, PacketId, PartId, Reference, RequestKey, UserId};
use shared::http::{Code, Page, Problem, ROUTES, asked, page};
use shared::ledger::{MovementCursor, PendingCursor};
use shared::service::ReportPlace;

/// Ids, names of parts, and the paths that contain them.
pub fn ids(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(id) = reads_one_way::<PacketId>(text) {
        assert!((1..=16).contains(&id.part_count()) && id.partition().index() < PARTITIONS);
        for part in id.parts() {
            assert_eq!(part.to_string().parse(), Ok(part));
        }
    }
    if let Some(part) = reads_one_way::<PartId>(text) {
        assert!(part.packet.parts().any(|other| other == part), "{text}");
    }
    let user =
        !matches!(text, "." | "..") && text.bytes().all(|byte| matches!(byte, b'!'..=b'~') && !b"/?#%".contains(&byte));
    assert_eq!(reads_one_way::<UserId>(text).is_some(), user && (1..=128).contains(&text.len()), "{text:?}");
    let key = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    assert_eq!(reads_one_way::<RequestKey>(text).is_some(), key && (1..=64).contains(&text.len()), "{text:?}");
    let visible = text.bytes().all(|byte| matches!(byte, b'!'..=b'~') && byte != b',');
    assert_eq!(reads_one_way::<IdempotencyKey>(text).is_some(), visible && (1..=255).contains(&text.len()), "{text:?}");
    let cover = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    assert_eq!(reads_one_way::<Cover>(text).is_some(), cover && (1..=32).contains(&text.len()), "{text:?}");
    let reference = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte));
    assert_eq!(reads_one_way::<Reference>(text).is_some(), reference && (1..=64).contains(&text.len()), "{text:?}");
    for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::HEAD] {
        path(text, &method);
    }
}

/// An accepted id prints as the input, so that no id has two spellings.
fn reads_one_way<I: FromStr + Display + Debug + PartialEq>(text: &str) -> Option<I> {
    let id: I = text.parse().ok()?;
    assert_eq!(id.to_string(), text);
    Some(id)
}

fn path(text: &str, method: &Method) {
    let mut request = Request::new(Body::Empty).with_raw_http_path(text);
    *request.method_mut() = method.clone();
    let asked = match asked(&request) {
        Ok(asked) => asked,
        Err(Problem { code: Code::MethodNotAllowed, allow: Some(allow), .. }) => {
            return assert!(allow.split(", ").all(|allowed| allowed != method.as_str()), "{text:?}");
        }
        Err(problem) => return assert_eq!(problem.code, Code::RouteNotFound, "{text:?}"),
    };
    let route = ROUTES.iter().find(|route| route.operation == asked.operation).expect("a route of the list");
    let parts = route.path.split('/').map(|part| match part {
        "{user_id}" => asked.user_id,
        "{packet_id}" => asked.packet_id,
        part if part.starts_with('{') => asked.id,
        part => part,
    });
    let path = parts.collect::<Vec<_>>().join("/");
    // A HEAD has the route of its GET.
    let method = if *method == Method::HEAD { "GET" } else { method.as_str() };
    assert_eq!((route.method, &*path), (method, text));
    assert!(!path.contains("//") && !path.ends_with('/'), "{text:?}");
}

const LIST: &str = "a list";
const OTHER_LIST: &str = "another list";

/// The cursors of all lists, and the positions that they encode.
pub fn cursors(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    of_kind::<MovementCursor>(text);
    of_kind::<PacketId>(text);
    of_kind::<u64>(text);
    of_kind::<PendingCursor>(text);
    of_kind::<ReportPlace>(text);
    assert_eq!(text.parse::<MovementCursor>().is_ok(), is_place_of_movement(text), "{text:?}");
    limit(text);
}

fn of_kind<C: FromStr + Display + Debug + PartialEq>(text: &str) {
    // As a cursor from a client: the checksum rejects nearly every input.
    match read::<C>(LIST, text) {
        Ok(page) => assert_eq!(Page::encode(LIST, &page.cursor.expect("one was given")), text),
        Err(code) => assert_eq!(code, Code::InvalidRequest),
    }
    // As the position that a valid cursor encodes.
    let Ok(place) = text.parse::<C>() else { return };
    let cursor = Page::encode(LIST, &place);
    assert!(cursor.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{cursor}");
    let page = read::<C>(LIST, &cursor).expect("a cursor of the list");
    assert_eq!(page.cursor.as_ref(), Some(&place));
    assert!(read::<C>(OTHER_LIST, &cursor).is_err(), "{cursor}");
}

/// Whether this is a time and the sort key of a movement in the ledger.
fn is_place_of_movement(text: &str) -> bool {
    text.split_once('#').is_some_and(|(at, sk)| at.parse::<u64>().is_ok() && is_sort_key_of_movement(sk))
}

fn is_sort_key_of_movement(sk: &str) -> bool {
    let digits = |text: &str| text.len() == 6 && text.bytes().all(|byte| byte.is_ascii_digit());
    let packet = |id: &str| id.parse::<PacketId>().is_ok();
    let key = |id: &str| id.parse::<RequestKey>().is_ok();
    match sk.split_once('#') {
        Some(("CLAIM" | "SENT", id)) => packet(id),
        Some(("DEPOSIT" | "WITHDRAW", id)) => key(id),
        Some(("REFUND", rest)) => rest.split_once('#').is_some_and(|(id, slip)| packet(id) && digits(slip)),
        _ => false,
    }
}

fn read<C: FromStr + Display>(list: &str, cursor: &str) -> Result<Page<C>, Code> {
    let query = HashMap::from([("cursor".to_owned(), vec![cursor.to_owned()])]);
    page(&Request::new(Body::Empty).with_query_string_parameters(query), list).map_err(|problem| problem.code)
}

fn limit(text: &str) {
    let query = HashMap::from([("limit".to_owned(), vec![text.to_owned()])]);
    let page = page::<u32>(&Request::new(Body::Empty).with_query_string_parameters(query), LIST);
    let good = (1..=100).find(|limit| text.trim_start_matches('0') == limit.to_string());
    assert_eq!(page.ok().map(|page| page.limit), good, "{text:?}");
}
