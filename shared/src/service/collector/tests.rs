use super::*;
use crate::domain::{PACKET_ID_RANDOM_BYTES, PacketId, PassphraseDigest, Timestamp};

const NONE_FINAL: fn(PartId) -> Option<Arc<FinalPart>> = |_| None;

fn part(packet: u8) -> PartId {
    let mut random = [0; PACKET_ID_RANDOM_BYTES];
    random[0] = packet;
    PartId { packet: PacketId::new(Timestamp::from_ms(1), 1, random), index: 0 }
}

fn waiting(user: &str, digest: Option<u8>) -> Waiting {
    let passphrase = digest.map(|byte| PassphraseDigest([byte; 32]));
    Waiting { grabber: Grabber { user: user.parse().unwrap(), passphrase }, answer: oneshot::channel().0 }
}

/// A lane with as many calls under way as there may be, and those who wait for the next.
fn lane<'a>(queue: impl IntoIterator<Item = (u8, &'a str, Option<u8>)>) -> Lane {
    let mut lane = Lane { calls: CALLS, ..Lane::new(CROWD) };
    for (packet, user, digest) in queue {
        assert!(lane.join(part(packet), waiting(user, digest), &NONE_FINAL).is_none(), "it waits");
    }
    lane
}

fn shape(batch: &Batch) -> Vec<Vec<usize>> {
    batch.askers.iter().map(|users| users.iter().map(Vec::len).collect()).collect()
}

#[test]
fn a_user_is_in_a_batch_once() {
    let mut lane = lane([(1, "a", None), (1, "b", None), (1, "a", None), (1, "a", Some(1))]);
    assert_eq!(shape(&lane.next_batch(&NONE_FINAL)), [[2, 1]]);
    assert_eq!(lane.len, 1, "the same user with another passphrase waits for the next batch");
    assert_eq!(shape(&lane.next_batch(&NONE_FINAL)), [[1]]);
    assert_eq!((lane.len, lane.waiting.len(), lane.order.len()), (0, 0, 0));
}

#[test]
fn one_user_with_many_passphrases_holds_up_nobody_for_long() {
    let mut lane = Lane { calls: CALLS, ..Lane::new(CROWD) };
    for n in 0..200 {
        assert!(lane.join(part(1), waiting("a", Some(n)), &NONE_FINAL).is_none());
    }
    assert!(lane.join(part(2), waiting("b", None), &NONE_FINAL).is_none());
    assert_eq!((shape(&lane.next_batch(&NONE_FINAL)), lane.len), (vec![vec![1], vec![1]], 199));
    for left in (0..199).rev() {
        assert_eq!((shape(&lane.next_batch(&NONE_FINAL)), lane.len), (vec![vec![1]], left));
    }
}

#[test]
fn a_batch_has_each_part_once_with_its_own_users() {
    let batch = lane([(1, "a", None), (2, "a", None), (1, "b", None), (2, "a", None)]).next_batch(&NONE_FINAL);
    let asked: Vec<(PartId, usize)> = batch.asks.iter().map(|(part, users)| (*part, users.len())).collect();
    assert_eq!((asked, shape(&batch)), (vec![(part(1), 2), (part(2), 1)], vec![vec![1, 1], vec![2]]));
}

#[test]
fn a_batch_is_bounded_and_what_is_left_comes_after_the_others() {
    let users: Vec<String> = (0..=BATCH).map(|n| format!("u{n}")).collect();
    let mut lane = Lane { calls: CALLS, ..Lane::new(CROWD) };
    for user in &users {
        assert!(lane.join(part(1), waiting(user, None), &NONE_FINAL).is_none());
    }
    assert!(lane.join(part(2), waiting("a", None), &NONE_FINAL).is_none());
    assert_eq!((shape(&lane.next_batch(&NONE_FINAL)), lane.len), (vec![vec![1; BATCH]], 2));
    let last = lane.next_batch(&NONE_FINAL);
    assert_eq!(last.asks.iter().map(|(part, _)| *part).collect::<Vec<_>>(), [part(2), part(1)]);
    assert_eq!(lane.len, 0);
}

#[test]
fn who_waits_for_a_part_that_is_final_is_in_no_call() {
    let known = Arc::new(FinalPart { expires_at: Timestamp::from_ms(1), owners: HashMap::default() });
    let finals = |asked| (asked == part(1)).then(|| Arc::clone(&known));
    let batch = lane([(1, "a", None), (2, "a", None), (1, "b", None)]).next_batch(&finals);
    assert_eq!((batch.asks.len(), batch.asks[0].0, shape(&batch)), (1, part(2), vec![vec![1]]));
    assert_eq!((batch.settled.len(), batch.settled[0].1.len()), (1, 2));
}

/// What a call has shown that had nothing of `part`.
fn nothing_of(part: PartId) -> Served {
    Served { had_nothing: vec![part], ..Served::default() }
}

fn crowd_of(batch: &Batch) -> Option<(PartId, usize)> {
    batch.crowd.as_ref().map(|(part, waiting)| (*part, waiting.len()))
}

#[test]
fn a_crowd_that_waits_for_what_may_have_nothing_left_is_one_call() {
    let mut lane = lane([(1, "a", None), (2, "a", None), (1, "b", None), (1, "c", None), (1, "b", Some(1))]);
    lane.crowd = 4;
    lane.heed(nothing_of(part(3)));
    lane.heed(nothing_of(part(1)));
    let first = lane.next_batch(&NONE_FINAL);
    assert_eq!((crowd_of(&first), first.asks.len(), lane.len), (Some((part(1), 4)), 0, 1));
    assert_eq!(shape(&lane.next_batch(&NONE_FINAL)), [[1]]);
    assert_eq!((lane.len, lane.waiting.len(), lane.order.len()), (0, 0, 0));
}

#[test]
fn a_crowd_waits_for_the_asks_before_it_and_few_are_none() {
    let mut lane = lane([(2, "a", None), (1, "a", None), (1, "b", None), (2, "b", None)]);
    lane.crowd = 2;
    lane.heed(nothing_of(part(1)));
    assert_eq!(shape(&lane.next_batch(&NONE_FINAL)), [[1, 1]]);
    assert_eq!(crowd_of(&lane.next_batch(&NONE_FINAL)), Some((part(1), 2)));
    lane.crowd = 3;
    for user in ["a", "b"] {
        lane.push(part(1), waiting(user, None));
    }
    lane.heed(nothing_of(part(1)));
    assert_eq!(shape(&lane.next_batch(&NONE_FINAL)), [[1, 1]], "two are no crowd");
}

#[test]
fn a_crowd_that_has_to_ask_one_by_one_does_so_before_those_who_came_later() {
    let mut lane = lane([(1, "a", None), (1, "b", None)]);
    lane.crowd = 2;
    lane.heed(nothing_of(part(1)));
    let crowd = lane.next_batch(&NONE_FINAL).crowd;
    for (user, digest) in [("c", None), ("d", None)] {
        lane.push(part(1), waiting(user, digest));
    }
    lane.heed(Served { one_by_one: crowd, ..Served::default() });
    lane.heed(nothing_of(part(1)));
    let batch = lane.next_batch(&NONE_FINAL);
    let users: Vec<&str> = batch.asks[0].1.iter().map(|grabber| grabber.user.as_str()).collect();
    assert_eq!((users, lane.len), (vec!["a", "b", "c", "d"], 0), "once read in vain, each asks");
}

#[test]
fn a_call_goes_at_once_where_none_is_under_way_and_else_when_enough_wait() {
    let mut lane = Lane::new(CROWD);
    assert!(lane.join(part(1), waiting("first", None), &NONE_FINAL).is_some());
    for n in 1..WORTH_A_CALL {
        assert!(lane.join(part(1), waiting(&format!("u{n}"), None), &NONE_FINAL).is_none());
    }
    let second = lane.join(part(2), waiting("last", None), &NONE_FINAL).unwrap();
    assert_eq!((shape(&second).concat().len(), lane.calls), (WORTH_A_CALL, 2));
}

#[test]
fn whoever_waits_has_a_call_that_will_take_him_along() {
    let mut lane = Lane::new(CROWD);
    assert!(lane.join(part(1), waiting("a", None), &NONE_FINAL).is_some());
    assert!(lane.next_call(&NONE_FINAL).is_none());
    assert_eq!(lane.calls, 0, "nobody waited, so the next one must start a call of his own");
    lane.calls = 2;
    assert!(lane.join(part(1), waiting("b", None), &NONE_FINAL).is_none());
    assert!(lane.next_call(&NONE_FINAL).is_none(), "the other call takes him along");
    assert_eq!((lane.calls, lane.next_call(&NONE_FINAL).map(|batch| shape(&batch))), (1, Some(vec![vec![1]])));
}
