//! Stores at their limit: some requests still work, others are refused, and nothing is lost.

use futures::future::join_all;
use redis::cmd;
use shared::service::{Failure, GrabOutcome};
use tests::hot::hold_only;
use tests::{Setup, World, audit, packet, user, users};

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
async fn a_settle_run_counts_what_it_has_no_time_for() {
    let world = World::single().await;
    let process = world.process();
    let terms = process.send_funded(packet(&user("sender"), 1_000, 10)).await;
    slip(process.grab(terms.id, &user("ann")).await);
    let held = hold_only(&process, terms.id.parts().next().unwrap(), &users("held", 3)).await;
    let since = held.iter().map(|(_, at)| *at).min().unwrap();

    let before = world.now_ms();
    let report = process.count().await;
    assert_eq!((report.persisted, report.outbox_left), (0, Some(3)));
    let age = report.oldest_outbox_ms.unwrap();
    assert!((before - since..=world.now_ms() - since).contains(&age), "{age}");
    let report = process.settle().await;
    assert_eq!((report.persisted, report.outbox_left, report.oldest_outbox_ms), (3, Some(0), Some(0)));
}
