use super::*;
use crate::domain::Claim;
use crate::ledger::items::{ClaimItem, SentItem};

/// A ledger with two claims and a packet of alice's.
fn ledger_with_histories() -> Ledger<Told> {
    let (ledger, alice) = (ledger(), user("alice"));
    for n in [1, 2] {
        let (packet_id, amount, at) = (packet_id(n), Amount::new(10 * u64::from(n)), at(n.into()));
        let (sender_id, greeting) = (user("bob"), format!("hi {n}"));
        let claim = ClaimItem {
            packet_id,
            slip: 5,
            amount,
            at,
            sender_id,
            greeting,
            reference: None,
            limit_key: None,
            by: None,
        };
        ledger.holds(keys::claim(&alice, packet_id), &claim);
    }
    let sent = SentItem { packet_id: packet_id(3), amount: Amount::new(300), at: at(3), day: None };
    ledger.holds(keys::sent(&alice, packet_id(3)), &sent);
    ledger
}

#[tokio::test]
async fn histories_show_the_newest_first() {
    let ledger = ledger_with_histories();
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
async fn the_claims_of_some_users_come_by_user_and_packet() {
    let ledger = ledger_with_histories();
    let asked = [("alice", 1), ("alice", 3), ("bob", 3)].map(|(name, n)| (user(name), packet_id(n)));
    let found = ledger.claims_at(&asked.clone().into()).await.unwrap();
    let claim = Claim { slip: 5, amount: Amount::new(10), at: at(1) };
    let found = asked.map(|place| found[&place].as_ref().unwrap().clone());
    assert_eq!(found, [Some(claim), None, None]);
}
