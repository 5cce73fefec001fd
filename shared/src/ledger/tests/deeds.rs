use futures::future::join_all;

use super::*;
use crate::domain::{
    Deed, DeedKind, IdempotencyKey, Intervention, Mandate, OperatorReason, RequestKey, SendingDecision, Suspension,
    UserLimits, WithdrawalEnd, WithdrawalRequest, WithdrawalState,
};
use crate::ledger::DeedCursor;
use crate::memory::MemoryTable;
use crate::ports::System;

fn memory() -> Ledger<MemoryTable> {
    Ledger::new(MemoryTable::default(), Arc::new(System))
}

fn reason(text: &str) -> OperatorReason {
    text.parse().unwrap()
}

fn suspension(text: &str, at: u64) -> Suspension {
    let at = Timestamp::from_ms(at);
    Suspension { intervention: Intervention { reason: reason(text), at, by: None }, grabs: false }
}

fn limits(deposit_max: Option<u64>, at: u64) -> UserLimits {
    let (daily_sent_max, deposit_max) = (None, deposit_max.map(Amount::new));
    UserLimits { daily_sent_max, deposit_max, at: Timestamp::from_ms(at), by: None }
}

async fn deeds(ledger: &Ledger<MemoryTable>, of: Option<&UserId>) -> Vec<Deed> {
    let (mut all, mut after) = (Vec::new(), None::<DeedCursor>);
    loop {
        // Two a page, so that cursors are tried as well.
        let page = ledger.deeds(of, after, 2).await.unwrap();
        all.extend(page.rows);
        after = page.next.map(|next| next.to_string().parse().unwrap());
        if after.is_none() {
            return all;
        }
    }
}

async fn decided(ledger: &Ledger<MemoryTable>, suspended: Option<bool>) -> Vec<String> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = ledger.decided_users(suspended, after, 1).await.unwrap();
        all.extend(page.rows.into_iter().map(|row| row.user.to_string()));
        after = page.next.map(|next| next.to_string().parse().unwrap());
        if after.is_none() {
            return all;
        }
    }
}

#[tokio::test]
async fn each_decision_on_a_user_says_what_was_before_it() {
    let (ledger, ann) = (memory(), user("ann"));
    let because = reason("they called");
    let mandate = Mandate { reason: Some(&because), ..Mandate::default() };
    ledger.suspend(&ann, &suspension("a bot", 10), None).await.unwrap();
    // The same once more is no deed.
    ledger.suspend(&ann, &suspension("a bot", 11), None).await.unwrap();
    ledger.suspend(&ann, &suspension("a thief", 12), None).await.unwrap();
    ledger.set_limits(&ann, &limits(Some(5), 13), mandate).await.unwrap();
    ledger.set_limits(&ann, &limits(Some(5), 14), mandate).await.unwrap();
    // The clock of another process is behind.
    ledger.lift_suspension(&ann, mandate, Timestamp::from_ms(1)).await.unwrap();
    ledger.lift_suspension(&ann, mandate, Timestamp::from_ms(16)).await.unwrap();
    let seen = deeds(&ledger, Some(&ann)).await;
    let kinds: Vec<_> = seen.iter().map(|deed| (deed.deed, deed.at.ms())).collect();
    let (suspend, limit, lift) = (DeedKind::Suspend, DeedKind::Limit, DeedKind::Lift);
    assert_eq!(kinds, [(lift, 13), (limit, 13), (suspend, 12), (suspend, 10)]);
    assert_eq!(seen[0].before, seen[2].after);
    assert_eq!((seen[2].before.as_ref(), seen[3].before.as_ref()), (seen[3].after.as_ref(), None));
    assert_eq!(seen[0].reason, Some(because));
    assert_eq!(deeds(&ledger, None).await.len(), 4);
}

#[tokio::test]
async fn those_of_whom_the_operator_decided_are_listed_until_that_is_over() {
    let ledger = memory();
    let [ann, bob, cat] = ["ann", "bob", "cat"].map(user);
    ledger.suspend(&ann, &suspension("a bot", 10), None).await.unwrap();
    ledger.set_limits(&bob, &limits(Some(5), 11), Mandate::default()).await.unwrap();
    ledger.suspend(&bob, &suspension("a bot", 12), None).await.unwrap();
    ledger.set_limits(&cat, &limits(Some(5), 13), Mandate::default()).await.unwrap();
    assert_eq!(decided(&ledger, None).await, ["ann", "bob", "cat"]);
    assert_eq!(decided(&ledger, Some(true)).await, ["ann", "bob"]);
    assert_eq!(decided(&ledger, Some(false)).await, ["bob", "cat"]);
    for name in [&ann, &bob] {
        ledger.lift_suspension(name, Mandate::default(), Timestamp::from_ms(20)).await.unwrap();
    }
    assert_eq!(decided(&ledger, None).await, ["cat", "bob"]);
    ledger.set_limits(&bob, &limits(None, 21), Mandate::default()).await.unwrap();
    assert_eq!(decided(&ledger, None).await, ["cat"]);
}

#[tokio::test]
async fn a_request_with_a_known_key_changes_nothing() {
    let (ledger, ann) = (memory(), user("ann"));
    let [first, other] = ["one", "two"].map(|text| text.parse::<IdempotencyKey>().unwrap());
    ledger.suspend(&ann, &suspension("a bot", 10), Some(&first)).await.unwrap();
    let mandate = Mandate { key: Some(&other), ..Mandate::default() };
    ledger.lift_suspension(&ann, mandate, Timestamp::from_ms(11)).await.unwrap();
    // Its answer was lost, and somebody has lifted it since.
    ledger.suspend(&ann, &suspension("a bot", 12), Some(&first)).await.unwrap();
    assert_eq!(ledger.account(&ann).await.unwrap().1, None);
    ledger.suspend(&ann, &suspension("a bot", 13), None).await.unwrap();
    ledger.lift_suspension(&ann, mandate, Timestamp::from_ms(14)).await.unwrap();
    assert!(ledger.account(&ann).await.unwrap().1.is_some());
    let decision = |paused: bool, key: &IdempotencyKey, at: u64| {
        let (reason, at, key) = (Some(reason("x")), Timestamp::from_ms(at), Some(key.clone()));
        SendingDecision { paused, reason, at, by: None, key }
    };
    ledger.decide_sending(decision(true, &first, 20)).await.unwrap();
    ledger.decide_sending(decision(false, &other, 21)).await.unwrap();
    assert!(!ledger.decide_sending(decision(true, &first, 22)).await.unwrap().paused);
    assert_eq!(deeds(&ledger, None).await.len(), 5);
}

#[tokio::test]
async fn racing_decisions_stand_one_after_the_other() {
    let (ledger, ann) = (memory(), user("ann"));
    let all = (0..20).map(|n| {
        let (ledger, ann) = (&ledger, &ann);
        async move { ledger.suspend(ann, &suspension(&format!("reason {n}"), 10), None).await.unwrap() }
    });
    join_all(all).await;
    let seen = deeds(&ledger, Some(&ann)).await;
    assert_eq!(seen.len(), 20);
    assert!(seen.windows(2).all(|pair| pair[0].before == pair[1].after));
    let standing = ledger.account(&ann).await.unwrap().1.unwrap();
    assert_eq!(seen[0].after.as_ref().unwrap()["reason"], standing.intervention.reason.as_str());
}

#[tokio::test]
async fn a_movement_with_a_reason_is_a_deed_and_is_found_by_its_id() {
    let (ledger, ann) = (memory(), user("ann"));
    let id = |text: &str| text.parse::<RequestKey>().unwrap();
    let because = reason("a gift");
    let mandate = Mandate { reason: Some(&because), ..Mandate::default() };
    let at = Timestamp::from_ms;
    let ten = Amount::new(10);
    ledger.deposit(&ann, &id("d"), ten, mandate, at(1)).await.unwrap();
    ledger.deposit(&ann, &id("d"), ten, mandate, at(2)).await.unwrap();
    ledger.deposit(&ann, &id("plain"), ten, None, at(3)).await.unwrap();
    for (name, ms) in [("w1", 4), ("w2", 5)] {
        ledger.withdraw(&ann, &WithdrawalRequest::pending(id(name), ten), None, None, at(ms)).await.unwrap();
    }
    ledger.end_withdrawal(&ann, &id("w1"), WithdrawalEnd::Post(None), mandate, at(6)).await.unwrap();
    ledger.end_withdrawal(&ann, &id("w1"), WithdrawalEnd::Post(None), mandate, at(7)).await.unwrap();
    let kinds: Vec<_> = deeds(&ledger, Some(&ann)).await.into_iter().map(|deed| deed.deed).collect();
    assert_eq!(kinds, [DeedKind::Post, DeedKind::Deposit]);
    for (name, kind) in [("d", "deposit"), ("plain", "deposit"), ("w1", "withdrawal")] {
        let found = ledger.requests(&id(name), None, 10).await.unwrap().rows;
        assert_eq!((found.len(), found[0].kind.name(), &found[0].user), (1, kind, &ann), "{name}");
    }
    let states = async |state: Option<&str>| {
        let page = ledger.withdrawals_of(&ann, state, None, None, 1).await.unwrap();
        let next = page.next.map(|next| next.to_string().parse().unwrap());
        let rest = ledger.withdrawals_of(&ann, state, None, next.clone(), 9).await.unwrap();
        let rest = if next.is_some() { rest.rows } else { Vec::new() };
        page.rows.into_iter().chain(rest).map(|row| row.state).collect::<Vec<_>>()
    };
    assert_eq!(states(None).await, [WithdrawalState::Pending, WithdrawalState::Posted(ten)]);
    assert_eq!(states(Some("posted")).await, [WithdrawalState::Posted(ten)]);
    assert_eq!(states(Some("voided")).await, []);
}

#[tokio::test]
async fn one_id_of_many_users_is_spread_and_listed_page_by_page() {
    let ledger = memory();
    let id: RequestKey = "welcome".parse().unwrap();
    let names: Vec<String> = (100..160).map(|n| format!("u{n}")).collect();
    for name in &names {
        ledger.deposit(&user(name), &id, Amount::new(1), None, Timestamp::from_ms(1)).await.unwrap();
    }
    let keys = ledger.table.items().into_keys().filter(|key| key.pk.starts_with("REQUEST#"));
    let shards: std::collections::BTreeSet<String> = keys.map(|key| key.pk).collect();
    assert!(shards.len() > 10, "{shards:?}");
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = ledger.requests(&id, after, 7).await.unwrap();
        found.extend(page.rows.into_iter().map(|row| row.user.to_string()));
        after = page.next.map(|next| next.to_string().parse().unwrap());
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, names);
}

/// Its answer is lost once, and the token of the transaction is forgotten.
#[tokio::test]
async fn a_deed_whose_answer_is_lost_is_one_deed() {
    let (ledger, ann) = (ledger(), user("ann"));
    let failed = || Reason::ConditionFailed(None);
    // Its own names exist: the first attempt has written them.
    let answers = [
        Err(TransactError::Failed(TableError::Pending("lost".into()))),
        Err(TransactError::Cancelled(vec![Reason::None, failed(), failed()])),
    ];
    ledger.table.answers.lock().unwrap().extend(answers);
    ledger.suspend(&ann, &suspension("a bot", 10), None).await.unwrap();
    assert_eq!(ledger.table.transactions.lock().unwrap().len(), 2);
}
