use super::*;

use crate::domain::{Best, Decision, MAX_BALANCE, Owner, RequestKey, Summary, Wallet, WithdrawalRequest};
use crate::ledger::items::{DecisionItem, OutsideItem, RefundItem, SettledItem, signed};
use crate::ledger::wallet::Unpaid;
use crate::ledger::{DepositOutcome, LedgerError, ReceiverState, RefundOutcome, WithdrawalOutcome};
use crate::memory::MemoryTable;
use crate::ports::{Bound, Expect, System};

fn id() -> RequestKey {
    "d1".parse().unwrap()
}

fn movement(amount: u64) -> OutsideItem {
    OutsideItem { id: "d1".to_owned(), amount: Amount::new(amount), at: at(7), by: Some(signer()) }
}

async fn deposit(ledger: &Ledger<Told>) -> DepositOutcome {
    ledger.deposit(&user("ann"), &id(), Amount::new(500), Some(&signer()), at(7)).await.unwrap()
}

async fn withdraw(ledger: &Ledger<Told>) -> WithdrawalOutcome {
    let request = WithdrawalRequest::at_once(id(), Amount::new(500));
    ledger.withdraw(&user("ann"), &request, None, Some(&signer()), at(7)).await.unwrap()
}

fn expected(key: Key, delta: i64, bound: Bound, absent: Option<&'static str>) -> [Write; 4] {
    let (wallet, deltas) = (keys::wallet(&user("ann")), vec![("balance", delta)]);
    let wallet = Write::Add { key: wallet, deltas, bounds: vec![bound], absent };
    let copy = keys::in_timeline(&key, at(7));
    assert_eq!(copy.sk.replace("AT#", "").replace("0000000000007#", ""), key.sk);
    let found = Write::PutNew { key: keys::request(&key, &user("ann"), &id()), item: Item::default() };
    [put(key, &movement(500)), put(copy, &movement(500)), wallet, found]
}

#[tokio::test]
async fn money_comes_in_up_to_the_bound_and_goes_out_down_to_nothing() {
    let ledger_in = ledger();
    assert_eq!(deposit(&ledger_in).await, DepositOutcome::Moved);
    let bound = Bound::AtMost("balance", MAX_BALANCE.minor_units() - 500);
    assert_eq!(ledger_in.written(), expected(keys::deposit(&user("ann"), &id()), 500, bound, None));

    let ledger_out = ledger();
    assert!(matches!(withdraw(&ledger_out).await, WithdrawalOutcome::Made(_)));
    let bound = Bound::AtLeast("balance", 500);
    assert_eq!(ledger_out.written(), expected(keys::withdrawal(&user("ann"), &id()), -500, bound, Some("suspended")));
}

#[tokio::test]
async fn a_movement_that_is_there_decides_before_the_balance() {
    for (amount, outcome) in [(500, DepositOutcome::Replayed), (501, DepositOutcome::IdReused)] {
        let shown =
            || cancelled([there(&movement(amount)), Reason::ConditionFailed(None), Reason::ConditionFailed(None)]);
        assert_eq!(deposit(&shown()).await, outcome);
        match withdraw(&shown()).await {
            WithdrawalOutcome::Replayed(found) => assert_eq!((amount, found.request.amount.minor_units()), (500, 500)),
            other => assert_eq!((amount, other), (501, WithdrawalOutcome::IdReused)),
        }
        let read = cancelled([Reason::None, Reason::None, Reason::ConditionFailed(None)]);
        read.holds(keys::deposit(&user("ann"), &id()), &movement(amount));
        assert_eq!(deposit(&read).await, outcome);
        // Neither another signer nor none is another movement.
        for by in [None, Some("arn:aws:iam::1:user/other".parse().unwrap())] {
            let there = there(&OutsideItem { by, ..movement(amount) });
            let shown = cancelled([there, Reason::None, Reason::ConditionFailed(None)]);
            assert_eq!(deposit(&shown).await, outcome);
        }
    }
    let out_of_bounds = || cancelled([Reason::None, Reason::None, Reason::ConditionFailed(None)]);
    assert_eq!(deposit(&out_of_bounds()).await, DepositOutcome::TooFull);
    assert_eq!(withdraw(&out_of_bounds()).await, WithdrawalOutcome::InsufficientBalance);
}

/// Otherwise this very withdrawal may pay between the two reads, and then be answered that the wallet is poor.
#[tokio::test]
async fn a_withdrawal_is_read_after_the_wallet() {
    let (wallet, key) = (keys::wallet(&user("ann")), keys::withdrawal(&user("ann"), &id()));
    let hidden = cancelled([Reason::None, Reason::None, Reason::ConditionFailed(None)]);
    assert_eq!(withdraw(&hidden).await, WithdrawalOutcome::InsufficientBalance);
    assert_eq!(*hidden.table.reads.lock().unwrap(), [wallet, key.clone()]);
    let poor = BTreeMap::from([("balance", 499)]);
    let shown = cancelled([Reason::None, Reason::None, there(&poor)]);
    assert_eq!(withdraw(&shown).await, WithdrawalOutcome::InsufficientBalance);
    assert_eq!(*shown.table.reads.lock().unwrap(), [key], "the table has shown the wallet");
}

#[tokio::test]
async fn a_deposit_of_before_the_limit_stays_made() {
    let above = async |ledger: Ledger<Told>| {
        let outcome =
            ledger.deposit_above_limit(&user("ann"), &id(), Amount::new(500), Amount::new(499)).await.unwrap();
        assert!(ledger.tokens().is_empty(), "it moves nothing");
        outcome
    };
    assert_eq!(above(ledger()).await, DepositOutcome::AboveLimit(Amount::new(499)));
    for (amount, outcome) in [(500, DepositOutcome::Replayed), (501, DepositOutcome::IdReused)] {
        let ledger = ledger();
        ledger.holds(keys::deposit(&user("ann"), &id()), &movement(amount));
        assert_eq!(above(ledger).await, outcome);
    }
}

#[tokio::test]
async fn a_wallet_shows_its_totals_and_a_new_user_nothing() {
    let ledger = ledger();
    assert_eq!(ledger.wallet(&user("ann")).await.unwrap(), Wallet::default());
    let totals = [
        ("balance", 5),
        ("pending", 3),
        ("sent_count", 1),
        ("sent_amount", 7),
        ("claim_count", 2),
        ("claim_amount", 12),
    ];
    ledger.holds(keys::wallet(&user("ann")), &BTreeMap::from(totals));
    let wallet = Wallet {
        balance: Amount::new(5),
        pending: Amount::new(3),
        sent_count: 1,
        sent_amount: Amount::new(7),
        claim_count: 2,
        claim_amount: Amount::new(12),
    };
    assert_eq!(ledger.wallet(&user("ann")).await.unwrap(), wallet);
}

#[test]
fn an_amount_that_no_ledger_can_hold_is_a_defect() {
    assert_eq!(signed(Amount::new(i64::MAX.unsigned_abs())).unwrap(), i64::MAX);
    assert!(matches!(signed(Amount::new(1 << 63)), Err(LedgerError::Impossible(_))));
}

#[tokio::test]
async fn a_wallet_that_could_pay_by_now_is_no_answer() {
    let ledger = ledger();
    let why = async |balance: u64| {
        ledger.holds(keys::wallet(&user("ann")), &BTreeMap::from([("balance", balance)]));
        ledger.why_unpaid(&user("ann"), Amount::new(500), None).await
    };
    assert!(matches!(why(499).await, Ok(Unpaid::InsufficientBalance)));
    assert!(matches!(why(500).await, Err(LedgerError::Unavailable(_))));
}

const fn at(ms: u64) -> Timestamp {
    Timestamp::from_ms(ms)
}

#[tokio::test]
async fn a_receiver_is_what_was_noted_until_it_recovers_or_is_enabled() {
    let ledger = Ledger::new(MemoryTable::default(), Arc::new(System));
    let well = ReceiverState::default();
    assert_eq!(ledger.receiver().await.unwrap(), well);
    let failing = ReceiverState {
        failing_since: Some(at(5)),
        last_answer: Some("the receiver answered 503".to_owned()),
        last_answer_at: Some(at(6)),
        oldest_at: Some(at(4)),
        put_off_until: Some(at(9)),
        ..ReceiverState::default()
    };
    ledger.note_receiver(&well, &failing).await.unwrap();
    assert_eq!(ledger.receiver().await.unwrap(), failing);
    // A process that knew less takes nothing away.
    ledger.note_receiver(&well, &ReceiverState { disabled_at: Some(at(7)), ..ReceiverState::default() }).await.unwrap();
    let gone = ReceiverState { disabled_at: Some(at(7)), ..failing.clone() };
    assert_eq!(ledger.receiver().await.unwrap(), gone);
    assert!(gone.is_held(Timestamp::from_ms(u64::MAX)) && failing.is_held(Timestamp::from_ms(8)));
    assert!(!failing.is_held(Timestamp::from_ms(9)) && !well.is_held(Timestamp::from_ms(0)));

    let delivered = ReceiverState { failing_since: None, oldest_at: None, ..failing.clone() };
    ledger.note_receiver(&failing, &delivered).await.unwrap();
    assert_eq!(ledger.receiver().await.unwrap(), ReceiverState { disabled_at: Some(at(7)), ..delivered.clone() });
    ledger.enable_receiver(None, Timestamp::from_ms(20)).await.unwrap();
    let enabled = ReceiverState { put_off_until: None, enabled_at: Some(at(20)), ..delivered };
    assert_eq!(ledger.receiver().await.unwrap(), enabled);
}

#[tokio::test]
async fn what_is_known_already_is_not_written_again() {
    let ledger = ledger();
    let failing = ReceiverState { failing_since: Some(at(5)), ..ReceiverState::default() };
    ledger.note_receiver(&failing, &failing).await.unwrap();
    ledger.note_receiver(&ReceiverState::default(), &ReceiverState::default()).await.unwrap();
    assert!(ledger.table.transactions.lock().unwrap().is_empty());
}

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
        Write::Add { key: keys::wallet(&user("alice")), deltas: vec![("balance", 320)], bounds: vec![], absent: None },
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
