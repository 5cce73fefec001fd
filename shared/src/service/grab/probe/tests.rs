use std::sync::atomic::Ordering;

use futures::future::join_all;
use tokio::time::Instant;

use super::*;
use crate::domain::{PACKET_ID_RANDOM_BYTES, PacketId, PassphraseDigest, Timestamp};
use crate::service::grab::tests::scene::{REDIS, Scene, user};

fn part(packet: u8) -> PartId {
    let mut random = [0; PACKET_ID_RANDOM_BYTES];
    random[0] = packet;
    PartId { packet: PacketId::new(Timestamp::from_ms(1), 1, random), index: 0 }
}

fn request(packet: u8, user: &str, digest: Option<u8>) -> Request {
    let passphrase = digest.map(|byte| PassphraseDigest([byte; 32]));
    let grabber = Grabber { user: user.parse().unwrap(), passphrase };
    Request { part: part(packet), grabber, answer: oneshot::channel().0 }
}

fn queue<'a>(requests: impl IntoIterator<Item = (u8, &'a str, Option<u8>)>) -> VecDeque<Request> {
    requests.into_iter().map(|(packet, user, digest)| request(packet, user, digest)).collect()
}

/// Each part, and how many requests each of its users has.
fn shape(batch: &Batch) -> Vec<(PartId, Vec<usize>)> {
    let waiters = batch.waiters.iter().map(|users| users.iter().map(Vec::len).collect());
    batch.grabs.iter().map(|part_grabs| part_grabs.part).zip(waiters).collect()
}

#[test]
fn equal_requests_share_an_answer_and_other_passphrases_are_other_questions() {
    let mut queue = queue([(1, "a", None), (2, "a", None), (1, "b", None), (1, "a", None), (1, "a", Some(1))]);
    let batch = next_batch(&mut queue);
    assert_eq!(shape(&batch), [(part(1), vec![2, 1]), (part(2), vec![1]), (part(1), vec![1])]);
    assert!(queue.is_empty());
}

#[test]
fn a_batch_is_bounded_and_keeps_the_order() {
    let users: Vec<String> = (0..=BATCH_MAX).map(|n| format!("u{n}")).collect();
    let mut queue = queue(users.iter().map(|user| (1, user.as_str(), None)).chain([(2, "a", None)]));
    assert_eq!(shape(&next_batch(&mut queue)), [(part(1), vec![1; BATCH_MAX])]);
    assert_eq!(shape(&next_batch(&mut queue)), [(part(1), vec![1]), (part(2), vec![1])]);
}

#[tokio::test(start_paused = true)]
async fn a_crowd_is_in_several_calls_at_once() {
    let scene = Scene::of(300).await;
    let prober = Prober::new(Arc::clone(&scene.hot));
    let begun = Instant::now();
    let asking = (0..300).map(|number| prober.probe(scene.part(), Grabber { user: user(number), passphrase: None }));
    for answer in join_all(asking).await {
        assert!(matches!(answer, Ok(Some(GrabAnswer::Held { .. }))), "{answer:?}");
    }
    assert_eq!(begun.elapsed(), REDIS * 2, "the first calls, and one full call after each of them");
}

#[tokio::test(start_paused = true)]
async fn a_damaged_part_that_has_a_call_for_itself_is_probed_once() {
    let scene = Scene::of(1).await;
    let prober = Prober::new(Arc::clone(&scene.hot));
    scene.hot.server().is_damaged.store(true, Ordering::Relaxed);
    let answer = prober.probe(scene.part(), Grabber { user: user(1), passphrase: None }).await;
    assert!(matches!(answer, Err(Failure::Defect(_))), "{answer:?}");
    assert_eq!(scene.count().0, 1, "a wrong passphrase must not count twice");
}

#[tokio::test(start_paused = true)]
async fn a_hot_store_that_cannot_be_reached_is_not_asked_for_those_who_wait() {
    let scene = Scene::of(1).await;
    let prober = Prober::new(Arc::clone(&scene.hot));
    scene.hot.server().is_gone.store(true, Ordering::Relaxed);
    let asking = (0..300).map(|number| prober.probe(scene.part(), Grabber { user: user(number), passphrase: None }));
    for answer in join_all(asking).await {
        assert!(matches!(answer, Err(Failure::Unavailable(_))), "{answer:?}");
    }
    assert!(scene.count().0 <= IN_FLIGHT_MAX as u64);
}
