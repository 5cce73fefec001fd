use std::time::Duration;

use super::*;
use crate::domain::{
    Amounts, Best, DailyLimit, DayZone, Decision, Intervention, Labels, Owner, PARTITIONS, PartId, Partition, Summary,
};
use crate::ledger::commit::BACKOFF_MOST;
use crate::ledger::items::{AmountsItem, DecisionItem, PacketItem, ReferenceItem, SendKeyItem, SentItem};
use crate::ledger::packet::READ_ALL;
use crate::ledger::{Due, LedgerError, SendOutcome, SendRequest, due_shard};
use crate::ports::Bound;

const HASH: [u8; 32] = [0xab; 32];

fn decision(slip: u32, name: Option<&str>, amount: u64, at_ms: u64) -> Decision {
    let owner = name.map_or(Owner::Refunded, |name| Owner::User(user(name)));
    Decision { slip, owner, amount: Amount::new(amount), at: at(at_ms) }
}

async fn send(ledger: &Ledger<Told>, terms: &Terms) -> SendOutcome {
    send_within(ledger, terms, None).await
}

async fn send_within(ledger: &Ledger<Told>, terms: &Terms, daily_max: Option<u64>) -> SendOutcome {
    send_in(DayZone::UTC, ledger, terms, daily_max).await
}

async fn send_in(zone: DayZone, ledger: &Ledger<Told>, terms: &Terms, daily_max: Option<u64>) -> SendOutcome {
    let amounts: Vec<Amounts> = terms.id.parts().map(|_| Amounts::pack(&[300, 20, 680]).unwrap()).collect();
    let daily_limit = daily_max.map(|most| DailyLimit { most: Amount::new(most), zone });
    let (key, daily_limit) = ("k1".parse().unwrap(), daily_limit.as_ref());
    let request = SendRequest { terms, amounts: &amounts, key: &key, body_hash: HASH, daily_limit };
    ledger.send(&request).await.unwrap()
}

fn send_key(packet_id: PacketId, hash: [u8; 32]) -> SendKeyItem {
    SendKeyItem { packet_id, body_hash: hex::encode(hash) }
}

#[tokio::test]
async fn a_send_is_a_key_a_packet_a_debit_and_the_amounts() {
    let (ledger, alice) = (ledger(), user("alice"));
    let terms = Terms { id: PacketId::new(at(10), 2, [1; 10]), ..terms() };
    assert_eq!(send(&ledger, &terms).await, SendOutcome::Sent);
    let amounts = AmountsItem { amounts: Amounts::pack(&[300, 20, 680]).unwrap().as_bytes().to_vec().into() };
    let part = |index| keys::amounts(PartId { packet: terms.id, index });
    let expected = [
        put(keys::send_key(&alice, &"k1".parse().unwrap()), &send_key(terms.id, HASH)),
        put(keys::packet(terms.id), &PacketItem::new(&terms)),
        put(
            keys::sent(&alice, terms.id),
            &SentItem { packet_id: terms.id, amount: terms.total, at: at(10), day: None },
        ),
        Write::Add {
            key: keys::wallet(&alice),
            deltas: vec![("balance", -1_000), ("sent_count", 1), ("sent_amount", 1_000)],
            bounds: vec![Bound::AtLeast("balance", 1_000)],
            absent: Some("suspended"),
        },
        put(part(0), &amounts),
        put(part(1), &amounts),
    ];
    assert_eq!(ledger.written(), expected);
}

#[tokio::test]
async fn a_send_within_a_daily_limit_adds_to_the_day_of_the_sender() {
    // 2026-11-20T17:30:00Z, and the date that it is in these zones.
    let terms = Terms { created_at: at(1_795_195_800_000), ..terms() };
    for (zone, date) in [("UTC", "2026-11-20"), (DayZone::DEFAULT, "2026-11-21"), ("America/Sao_Paulo", "2026-11-20")] {
        let ledger = ledger();
        send_in(zone.parse().unwrap(), &ledger, &terms, Some(1_500)).await;
        let expected = Write::Add {
            key: keys::day(&user("alice"), date),
            deltas: vec![("sent_count", 1), ("sent_amount", 1_000)],
            bounds: vec![Bound::AtMost("sent_amount", 500)],
            absent: None,
        };
        assert_eq!(ledger.written()[4], expected, "{zone}");
        let Write::PutNew { item, .. } = &ledger.written()[2] else { panic!("no debit") };
        assert_eq!(item["day"], serde_dynamo::AttributeValue::S(date.to_owned()), "the audit counts by it");
    }
}

#[tokio::test]
async fn a_suspension_counts_before_the_days_limit_and_that_before_the_balance() {
    let wallet = |suspended: bool| {
        let suspension = suspended.then(|| Intervention { reason: "x".parse().unwrap(), at: at(1), by: None });
        let mut item = items::write(&BTreeMap::from([("balance", 1)])).unwrap();
        item.extend(suspension.map(|why| ("suspended".to_owned(), serde_dynamo::to_attribute_value(why).unwrap())));
        Reason::ConditionFailed(Some(item))
    };
    let too_much = || Reason::ConditionFailed(None);
    let send = async |wallet, day, daily_max| {
        let reasons = [Reason::None, Reason::None, Reason::None, wallet, day];
        send_within(&cancelled(reasons), &terms(), daily_max).await
    };
    assert_eq!(send(Reason::None, too_much(), Some(1_500)).await, SendOutcome::DailyLimitExceeded);
    assert_eq!(send(wallet(false), too_much(), Some(1_500)).await, SendOutcome::DailyLimitExceeded);
    assert_eq!(send(wallet(true), too_much(), Some(1_500)).await, SendOutcome::Suspended);
    assert_eq!(send(wallet(false), Reason::None, Some(1_500)).await, SendOutcome::InsufficientBalance);
    assert_eq!(send(wallet(false), Reason::None, None).await, SendOutcome::InsufficientBalance);
    // The fifth write of a send without a limit is that of the amounts.
    assert_eq!(send(wallet(false), too_much(), None).await, SendOutcome::InsufficientBalance);

    for is_suspended in [false, true] {
        let ledger = ledger();
        let Reason::ConditionFailed(Some(item)) = wallet(is_suspended) else { unreachable!() };
        ledger.table.items.lock().unwrap().insert(keys::wallet(&user("alice")), item);
        let outcome = send_within(&ledger, &terms(), Some(999)).await;
        let expected = if is_suspended { SendOutcome::Suspended } else { SendOutcome::DailyLimitExceeded };
        assert_eq!(outcome, expected, "more than a day's limit at once");
    }
}

fn labelled() -> Terms {
    let labels = Labels {
        cover: Some("spring".parse().unwrap()),
        reference: Some("order-17".parse().unwrap()),
        metadata: Some([("k".to_owned(), String::new())].into()),
    };
    Terms { labels, ..terms() }
}

#[tokio::test]
async fn a_send_with_a_reference_writes_one_item_more() {
    let (plain, referenced) = (ledger(), ledger());
    send(&plain, &terms()).await;
    send(&referenced, &labelled()).await;
    let (plain, referenced) = (plain.written(), referenced.written());
    let key = keys::reference(&"order-17".parse().unwrap(), terms().id);
    assert_eq!(key, Key { pk: "REF#order-17".to_owned(), sk: terms().id.to_string() });
    let item = ReferenceItem { packet_id: terms().id, at: terms().created_at };
    assert_eq!((referenced.len(), referenced.last()), (plain.len() + 1, Some(&put(key, &item))));
    assert_eq!((&referenced[0], &referenced[2..5]), (&plain[0], &plain[2..5]));
}

#[tokio::test]
async fn labels_read_as_they_were_sent_and_older_packets_have_none() {
    let ledger = ledger();
    ledger.holds(keys::packet(packet_id(1)), &PacketItem::new(&labelled()));
    assert_eq!(ledger.packet(packet_id(1)).await.unwrap().unwrap().terms, labelled());
    let older = items::write(&PacketItem::new(&terms())).unwrap();
    assert!(["cover", "reference", "metadata"].iter().all(|name| !older.contains_key(*name)));
}

/// A state that a process does not know, or that does not match the item's other attributes, is refused.
#[tokio::test]
async fn a_packet_in_an_unknown_state_is_not_read() {
    let ledger = ledger();
    let text = |text: &str| serde_dynamo::AttributeValue::S(text.to_owned());
    let new = items::write(&PacketItem::new(&terms())).unwrap();
    for (name, value) in [
        ("status", "half"),
        ("status", "closed"),
        ("status", "settled"),
        ("close_reason", "a mistake"),
        ("ack", "both"),
    ] {
        let mut item = new.clone();
        item.insert(name.to_owned(), text(value));
        ledger.table.items.lock().unwrap().insert(keys::packet(packet_id(1)), item);
        assert!(matches!(ledger.packet(packet_id(1)).await, Err(LedgerError::Impossible(_))), "{name}: {value}");
    }
}

#[tokio::test]
async fn packets_are_found_by_their_reference_newest_first() {
    let ledger = ledger();
    let reference = "order-17".parse().unwrap();
    for n in [1, 2, 3] {
        let item = ReferenceItem { packet_id: packet_id(n), at: at(n.into()) };
        ledger.holds(keys::reference(&reference, packet_id(n)), &item);
    }
    let first = ledger.referenced(&reference, None, 2).await.unwrap();
    assert_eq!((first.rows, first.next), (vec![packet_id(3), packet_id(2)], Some(packet_id(2))));
    let last = ledger.referenced(&reference, first.next, 2).await.unwrap();
    assert_eq!((last.rows, last.next), (vec![packet_id(1)], None));
    assert_eq!(ledger.referenced(&"order-1".parse().unwrap(), None, 2).await.unwrap().rows, []);
}

#[tokio::test]
async fn a_key_that_is_there_decides_before_the_balance() {
    let poor = || [Reason::None, Reason::None, Reason::None, Reason::ConditionFailed(None)];
    assert_eq!(send(&cancelled(poor()), &terms()).await, SendOutcome::InsufficientBalance);
    for (found, outcome) in [
        (send_key(packet_id(1), [0; 32]), SendOutcome::Sent),
        (send_key(packet_id(2), HASH), SendOutcome::Replayed(packet_id(2))),
        (send_key(packet_id(2), [0; 32]), SendOutcome::KeyReused),
    ] {
        let shown = cancelled([there(&found)]);
        let read = cancelled(poor());
        read.holds(keys::send_key(&user("alice"), &"k1".parse().unwrap()), &found);
        for ledger in [shown, read] {
            assert_eq!(send(&ledger, &terms()).await, outcome);
        }
    }
}

/// Otherwise this very send may pay between the two reads, and then be answered that the wallet is poor.
#[tokio::test]
async fn the_key_is_read_after_the_wallet() {
    let ledger = cancelled([Reason::None, Reason::None, Reason::None, Reason::ConditionFailed(None)]);
    assert_eq!(send(&ledger, &terms()).await, SendOutcome::InsufficientBalance);
    let key = keys::send_key(&user("alice"), &"k1".parse().unwrap());
    assert_eq!(*ledger.table.reads.lock().unwrap(), [keys::wallet(&user("alice")), key]);
}

#[tokio::test]
async fn a_packet_reads_as_it_was_sent_and_closed() {
    let ledger = ledger();
    assert!(ledger.packet(packet_id(1)).await.unwrap().is_none());
    ledger.holds(keys::packet(packet_id(1)), &PacketItem::new(&terms()));
    let packet = ledger.packet(packet_id(1)).await.unwrap().unwrap();
    assert_eq!((packet.terms, packet.settled), (terms(), None));
    for best in [None, Some(Best { slip: 1, user: user("bob"), amount: Amount::new(300) })] {
        let summary = Summary {
            claimed_count: 1,
            claimed_amount: Amount::new(300),
            refunded_count: 2,
            refunded_amount: Amount::new(700),
            best,
        };
        ledger.mark_settled(&terms(), &summary, Timestamp::from_ms(7)).await.unwrap();
        let Some((writes, _)) = ledger.table.transactions.lock().unwrap().pop() else { panic!("no write") };
        let [Write::Change { set, .. }] = &writes[..] else { panic!("{writes:?}") };
        let mut item = items::write(&PacketItem::new(&terms())).unwrap();
        item.extend(set.clone().into_inner());
        ledger.table.items.lock().unwrap().insert(keys::packet(packet_id(1)), item);
        let [packet] = &ledger.packets(&[packet_id(1), packet_id(9)]).await.unwrap()[..] else { panic!("one packet") };
        assert_eq!((&packet.terms, packet.settled.as_ref()), (&terms(), Some(&summary)));
    }
}

#[tokio::test(start_paused = true)]
async fn packets_for_which_the_table_stays_busy_are_asked_for_with_pauses_and_given_up() {
    let (ledger, begun) = (ledger(), Instant::now());
    *ledger.table.busy.lock().unwrap() = Some(Vec::new());
    assert!(matches!(ledger.packets(&[packet_id(1)]).await, Err(LedgerError::Unavailable(_))));
    let times = ledger.table.busy.lock().unwrap().take().unwrap();
    let pauses: Vec<_> = times.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(pauses.iter().all(|pause| (Duration::from_millis(1)..=BACKOFF_MOST).contains(pause)), "{pauses:?}");
    assert!(times.len() > 10 && begun.elapsed() <= READ_ALL, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn amounts_are_found_by_their_part() {
    let (ledger, part) = (ledger(), PartId { packet: packet_id(1), index: 0 });
    assert!(matches!(ledger.amounts(part).await, Err(LedgerError::Impossible(_))));
    let amounts = Amounts::pack(&[300, 20, 680]).unwrap();
    ledger.holds(keys::amounts(part), &AmountsItem { amounts: amounts.as_bytes().to_vec().into() });
    assert_eq!(ledger.amounts(part).await.unwrap(), amounts);
    ledger.holds(keys::amounts(part), &AmountsItem { amounts: vec![9].into() });
    assert!(matches!(ledger.amounts(part).await, Err(LedgerError::Impossible(_))));
}

#[tokio::test]
async fn the_decisions_of_some_slips_come_in_their_order() {
    let ledger = ledger();
    let all = [0, 1, 63, 64, 130].map(|slip| decision(slip, (slip != 63).then_some("bob"), 5, 9));
    for decision in &all {
        ledger.holds(keys::decision(packet_id(1), decision.slip), &DecisionItem::from(decision));
    }
    let found = ledger.decisions(packet_id(1), [130, 64, 63, 0, 2]).await.unwrap();
    assert_eq!(found, [0, 2, 3, 4].map(|i| all[i].clone()));
    assert_eq!(ledger.table.queries.lock().unwrap().len(), 3, "one query for 64 neighbours");
}

#[tokio::test]
async fn what_is_due_is_named_by_its_key() {
    let ledger = ledger();
    for n in [1, 2] {
        ledger.holds(keys::packet(packet_id(n)), &BTreeMap::from([("due_at", n - 1)]));
    }
    let due = [(1, None), (2, Some(at(1)))].map(|(n, expired_at)| Due { id: packet_id(n), expired_at });
    assert_eq!(ledger.due(0, at(9), None, 5).await.unwrap(), due);
    assert_eq!(ledger.due(0, at(9), Some(due[0]), 5).await.unwrap(), due[1..]);
    ledger.holds(keys::wallet(&user("ann")), &BTreeMap::from([("due_at", 1)]));
    assert!(matches!(ledger.due(0, at(9), None, 5).await, Err(LedgerError::Impossible(_))));
}

#[test]
fn a_shard_of_what_is_due_is_sixteen_neighbouring_partitions() {
    for partition in 0..PARTITIONS {
        assert_eq!(due_shard(Partition::wrapping(partition)), partition / 16);
    }
}

#[test]
fn a_summary_counts_and_finds_the_best() {
    let none = Summary::of(&[]);
    assert_eq!((none.decided_count(), none.best), (0, None));
    let decisions = [
        decision(0, Some("ann"), 300, 12),
        decision(1, Some("bob"), 400, 13),
        decision(2, None, 900, 10),
        decision(3, Some("carol"), 400, 11),
        decision(4, Some("dave"), 400, 11),
    ];
    let expected = Summary {
        claimed_count: 4,
        claimed_amount: Amount::new(1_500),
        refunded_count: 1,
        refunded_amount: Amount::new(900),
        best: Some(Best { slip: 3, user: user("carol"), amount: Amount::new(400) }),
    };
    assert_eq!(Summary::of(&decisions), expected);
    assert_eq!(expected.decided_count(), 5);
}
