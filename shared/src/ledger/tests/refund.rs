use super::*;
use crate::domain::{Best, Decision, Owner, Summary};
use crate::ledger::items::{DecisionItem, RefundItem, SettledItem};
use crate::ledger::{LedgerError, RefundOutcome};
use crate::ports::Expect;

const SLIPS: [(u32, Amount); 2] = [(1, Amount::new(300)), (2, Amount::new(20))];

fn refunded(slip: u32, amount: u64) -> Decision {
    Decision { slip, owner: Owner::Refunded, amount: Amount::new(amount), at: at(30) }
}

fn claimed(slip: u32) -> Decision {
    Decision { slip, owner: Owner::User(user("bob")), amount: Amount::new(300), at: at(15) }
}

async fn refund(ledger: &Ledger<Told>) -> Result<RefundOutcome, LedgerError> {
    ledger.refund(&terms(), &SLIPS, at(30)).await
}

#[tokio::test]
async fn a_refund_is_a_decision_for_each_slip_and_their_sum() {
    let ledger = ledger();
    let RefundOutcome::Refunded(decisions) = refund(&ledger).await.unwrap() else { panic!("refunded") };
    assert_eq!(decisions, [refunded(1, 300), refunded(2, 20)]);
    let item = RefundItem { packet_id: packet_id(1), slip_count: 2, amount: Amount::new(320), at: at(30) };
    let key = keys::refund(&user("alice"), packet_id(1), 1);
    let copy = keys::in_timeline(&key, at(30));
    assert_eq!(copy.sk, format!("AT#REFUND#0000000000030#{}#000001", packet_id(1)));
    let expected = [
        put(keys::decision(packet_id(1), 1), &DecisionItem::from(&decisions[0])),
        put(keys::decision(packet_id(1), 2), &DecisionItem::from(&decisions[1])),
        put(key, &item),
        put(copy, &item),
        Write::Add { key: keys::wallet(&user("alice")), deltas: vec![("balance", 320)], bound: None, absent: None },
    ];
    assert_eq!(ledger.written(), expected);
}

#[tokio::test]
async fn no_slips_are_refunded_without_asking() {
    let ledger = ledger();
    let outcome = ledger.refund(&terms(), &[], at(30)).await.unwrap();
    assert!(matches!(outcome, RefundOutcome::Refunded(decisions) if decisions.is_empty()));
    assert_eq!(ledger.tokens().len(), 0);
}

#[tokio::test]
async fn only_a_decision_that_was_seen_takes_a_slip_out() {
    let nothing = || [Reason::None, Reason::None];
    let shown = cancelled([Reason::Busy("ThrottlingError".to_owned()), there(&DecisionItem::from(&claimed(2)))]);
    let read = cancelled([Reason::None, Reason::ConditionFailed(None)].into_iter().chain(nothing()));
    // The refund itself is there: an earlier attempt's. Its slips are read.
    let repeated = cancelled(nothing().into_iter().chain([Reason::ConditionFailed(None), Reason::None]));
    for ledger in [&read, &repeated] {
        ledger.holds(keys::decision(packet_id(1), 2), &DecisionItem::from(&claimed(2)));
    }
    for ledger in [shown, read, repeated] {
        let RefundOutcome::AlreadyDecided(decisions) = refund(&ledger).await.unwrap() else { panic!("decided") };
        assert_eq!(decisions, [claimed(2)]);
    }
}

#[tokio::test]
async fn a_refund_without_its_decisions_is_a_defect() {
    let ledger = cancelled([Reason::None, Reason::None, Reason::ConditionFailed(None), Reason::None]);
    assert!(matches!(refund(&ledger).await, Err(LedgerError::Impossible(_))));
}

#[tokio::test]
async fn a_packet_closes_once_with_what_its_decisions_sum_to() {
    let best = Best { slip: 1, user: user("bob"), amount: Amount::new(300) };
    let summary = Summary {
        claimed_count: 1,
        claimed_amount: Amount::new(300),
        refunded_count: 2,
        refunded_amount: Amount::new(700),
        best: Some(best),
    };
    let closing = SettledItem {
        settled_at: Timestamp::from_ms(7),
        claimed_count: 1,
        claimed_amount: Amount::new(300),
        refunded_count: 2,
        refunded_amount: Amount::new(700),
        best_slip: Some(1),
        best_user: Some(user("bob")),
        best_amount: Some(Amount::new(300)),
    };
    let mut set = items::write(&closing).unwrap();
    set.insert("status".to_owned(), serde_dynamo::AttributeValue::S("settled".to_owned()));
    let expected = Write::Change {
        key: keys::packet(packet_id(1)),
        expect: Expect::Has("due_shard"),
        set,
        remove: &["due_shard"],
    };
    for ledger in [ledger(), cancelled([Reason::ConditionFailed(None)])] {
        ledger.mark_settled(&terms(), &summary, Timestamp::from_ms(7)).await.unwrap();
        assert_eq!(ledger.written(), std::slice::from_ref(&expected));
    }
    let failing = ledger();
    failing.answer(Err(TableError::Refused("malformed".into()).into()));
    assert!(failing.mark_settled(&terms(), &summary, Timestamp::from_ms(7)).await.is_err());
}
