//! Tests of who may grab, and of the slips' amounts.

use std::collections::BTreeSet;

use shared::domain::{PacketId, Passphrase, Refusal, Split, UserId};
use shared::service::{GrabOutcome, NewPacket};
use tests::{Process, World, audit, packet, user, users};

async fn grabbed(process: &Process, id: PacketId, user: &UserId) -> (u32, u64) {
    match process.grab(id, user).await.unwrap() {
        GrabOutcome::Grabbed { claim, .. } => (claim.slip, claim.amount.minor_units()),
        other => panic!("{user}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_may_win_their_own_packet() {
    let world = World::single().await;
    let process = world.process();
    let sender = user("sender");
    let terms = process.send_funded(packet(&sender, 1_000, 2)).await;
    let (_, amount) = grabbed(&process, terms.id, &sender).await;
    let books = audit(&world).await;
    assert_eq!(books.balance("sender"), amount);
    let (_, rest) = grabbed(&process, terms.id, &user("ann")).await;
    assert_eq!(amount + rest, 1_000);
    world.audit_hot(&terms, &audit(&world).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_slips_differ_by_at_most_one() {
    let world = World::single().await;
    let process = world.process();
    let terms = process.send_funded(NewPacket { split: Split::Equal, ..packet(&user("sender"), 1_003, 10) }).await;
    let mut amounts = Vec::new();
    for user in users("u", 10) {
        amounts.push(grabbed(&process, terms.id, &user).await.1);
    }
    amounts.sort_unstable();
    assert_eq!(amounts, [100, 100, 100, 100, 100, 100, 100, 101, 101, 101]);
    audit(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_recipients_grab_a_packet_with_recipients() {
    let world = World::single().await;
    let process = world.process();
    let recipients: BTreeSet<UserId> = [user("ann"), user("bob")].into();
    let wanted = NewPacket { recipients: Some(recipients), ..packet(&user("sender"), 300, 3) };
    let terms = process.send_funded(wanted).await;
    let refused = GrabOutcome::Refused(Refusal::NotARecipient);
    let eve = user("eve");
    // The same after the packet was loaded again, with its guard.
    for wiped in [false, true] {
        if wiped {
            world.flush().await;
        }
        assert_eq!(process.grab(terms.id, &eve).await.unwrap(), refused);
        assert_eq!(process.grab(terms.id, &user("sender")).await.unwrap(), refused);
        assert_eq!(grabbed(&process, terms.id, &user("ann")).await, grabbed(&process, terms.id, &user("ann")).await);
    }
    grabbed(&process, terms.id, &user("bob")).await;
    assert_eq!(process.grab(terms.id, &eve).await.unwrap(), refused);
    let books = audit(&world).await;
    assert_eq!((books.packet(terms.id).claimed(), books.packet(terms.id).undecided()), (2, 1));
    world.audit_hot(&terms, &books).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_wrong_passphrases_are_the_limit() {
    let world = World::single().await;
    let process = world.process();
    let wanted = NewPacket { passphrase: Some(Passphrase::new("芝麻开门")), ..packet(&user("sender"), 300, 3) };
    let terms = process.send_funded(wanted).await;
    let (ann, eve) = (user("ann"), user("eve"));
    let won = process.grab_saying(terms.id, &ann, "芝麻开门").await.unwrap();
    let GrabOutcome::Grabbed { claim, replayed: false } = won else { panic!("{won:?}") };

    let wrong = GrabOutcome::Refused(Refusal::WrongPassphrase);
    for n in 0..10 {
        assert_eq!(process.grab(terms.id, &eve).await.unwrap(), wrong, "a missing passphrase is no guess");
        let said = format!("guess {n}");
        assert_eq!(process.grab_saying(terms.id, &eve, &said).await.unwrap(), wrong, "try {n}");
    }
    for said in ["guess 11", "芝麻开门"] {
        let answer = process.grab_saying(terms.id, &eve, said).await.unwrap();
        let GrabOutcome::Refused(Refusal::TooManyTries { retry_after_ms }) = answer else { panic!("{answer:?}") };
        assert!((1..=60_000).contains(&retry_after_ms), "{retry_after_ms}");
    }
    // Each user's tries count separately.
    let answer = process.grab_saying(terms.id, &user("bob"), "芝麻开门").await.unwrap();
    assert!(matches!(answer, GrabOutcome::Grabbed { replayed: false, .. }), "{answer:?}");

    // Winners need no passphrase any more, even after Redis lost the packet.
    for wiped in [false, true] {
        if wiped {
            world.flush().await;
        }
        let again = GrabOutcome::Grabbed { claim: claim.clone(), replayed: true };
        assert_eq!(process.grab(terms.id, &ann).await.unwrap(), again, "wiped: {wiped}");
        assert_eq!(process.grab_saying(terms.id, &ann, "wrong").await.unwrap(), again, "wiped: {wiped}");
    }
    let books = audit(&world).await;
    assert_eq!(books.packet(terms.id).claimed(), 2);
    world.audit_hot(&terms, &books).await;
}
