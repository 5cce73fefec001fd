//! Tickets: who may grab and view a packet whose app decides that, and that nobody else reaches the hot store.

use std::time::{Duration, SystemTime};

use client::tickets::{Scope, Ticket, TicketKey};
use local::Options;
use serde_json::{Value, json};
use shared::domain::{PacketId, Timestamp};

use super::api::{Api, Call, TICKET_KEY, random, text, with};

const FOREIGN: &str = r#"{"kty":"oct","kid":"2027-1","k":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}"#;

async fn start(ack: local::Ack) -> Api {
    Api::taking_tickets(Options { ack, ..Options::ephemeral() }).await
}

fn signed(ticket: &Ticket<'_>) -> String {
    TicketKey::from_jwk(TICKET_KEY).unwrap().sign(ticket).unwrap()
}

fn for_packet(user: &str, packet: &str) -> String {
    signed(&Ticket::new(user, Scope::Packet(packet)))
}

fn guarded(more: &Value) -> Value {
    with(with(random(1_000, 3), &json!({"eligibility": "ticket"})), more)
}

/// The requests that show a packet.
fn looks<'a>(api: &'a Api, user: &str, packet: &str) -> [Call<'a>; 2] {
    [api.view(user, packet), api.get(format!("/packets/{packet}/claims")).by(user)]
}

#[tokio::test]
async fn a_deployment_without_keys_sends_no_packet_that_nobody_could_grab() {
    let api = Api::start().await;
    api.fund("alice", 1_000).await;
    let send = |body: &Value| api.post("/packets").by("alice").key("k").json(body);
    assert_eq!(send(&guarded(&json!({}))).await.refused(400, "invalid-request"), ["eligibility"]);
    assert_eq!(send(&guarded(&json!({"eligibility": "vip"}))).await.refused(400, "invalid-request"), ["eligibility"]);
    assert_eq!(send(&guarded(&json!({"eligibility": null}))).await.expect(201)["eligibility"], Value::Null);
}

#[tokio::test]
async fn only_users_with_a_ticket_grab_and_look() {
    for ack in [local::Ack::Ledger, local::Ack::Redis] {
        let api = start(ack).await;
        let packet = api.packet("alice", "k", &guarded(&json!({}))).await;
        assert_eq!(api.view("alice", &packet).await.expect(200)["eligibility"], "ticket");
        api.grab("alice", &packet).await.refused(403, "ticket-required");

        let old = SystemTime::now() - Duration::from_hours(2);
        let ticket = Ticket::new("bob", Scope::Packet(&packet));
        let expired = TicketKey::from_jwk(TICKET_KEY).unwrap().sign_at(&ticket, old).unwrap();
        let forged = TicketKey::from_jwk(FOREIGN).unwrap().sign(&ticket).unwrap();
        let other = api.packet("alice", "k2", &guarded(&json!({}))).await;
        let bad = [
            (expired, "ticket-expired"),
            (forged, "ticket-invalid"),
            (for_packet("carol", &packet), "ticket-invalid"),
            (for_packet("bob", &other), "ticket-invalid"),
            ("x".repeat(4_096), "ticket-invalid"),
            (String::new(), "ticket-invalid"),
        ];
        for (ticket, code) in &bad {
            for call in looks(&api, "bob", &packet).into_iter().chain([api.grab("bob", &packet)]) {
                call.header("grab-ticket", ticket).await.refused(403, code);
            }
        }
        let good = for_packet("bob", &packet);
        for call in looks(&api, "bob", &packet) {
            call.header("grab-ticket", &good).await.expect(200);
        }
        let won = api.grab("bob", &packet).header("grab-ticket", &good).await.expect(200);
        assert_eq!((&won["outcome"], &won["replayed"]), (&json!("grabbed"), &json!(false)));
        if ack == local::Ack::Redis {
            api.settle().await;
        }
        // From now on they need none, and a bad one does no harm.
        for call in [api.grab("bob", &packet), api.grab("bob", &packet).header("grab-ticket", &bad[0].0)] {
            let again = call.await.expect(200);
            assert_eq!((&again["slip"], &again["replayed"]), (&won["slip"], &json!(true)));
        }
        for call in looks(&api, "bob", &packet) {
            call.await.expect(200);
        }
        // The operator has decided.
        let for_eve = api.post(format!("/users/eve/packets/{packet}/grab")).await.expect(200);
        assert_eq!(for_eve["outcome"], "grabbed");
        api.get(format!("/users/frank/packets/{packet}")).await.expect(200);
        api.get(format!("/operator/packets/{packet}")).await.expect(200);
    }
}

/// Servers' clocks are seldom right to the second. One that is fast by more than the leeway is said to be: what their users read is not the cause.
#[tokio::test]
async fn a_signers_clock_may_be_fast_by_ten_seconds() {
    let api = start(local::Ack::Ledger).await;
    let packet = api.packet("alice", "k", &guarded(&json!({}))).await;
    let signed_ahead = |by: u64| {
        let ticket = Ticket::new("bob", Scope::Packet(&packet));
        TicketKey::from_jwk(TICKET_KEY).unwrap().sign_at(&ticket, SystemTime::now() + Duration::from_secs(by)).unwrap()
    };
    let late = api.grab("bob", &packet).header("grab-ticket", &signed_ahead(60)).await;
    late.refused(403, "ticket-invalid");
    assert!(text(&late.json()["detail"]).contains("the clock"), "{}", late.describe());
    let won = api.grab("bob", &packet).header("grab-ticket", &signed_ahead(8)).await.expect(200);
    assert_eq!(won["outcome"], "grabbed");
}

#[tokio::test]
async fn a_ticket_for_a_reference_admits_to_all_rounds_of_its_sender() {
    let api = start(local::Ack::Ledger).await;
    let round = |of: &str| guarded(&json!({ "reference": of }));
    let mut rounds = Vec::new();
    for (sender, key, reference) in
        [("alice", "1", "nye"), ("alice", "2", "nye"), ("alice", "3", "other"), ("mallory", "4", "nye")]
    {
        rounds.push(api.packet(sender, key, &round(reference)).await);
    }
    let ticket = signed(&Ticket::new("bob", Scope::Reference { sender: "alice", reference: "nye" }));
    for (packet, is_admitted) in rounds.iter().zip([true, true, false, false]) {
        let answer = api.grab("bob", packet).header("grab-ticket", &ticket).await;
        if is_admitted {
            assert_eq!(answer.expect(200)["outcome"], "grabbed");
        } else {
            answer.refused(403, "ticket-invalid");
        }
    }
}

#[tokio::test]
async fn a_user_whose_turn_has_not_come_waits_and_may_look() {
    let api = start(local::Ack::Ledger).await;
    let packet = api.packet("alice", "k", &guarded(&json!({}))).await;
    let turn = SystemTime::now() + Duration::from_mins(10);
    let ticket = signed(&Ticket { not_before: Some(turn), ..Ticket::new("bob", Scope::Packet(&packet)) });
    let early = api.grab("bob", &packet).header("grab-ticket", &ticket).await.expect(200);
    assert_eq!(early["outcome"], "not_started");
    let wait = early["retry_after_ms"].as_u64().unwrap();
    // Up to 5 seconds more, so that not all whose turn comes at once call at once.
    assert!((590_000..=605_000).contains(&wait), "{early}");
    for call in looks(&api, "bob", &packet) {
        call.header("grab-ticket", &ticket).await.expect(200);
    }
}

#[tokio::test]
async fn tickets_stand_beside_recipients_and_passphrases() {
    let api = start(local::Ack::Ledger).await;
    let packet = api.packet("alice", "k", &guarded(&json!({"recipients": ["bob"], "passphrase": "abc"}))).await;
    let grab = |user: &str, ticket: bool, words: &str| {
        let call = api.grab(user, &packet).json(&json!({ "passphrase": words }));
        if ticket { call.header("grab-ticket", &for_packet(user, &packet)) } else { call }
    };
    grab("bob", false, "abc").await.refused(403, "ticket-required");
    grab("carol", true, "abc").await.refused(403, "not-a-recipient");
    grab("bob", true, "shut").await.refused(403, "wrong-passphrase");
    assert_eq!(grab("bob", true, "abc").await.expect(200)["outcome"], "grabbed");
}

#[tokio::test]
async fn an_unknown_packet_is_unknown_with_a_ticket_or_without() {
    let api = start(local::Ack::Ledger).await;
    let unknown = PacketId::new(Timestamp::from_ms(1_795_181_400_000), 1, [9; 10]).with_ticket().to_string();
    let ticket = for_packet("bob", &unknown);
    for call in [api.grab("bob", &unknown), api.view("bob", &unknown)] {
        call.await.refused(404, "packet-not-found");
    }
    api.grab("bob", &unknown).header("grab-ticket", &ticket).await.refused(404, "packet-not-found");
}

/// The scripts that Redis has run, and what else it was asked for keys.
async fn calls(api: &Api) -> u64 {
    let client = redis::Client::open(api.local.redis_url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let stats: String = redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await.unwrap();
    let counted = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")).filter_map(|line| {
        let (command, rest) = line.split_once(":calls=")?;
        let is_ours = command.starts_with("eval") || command.starts_with("fcall") || command.starts_with('h');
        is_ours.then(|| rest.split(',').next().unwrap().parse::<u64>().unwrap())
    });
    counted.sum()
}

#[tokio::test]
async fn no_stranger_reaches_redis() {
    let api = start(local::Ack::Ledger).await;
    let packet = api.packet("alice", "k", &guarded(&json!({}))).await;
    let foreign = TicketKey::from_jwk(FOREIGN).unwrap();
    let (known, old) = (TicketKey::from_jwk(TICKET_KEY).unwrap(), SystemTime::now() - Duration::from_hours(2));
    let before = calls(&api).await;
    for number in 0..100 {
        let user = format!("stranger-{number}");
        let (call, ticket) = (api.grab(&user, &packet), Ticket::new(&user, Scope::Packet(&packet)));
        let (call, code) = match number % 4 {
            0 => (call, "ticket-required"),
            1 => (call.header("grab-ticket", &foreign.sign(&ticket).unwrap()), "ticket-invalid"),
            2 => (call.header("grab-ticket", &for_packet("member-1", &packet)), "ticket-invalid"),
            _ => (call.header("grab-ticket", &known.sign_at(&ticket, old).unwrap()), "ticket-expired"),
        };
        call.await.refused(403, code);
    }
    assert_eq!(calls(&api).await, before);
}
