//! Who may help the holds of an exhausted part, and which of them.

use shared::ports::{Doubt, Help};

use super::*;

const LEASE: Duration = Duration::from_mins(1);
/// More holds than any part here has.
const MANY: usize = 100;

impl Rig {
    async fn help(&self, packet: &Packet, least_age: Duration, most: usize) -> Help {
        self.store.help(packet.part, least_age, most, LEASE).await.unwrap()
    }

    /// A part of three slips, held for `ann`, `bob` and `cy` since 3, 1 and 2 hours.
    async fn exhausted(&self) -> Packet {
        let packet = Packet::of(3);
        self.load(&packet, &[]).await;
        for (slip, user, hours) in [(0, "ann", 3), (1, "bob", 1), (2, "cy", 2)] {
            self.hold(&packet, user).await;
            self.date_hold(&packet, slip, user, now().before(hours * AN_HOUR)).await;
        }
        packet
    }

    async fn date_hold(&self, packet: &Packet, slip: u32, user: &str, at: Timestamp) {
        let () = self.run(["HSET", &packet.keys().part, user, &format!("h{slip}:{}", at.ms())]).await;
    }
}

/// Whose holds, in their order.
fn users(help: &Help) -> Vec<&str> {
    let Help::Acquired { holds, .. } = help else { panic!("{help:?}") };
    holds.iter().map(|hold| hold.user.as_str()).collect()
}

#[tokio::test]
async fn the_oldest_holds_are_helped_first_and_as_many_as_asked() {
    on_both(async |rig| {
        for (least_age, most, expected) in [
            (Duration::ZERO, MANY, &["ann", "cy", "bob"][..]),
            (Duration::ZERO, 2, &["ann", "cy"]),
            (Duration::ZERO, 1, &["ann"]),
            (AN_HOUR * 3 / 2, MANY, &["ann", "cy"]),
            (AN_HOUR * 5 / 2, MANY, &["ann"]),
        ] {
            let packet = rig.exhausted().await;
            let before = now();
            let help = rig.help(&packet, least_age, most).await;
            assert_eq!(users(&help), expected, "{least_age:?} {most}");
            let Help::Acquired { now: read, .. } = help else { unreachable!() };
            assert!((before..=now()).contains(&read), "{read:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn holds_that_are_too_young_are_waited_for_until_the_first_is_old_enough() {
    on_both(async |rig| {
        let packet = rig.exhausted().await;
        let help = rig.help(&packet, 4 * AN_HOUR, MANY).await;
        let Help::Wait(left) = help else { panic!("{help:?}") };
        assert!(left <= AN_HOUR && left > AN_HOUR / 2, "{left:?}");
        // Nobody has the lease.
        assert_eq!(rig.run::<u8, _>(["EXISTS", &packet.keys().helping]).await, 0);
        assert_eq!(users(&rig.help(&packet, Duration::ZERO, 1).await), ["ann"]);
    })
    .await;
}

#[tokio::test]
async fn a_hold_from_the_future_is_helped() {
    on_both(async |rig| {
        let packet = rig.exhausted().await;
        // Its server's clock was ahead, before a failover.
        rig.date_hold(&packet, 1, "bob", now().after(2 * AN_HOUR)).await;
        assert_eq!(users(&rig.help(&packet, AN_HOUR * 5 / 2, MANY).await), ["ann", "bob"]);
    })
    .await;
}

#[tokio::test]
async fn parked_holds_and_claims_are_not_helped() {
    on_both(async |rig| {
        let packet = rig.exhausted().await;
        let hold = Hold { slip: 0, user: id("ann"), at: now() };
        rig.store.park(packet.part, &hold, "it reads like h1:5").await.unwrap();
        rig.store.reconcile(packet.part, 3, &[won(2, "cy")], &[]).await.unwrap();
        assert_eq!(users(&rig.help(&packet, Duration::ZERO, MANY).await), ["bob"]);
        rig.store.end_help(packet.part, None).await.unwrap();
        rig.store.reconcile(packet.part, 3, &[won(1, "bob")], &[]).await.unwrap();
        assert_eq!(users(&rig.help(&packet, 4 * AN_HOUR, MANY).await), [""; 0], "only a parked one is left");
    })
    .await;
}

#[tokio::test]
async fn one_process_helps_at_a_time_and_the_others_see_how_it_ended() {
    on_both(async |rig| {
        let packet = rig.exhausted().await;
        let help = async || rig.help(&packet, Duration::ZERO, MANY).await;
        let is_left = |left: Duration| left <= LEASE && left > LEASE / 2;
        assert!(matches!(help().await, Help::Acquired { .. }));
        let other = help().await;
        assert!(matches!(other, Help::Wait(left) if is_left(left)), "{other:?}");
        for doubt in [Doubt::Blocked, Doubt::Unavailable] {
            rig.store.end_help(packet.part, Some((doubt, LEASE))).await.unwrap();
            let other = help().await;
            assert!(matches!(other, Help::InVain(said, left) if said == doubt && is_left(left)), "{other:?}");
        }
        rig.store.end_help(packet.part, None).await.unwrap();
        assert!(matches!(help().await, Help::Acquired { .. }));
    })
    .await;
}

#[tokio::test]
async fn a_part_with_another_answer_needs_no_help() {
    on_both(async |rig| {
        let needs_none = async |packet: &Packet, why: &str| {
            assert_eq!(rig.help(packet, Duration::ZERO, MANY).await, Help::ProbeAgain, "{why}");
            assert_eq!(rig.run::<u8, _>(["EXISTS", &packet.keys().helping]).await, 0, "{why}");
        };
        let absent = Packet::of(3);
        needs_none(&absent, "not loaded").await;

        let expired = rig.exhausted().await;
        rig.let_expire(&expired.keys(), now().before(Duration::from_secs(1)).ms()).await;
        needs_none(&expired, "expired").await;

        let is_final = rig.exhausted().await;
        rig.store.reconcile(is_final.part, 3, &[won(0, "ann"), won(1, "bob"), refunded(2)], &[]).await.unwrap();
        needs_none(&is_final, "final").await;

        let is_free = Packet::of(2);
        rig.load(&is_free, &[]).await;
        rig.hold(&is_free, "ann").await;
        needs_none(&is_free, "a slip is free").await;

        // The first range is empty, and another one is not: bob's hold was put back.
        let put_back = rig.exhausted().await;
        rig.store.reconcile(put_back.part, 3, &[won(9, "bob")], &[]).await.unwrap();
        needs_none(&put_back, "a slip was put back").await;
    })
    .await;
}

#[tokio::test]
async fn a_hold_of_the_same_millisecond_is_young() {
    on_both(async |rig| {
        loop {
            let packet = Packet::of(1);
            rig.load(&packet, &[]).await;
            let before = rig.time(packet.part).await;
            rig.hold(&packet, "ann").await;
            let help = rig.help(&packet, AN_HOUR, MANY).await;
            if rig.time(packet.part).await == before {
                assert_eq!(help, Help::Wait(AN_HOUR));
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn many_holds_of_one_millisecond_are_all_helped() {
    on_both(async |rig| {
        let packet = Packet::of(20);
        rig.load(&packet, &[]).await;
        for slip in 0..20 {
            let user = format!("user-{slip}");
            rig.hold(&packet, &user).await;
            rig.date_hold(&packet, slip, &user, Timestamp::from_ms(1_700_000_000_000)).await;
        }
        let help = rig.help(&packet, Duration::ZERO, MANY).await;
        assert_eq!(users(&help).len(), 20);
    })
    .await;
}
