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

/// A table that commits what it is asked to, or panics.
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

    async fn transact(&self, _: &[Write], _: &str) -> Result<(), TransactError> {
        assert!(!self.panics, "this table panics");
        tokio::task::yield_now().await;
        Ok(())
    }
}

fn committer(panics: bool) -> Committer<Commits> {
    Committer::new(Arc::new(Ledger::new(Commits { panics }, Arc::new(System))), 1)
}

#[tokio::test]
async fn all_who_ask_for_a_claim_share_its_transaction() {
    let (committer, terms) = (committer(false), Arc::new(Terms::sample()));
    let ask = || committer.claim(&terms, user(0), claim(0));
    let (first, second) = tokio::join!(ask(), ask());
    for outcome in [first, second] {
        assert!(matches!(outcome, Ok(ClaimOutcome::Committed)), "{outcome:?}");
    }
}

#[tokio::test]
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
