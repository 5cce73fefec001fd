//! Losers finish what others left behind: nobody waits for somebody else's failure.

use aws_sdk_dynamodb::types::AttributeValue;
use futures::future::join_all;
use redis::{Cmd, cmd};
use shared::domain::{Terms, UserId};
use shared::service::GrabOutcome;
use tests::hot::{hold_only, script_calls};
use tests::{Process, World, audit, packet, user, users};

/// The most scripts that 50 losers of one process cost: their probes in shared calls, polls, the help, a reconcile.
const SCRIPT_CALLS_MAX: u64 = 30;

/// A packet of two slips: one is claimed, the other is held for `bob`, whose transaction never came.
async fn with_a_hold_left_behind(world: &World) -> Terms {
    let process = world.process();
    let terms = process.send_funded(packet(&user("sender"), 200, 2)).await;
    let part = terms.id.parts().next().unwrap();
    let won = process.grab(terms.id, &user("ann")).await.unwrap();
    assert!(matches!(won, GrabOutcome::Grabbed { .. }), "{won:?}");
    hold_only(&process, part, &[user("bob")]).await;
    Terms::clone(&terms)
}

async fn are_sold_out(process: &Process, terms: &Terms, losers: &[UserId]) {
    let asking = losers.iter().map(|loser| process.grab(terms.id, loser));
    for (loser, answer) in losers.iter().zip(join_all(asking).await) {
        assert_eq!(answer.unwrap(), GrabOutcome::SoldOut, "{loser}");
    }
}

async fn scripts(world: &World) -> u64 {
    let stats: String = world.redis(cmd("INFO").arg("commandstats")).await;
    script_calls(&stats)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losers_finish_the_claim_of_a_process_that_died() {
    let world = World::single().await;
    let terms = with_a_hold_left_behind(&world).await;
    let process = world.process();
    let (before, transactions) = (scripts(&world).await, world.rig.transactions());
    are_sold_out(&process, &terms, &users("loser", 50)).await;
    let spent = scripts(&world).await - before;
    assert!(spent <= SCRIPT_CALLS_MAX, "{spent} script calls");
    assert_eq!(world.rig.transactions() - transactions, 1);
    let books = audit(&world).await;
    assert_eq!(books.packet(terms.id).claimed(), 2, "bob has the slip that was held for them");
    world.outbox_is_empty().await;

    // The next ones cost nothing.
    let before = scripts(&world).await;
    are_sold_out(&process, &terms, &users("later", 50)).await;
    assert_eq!(scripts(&world).await, before);
    let again = process.grab(terms.id, &user("bob")).await.unwrap();
    assert!(matches!(again, GrabOutcome::Grabbed { replayed: true, .. }), "{again:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_the_ledger_refuses_keeps_nobody_else_waiting() {
    let world = World::single().await;
    let terms = with_a_hold_left_behind(&world).await;
    // No amount can be added to this balance.
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let put = world.dynamodb.put_item().table_name(world.table());
    let put = put.item("PK", text("USER#bob")).item("SK", text("WALLET")).item("balance", text("broken"));
    put.send().await.unwrap();

    let process = world.process();
    are_sold_out(&process, &terms, &users("loser", 50)).await;
    // Neither this process nor another one tries the claim again.
    let (transactions, another) = (world.rig.transactions(), world.process());
    are_sold_out(&process, &terms, &users("later", 50)).await;
    are_sold_out(&another, &terms, &users("last", 50)).await;
    assert_eq!(world.rig.transactions(), transactions);
    let hold = process.grab(terms.id, &user("bob")).await;
    assert!(hold.is_err(), "bob's own request says that the ledger does not take it: {hold:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_help_lease_runs_out_by_itself() {
    let world = World::single().await;
    let terms = with_a_hold_left_behind(&world).await;
    let part = terms.id.parts().next().unwrap();
    let mut lease: Cmd = cmd("SET");
    // A process got the lease and died.
    lease.arg(shared::redis::PartKeys::of(part).helping).arg("1").arg("PX").arg(300);
    let () = world.redis(&lease).await;
    are_sold_out(&world.process(), &terms, &users("loser", 50)).await;
    assert_eq!(audit(&world).await.packet(terms.id).claimed(), 2);
}
