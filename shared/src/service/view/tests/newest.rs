//! The list of the newest claims: what it shows, and what it costs to follow a rush with it.

use std::collections::BTreeMap;

use super::*;
use crate::service::view::evidence::SMALL_SLIPS_MAX;

/// A client that follows the newest claims as `openapi.yaml` says.
#[derive(Default)]
struct Follower {
    after: Option<ListPlace>,
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

impl Scene {
    async fn wins(&mut self, count: u32) {
        for _ in 0..count {
            let part = self.part(self.users % self.terms.id.part_count());
            let hold = self.hold(part).await;
            self.commit_hold(&hold).await;
            self.reconcile(part, &hold).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn following_a_rush_takes_a_request_for_100_claims_and_reads_each_group_once() {
    let mut scene = Scene::new(3_100, |_| 0).await;
    let (mut follower, mut requests) = (Follower::default(), 0);
    scene.queries();
    for _ in 0..30 {
        scene.wins(100).await;
        tokio::time::advance(Duration::from_millis(20)).await;
        requests += follower.poll(&scene).await.requests;
    }
    let queries = scene.queries();
    println!("3,000 claims: {requests} requests, {queries} queries");
    assert_eq!(follower.claims.len(), 3_000);
    assert!(requests <= 30, "{requests} requests");
    assert!(queries <= 49 + 4, "{queries} queries: each group once, and those between two parts");

    // Nothing is new.
    scene.gets();
    let poll = follower.poll(&scene).await;
    assert_eq!((poll.requests, poll.rows, scene.queries(), scene.gets()), (1, 0, 0, 0));

    // Another process sees all of them, and goes on from where the first one is.
    scene.view = scene.process();
    let mut other = Follower::default();
    assert_eq!(other.poll(&scene).await.requests, 30);
    assert!(scene.queries() <= 49);
    let poll = other.poll(&scene).await;
    assert_eq!((poll.requests, poll.rows), (1, 0));
    assert_eq!((other.after, &other.claims), (follower.after, &follower.claims));
    scene.wins(1).await;
    assert_eq!(follower.poll(&scene).await.rows, 1);
    assert_eq!(other.poll(&scene).await.rows, 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_committed_late_is_not_missed() {
    let mut scene = Scene::new(2_500, |_| 0).await;
    let mut follower = Follower::default();
    let slow = scene.hold(scene.part(0)).await;
    for _ in 0..3 {
        tokio::time::advance(Duration::from_millis(999)).await;
        scene.wins(30).await;
        tokio::time::advance(Duration::from_millis(1)).await;
        follower.poll(&scene).await;
    }
    assert_eq!(follower.claims.len(), 90);
    scene.commit_hold(&slow).await;
    scene.reconcile(scene.part(0), &slow).await;
    let poll = follower.poll(&scene).await;
    assert_eq!((poll.rows, follower.claims.get(&slow.slip)), (91, Some(&slow.user)), "all since the hold");
    assert_eq!(follower.poll(&scene).await.rows, 0);

    // A hold that never ends makes a list repeat five seconds at most.
    scene.hold(scene.part(1)).await;
    for _ in 0..10 {
        tokio::time::advance(Duration::from_millis(999)).await;
        scene.wins(10).await;
        tokio::time::advance(Duration::from_millis(1)).await;
        follower.poll(&scene).await;
    }
    assert_eq!(follower.poll(&scene).await.rows, 60);
}

#[tokio::test(start_paused = true)]
async fn a_part_that_is_silent_does_not_hide_what_it_gave_out_before() {
    let mut scene = Scene::new(2_500, |_| 0).await;
    let mut follower = Follower::default();
    scene.wins(30).await;
    follower.poll(&scene).await;
    let mute = scene.part(2);
    scene.mute([mute.partition().index()]);
    let hold = scene.hold(mute).await;
    tokio::time::advance(Duration::from_secs(2)).await;
    let near = scene.hold(scene.part(0)).await;
    scene.commit_hold(&near).await;
    scene.reconcile(scene.part(0), &near).await;
    follower.poll(&scene).await;
    scene.commit_hold(&hold).await;
    scene.reconcile(mute, &hold).await;
    scene.mute([]);
    tokio::time::advance(Duration::from_secs(2)).await;
    follower.poll(&scene).await;
    assert_eq!(follower.claims.len(), 32);
}

/// Refunds what is left, as settle does after the expiry.
async fn settle(scene: &Scene) {
    tokio::time::advance(Duration::from_hours(25)).await;
    let decided = scene.ledger.decisions(scene.terms.id, 0..scene.terms.count).await.unwrap();
    let taken: BTreeSet<u32> = decided.iter().map(|decision| decision.slip).collect();
    let left: Vec<(u32, Amount)> = (0..scene.terms.count)
        .filter(|slip| !taken.contains(slip))
        .map(|slip| (slip, Amount::new(SLIP_AMOUNT)))
        .collect();
    for chunk in left.chunks(90) {
        scene.ledger.refund(&scene.terms, chunk, scene.clock.now()).await.unwrap();
    }
    let decided = scene.ledger.decisions(scene.terms.id, 0..scene.terms.count).await.unwrap();
    scene.ledger.mark_settled(&scene.terms, &Summary::of(decided.iter()), scene.clock.now()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_page_of_what_was_read_at_once_has_a_next_one() {
    // Sixteen groups, 1,024 slips, are read at once. They have all claims of the first two parts, which fill one page.
    let scene = Scene::new(2_600, |_| 32).await;
    settle(&scene).await;
    let asked = ClaimsAsked { order: Order::Slip, cursor: None, limit: 64 };
    let list = scene.process().claims(scene.terms.id, &scene.terms.sender, &asked).await.unwrap();
    let Viewed::Shown(list) = list else { panic!("{list:?}") };
    let next = scene.part(1).slips(2_600).start + 31;
    assert_eq!((list.claims.rows.len(), list.claims.next), (64, Some(ListPlace::Slip(next))));
}

#[tokio::test(start_paused = true)]
async fn a_settled_packet_is_listed_newest_first_up_to_2_000_slips_and_else_by_slip() {
    for count in [SMALL_SLIPS_MAX, SMALL_SLIPS_MAX + 1] {
        let mut scene = Scene::new(count, |_| 0).await;
        for _ in 0..5 {
            tokio::time::advance(Duration::from_secs(1)).await;
            scene.wins(40).await;
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        let order = Order::Newest { after: None };
        let open = list(&scene.view, &scene.terms, order, None).await;
        settle(&scene).await;
        for view in [scene.process(), scene.view] {
            let slips = |list: &ClaimsView| list.claims.rows.iter().map(|row| row.claim.slip).collect::<Vec<_>>();
            let first = list(&view, &scene.terms, order, None).await;
            assert!(first.is_final);
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
