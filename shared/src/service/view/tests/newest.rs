//! The list of the newest claims: what it shows, and what it costs to follow a rush with it.

use std::collections::BTreeMap;

use super::*;
use crate::service::view::rules::SMALL_SLIPS_MAX;

/// Users have numbers.
fn number(user: &UserId) -> u32 {
    user.as_str()["user".len()..].parse().unwrap()
}

/// A client that follows the newest claims as `openapi.yaml` says.
#[derive(Default)]
struct Follower {
    after: Option<u64>,
    claims: BTreeMap<u32, UserId>,
}

/// What one poll took.
#[derive(Debug)]
struct Poll {
    requests: u32,
    rows: usize,
}

impl Follower {
    async fn poll(&mut self, scene: &Scene) -> Poll {
        let order = Order::Newest { after: self.after };
        let (mut took, mut cursor, mut newest, mut last) = (Poll { requests: 0, rows: 0 }, None, None, None);
        loop {
            let ClaimsView { claims, newest: place, .. } = list(&scene.view, &scene.terms, order, cursor).await;
            took.requests += 1;
            took.rows += claims.rows.len();
            newest = newest.or(place);
            for row in claims.rows {
                let place = (row.claim.at, row.claim.slip);
                assert!(last.is_none_or(|last| place < last), "{place:?} after {last:?}");
                last = Some(place);
                self.claims.insert(row.claim.slip, row.user);
            }
            cursor = claims.next;
            if cursor.is_none() {
                self.after = newest;
                return took;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn following_a_rush_reads_what_has_changed_and_repeats_the_last_two_seconds() {
    let mut scene = Scene::new(3_100, |_| 0).await;
    let (mut follower, mut rows) = (Follower::default(), Vec::new());
    scene.queries();
    for _ in 0..30 {
        tokio::time::advance(Duration::from_secs(1)).await;
        scene.wins(100).await;
        rows.push(follower.poll(&scene).await.rows);
    }
    let queries = scene.queries();
    println!("3,000 claims: {queries} queries");
    assert_eq!((follower.claims.len(), rows[29]), (3_000, 400), "those of this second, and of the three before");
    assert!(queries <= 30 * 2 * 4, "{queries} queries: one or two groups of each part have new claims");

    // Nothing is new.
    tokio::time::advance(Duration::from_secs(3)).await;
    assert_eq!(follower.poll(&scene).await.rows, 300);
    scene.queries();
    let poll = follower.poll(&scene).await;
    assert_eq!((poll.requests, poll.rows, scene.queries()), (1, 0, 0));

    // Another process lists all of them, each once, and goes on from where the first one is.
    scene.view = scene.process();
    let mut other = Follower::default();
    assert_eq!(other.poll(&scene).await.requests, 30);
    assert!(scene.queries() <= 49 + 4);
    assert_eq!((other.poll(&scene).await.rows, &other.claims), (0, &follower.claims));
    assert_eq!(other.after, follower.after);
    scene.wins(1).await;
    assert_eq!((follower.poll(&scene).await.rows, other.poll(&scene).await.rows), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_newest_of_70_000_claims_are_in_the_last_groups_of_the_parts() {
    let mut scene = Scene::new(100_000, |slips| slips * 7 / 10).await;
    tokio::time::advance(Duration::from_secs(1)).await;
    scene.wins(150).await;
    scene.queries();
    let order = Order::Newest { after: None };
    let first = list(&scene.view, &scene.terms, order, None).await.claims;
    let queries = scene.queries();
    println!("the first page of the newest of 70,000 claims: {queries} queries");
    assert!(queries <= 64, "{queries} queries");
    let second = list(&scene.view, &scene.terms, order, first.next).await.claims;
    let newest: BTreeSet<u32> = first.rows.iter().chain(&second.rows).take(150).map(|row| number(&row.user)).collect();
    assert!((scene.users - 149..=scene.users).eq(newest), "the 150 that won last");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_committed_late_is_not_missed() {
    let mut scene = Scene::new(2_500, |_| 0).await;
    let mut follower = Follower::default();
    let slow = scene.hold(scene.part(0)).await;
    for _ in 0..2 {
        tokio::time::advance(Duration::from_millis(999)).await;
        scene.wins(30).await;
        tokio::time::advance(Duration::from_millis(1)).await;
        follower.poll(&scene).await;
    }
    assert_eq!(follower.claims.len(), 60);
    scene.commit_hold(&slow).await;
    scene.reconcile(scene.part(0), &slow).await;
    let poll = follower.poll(&scene).await;
    assert_eq!((poll.rows, follower.claims.get(&slow.slip)), (61, Some(&slow.user)), "all since the hold");

    // A part that is silent changes nothing.
    for is_silent in [false, true] {
        scene.mute(is_silent.then_some(scene.part(2).partition().index()));
        for _ in 0..5 {
            tokio::time::advance(Duration::from_millis(999)).await;
            scene.wins(10).await;
            tokio::time::advance(Duration::from_millis(1)).await;
            follower.poll(&scene).await;
        }
        assert_eq!(follower.poll(&scene).await.rows, 20);
        tokio::time::advance(Duration::from_secs(2)).await;
        follower.poll(&scene).await;
        assert_eq!(follower.poll(&scene).await.rows, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_of_what_was_read_at_once_has_a_next_one() {
    // Of a settled packet, nothing tells which groups have claims. These have all claims of the first two parts, which fill one page.
    let scene = Scene::new(2_600, |_| 32).await;
    tokio::time::advance(Duration::from_hours(25)).await;
    scene.settle().await;
    let asked = ClaimsAsked { order: Order::Slip, cursor: None, limit: 64 };
    let list =
        scene.process().claims(scene.terms.id, Some(&scene.terms.sender), &Voucher::Operator, &asked).await.unwrap();
    let next = scene.part(1).slips(2_600).start + 31;
    assert_eq!((list.claims.rows.len(), list.claims.next), (64, Some(next.into())));
}

#[tokio::test(start_paused = true)]
async fn a_settled_packet_is_listed_newest_first_up_to_2_000_slips_and_else_by_slip() {
    for count in [SMALL_SLIPS_MAX, SMALL_SLIPS_MAX + 1] {
        let mut scene = Scene::new(count, |_| 0).await;
        for _ in 0..5 {
            tokio::time::advance(Duration::from_secs(1)).await;
            scene.wins(40).await;
        }
        tokio::time::advance(Duration::from_secs(3)).await;
        let order = Order::Newest { after: None };
        let open = list(&scene.view, &scene.terms, order, None).await;
        tokio::time::advance(Duration::from_hours(25)).await;
        scene.settle().await;
        for view in [scene.process(), scene.view] {
            let slips = |list: &ClaimsView| list.claims.rows.iter().map(|row| row.claim.slip).collect::<Vec<_>>();
            let first = list(&view, &scene.terms, order, None).await;
            assert!(first.is_decided);
            if count == SMALL_SLIPS_MAX {
                assert_eq!((slips(&first), first.newest), (slips(&open), open.newest));
                let since = list(&view, &scene.terms, Order::Newest { after: first.newest }, None).await;
                assert!(since.claims.rows.is_empty());
                continue;
            }
            assert_eq!(first.newest, None);
            let second = list(&view, &scene.terms, order, first.claims.next).await;
            let by_slip = [slips(&first), slips(&second)].concat();
            assert!(by_slip.len() == 200 && by_slip.is_sorted(), "{by_slip:?}");
            assert_eq!(second.claims.next, None);
            // A list that began by time begins again by slip, and nothing is missing.
            for (order, cursor) in [(order, open.claims.next), (Order::Newest { after: open.newest }, None)] {
                assert_eq!(slips(&list(&view, &scene.terms, order, cursor).await), slips(&first));
            }
        }
    }
}
