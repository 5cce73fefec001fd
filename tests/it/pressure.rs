//! Stores at their limit: some requests still work, others are refused, and nothing is lost.

use std::time::{Duration, Instant};

use local::dynamodb::DynamoDb;
use redis::cmd;
use shared::dynamodb::{SdkTable, create_table};
use shared::ports::{Key, Table};
use shared::service::{Failure, GrabOutcome};
use shared::timeouts;
use shared::wiring::dynamodb_at;
use tests::hot::hold_only;
use tests::{World, audit, packet, user, users};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

fn refused(answer: &Result<GrabOutcome, Failure>) -> bool {
    matches!(answer, Err(Failure::Unavailable(_)))
}

fn slip(answer: Result<GrabOutcome, Failure>) -> u32 {
    match answer {
        Ok(GrabOutcome::Grabbed { claim, .. }) => claim.slip,
        other => panic!("not grabbed: {other:?}"),
    }
}

#[tokio::test]
async fn a_full_redis_keeps_its_promises_and_makes_no_new_ones() {
    let world = World::single().await;
    let process = world.process();
    let fill = async |full: bool| {
        let () = world.redis(cmd("CONFIG").arg("SET").arg("maxmemory").arg(u8::from(full))).await;
    };
    let terms = process.send_funded(packet(&user("sender"), 1_000, 10)).await;
    let sold_out = process.send_funded(packet(&user("sender"), 100, 1)).await;
    let won = slip(process.grab(terms.id, &user("ann")).await);
    slip(process.grab(sold_out.id, &user("ann")).await);
    let part = terms.id.parts().next().unwrap();
    let held = hold_only(&process, part, &users("held", 3)).await;

    fill(true).await;
    // Promises are kept, and a user with a hold gets the slip.
    assert_eq!(slip(process.grab(terms.id, &user("ann")).await), won);
    assert_eq!(slip(process.grab(terms.id, &user("held0")).await), held[0].0);
    assert_eq!(process.grab(sold_out.id, &user("bob")).await.unwrap(), GrabOutcome::SoldOut);
    // Settle still empties the outbox.
    let report = process.settle().await;
    assert_eq!((report.persisted, report.outbox_left), (2, Some(0)));
    // Packets can still be sent. Requests that need memory are refused; so is a load.
    let waiting = process.send_funded(packet(&user("sender"), 500, 5)).await;
    for id in [terms.id, waiting.id] {
        let answer = process.grab(id, &user("eve")).await;
        assert!(refused(&answer), "{answer:?}");
    }

    fill(false).await;
    for id in [terms.id, waiting.id] {
        slip(process.grab(id, &user("eve")).await);
    }
    world.outbox_is_empty().await;
    let books = audit(&world).await;
    assert_eq!((books.packet(terms.id).claimed(), books.packet(waiting.id).claimed()), (5, 1));
    world.audit_hot(&terms, &books).await;
}

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
