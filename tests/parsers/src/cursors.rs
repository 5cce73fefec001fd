use std::collections::HashMap;
use std::fmt::{Debug, Display};
use std::str::FromStr;

use lambda_http::{Body, Request, RequestExt};
use shared::domain::{PacketId, RequestKey};
use shared::http::{Code, Page, page};
use shared::ledger::MovementCursor;
use shared::service::ListPlace;

const LIST: &str = "a list";
const OTHER_LIST: &str = "another list";

/// The cursors of all lists, and the positions that they encode.
pub fn cursors(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    of_kind::<MovementCursor>(text);
    of_kind::<PacketId>(text);
    of_kind::<u32>(text);
    of_kind::<ListPlace>(text);
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
