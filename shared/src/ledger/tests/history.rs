use super::*;
use crate::domain::Claim;
use crate::ledger::items::{ClaimItem, OutsideItem, RefundItem, SentItem};
use crate::ledger::{LedgerError, Slice};

/// A ledger with one movement of each kind and two claims, all of alice's.
fn ledger_with_movements() -> Ledger<Told> {
    let (ledger, alice) = (ledger(), user("alice"));
    for n in [1, 2] {
        let id = packet_id(n);
        let (amount, at) = (Amount::new(10 * u64::from(n)), at(n.into()));
        let claim = ClaimItem {
            packet_id: id,
            slip: 5,
            amount,
            at,
            sender_id: user("bob"),
            greeting: format!("hi {n}"),
            reference: None,
            by: None,
        };
        ledger.holds(keys::claim(&alice, id), &claim);
    }
    let (id, amount) = (packet_id(3), Amount::new(300));
    ledger.holds(keys::sent(&alice, id), &SentItem { packet_id: id, amount, at: at(3) });
    let refund = RefundItem { packet_id: id, slip_count: 2, amount: Amount::new(100), at: at(4) };
    ledger.holds(keys::refund(&alice, id, 90), &refund);
    let outside = |id: &str| OutsideItem { id: id.to_owned(), amount, at: at(5), by: None };
    let signed = OutsideItem { by: Some(signer()), ..outside("d1") };
    ledger.holds(keys::deposit(&alice, &"d1".parse().unwrap()), &signed);
    ledger.holds(keys::withdrawal(&alice, &"w1".parse().unwrap()), &outside("w1"));
    ledger.holds(keys::wallet(&alice), &outside("no movement"));
    ledger
}

#[tokio::test]
async fn movements_of_every_kind_are_listed_with_their_signs() {
    let ledger = ledger_with_movements();
    let slice = ledger.movements(&user("alice"), None, 10).await.unwrap();
    assert!(slice.next.is_none());
    let rows: Vec<_> =
        slice.rows.iter().map(|row| (row.kind.name(), &*row.id, row.amount, row.at.ms(), row.packet_id)).collect();
    let ids = [1, 2, 3].map(|n| packet_id(n).to_string());
    let refund = format!("{}-90", ids[2]);
    let expected = [
        ("claim", &*ids[0], 10, 1, Some(packet_id(1))),
        ("claim", &ids[1], 20, 2, Some(packet_id(2))),
        ("deposit", "d1", 300, 5, None),
        ("refund", &refund, 100, 4, Some(packet_id(3))),
        ("sent", &ids[2], -300, 3, Some(packet_id(3))),
        ("withdrawal", "w1", -300, 5, None),
    ];
    assert_eq!(rows, expected);
    let signers: Vec<_> = slice.rows.into_iter().map(|row| row.by).collect();
    assert_eq!(signers, [None, None, Some(signer()), None, None, None], "older items name nobody");
}

#[tokio::test]
async fn pages_of_movements_list_each_once() {
    let ledger = ledger_with_movements();
    for limit in 1..=6 {
        let (mut ids, mut after) = (Vec::new(), None);
        loop {
            let asked = ledger.table.queries.lock().unwrap().len();
            let Slice { rows, next } = ledger.movements(&user("alice"), after, limit).await.unwrap();
            assert!(rows.len() == limit as usize || next.is_none(), "{limit}");
            ids.extend(rows.into_iter().map(|row| (row.kind, row.id)));
            // No kind is asked for more than is missing, and none once nothing is.
            let queries = ledger.table.queries.lock().unwrap();
            assert!(
                queries[asked..].iter().all(|query| (1..=limit + 1).contains(&query.limit.unwrap())),
                "{queries:?}"
            );
            // A cursor goes through the client's hands.
            after = next.map(|next| next.to_string().parse().unwrap());
            if after.is_none() {
                break;
            }
        }
        assert_eq!(ids.len(), 6, "{limit}");
        assert!(ids.is_sorted_by_key(|(kind, _)| *kind), "{limit}: {ids:?}");
    }
}

#[tokio::test]
async fn no_kind_is_asked_for_once_the_page_is_full() {
    let ledger = ledger_with_movements();
    ledger.movements(&user("alice"), None, 1).await.unwrap();
    let asked = |ledger: &Ledger<Told>| -> Vec<_> {
        let queries = ledger.table.queries.lock().unwrap();
        queries.iter().map(|query| (query.sk_prefix, query.limit, query.descending)).collect()
    };
    assert_eq!(asked(&ledger), [("CLAIM#", Some(2), false)]);
    let ledger = ledger_with_movements();
    ledger.movements(&user("alice"), None, 2).await.unwrap();
    assert_eq!(asked(&ledger), [("CLAIM#", Some(3), false), ("DEPOSIT#", Some(1), false)]);
}

#[tokio::test]
async fn histories_show_the_newest_first() {
    let ledger = ledger_with_movements();
    let first = ledger.claims(&user("alice"), None, 1).await.unwrap();
    assert_eq!(first.next, Some(packet_id(2)));
    let [row] = &first.rows[..] else { panic!("{first:?}") };
    assert_eq!((row.packet_id, &row.sender, &*row.greeting), (packet_id(2), &user("bob"), "hi 2"));
    assert_eq!(row.claim, Claim { slip: 5, amount: Amount::new(20), at: at(2) });
    let last = ledger.claims(&user("alice"), first.next, 1).await.unwrap();
    assert_eq!((last.rows[0].packet_id, last.next), (packet_id(1), None));

    let sent = ledger.sent(&user("alice"), None, 1).await.unwrap();
    assert_eq!((sent.rows, sent.next), (vec![packet_id(3)], None));
    assert_eq!(ledger.sent(&user("alice"), Some(packet_id(3)), 1).await.unwrap().rows, []);
}

#[tokio::test]
async fn an_item_without_a_sort_key_is_a_defect() {
    let ledger = ledger();
    let claim = BTreeMap::from([("amount", 1)]);
    let Write::PutNew { key, item } = put(keys::claim(&user("alice"), packet_id(1)), &claim) else { panic!("a put") };
    ledger.table.items.lock().unwrap().insert(key, item);
    assert!(matches!(ledger.movements(&user("alice"), None, 1).await, Err(LedgerError::Impossible(_))));
}
