//! An erasure over a table in memory that fails at each of its transactions: the audit finds the books in order after every one.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use shared::domain::{
    AckMode, Amount, Amounts, Best, Claim, Guard, Labels, Mandate, PacketId, Seed, Split, Summary, Terms, Timestamp,
    UserId, WithdrawalRequest,
};
use shared::ledger::{Erased, Ledger, SendRequest};
use shared::memory::MemoryTable;
use shared::ports::{Batch, Item, Key, Query, System, Table, TableError, TransactError, Write};
use simulation::audit;

/// A table whose transactions fail once so many are done.. That one may be done all the same.
#[derive(Clone, Default)]
struct Failing {
    table: Arc<MemoryTable>,
    left: Arc<AtomicU32>,
}

impl Table for Failing {
    async fn get(&self, key: Key) -> Result<Option<Item>, TableError> {
        self.table.get(key).await
    }

    async fn batch_get(&self, keys: Vec<Key>) -> Result<Batch, TableError> {
        self.table.batch_get(keys).await
    }

    async fn query(&self, query: Query) -> Result<Vec<Item>, TableError> {
        self.table.query(query).await
    }

    async fn due(&self, shard: u32, until: u64, after: Option<(Key, u64)>, most: u32) -> Result<Vec<Item>, TableError> {
        self.table.due(shard, until, after, most).await
    }

    async fn transact(&self, writes: &[Write], token: &str) -> Result<(), TransactError> {
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => self.table.transact(writes, token).await,
            Err(_) => Err(TableError::Refused("the test wants no more".into()).into()),
        }
    }
}

fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_ms(1_795_181_400_000 + ms)
}

/// A packet of sam's of 100 slips, of which 70 are claimed. It is settled.
async fn settled_packet(ledger: &Ledger<Failing>, id: PacketId) {
    let labels = Labels { cover: Some("7qx2".parse().unwrap()), ..Labels::default() };
    let terms = Terms {
        id,
        sender: user("sam"),
        split: Split::Equal,
        split_version: 1,
        seed: Seed([1; 32]),
        currency: "CNY".to_owned(),
        total: Amount::new(500),
        count: 100,
        cap: Amount::new(20_000),
        greeting: "greeting 7qx2".to_owned(),
        created_at: at(0),
        expires_at: at(10),
        ack: AckMode::Ledger,
        guard: Guard::default(),
        limit: None,
        labels,
    };
    let key = id.to_string().parse().unwrap();
    ledger.deposit(&terms.sender, &id.to_string().parse().unwrap(), terms.total, None, at(0)).await.unwrap();
    let amounts = [Amounts::pack(&[5; 100]).unwrap()];
    let send = SendRequest { terms: &terms, amounts: &amounts, key: &key, body_hash: [0; 32], daily_limit: None };
    ledger.send(&send).await.unwrap();
    for slip in 0..70 {
        let claim = Claim { slip, amount: Amount::new(5), at: at(1 + u64::from(slip == 0)) };
        ledger.claim(&terms, &user(&format!("u{slip}")), &claim, None).await.unwrap();
    }
    let rest: Vec<_> = (70..100).map(|slip| (slip, Amount::new(5))).collect();
    ledger.refund(&terms, &rest, at(11)).await.unwrap();
    let best = Some(Best { slip: 1, user: user("u1"), amount: Amount::new(5) });
    let [claimed_amount, refunded_amount] = [350, 150].map(Amount::new);
    let summary = Summary { claimed_count: 70, claimed_amount, refunded_count: 30, refunded_amount, best };
    ledger.mark_settled(&terms, &summary, at(12)).await.unwrap();
}

#[tokio::test]
async fn an_erasure_that_fails_anywhere_leaves_books_that_balance() {
    let table = Failing { left: Arc::new(AtomicU32::new(u32::MAX)), ..Failing::default() };
    let ledger = Ledger::new(table.clone(), Arc::new(System));
    for seed in [1, 2] {
        settled_packet(&ledger, PacketId::new(at(0), 1, [seed; 10])).await;
    }
    let note = Some("note 7qx2".parse().unwrap());
    let request = WithdrawalRequest { note, ..WithdrawalRequest::at_once("w1".parse().unwrap(), Amount::new(9)) };
    ledger.withdraw(&user("sam"), &request, None, None, at(20)).await.unwrap();
    let before = audit(table.table.items(), &[]).await.unwrap();

    // The deed, a claim in each group of 64 slips, the packets, and the withdrawal.
    let transactions = 1 + 2 * 2 + 2 + 1;
    let snapshot = table.table.snapshot();
    for done in 0..=transactions {
        table.table.restore(&snapshot);
        table.left.store(done, Ordering::SeqCst);
        let ended = ledger.erase_texts(&user("sam"), Mandate::default(), at(30)).await;
        assert_eq!(ended.is_ok(), done == transactions, "{done}: {ended:?}");
        audit(table.table.items(), &[]).await.unwrap();
        table.left.store(u32::MAX, Ordering::SeqCst);
        let again = ledger.erase_texts(&user("sam"), Mandate::default(), at(31)).await.unwrap().unwrap();
        assert_eq!(again == Erased::default(), done == transactions);
        let after = audit(table.table.items(), &[]).await.unwrap();
        assert_eq!(after.balances, before.balances);
        assert!(!format!("{:?}", table.table.items()).contains("7qx2"));
    }
}
