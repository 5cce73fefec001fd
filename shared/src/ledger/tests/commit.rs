use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::ledger::LedgerError;
use crate::ledger::commit::Committed;

fn write() -> [Write; 1] {
    [Write::Add { key: keys::wallet(&user("ann")), deltas: vec![("balance", 5)], bound: None, absent: None }]
}

fn busy() -> TransactError {
    TransactError::Cancelled(vec![Reason::None, Reason::Busy("TransactionConflict".to_owned())])
}

#[tokio::test(start_paused = true)]
async fn the_same_is_sent_again_until_it_commits() {
    let ledger = ledger();
    ledger.answer(Err(busy()));
    ledger.answer(Err(unavailable()));
    assert!(matches!(ledger.commit(&write()).await, Ok(Committed::Yes)));
    let transactions = ledger.table.transactions.lock().unwrap();
    assert_eq!(transactions.len(), 3);
    assert!(transactions.iter().all(|transaction| *transaction == transactions[0]), "{transactions:?}");
    assert_eq!(transactions[0].0, write());
    assert_eq!(transactions[0].1, "01".repeat(16), "a token is 16 random bytes in hex");
}

#[tokio::test(start_paused = true)]
async fn a_spent_token_is_replaced() {
    let ledger = ledger();
    ledger.answer(Err(TransactError::TokenSpent("spent".into())));
    assert!(matches!(ledger.commit(&write()).await, Ok(Committed::Yes)));
    let tokens = ledger.tokens();
    assert!(tokens.len() == 2 && tokens[0] != tokens[1], "{tokens:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_condition_is_an_answer_whatever_else_is_said() {
    let reasons = [Reason::Busy("ThrottlingError".to_owned()), Reason::ConditionFailed(None)];
    let ledger = cancelled(reasons);
    let Ok(Committed::No(reasons)) = ledger.commit(&write()).await else { panic!("an answer") };
    assert!(matches!(reasons[..], [Reason::Busy(_), Reason::ConditionFailed(None)]));
    assert_eq!(ledger.tokens().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_is_not_repeated() {
    let ledger = ledger();
    ledger.answer(Err(TableError::Refused("malformed".into()).into()));
    assert!(matches!(ledger.commit(&write()).await, Err(LedgerError::Impossible(_))));
    assert_eq!(ledger.tokens().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_commit_gives_up_after_its_timeout_with_the_last_error() {
    let ledger = ledger();
    for _ in 0..1_000 {
        ledger.answer(Err(busy()));
    }
    let start = Instant::now();
    let Err(LedgerError::Unavailable(error)) = ledger.commit(&write()).await else { panic!("no end") };
    assert_eq!(error.chain(), "the transaction is still open: cancelled: TransactionConflict");
    // Pauses of 5 ms, then twice as long each up to 400 ms, less up to half of each: in 8 s that is 25 to 50 attempts.
    let (attempts, took) = (ledger.tokens().len(), start.elapsed());
    assert!((25..=50).contains(&attempts), "{attempts}");
    assert!((Duration::from_secs(7)..=Duration::from_secs(8)).contains(&took), "{took:?}");
}
