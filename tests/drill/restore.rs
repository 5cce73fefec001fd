//! The table goes back to an earlier time. Then Redis is flushed, settle runs, and the audit is clean.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use local::dynamodb::DynamoDb;
use redis::cmd;
use shared::dynamodb::create_table;
use shared::redis::test_server::{TestServer, poll};
use tests::Books;
use tests::book::Book;

use crate::users::{Users, wishes};
use crate::{Fleet, Size, books, settle, settle_all};

const PROCESSES: usize = 2;
const TABLE: &str = "hongbao";
/// As on AWS, the table of the earlier time is a new one.
const RESTORED: &str = "hongbao-restored";
const SENDER: &str = "sender";
const LONG_S: u64 = 3_600;
/// Some packets expire between the two times.
const SOON_S: u64 = 5;
/// More slips than one part has.
const LARGE: u32 = 1_500;
/// Items in one request: the most that the API takes.
const BATCH: usize = 25;

type Item = HashMap<String, AttributeValue>;

/// Returns what is wrong.
pub async fn run(size: Size) -> Vec<String> {
    let (packets, slips, grabbers) = if size.short { (30, 8, 8) } else { (300, 20, 25) };
    println!("\nthe table goes back to an earlier time: {packets} packets of {slips} slips and one of {LARGE}");
    let dynamodb = DynamoDb::start(None).await.unwrap();
    let client = shared::wiring::dynamodb_at(&dynamodb.url());
    let redis = TestServer::start(&[]).await;
    let mut fleet = Fleet::start(PROCESSES, &redis, &dynamodb, TABLE);
    let users = Users::of(&fleet.urls());
    users.fund(SENDER).await;
    let (mut ids, mut soon) = (Vec::new(), Vec::new());
    for number in 0..packets {
        let expires_in_s = if number % 3 == 0 { SOON_S } else { LONG_S };
        let id = users.send(SENDER, &number.to_string(), slips, expires_in_s).await.expect("a packet");
        if number % 3 == 0 {
            soon.push(id.clone());
        }
        ids.push(id);
    }
    ids.push(users.send(SENDER, "large", LARGE, LONG_S).await.expect("a packet"));

    // The processes die in the middle of a rush, so that the export has claims whose users were not answered, and Redis has
    // holds that the export does not have.
    let wishes = wishes(&ids, grabbers, "u", size.seed);
    let (first, later) = wishes.split_at(wishes.len() * 2 / 3);
    let answered = AtomicUsize::new(0);
    let kill = async {
        poll("the rush", async || (answered.load(Ordering::SeqCst) >= first.len() / 2).then_some(())).await;
        fleet.kill();
        users.give_up(true);
    };
    let rush = users.rush(first, |_, _| {
        answered.fetch_add(1, Ordering::SeqCst);
    });
    tokio::join!(rush, kill);
    users.give_up(false);
    let export = scan(&client, TABLE).await;
    let book_then = users.book().copy();
    println!("exported {} items, after {} promises", export.len(), book_then.promised().len());

    fleet.restart(TABLE);
    users.send(SENDER, "later", slips, LONG_S).await.expect("a packet");
    users.rush(later, |_, _| {}).await;
    let refunded = settle_soon(&fleet, &client, &soon).await;
    println!(
        "then {} promises more, and {refunded} slips refunded",
        users.book().promised().len() - book_then.promised().len()
    );
    fleet.kill();

    create_table(&client, RESTORED).await.unwrap();
    import(&client, RESTORED, export).await;
    let () = redis.command(&cmd("FLUSHALL")).await;
    fleet.restart(RESTORED);
    let report = settle_all(&fleet.urls()[0]).await;
    println!("restored and flushed; the last run of settle: {report}");

    *users.book.lock().unwrap() = Arc::new(book_then);
    let mut violations = check(&users.book(), &dynamodb, &soon).await;
    // Users go on as if nothing had happened since the earlier time.
    users.ask_again().await;
    users.rush(later, |_, _| {}).await;
    users.ask_again().await;
    settle_all(&fleet.urls()[0]).await;
    violations.extend(users.violations());
    violations.extend(check(&users.book(), &dynamodb, &soon).await);
    violations
}

/// Waits until the packets have expired, and lets settle refund them. Returns the number of refunded slips.
async fn settle_soon(fleet: &Fleet, client: &Client, soon: &[String]) -> usize {
    poll("the packets to be settled", async || {
        settle(&fleet.urls()[0]).await;
        let books = tests::audit_table(client, TABLE).await;
        let of = |id: &String| &books.packets[id];
        let refunded = soon.iter().map(|id| of(id).refunded()).sum();
        soon.iter().all(|id| of(id).settled).then_some(refunded)
    })
    .await
}

/// Audits the restored table, and compares it with the book.
async fn check(book: &Book, dynamodb: &DynamoDb, soon: &[String]) -> Vec<String> {
    let books: Books = match books(&dynamodb.url(), RESTORED).await {
        Ok(books) => books,
        Err(wrong) => return wrong,
    };
    let checked = book.compare(&books);
    println!(
        "the audit is clean; {} promises are kept; {} claims of users without an answer",
        checked.promises_kept, checked.late_claims
    );
    let unsettled = soon.iter().filter(|id| !books.packets.get(*id).is_some_and(|packet| packet.settled));
    let unsettled = unsettled.map(|id| format!("{id} has expired and is not settled"));
    checked.violations.into_iter().chain(unsettled).collect()
}

/// All items of a table.
async fn scan(client: &Client, table: &str) -> Vec<Item> {
    let pages = client.scan().table_name(table).consistent_read(true).into_paginator().items().send();
    pages.try_collect().await.unwrap()
}

async fn import(client: &Client, table: &str, items: Vec<Item>) {
    let put = |item: &Item| {
        WriteRequest::builder().put_request(PutRequest::builder().set_item(Some(item.clone())).build().unwrap()).build()
    };
    for batch in items.chunks(BATCH) {
        let writes: Vec<WriteRequest> = batch.iter().map(put).collect();
        let written = client.batch_write_item().request_items(table, writes).send().await.unwrap();
        assert!(written.unprocessed_items.is_none_or(|left| left.is_empty()), "the embedded DynamoDB takes all");
    }
}
