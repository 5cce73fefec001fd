//! The fast path of a grab answers what the general path would, and leaves the same behind.

use shared::redis::test_server::poll;

use super::*;

/// The states that a part can be in when Ann grabs.
const PART_STATES: [&str; 13] = [
    "new",
    "in the queue",
    "another range is next",
    "nothing left",
    "nothing left, redis mode",
    "nothing left, and said so, redis mode",
    "expired",
    "expired, redis mode",
    "has a hold",
    "has a claim",
    "guarded",
    "not loaded",
    "half loaded",
];

/// Brings a part of three slips into one of the states in [`PART_STATES`].
async fn bring_into(rig: &Rig, packet: &Packet, way: &str) {
    let mut packet = packet.clone();
    if way.ends_with("redis mode") {
        packet = packet.acknowledged_by_redis();
    }
    if way == "guarded" {
        packet = packet.for_recipients(&["ann", "bob"]);
    }
    match way {
        "not loaded" => return,
        "half loaded" => {
            let () = rig.run(["HSET", &packet.keys().part, fields::SLIP_COUNT, "3", "ann", "g1:1:1"]).await;
            return;
        }
        "another range is next" => rig.load(&packet, &[won(1, "cy")]).await,
        "has a claim" => rig.load(&packet, &[won(1, "ann")]).await,
        _ => rig.load(&packet, &[]).await,
    }
    let holders: &[&str] = match way {
        "new" => &[],
        "has a hold" => &["bob", "ann"],
        way if way.starts_with("nothing left") => &["bob", "cy", "dan"],
        _ => &["bob"],
    };
    for user in holders {
        rig.hold(&packet, user).await;
    }
    if way.contains("said so") {
        assert_eq!(rig.grab(&packet, "zed").await, SOLD_OUT);
    }
    if way.starts_with("expired") {
        rig.let_expire(&packet.keys(), 1).await;
    }
}

#[tokio::test]
async fn the_fast_paths_give_the_same_answers_and_state_as_the_slow_path() {
    on_both(async |rig| {
        for users in [1, 2, 4] {
            the_fast_path_equals_the_slow_path(&rig, |_| users).await;
        }
        // Few parts have several users, so the call names these parts once for each.
        for several in 0..3 {
            the_fast_path_equals_the_slow_path(&rig, |part| if part % 3 == several { 3 } else { 1 }).await;
        }
    })
    .await;
}

/// `users` is the number of users of each part.
async fn the_fast_path_equals_the_slow_path(rig: &Rig, users: impl Fn(usize) -> usize) {
    let packets = neighbours(&Packet::of(3), 3 * PART_STATES.len() as u64);
    let (single, others) = packets.split_at(PART_STATES.len());
    let (together, slow_path) = others.split_at(PART_STATES.len());
    for same in [single, together, slow_path] {
        for (packet, way) in same.iter().zip(PART_STATES) {
            bring_into(rig, packet, way).await;
        }
    }
    let users_of = |n| &["ann", "eve", "fay", "gus"][..users(n)];
    let grabbers_of = |n| users_of(n).iter().map(|user| grabber(user)).collect::<Vec<_>>();
    let asks: Vec<_> = together.iter().enumerate().map(|(n, packet)| (packet.part, grabbers_of(n))).collect();
    let found_together = rig.store.grab_each(&asks).await.unwrap();
    for (n, way) in PART_STATES.into_iter().enumerate() {
        let users = users_of(n);
        // A grab with a passphrase, even an unneeded one, never takes the fast path.
        let saying: Vec<_> = users.iter().map(|user| slow_path[n].saying(user, "anything")).collect();
        let expected = rig.store.grab(slow_path[n].part, &saying).await.unwrap().map(timeless);
        let found_single = rig.store.grab(single[n].part, &grabbers_of(n)).await.unwrap().map(timeless);
        assert_eq!(found_single, expected, "{way}, {users:?}");
        assert_eq!(found_together[n].clone().map(timeless), expected, "{way}, {users:?} beside the others");
        if way != "half loaded" {
            let left_behind = async |packet: &Packet| {
                let State { terms, mut claims, free, held, is_pending, .. } = rig.state(packet.part).await;
                claims.retain(|_, claim| claim.starts_with('g'));
                let held: Vec<_> = held.into_iter().map(|(slip, held)| (slip, held.hold.user)).collect();
                let lives_ms: i64 = rig.run(["PTTL", &packet.keys().part]).await;
                let mark: Option<String> = rig.run(["HGET", &packet.keys().part, fields::OPEN_UNTIL]).await;
                let says_no = mark.map(|mark| mark.starts_with('s'));
                (terms.contains_key(fields::EXPIRES_AT), says_no, claims, free, held, is_pending, lives_ms > 0)
            };
            let expected = left_behind(&slow_path[n]).await;
            assert_eq!(left_behind(&single[n]).await, expected, "{way}, {users:?}");
            assert_eq!(left_behind(&together[n]).await, expected, "{way}, {users:?} beside the others");
        }
    }
}

/// In the first tenth of a second, Redis' microseconds have five digits or fewer.
#[tokio::test]
async fn a_hold_has_the_servers_time_in_each_tenth_of_a_second() {
    let rig = Rig::on_one_node().await;
    let packet = Packet::of(11);
    rig.load(&packet, &[]).await;
    rig.hold(&packet, "first").await;
    for tenth in 0..10 {
        let is_in_its_second_half = |time: &u64| time % 1_000 / 50 == 2 * tenth + 1;
        let begun = async || Some(rig.time(packet.part).await).filter(is_in_its_second_half);
        let before = poll("this tenth of a second", begun).await;
        let held = rig.hold(&packet, &format!("user-{tenth}")).await.at.ms();
        let after = rig.time(packet.part).await;
        assert!((before..=after).contains(&held), "{before} {held} {after}");
    }
}

/// The answers without their times.
fn timeless(found: Vec<GrabAnswer>) -> Vec<GrabAnswer> {
    let timeless = |found| match found {
        GrabAnswer::Held { slip, fresh, .. } => GrabAnswer::Held { slip, at: Timestamp::from_ms(0), fresh },
        found => found,
    };
    found.into_iter().map(timeless).collect()
}
