use std::sync::atomic::Ordering;

use futures::future::join_all;

use super::*;
use crate::domain::{PACKET_ID_RANDOM_BYTES, PacketId, PassphraseDigest, Timestamp};
use crate::ports::System;
use crate::service::grab::help::tests::scene::{REDIS, Scene, user};

const NONE_FINAL: fn(PartId) -> Option<Arc<PartSnapshot>> = |_| None;

fn part(packet: u8) -> PartId {
    let mut random = [0; PACKET_ID_RANDOM_BYTES];
    random[0] = packet;
    PartId { packet: PacketId::new(Timestamp::from_ms(1), 1, random), index: 0 }
}

fn request(user: &str, digest: Option<u8>) -> Request {
    let passphrase = digest.map(|byte| PassphraseDigest([byte; 32]));
    Request { grabber: Grabber { user: user.parse().unwrap(), passphrase }, answer: oneshot::channel().0 }
}

fn queue<'a>(requests: impl IntoIterator<Item = (u8, &'a str, Option<u8>)>) -> Queue {
    let mut queue = Queue::default();
    for (packet, user, digest) in requests {
        queue.push(part(packet), request(user, digest));
    }
    queue
}

fn is_empty(queue: &Queue) -> bool {
    (queue.len, queue.parts.len(), queue.order.len()) == (0, 0, 0)
}

fn shape(batch: &Batch) -> Vec<Vec<usize>> {
    batch.waiters.iter().map(|users| users.iter().map(Vec::len).collect()).collect()
}

#[test]
fn a_user_is_in_a_batch_once() {
    let mut queue = queue([(1, "a", None), (1, "b", None), (1, "a", None), (1, "a", Some(1))]);
    assert_eq!(shape(&queue.next_batch(BULK_MIN, NONE_FINAL)), [[2, 1]]);
    assert_eq!(queue.len, 1, "the same user with another passphrase waits for the next batch");
    assert_eq!(shape(&queue.next_batch(BULK_MIN, NONE_FINAL)), [[1]]);
    assert!(is_empty(&queue));
}

#[test]
fn one_user_with_many_passphrases_delays_nobody_for_long() {
    let mut queue = Queue::default();
    for n in 0..200 {
        queue.push(part(1), request("a", Some(n)));
    }
    queue.push(part(2), request("b", None));
    assert_eq!((shape(&queue.next_batch(BULK_MIN, NONE_FINAL)), queue.len), (vec![vec![1], vec![1]], 199));
    for left in (0..199).rev() {
        assert_eq!((shape(&queue.next_batch(BULK_MIN, NONE_FINAL)), queue.len), (vec![vec![1]], left));
    }
}

#[test]
fn a_batch_has_each_part_once_with_its_own_users() {
    let batch =
        queue([(1, "a", None), (2, "a", None), (1, "b", None), (2, "a", None)]).next_batch(BULK_MIN, NONE_FINAL);
    let asked: Vec<(PartId, usize)> = batch.asks.iter().map(|(part, users)| (*part, users.len())).collect();
    assert_eq!((asked, shape(&batch)), (vec![(part(1), 2), (part(2), 1)], vec![vec![1, 1], vec![2]]));
}

#[test]
fn a_batch_is_bounded_and_what_is_left_comes_after_the_others() {
    let users: Vec<String> = (0..=BATCH_MAX).map(|n| format!("u{n}")).collect();
    let mut queue = Queue::default();
    for user in &users {
        queue.push(part(1), request(user, None));
    }
    queue.push(part(2), request("a", None));
    assert_eq!((shape(&queue.next_batch(BULK_MIN, NONE_FINAL)), queue.len), (vec![vec![1; BATCH_MAX]], 2));
    let last = queue.next_batch(BULK_MIN, NONE_FINAL);
    assert_eq!(last.asks.iter().map(|(part, _)| *part).collect::<Vec<_>>(), [part(2), part(1)]);
    assert_eq!(queue.len, 0);
}

#[test]
fn a_request_for_a_final_part_is_in_no_call() {
    let others = GrabAnswer::Nothing { expired: false, certain: true };
    let known = PartSnapshot { is_final: true, left: std::time::Duration::ZERO, by_user: HashMap::default(), others };
    let known = Arc::new(known);
    let exhausted = |asked| (asked == part(1)).then(|| Arc::clone(&known));
    let batch = queue([(1, "a", None), (2, "a", None), (1, "b", None)]).next_batch(BULK_MIN, exhausted);
    assert_eq!((batch.asks.len(), batch.asks[0].0, shape(&batch)), (1, part(2), vec![vec![1]]));
    assert_eq!((batch.final_parts.len(), batch.final_parts[0].1.len()), (1, 2));
}

/// What a call has shown that had nothing of `part`.
fn nothing_of(part: PartId) -> Seen {
    Seen { had_nothing: vec![part], ..Seen::default() }
}

fn bulk_of(batch: &Batch) -> Option<(PartId, usize)> {
    batch.bulk.as_ref().map(|(part, waiting)| (*part, waiting.len()))
}

#[test]
fn bulk_waiters_for_a_part_that_may_have_nothing_left_are_one_call() {
    let mut queue = queue([(1, "a", None), (2, "a", None), (1, "b", None), (1, "c", None), (1, "b", Some(1))]);
    queue.absorb(nothing_of(part(3)));
    queue.absorb(nothing_of(part(1)));
    let first = queue.next_batch(4, NONE_FINAL);
    assert_eq!((bulk_of(&first), first.asks.len(), queue.len), (Some((part(1), 4)), 0, 1));
    assert_eq!(shape(&queue.next_batch(4, NONE_FINAL)), [[1]]);
    assert!(is_empty(&queue));
}

#[test]
fn bulk_waiters_go_after_the_probes_before_them_and_few_requests_are_none() {
    let mut queue = queue([(2, "a", None), (1, "a", None), (1, "b", None), (2, "b", None)]);
    queue.absorb(nothing_of(part(1)));
    assert_eq!(shape(&queue.next_batch(2, NONE_FINAL)), [[1, 1]]);
    assert_eq!(bulk_of(&queue.next_batch(2, NONE_FINAL)), Some((part(1), 2)));
    for user in ["a", "b"] {
        queue.push(part(1), request(user, None));
    }
    queue.absorb(nothing_of(part(1)));
    assert_eq!(shape(&queue.next_batch(3, NONE_FINAL)), [[1, 1]], "two are too few");
}

#[test]
fn bulk_waiters_that_each_need_a_probe_go_before_later_requests() {
    let mut queue = queue([(1, "a", None), (1, "b", None)]);
    queue.absorb(nothing_of(part(1)));
    let bulk = queue.next_batch(2, NONE_FINAL).bulk;
    for (user, digest) in [("c", None), ("d", None)] {
        queue.push(part(1), request(user, digest));
    }
    queue.absorb(Seen { one_by_one: bulk, ..Seen::default() });
    queue.absorb(nothing_of(part(1)));
    let batch = queue.next_batch(2, NONE_FINAL);
    let users: Vec<&str> = batch.asks[0].1.iter().map(|grabber| grabber.user.as_str()).collect();
    assert_eq!((users, queue.len), (vec!["a", "b", "c", "d"], 0), "a snapshot in vain is not repeated");
}

#[test]
fn a_failure_answers_all_who_wait() {
    let mut queue = queue([(1, "a", None)]);
    let (answer, mut answered) = oneshot::channel();
    queue.push(part(2), Request { grabber: request("b", None).grabber, answer });
    queue.absorb(Seen { failure: Some(Failure::unavailable("by the test")), ..Seen::default() });
    assert!(matches!(answered.try_recv(), Ok(Err(Failure::Unavailable(_)))));
    assert!(is_empty(&queue));
}

#[tokio::test(start_paused = true)]
async fn a_crowd_is_in_several_calls_at_once() {
    let scene = Scene::of(300).await;
    let exhausted = Arc::new(ExhaustedParts::new(Arc::clone(&scene.hot), Arc::new(System)));
    let prober = Prober::new(Arc::clone(&scene.hot), exhausted, BULK_MIN);
    let begun = Instant::now();
    let asking = (0..300).map(|number| prober.probe(scene.part(), Grabber { user: user(number), passphrase: None }));
    for answer in join_all(asking).await {
        assert!(matches!(answer, Ok(ProbeResult::Answer(GrabAnswer::Held { .. }))), "{answer:?}");
    }
    assert_eq!(begun.elapsed(), REDIS * 2, "the first calls, and one full call after each of them");
}

#[tokio::test(start_paused = true)]
async fn a_damaged_part_that_has_a_call_for_itself_is_probed_once() {
    let scene = Scene::of(1).await;
    let exhausted = Arc::new(ExhaustedParts::new(Arc::clone(&scene.hot), Arc::new(System)));
    let prober = Prober::new(Arc::clone(&scene.hot), exhausted, BULK_MIN);
    scene.hot.is_damaged.store(true, Ordering::Relaxed);
    scene.count();
    let answer = prober.probe(scene.part(), Grabber { user: user(1), passphrase: None }).await;
    assert!(matches!(answer, Err(Failure::Defect(_))), "{answer:?}");
    assert_eq!(scene.count().0, 1, "a wrong passphrase must not count twice");
}
