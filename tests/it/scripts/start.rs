//! Parts of packets that start later.

use shared::domain::Refusal;

use super::*;

const AHEAD: Duration = Duration::from_hours(1);

/// Grabs until the answer is not "not started".
async fn after_the_start(rig: &Rig, packet: &Packet, grabber: &Grabber) -> GrabAnswer {
    loop {
        match rig.grab_as(packet, grabber).await {
            GrabAnswer::NotStarted { starts_at, left } => {
                assert_eq!(Some(starts_at), packet.terms.guard.starts_at);
                assert!(left > Duration::ZERO, "the script answered at the start itself");
            }
            other => return other,
        }
    }
}

#[tokio::test]
async fn nobody_gets_a_slip_before_the_start() {
    on_both(async |rig| {
        let starts_at = now().after(AHEAD);
        let packet = Packet::of(3).starting_at(starts_at);
        rig.load(&packet, &[won(2, "winner")]).await;
        let state = rig.state(packet.part).await;
        for user in ODD_USERS {
            let found = rig.grab(&packet, user).await;
            let GrabAnswer::NotStarted { starts_at: shown, left } = found else { panic!("{found:?}") };
            assert_eq!(shown, starts_at);
            assert!(left <= AHEAD && left > AHEAD / 2, "{left:?}");
        }
        assert_eq!(rig.grab(&packet, "winner").await, GrabAnswer::Confirmed(claim_of(2)), "a claim answers for ever");
        assert_eq!(rig.state(packet.part).await, state, "early users change nothing");
    })
    .await;
}

#[tokio::test]
async fn the_start_is_checked_after_the_recipients_and_before_the_passphrase() {
    on_both(async |rig| {
        let packet = Packet::of(3).for_recipients(&["ann", "bob"]).with_passphrase("open");
        let packet = packet.starting_at(now().after(AHEAD));
        rig.load(&packet, &[]).await;
        let refused = GrabAnswer::Refused(Refusal::NotARecipient);
        assert_eq!(rig.grab_as(&packet, &packet.saying("eve", "open")).await, refused);
        for said in ["open", "guess"] {
            for _ in 0..12 {
                let found = rig.grab_as(&packet, &packet.saying("ann", said)).await;
                assert!(matches!(found, GrabAnswer::NotStarted { .. }), "{found:?}");
            }
        }
        assert!(rig.state(packet.part).await.tries.is_empty(), "no guess counts before the start");
    })
    .await;
}

#[tokio::test]
async fn from_the_start_on_grabs_go_on_as_if_there_were_none() {
    on_both(async |rig| {
        let soon = || now().after(Duration::from_millis(200));
        let plain = Packet::of(3).starting_at(soon());
        rig.load(&plain, &[]).await;
        let held = after_the_start(&rig, &plain, &grabber("ann")).await;
        let GrabAnswer::Held { at, fresh: true, .. } = held else { panic!("{held:?}") };
        assert!(at >= plain.terms.guard.starts_at.unwrap(), "held at {at}");
        assert!(matches!(rig.grab(&plain, "bob").await, GrabAnswer::Held { slip: 1, fresh: true, .. }));

        let guarded = Packet::of(3).for_recipients(&["ann", "bob"]).with_passphrase("open").starting_at(soon());
        rig.load(&guarded, &[]).await;
        let held = after_the_start(&rig, &guarded, &guarded.saying("ann", "open")).await;
        assert!(matches!(held, GrabAnswer::Held { fresh: true, .. }), "{held:?}");
        assert_eq!(rig.grab(&guarded, "eve").await, GrabAnswer::Refused(Refusal::NotARecipient));
        assert_eq!(rig.grab(&guarded, "bob").await, GrabAnswer::Refused(Refusal::WrongPassphrase));
        let bob = rig.grab_as(&guarded, &guarded.saying("bob", "open")).await;
        assert!(matches!(bob, GrabAnswer::Held { fresh: true, .. }), "{bob:?}");
    })
    .await;
}
