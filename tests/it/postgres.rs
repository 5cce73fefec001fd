//! The ledger's table on `PostgreSQL` when its server dies: what was answered as committed is there, and nothing by half.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use audit::{Only, Source};
use futures::TryStreamExt;
use postgres_ledger::{Database, PostgresReader, PostgresTable};
use serde_dynamo::AttributeValue;
use shared::ports::{Item, Key, Query, Table, TransactError, Write};
use shared::redis::Authorities;
use tests::postgres::{Postgres, psql};
use tokio::task::JoinSet;
use tokio::time::sleep;

const WRITERS: u32 = 8;
const KILLS: u32 = 5;

fn key(pk: &str, sk: &str) -> Key {
    Key { pk: pk.to_owned(), sk: sk.to_owned() }
}

/// A new item of a writer, and its count of them in another item.
fn both(writer: u32, number: u64) -> [Write; 2] {
    let pk = format!("USER#{writer}");
    [
        Write::PutNew { key: key(&pk, &format!("CLAIM#{number:06}")), item: Item::default() },
        Write::Add { key: key(&pk, "WALLET"), deltas: vec![("count", 1)], bounds: Vec::new(), absent: None },
    ]
}

/// Writes until it is stopped. Returns the numbers of what was answered as committed. It never repeats one.
async fn write(table: PostgresTable, writer: u32, stopped: Arc<AtomicBool>) -> Vec<u64> {
    let mut committed = Vec::new();
    for number in 0.. {
        if stopped.load(Ordering::SeqCst) {
            break;
        }
        match table.transact(&both(writer, number), "").await {
            Ok(()) => committed.push(number),
            // While the server is away, more tries would only fail faster.
            Err(_) => sleep(Duration::from_millis(5)).await,
        }
    }
    committed
}

/// Lets writers write while `disturb` runs. Then compares what `left` has with the answers that they got.
async fn check(table: PostgresTable, disturb: impl Future<Output = PostgresTable>) {
    let stopped = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (table, stopped) = (table.clone(), Arc::clone(&stopped));
        writers.spawn(async move { (writer, write(table, writer, stopped).await) });
    }
    let left = disturb.await;
    stopped.store(true, Ordering::SeqCst);
    while let Some(done) = writers.join_next().await {
        let (writer, committed) = done.unwrap();
        assert!(!committed.is_empty(), "writer {writer} wrote nothing");
        let pk = format!("USER#{writer}");
        let claims = Query { pk: pk.clone(), sk_prefix: "CLAIM#", after: None, descending: false, limit: None };
        let found = left.query(claims).await.unwrap();
        let wallet = left.get(key(&pk, "WALLET")).await.unwrap().unwrap();
        assert_eq!(wallet.get("count"), Some(&AttributeValue::N(found.len().to_string())), "all or nothing");
        for number in committed {
            let sk = AttributeValue::S(format!("CLAIM#{number:06}"));
            assert!(found.iter().any(|item| item.get("SK") == Some(&sk)), "{pk}: {number} was committed, and is gone");
        }
    }
}

async fn table(server: &Postgres) -> PostgresTable {
    shared::redis::install_crypto_provider();
    let database = Database::new(&server.url(), &Authorities::System).unwrap();
    database.migrate().await.unwrap();
    PostgresTable::new(database)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_database_has_all_that_was_committed() {
    let mut server = Postgres::start(&[]);
    let table = table(&server).await;
    let disturb = async {
        for _ in 0..KILLS {
            sleep(Duration::from_millis(300)).await;
            server.kill();
            server.restart();
        }
        sleep(Duration::from_millis(300)).await;
        table.clone()
    };
    check(table.clone(), disturb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_takes_over_has_all_that_was_committed() {
    let mut server = Postgres::start(&[]);
    let table = table(&server).await;
    let standby = server.standby("standby");
    server.psql("ALTER SYSTEM SET synchronous_standby_names = 'standby'; SELECT pg_reload_conf();");
    while server.psql("SELECT sync_state FROM pg_stat_replication") != "sync" {
        sleep(Duration::from_millis(20)).await;
    }
    let disturb = async {
        sleep(Duration::from_millis(500)).await;
        server.kill();
        standby.promote();
        let database = Database::new(&standby.url(), &Authorities::System).unwrap();
        PostgresTable::new(database)
    };
    check(table, disturb).await;
}

/// A lock that somebody holds delays the transactions that need it, and no others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_lock_delays_no_other_transaction_for_long() {
    let server = Postgres::start(&["fsync=off"]);
    let table = table(&server).await;
    table.transact(&both(0, 0), "").await.unwrap();
    let database = format!("host=127.0.0.1 port={} user=hongbao dbname=postgres", server.port());
    let hold = "BEGIN; SELECT FROM hongbao.items WHERE sk = 'WALLET' FOR UPDATE; SELECT pg_sleep(4); COMMIT;";
    let holder = std::thread::spawn(move || psql(&database, hold));
    while server.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") != "1" {
        sleep(Duration::from_millis(20)).await;
    }
    let mut all = JoinSet::new();
    for number in 1..5 {
        let table = table.clone();
        all.spawn(async move { (true, table.transact(&both(0, number), "").await) });
    }
    for writer in 1..20 {
        let table = table.clone();
        all.spawn(async move { (false, table.transact(&both(writer, 0), "").await) });
    }
    while let Some(done) = all.join_next().await {
        let (is_locked, answer) = done.unwrap();
        assert_eq!(matches!(answer, Err(TransactError::Cancelled(_))), is_locked, "{answer:?}");
        assert_eq!(answer.is_ok(), !is_locked);
    }
    assert!(!holder.is_finished(), "all have their answer while the lock is held");
    holder.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_audit_goes_on_after_a_restart_of_the_database() {
    let mut server = Postgres::start(&[]);
    shared::redis::install_crypto_provider();
    let database = Database::new(&server.url(), &Authorities::System).unwrap();
    database.migrate().await.unwrap();
    PostgresTable::new(database.clone()).transact(&both(1, 1), "").await.unwrap();
    server.kill();
    let reading = tokio::spawn(async move {
        let source: &dyn Source = &PostgresReader::new(database);
        source.all(1, Only::Whole).try_concat().await.unwrap().len()
    });
    tokio::task::block_in_place(|| server.restart());
    assert_eq!(reading.await.unwrap(), 2);
}
