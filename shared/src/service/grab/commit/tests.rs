use futures::future::join_all;

use super::*;
use crate::domain::{Amount, Timestamp};
use crate::ports::{Batch, Item, Key, Query, System, TableError, TransactError, Write};

fn claim(slip: u32) -> Claim {
    Claim { slip, amount: Amount::new(1), at: Timestamp::from_ms(1) }
}

fn user(slip: u32) -> UserId {
    format!("u{slip}").parse().unwrap()
}

/// A table that commits what it is asked to, or panics. For users with `slow` in their names it takes three seconds.
struct Commits {
    panics: bool,
}

impl Table for Commits {
    async fn get(&self, _: Key) -> Result<Option<Item>, TableError> {
        unreachable!()
    }

    async fn batch_get(&self, _: Vec<Key>) -> Result<Batch, TableError> {
        unreachable!()
    }

    async fn query(&self, _: Query) -> Result<Vec<Item>, TableError> {
        unreachable!()
    }

    async fn due(&self, _: u32, _: u64, _: Option<(Key, u64)>, _: u32) -> Result<Vec<Item>, TableError> {
        unreachable!()
    }

    async fn transact(&self, writes: &[Write], _: &str) -> Result<(), TransactError> {
        assert!(!self.panics, "this table panics");
        let is_slow = writes.iter().any(|write| write.key().pk.contains("slow"));
        sleep(if is_slow { Duration::from_secs(3) } else { Duration::from_millis(5) }).await;
        Ok(())
    }
}

fn committer(panics: bool) -> Committer<Commits> {
    committer_of(panics, 1)
}

fn committer_of(panics: bool, transactions_max: usize) -> Committer<Commits> {
    Committer::new(Arc::new(Ledger::new(Commits { panics }, Arc::new(System))), transactions_max)
}

/// 9. Neither those who share a transaction with a user whose items are slow wait for them, nor those who come later.
#[tokio::test(start_paused = true)]
async fn the_slow_items_of_some_winners_delay_no_other_one() {
    for slow in [1, 4, 16] {
        let (committer, terms) = (committer_of(false, TRANSACTIONS_MAX), Arc::new(Terms::sample()));
        let win = async |slip: u32| {
            let is_slow = slip % 10 == 3 && slip / 10 < slow;
            let user = if is_slow { format!("slow{slip}").parse().unwrap() } else { user(slip) };
            sleep(Duration::from_millis(slip.into())).await;
            let begun = Instant::now();
            (is_slow, committer.claim(&terms, user, claim(slip)).await, begun.elapsed())
        };
        let late = Duration::from_millis(300);
        for (slip, (is_slow, outcome, took)) in join_all((0..400).map(win)).await.into_iter().enumerate() {
            let is_good = is_slow || matches!(outcome, Ok(ClaimOutcome::Committed)) && took <= late;
            assert!(is_good, "{slow}: {slip}: {outcome:?} after {took:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn all_who_ask_for_a_claim_share_its_transaction() {
    let (committer, terms) = (committer(false), Arc::new(Terms::sample()));
    let ask = || committer.claim(&terms, user(0), claim(0));
    let (first, second) = tokio::join!(ask(), ask());
    for outcome in [first, second] {
        assert!(matches!(outcome, Ok(ClaimOutcome::Committed)), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn claims_that_wait_go_together() {
    let (committer, terms) = (committer(false), Arc::new(Terms::sample()));
    let outcomes = join_all((0..30).map(|slip| committer.claim(&terms, user(slip), claim(slip)))).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(ClaimOutcome::Committed))), "{outcomes:?}");
}

#[tokio::test]
async fn a_lost_transaction_answers_its_claims_and_the_next_claim_starts_anew() {
    let (committer, terms) = (committer(true), Arc::new(Terms::sample()));
    for _ in 0..2 {
        for outcome in join_all((0..3).map(|slip| committer.claim(&terms, user(slip), claim(slip)))).await {
            assert!(matches!(outcome, Err(Failure::Unavailable(_))), "{outcome:?}");
        }
    }
}
