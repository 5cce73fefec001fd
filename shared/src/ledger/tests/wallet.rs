use super::*;
use crate::domain::{MAX_BALANCE, RequestKey, Wallet};
use crate::ledger::items::{OutsideItem, signed};
use crate::ledger::wallet::Unpaid;
use crate::ledger::{LedgerError, MovementOutcome};
use crate::ports::Bound;

fn id() -> RequestKey {
    "d1".parse().unwrap()
}

fn movement(amount: u64) -> OutsideItem {
    OutsideItem { id: "d1".to_owned(), amount: Amount::new(amount), at: at(7), by: Some(signer()) }
}

async fn deposit(ledger: &Ledger<Told>) -> MovementOutcome {
    ledger.deposit(&user("ann"), &id(), Amount::new(500), Some(&signer()), at(7)).await.unwrap()
}

async fn withdraw(ledger: &Ledger<Told>) -> MovementOutcome {
    ledger.withdraw(&user("ann"), &id(), Amount::new(500), Some(&signer()), at(7)).await.unwrap()
}

fn expected(key: Key, delta: i64, bound: Bound, absent: Option<&'static str>) -> [Write; 3] {
    let (wallet, deltas) = (keys::wallet(&user("ann")), vec![("balance", delta)]);
    let wallet = Write::Add { key: wallet, deltas, bound: Some(bound), absent };
    let copy = keys::in_timeline(&key, at(7));
    assert_eq!(copy.sk.replace("AT#", "").replace("0000000000007#", ""), key.sk);
    [put(key, &movement(500)), put(copy, &movement(500)), wallet]
}

#[tokio::test]
async fn money_comes_in_up_to_the_bound_and_goes_out_down_to_nothing() {
    let ledger_in = ledger();
    assert_eq!(deposit(&ledger_in).await, MovementOutcome::Moved);
    let bound = Bound::AtMost("balance", MAX_BALANCE.minor_units() - 500);
    assert_eq!(ledger_in.written(), expected(keys::deposit(&user("ann"), &id()), 500, bound, None));

    let ledger_out = ledger();
    assert_eq!(withdraw(&ledger_out).await, MovementOutcome::Moved);
    let bound = Bound::AtLeast("balance", 500);
    assert_eq!(ledger_out.written(), expected(keys::withdrawal(&user("ann"), &id()), -500, bound, Some("suspended")));
}

#[tokio::test]
async fn a_movement_that_is_there_decides_before_the_balance() {
    for (amount, outcome) in [(500, MovementOutcome::Replayed), (501, MovementOutcome::IdReused)] {
        let shown =
            || cancelled([there(&movement(amount)), Reason::ConditionFailed(None), Reason::ConditionFailed(None)]);
        assert_eq!((deposit(&shown()).await, withdraw(&shown()).await), (outcome, outcome));
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
    assert_eq!(deposit(&out_of_bounds()).await, MovementOutcome::TooFull);
    assert_eq!(withdraw(&out_of_bounds()).await, MovementOutcome::InsufficientBalance);
}

/// Otherwise this very withdrawal may pay between the two reads, and then be answered that the wallet is poor.
#[tokio::test]
async fn a_withdrawal_is_read_after_the_wallet() {
    let (wallet, key) = (keys::wallet(&user("ann")), keys::withdrawal(&user("ann"), &id()));
    let hidden = cancelled([Reason::None, Reason::None, Reason::ConditionFailed(None)]);
    assert_eq!(withdraw(&hidden).await, MovementOutcome::InsufficientBalance);
    assert_eq!(*hidden.table.reads.lock().unwrap(), [wallet, key.clone()]);
    let poor = BTreeMap::from([("balance", 499)]);
    let shown = cancelled([Reason::None, Reason::None, there(&poor)]);
    assert_eq!(withdraw(&shown).await, MovementOutcome::InsufficientBalance);
    assert_eq!(*shown.table.reads.lock().unwrap(), [key], "the table has shown the wallet");
}

#[tokio::test]
async fn a_deposit_of_before_the_limit_stays_made() {
    let above = async |ledger: Ledger<Told>| {
        let outcome = ledger.deposit_above_limit(&user("ann"), &id(), Amount::new(500)).await.unwrap();
        assert!(ledger.tokens().is_empty(), "it moves nothing");
        outcome
    };
    assert_eq!(above(ledger()).await, MovementOutcome::AboveLimit);
    for (amount, outcome) in [(500, MovementOutcome::Replayed), (501, MovementOutcome::IdReused)] {
        let ledger = ledger();
        ledger.holds(keys::deposit(&user("ann"), &id()), &movement(amount));
        assert_eq!(above(ledger).await, outcome);
    }
}

#[tokio::test]
async fn a_wallet_shows_its_totals_and_a_new_user_nothing() {
    let ledger = ledger();
    assert_eq!(ledger.wallet(&user("ann")).await.unwrap(), Wallet::default());
    let totals = [("balance", 5), ("sent_count", 1), ("sent_amount", 7), ("claim_count", 2), ("claim_amount", 12)];
    ledger.holds(keys::wallet(&user("ann")), &BTreeMap::from(totals));
    let wallet = Wallet {
        balance: Amount::new(5),
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
