//! Stores at their limit: some requests still work, others are refused, and nothing is lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use local::dynamodb::DynamoDb;
use redis::cmd;
use shared::dynamodb::{SdkTable, create_table};
use shared::ports::{Key, Table};
use shared::service::{Asker, Failure, GrabOutcome};
use shared::timeouts;
use shared::wiring::dynamodb_at;
use tests::hot::hold_only;
use tests::relay::Relay;
use tests::{Setup, World, audit, packet, user, users};
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
async fn a_throttled_table_delays_claims_and_loses_none() {
    let world = World::single().await;
    let process = world.process_with(Setup::default());
    let terms = process.send_funded(packet(&user("sender"), 1_000, 10)).await;
    let grabbers = users("u", 10);

    world.rig.throttle(true);
    let answers = join_all(grabbers.iter().map(|user| process.grab(terms.id, user))).await;
    assert!(answers.iter().all(refused), "{answers:?}");
    // All slips are held, and a loser's own claim item can still be read.
    assert_eq!(process.grab(terms.id, &user("late")).await.unwrap(), GrabOutcome::SoldOut);
    let report = process.settle().await;
    assert_eq!((report.persisted, report.outbox_left), (0, Some(10)));

    world.rig.throttle(false);
    // Settle persists the holds of users who do not ask again.
    let (again, silent) = grabbers.split_at(5);
    let answers = join_all(again.iter().map(|user| process.grab(terms.id, user))).await;
    answers.into_iter().map(slip).for_each(drop);
    let report = process.settle().await;
    assert_eq!((report.persisted, report.outbox_left), (5, Some(0)));
    let books = audit(&world).await;
    assert!(silent.iter().all(|user| books.packet(terms.id).claims.contains_key(user.as_str())));
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

/// 9. A proxy in front of the ledger holds up each request that names one of the slow users.
#[tokio::test]
async fn the_slow_items_of_some_users_delay_nobody_else() {
    const SLOW: Duration = Duration::from_secs(3);
    let world = World::single().await;
    let relay = Relay::start(world.dynamodb_url()).await;
    let process = world.process_over(&dynamodb_at(&relay.url()), Setup { runs_on: true, ..Setup::default() });
    // Of several parts and final: each loser's own claim is read.
    let over = process.send_funded(packet(&user("sender"), 2_000, 2_000)).await;
    process.close.close(over.id, "over".parse().unwrap(), None).await.unwrap();
    process.settle().await;
    assert_eq!(process.grab(over.id, &user("first")).await.unwrap(), GrabOutcome::Closed);

    relay.delay_items("slow", SLOW);
    for count in [1, 4, 16] {
        let open = process.send_funded(packet(&user("sender"), 1_000, 200)).await;
        let slow = join_all(users("slow", count).into_iter().flat_map(|user| {
            let tap = |id| {
                let (process, user) = (Arc::clone(&process), user.clone());
                async move { process.grab(id, &user).await }
            };
            [tap(over.id), tap(over.id), tap(open.id)]
        }));
        let others = join_all(users("bob", 100).into_iter().map(|user| {
            let (process, over, open) = (&process, over.id, open.id);
            async move {
                assert_eq!(process.grab(over, &user).await.unwrap(), GrabOutcome::Closed);
                let won = slip(process.grab(open, &user).await);
                let seen = process.view.packet(open, &user, &Asker::Operator).await.unwrap();
                assert!(seen.mine.is_some_and(|mine| mine.slip == won));
            }
        }));
        // All of them are done before the first slow one is, however fast this machine.
        tokio::select! {
            biased;
            _ = others => {}
            _ = slow => panic!("{count} slow users were faster than the others"),
        }
    }
}
