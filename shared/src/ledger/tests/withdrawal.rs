use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::domain::{
    Intervention, Mandate, MovementFilter, RequestKey, Requester, Suspension, WithdrawalEnd, WithdrawalRequest,
    WithdrawalState,
};
use crate::ledger::{EndOutcome, WithdrawalOutcome};
use crate::memory::MemoryTable;
use crate::ports::{Expect, System};

fn memory() -> Ledger<MemoryTable> {
    Ledger::new(MemoryTable::default(), Arc::new(System))
}

fn id(text: &str) -> RequestKey {
    text.parse().unwrap()
}

fn pending(name: &str, amount: u64) -> WithdrawalRequest {
    WithdrawalRequest::pending(id(name), Amount::new(amount))
}

const fn at(ms: u64) -> Timestamp {
    Timestamp::from_ms(ms)
}

fn post(amount: u64) -> WithdrawalEnd {
    WithdrawalEnd::Post(Some(Amount::new(amount)))
}

/// The balance, the reserved money, and the sum of all movements.
async fn money(ledger: &Ledger<MemoryTable>) -> (u64, u64, i64) {
    let wallet = ledger.wallet(&user("ann")).await.unwrap();
    let movements = ledger.movements(&user("ann"), MovementFilter::default(), None, 100).await.unwrap();
    let sum = movements.rows.iter().map(|movement| movement.amount).sum();
    (wallet.balance.minor_units(), wallet.pending.minor_units(), sum)
}

async fn rich() -> Ledger<MemoryTable> {
    let ledger = memory();
    ledger.deposit(&user("ann"), &id("d"), Amount::new(1_000), None, at(1)).await.unwrap();
    ledger
}

#[tokio::test]
async fn money_is_reserved_and_then_leaves_or_comes_back_once() {
    let ledger = rich().await;
    let withdraw =
        async |request: &WithdrawalRequest| ledger.withdraw(&user("ann"), request, None, None, at(2)).await.unwrap();
    let end = async |name: &str, end| {
        ledger.end_withdrawal(&user("ann"), &id(name), end, Some(&signer()), at(3)).await.unwrap()
    };
    for name in ["a", "b", "c"] {
        assert!(matches!(withdraw(&pending(name, 300)).await, WithdrawalOutcome::Made(_)));
    }
    assert_eq!(money(&ledger).await, (100, 900, 100));
    assert!(matches!(withdraw(&pending("a", 300)).await, WithdrawalOutcome::Replayed(_)));
    for other in [pending("a", 299), WithdrawalRequest::at_once(id("a"), Amount::new(300))] {
        assert_eq!(withdraw(&other).await, WithdrawalOutcome::IdReused);
    }
    let asked = WithdrawalRequest { requester: Requester::User, ..pending("a", 300) };
    assert_eq!(withdraw(&asked).await, WithdrawalOutcome::IdReused, "the user's own is another one");
    assert_eq!(withdraw(&pending("d", 101)).await, WithdrawalOutcome::InsufficientBalance);

    let EndOutcome::Ended(posted) = end("a", WithdrawalEnd::Post(None)).await else { panic!() };
    assert_eq!(
        (posted.state, posted.ended),
        (WithdrawalState::Posted(Amount::new(300)), Some((at(3), Some(signer()))))
    );
    assert_eq!(money(&ledger).await, (100, 600, 100));
    assert!(matches!(end("b", post(120)).await, EndOutcome::Ended(_)));
    assert_eq!(money(&ledger).await, (280, 300, 280));
    assert!(matches!(end("c", WithdrawalEnd::Void(None)).await, EndOutcome::Ended(_)));
    assert_eq!(money(&ledger).await, (580, 0, 580));
    for (name, same) in
        [("a", WithdrawalEnd::Post(None)), ("a", post(300)), ("b", post(120)), ("c", WithdrawalEnd::Void(None))]
    {
        assert!(matches!(end(name, same).await, EndOutcome::Replayed(_)));
    }
    for (name, other) in [("a", WithdrawalEnd::Void(None)), ("a", post(299)), ("b", WithdrawalEnd::Post(None))] {
        assert_eq!(end(name, other).await, EndOutcome::Posted);
    }
    assert_eq!(end("c", post(1)).await, EndOutcome::Voided);
    assert_eq!(end("c", post(301)).await, EndOutcome::AboveAmount(Amount::new(300)));
    assert_eq!(end("x", WithdrawalEnd::Void(None)).await, EndOutcome::NotFound);
    assert_eq!(money(&ledger).await, (580, 0, 580));
    let replayed = withdraw(&pending("c", 300)).await;
    assert!(matches!(replayed, WithdrawalOutcome::Replayed(voided) if voided.state == WithdrawalState::Voided));
}

#[tokio::test]
async fn a_user_has_only_so_many_pending_ones_and_none_while_suspended() {
    let ledger = rich().await;
    let ask = async |name: &str| {
        let request = WithdrawalRequest { requester: Requester::User, ..pending(name, 10) };
        ledger.withdraw(&user("ann"), &request, Some(2), None, at(2)).await.unwrap()
    };
    for name in ["a", "b"] {
        assert!(matches!(ask(name).await, WithdrawalOutcome::Made(_)));
    }
    assert_eq!(ask("c").await, WithdrawalOutcome::TooManyPending);
    assert!(matches!(ask("b").await, WithdrawalOutcome::Replayed(_)));
    ledger.withdraw(&user("ann"), &pending("of-the-operator", 10), None, None, at(2)).await.unwrap();
    let end = async |name| {
        ledger.end_withdrawal(&user("ann"), &id(name), WithdrawalEnd::Void(None), None, at(3)).await.unwrap()
    };
    end("a").await;
    assert!(matches!(ask("c").await, WithdrawalOutcome::Made(_)));
    end("b").await;
    let intervention = Intervention { reason: "reported".parse().unwrap(), at: at(4), by: None };
    ledger.suspend(&user("ann"), &Suspension { intervention, grabs: false }, None).await.unwrap();
    assert_eq!(ask("d").await, WithdrawalOutcome::Suspended);
    assert!(matches!(ask("c").await, WithdrawalOutcome::Replayed(_)), "what was asked before stays");
    assert!(matches!(end("c").await, EndOutcome::Ended(_)), "and ends");
    ledger.lift_suspension(&user("ann"), Mandate::default(), Timestamp::from_ms(9)).await.unwrap();
    assert!(matches!(ask("d").await, WithdrawalOutcome::Made(_)));
}

#[tokio::test]
async fn pending_ones_are_listed_until_they_end_the_oldest_first() {
    let ledger = rich().await;
    assert_eq!(ledger.oldest_pending().await.unwrap(), None);
    for (name, ms) in [("c", 5), ("a", 7), ("b", 6), ("d", 6)] {
        ledger.withdraw(&user("ann"), &pending(name, 10), None, None, at(ms)).await.unwrap();
    }
    let names = async |before: Option<u64>, limit| listed(&ledger, before, limit).await.join(" ");
    for limit in 1..=5 {
        assert_eq!(names(None, limit).await, "c b d a");
        assert_eq!(names(Some(7), limit).await, "c b d");
        assert_eq!((names(Some(5), limit).await, names(Some(0), limit).await), (String::new(), String::new()));
    }
    assert_eq!(ledger.oldest_pending().await.unwrap(), Some(at(5)));
    ledger.end_withdrawal(&user("ann"), &id("c"), WithdrawalEnd::Void(None), None, at(8)).await.unwrap();
    assert_eq!((names(None, 1).await.as_str(), ledger.oldest_pending().await.unwrap()), ("b d a", Some(at(6))));
    // The index shows it still.
    let number = |number: u64| serde_dynamo::AttributeValue::N(number.to_string());
    let place = [(keys::DUE_SHARD, number(keys::PENDING_SHARD.into())), (keys::DUE_AT, number(5))];
    let set = place.map(|(name, value)| (name.to_owned(), value)).into_iter().collect::<HashMap<_, _>>().into();
    let key = keys::withdrawal(&user("ann"), &id("c"));
    ledger.table.apply(&[Write::Change { key, expect: Expect::Nothing, set, remove: &[] }], "stale").unwrap();
    for limit in 1..=5 {
        assert_eq!(names(None, limit).await, "b d a");
    }
}

/// The ids of all pending withdrawals, read so many at a time.
async fn listed(ledger: &Ledger<MemoryTable>, before: Option<u64>, limit: u32) -> Vec<String> {
    let (mut ids, mut after) = (Vec::new(), None);
    for _ in 0..1_000 {
        let page = ledger.pending_withdrawals(before.map(at), after, limit).await.unwrap();
        assert!(page.rows.len() <= limit as usize);
        ids.extend(page.rows.iter().map(|row| row.request.id.to_string()));
        let Some(next) = page.next else { return ids };
        after = Some(next.to_string().parse().unwrap());
    }
    panic!("the list has no end: {ids:?}");
}

/// A batch reads at most 100 items.
#[tokio::test]
async fn as_many_pending_ones_as_a_page_may_have_are_listed() {
    let ledger = rich().await;
    let ids: Vec<String> = (100..202).map(|number| number.to_string()).collect();
    for id in &ids {
        ledger.withdraw(&user("ann"), &pending(id, 1), None, None, at(2)).await.unwrap();
    }
    for limit in [99, 100, 101, 102] {
        assert_eq!(listed(&ledger, None, limit).await, ids);
    }
}

/// The clock of the process that ends it may be behind.
#[tokio::test]
async fn no_withdrawal_ends_before_it_was_asked_for() {
    let ledger = rich().await;
    for (name, asked, ended, noted) in [("a", 50, 49, 50), ("b", 60, 60, 60), ("c", 70, 71, 71)] {
        ledger.withdraw(&user("ann"), &pending(name, 10), None, None, at(asked)).await.unwrap();
        let end =
            ledger.end_withdrawal(&user("ann"), &id(name), WithdrawalEnd::Void(None), None, at(ended)).await.unwrap();
        let kept = ledger.withdrawal(&user("ann"), &id(name)).await.unwrap().unwrap();
        assert_eq!((kept.ended.clone(), end), (Some((at(noted), None)), EndOutcome::Ended(kept)));
        let movements = ledger.movements(&user("ann"), MovementFilter::default(), None, 2).await.unwrap().rows;
        assert!(movements.iter().any(|movement| (movement.amount, movement.at) == (10, at(noted))), "{movements:?}");
    }
}

/// The withdrawal's state already keeps it from ending twice. This holds even if a state is lost.
#[tokio::test]
async fn no_more_comes_back_than_a_wallet_reserves() {
    let ledger = rich().await;
    ledger.withdraw(&user("ann"), &pending("a", 300), None, None, at(2)).await.unwrap();
    let (key, deltas) = (keys::wallet(&user("ann")), vec![("pending", -1)]);
    ledger.table.apply(&[Write::Add { key, deltas, bounds: Vec::new(), absent: None }], "damage").unwrap();
    for end in [WithdrawalEnd::Void(None), WithdrawalEnd::Post(None), post(1)] {
        ledger.end_withdrawal(&user("ann"), &id("a"), end, None, at(3)).await.unwrap_err();
        assert_eq!(money(&ledger).await, (700, 299, 700));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// 1. Whatever is asked in whatever order: what was deposited is in the wallet, reserved or posted, and the movements sum up to the balance.
    #[test]
    fn no_money_appears_or_vanishes(steps in prop::collection::vec((0_usize..4, 0_u8..4, 1_u64..400), 0..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let ledger = rich().await;
            let mut posted = 0;
            for (time, (which, what, amount)) in steps.into_iter().enumerate() {
                let (name, now) = (["a", "b", "c", "d"][which], at(2 + time as u64));
                let end = match what {
                    0 => {
                        drop(ledger.withdraw(&user("ann"), &pending(name, amount), None, None, now).await.unwrap());
                        continue;
                    }
                    1 => WithdrawalEnd::Void(None),
                    2 => WithdrawalEnd::Post(None),
                    _ => post(amount),
                };
                let outcome = ledger.end_withdrawal(&user("ann"), &id(name), end, None, now).await.unwrap();
                if let EndOutcome::Ended(ended) = outcome
                    && let WithdrawalState::Posted(paid) = ended.state
                {
                    posted += paid.minor_units();
                }
                let (balance, reserved, sum) = money(&ledger).await;
                prop_assert_eq!(balance + reserved + posted, 1_000);
                prop_assert_eq!(u64::try_from(sum).unwrap(), balance);
            }
            Ok(())
        })?;
    }
}
