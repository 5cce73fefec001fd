//! Reads of the ledger that have no answer.

use std::time::{Duration, Instant};

use local::dynamodb::DynamoDb;
use shared::dynamodb::{SdkTable, create_table};
use shared::ports::{Key, Table};
use shared::timeouts;
use shared::wiring::dynamodb_at;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

#[tokio::test]
async fn a_read_without_an_answer_is_repeated_before_its_request_is_lost() {
    let database = DynamoDb::start(None).await.unwrap();
    let to = database.url().trim_start_matches("http://").to_owned();
    create_table(&dynamodb_at(&database.url()), "ledger").await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let relay = tokio::spawn(async move {
        let mut mute = Vec::new();
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            if mute.len() < 2 {
                mute.push(client);
                continue;
            }
            let to = to.clone();
            tokio::spawn(async move {
                let mut server = TcpStream::connect(to).await.unwrap();
                copy_bidirectional(&mut client, &mut server).await.ok();
            });
        }
    });

    let table = SdkTable::new(dynamodb_at(&url), "ledger".to_owned());
    let begun = Instant::now();
    let found = table.get(Key { pk: "USER#ann".to_owned(), sk: "WALLET".to_owned() }).await.unwrap();
    assert_eq!(found, None);
    // With the bound of a transaction it would take twice as long at least.
    assert!(begun.elapsed() + Duration::from_secs(1) < 2 * timeouts::TRY, "{:?}", begun.elapsed());
    relay.abort();
}
