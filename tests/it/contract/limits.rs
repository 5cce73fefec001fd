//! Limits that packets of a sender share, and the report on all packets with a reference.

use std::time::Duration;

use client::tickets::{Scope, Ticket, TicketKey};
use local::Options;
use serde_json::{Value, json};
use shared::domain::DayZone;
use shared::ports::{Clock, System};
use shared::redis::test_server::poll;

use super::api::{Api, TICKET_KEY, text, with};

/// A round: equal slips of 10.
fn round(count: u64, more: &Value) -> Value {
    with(json!({"split": "equal", "total_amount": 10 * count, "count": count, "reference": "nye"}), more)
}

async fn outcome(api: &Api, user: &str, packet: &str) -> String {
    text(&api.grab(user, packet).await.expect(200)["outcome"])
}

#[tokio::test]
async fn a_user_wins_at_most_so_often_of_all_packets_with_one_key() {
    let api = Api::start().await;
    let twice = json!({"limit": {"key": "nye-2027", "wins": 2}});
    let mut rounds = Vec::new();
    for key in ["1", "2", "3"] {
        rounds.push(api.packet("alice", key, &round(3, &twice)).await);
    }
    let once = api.packet("alice", "once", &round(3, &json!({"limit": {"key": "nye-2027", "wins": 1}}))).await;
    let of_another_key = api.packet("alice", "4", &round(3, &json!({"limit": {"key": "other", "wins": 1}}))).await;
    let of_another_sender = api.packet("mallory", "5", &round(3, &twice)).await;
    let unlimited = api.packet("alice", "6", &round(3, &json!({}))).await;

    let left = async |packet: &str| api.view("bob", packet).await.expect(200)["limit"].clone();
    let of =
        |left: Value| json!({"key": "nye-2027", "wins": 2, "amount": null, "wins_left": left, "amount_left": null});
    assert_eq!(left(&rounds[0]).await, of(json!(2)));
    assert_eq!(left(&unlimited).await, Value::Null);
    assert_eq!(outcome(&api, "bob", &rounds[0]).await, "grabbed");
    assert_eq!(left(&rounds[1]).await, of(json!(1)));
    // Each packet is judged by its own numbers.
    assert_eq!(outcome(&api, "bob", &once).await, "limit_reached");
    assert_eq!(outcome(&api, "bob", &rounds[1]).await, "grabbed");
    assert_eq!(left(&rounds[2]).await, of(json!(0)));
    for _ in 0..3 {
        assert_eq!(outcome(&api, "bob", &rounds[2]).await, "limit_reached");
    }
    // What they have, they keep.
    let again = api.grab("bob", &rounds[0]).await.expect(200);
    assert_eq!((&again["outcome"], &again["replayed"]), (&json!("grabbed"), &json!(true)));
    for packet in [&of_another_key, &of_another_sender, &unlimited] {
        assert_eq!(outcome(&api, "bob", packet).await, "grabbed", "{packet}");
    }
    assert_eq!(api.balance("bob").await, 50);
    // The slip that they did not get is there for others.
    for user in ["carol", "dave", "eve"] {
        assert_eq!(outcome(&api, user, &rounds[2]).await, "grabbed", "{user}");
    }
    assert_eq!(outcome(&api, "frank", &rounds[2]).await, "sold_out");
    let seen = api.get(format!("/operator/packets/{}", rounds[0])).await.expect(200)["limit"].clone();
    assert_eq!(seen, of(Value::Null), "the operator has won nothing");
}

#[tokio::test]
async fn a_slip_that_would_exceed_the_amount_is_not_given() {
    let api = Api::start().await;
    let limit = json!({"limit": {"key": "k", "amount": 25, "wins": 9}});
    let mut packets = Vec::new();
    for key in ["1", "2", "3"] {
        packets.push(api.packet("alice", key, &round(2, &limit)).await);
    }
    assert_eq!(outcome(&api, "bob", &packets[0]).await, "grabbed");
    assert_eq!(outcome(&api, "bob", &packets[1]).await, "grabbed");
    let view = api.view("bob", &packets[2]).await.expect(200);
    assert_eq!((&view["limit"]["wins_left"], &view["limit"]["amount_left"]), (&json!(7), &json!(5)));
    assert_eq!(outcome(&api, "bob", &packets[2]).await, "limit_reached");
    let small = json!({"split": "equal", "total_amount": 5, "count": 1, "limit": {"key": "k", "amount": 25}});
    let small = api.packet("alice", "4", &small).await;
    assert_eq!(outcome(&api, "bob", &small).await, "grabbed");
    // Not one slip of it fits.
    let large = json!({"split": "random", "total_amount": 90, "count": 1, "limit": {"key": "k", "amount": 25}});
    let large = api.packet("alice", "5", &large).await;
    assert_eq!(outcome(&api, "carol", &large).await, "limit_reached");
    assert_eq!(api.balance("carol").await, 0);
    let equal = json!({"split": "equal", "total_amount": 90, "count": 3, "limit": {"key": "k", "amount": 29}});
    let refused = api.post("/packets").by("alice").key("6").json(&equal).await.refused(400, "invalid-request");
    assert_eq!(refused, ["limit.amount"]);
}

#[tokio::test]
async fn who_is_done_with_a_round_sees_the_next_one_that_they_may_still_win() {
    let api = Api::taking_tickets(Options::ephemeral()).await;
    let now = System.now();
    let send = async |key: &str, starts_in: Option<u64>, more: Value| {
        let starts_at = starts_in.map(|seconds| now.after(Duration::from_secs(seconds)).to_string());
        let more = with(json!({"limit": {"key": "nye", "wins": 2}, "starts_at": starts_at}), &more);
        api.packet("alice", key, &round(1, &more)).await
    };
    let of_a_ticket = json!({"eligibility": "ticket"});
    let first = send("1", None, json!({})).await;
    let second = send("2", Some(2), json!({})).await;
    let of_carol = json!({"recipients": ["carol"], "total_amount": 20, "count": 2});
    let wide = send("wide", Some(2), of_carol).await;
    let members = send("members", Some(1_800), of_a_ticket).await;
    let third = send("3", Some(3_600), json!({})).await;
    send("another-reference", Some(60), json!({"reference": "other"})).await;
    send("another-group-with-no-start", None, json!({})).await;
    send("another-user", Some(60), json!({"recipients": ["eve"]})).await;
    send("a-limit-that-they-have-reached", Some(60), json!({"limit": {"key": "nye", "amount": 9}, "split": "random"}))
        .await;

    let next = async |user: &str, packet: &str| api.view(user, packet).await.expect(200)["next"].clone();
    assert_eq!(next("bob", &first).await, Value::Null, "they can grab this one");
    assert_eq!(outcome(&api, "bob", &first).await, "grabbed");
    let starts_at = api.view("bob", &second).await.expect(200)["starts_at"].clone();
    let to_second = json!({"packet_id": second, "starts_at": starts_at});
    assert_eq!(next("bob", &first).await, to_second);
    assert_eq!(outcome(&api, "carol", &first).await, "sold_out");
    assert_eq!(next("carol", &first).await["packet_id"], json!(second), "who lost needs it most");
    api.until("bob", &second, "open").await;
    assert_eq!(next("bob", &first).await, to_second, "it has begun, and is not sold out");
    assert_eq!(outcome(&api, "dave", &second).await, "grabbed");
    assert_eq!(next("bob", &first).await["packet_id"], json!(third), "sold out, the second is none for them");
    assert_eq!(next("carol", &first).await["packet_id"], json!(wide));
    assert_eq!(outcome(&api, "carol", &wide).await, "grabbed");
    assert_eq!(next("carol", &first).await["packet_id"], json!(third), "they have a slip of the one that is open");
    let ticket = TicketKey::from_jwk(TICKET_KEY).unwrap();
    let ticket = ticket.sign(&Ticket::new("bob", Scope::Reference { sender: "alice", reference: "nye" })).unwrap();
    let of_member = api.view("bob", &first).header("grab-ticket", &ticket).await.expect(200);
    assert_eq!(of_member["next"]["packet_id"], json!(members));
    let reason = json!({"reason": "over"});
    api.post(format!("/operator/packets/{third}/close")).json(&reason).await.expect(200);
    poll("no round is left", async || next("bob", &first).await.is_null().then_some(())).await;
}

#[tokio::test]
async fn a_limit_reads_or_is_refused() {
    let api = Api::start().await;
    api.fund("alice", 1_000).await;
    let send =
        |key: &str, limit: &Value| api.post("/packets").by("alice").key(key).json(&round(1, &json!({"limit": limit})));
    for (limit, field) in [
        (json!({"key": "k"}), "limit"),
        (json!({"key": "", "wins": 1}), "limit.key"),
        (json!({"key": "a#b", "wins": 1}), "limit.key"),
        (json!({"key": "k", "wins": 0}), "limit.wins"),
        (json!({"key": "k", "wins": 1_000_001}), "limit.wins"),
        (json!({"key": "k", "amount": 0}), "limit.amount"),
        (json!({"key": "k", "wins": 1, "amount": 1_000_000_000_001_u64}), "limit.amount"),
    ] {
        assert_eq!(send("bad", &limit).await.refused(400, "invalid-request"), [field], "{limit}");
    }
    send("bad", &json!({"wins": 1})).await.refused(400, "invalid-request");
    send("bad", &json!({"key": "k", "wins": 1, "more": 1})).await.refused(400, "invalid-request");
    send("good", &json!({"key": "k", "wins": 1})).await.expect(201);
    send("good", &json!({"key": "k", "wins": 1, "amount": null})).await.expect(200);
    send("good", &json!({"key": "k", "wins": 2})).await.refused(422, "idempotency-key-reused");
    send("good", &Value::Null).await.refused(422, "idempotency-key-reused");

    let promising = Api::start_with(Options { ack: local::Ack::Redis, ..Options::ephemeral() }).await;
    promising.fund("alice", 1_000).await;
    let refused =
        promising.post("/packets").by("alice").key("k").json(&round(1, &json!({"limit": {"key": "k", "wins": 1}})));
    assert_eq!(refused.await.refused(400, "invalid-request"), ["limit"]);
}

#[tokio::test]
async fn the_report_has_each_claim_once_and_is_the_same_file_each_time() {
    let api = Api::start().await;
    let mut rounds = Vec::new();
    for number in ["1", "2", "=3"] {
        let more = json!({
            "metadata": {"round": number}, "limit": {"key": "k", "wins": 2},
            "expires_in_s": 3_600,
        });
        rounds.push(api.packet("alice", number, &round(70, &more)).await);
    }
    api.packet("mallory", "m", &round(2, &json!({}))).await;
    for (place, id) in rounds.iter().enumerate() {
        for user in 0..=place {
            assert_eq!(
                outcome(&api, &format!("u{user}"), id).await,
                if user == 0 && place == 2 { "limit_reached" } else { "grabbed" }
            );
        }
    }
    let path = "/operator/claims?sender_id=alice&reference=nye";
    let rows = api.all("", path, "claims", 2).await;
    for limit in [1, 5] {
        assert_eq!(api.all("", path, "claims", limit).await, rows, "{limit}");
    }
    let shown: Vec<_> = rows.iter().map(|row| (text(&row["packet_id"]), text(&row["metadata"]["round"]))).collect();
    let place = |place: usize| (rounds[place].clone(), ["1", "2", "=3"][place].to_owned());
    assert_eq!(shown, [0, 1, 1, 2, 2].map(place));
    assert_eq!(rows[0]["user_id"], "u0");
    assert_eq!(api.get("/operator/claims?sender_id=alice&limit_key=k").await.expect(200)["claims"], json!(rows));
    for (query, field) in [
        ("reference=nye", "sender_id"),
        ("sender_id=alice", "reference"),
        ("sender_id=alice&limit_key=%23", "limit_key"),
    ] {
        assert_eq!(api.get(format!("/operator/claims?{query}")).await.refused(400, "invalid-request"), [field]);
    }

    let sheet = async || {
        let answer = api.get(path).header("accept", "text/csv").await;
        assert_eq!(answer.status, 200);
        let name = answer.header("content-disposition").unwrap().to_owned();
        (name, String::from_utf8(answer.bytes).unwrap())
    };
    for (accept, kind) in [
        ("Text/CSV;q=0.9, application/json", "text/csv"),
        ("text/html, text/csv", "text/csv"),
        ("application/json, text/csv", "application/json"),
        ("*/*", "application/json"),
    ] {
        let answer = api.get(path).header("accept", accept).await;
        assert!(answer.header("content-type").unwrap().starts_with(kind), "{accept}");
    }
    let page = api.get(format!("{path}&limit=abc")).header("accept", "text/csv").await;
    assert_eq!(page.refused(400, "invalid-request"), ["limit"]);
    let (name, provisional) = sheet().await;
    assert_eq!(name, r#"attachment; filename="claims-nye-provisional.csv""#);
    let header = "packet_id,round,slip,user_id,amount_minor,amount,currency,grabbed_at,local_time,metadata";
    assert!(provisional.starts_with(&format!("\u{feff}{header},provisional\r\n")), "{provisional}");

    let reason = json!({"reason": "the evening is over"});
    let close = "/operator/references/nye/close?sender_id=alice";
    let closed = api.post(close).json(&reason).await.expect(200);
    for packet in closed["packets"].as_array().unwrap() {
        assert_eq!(packet["status"], "closed");
    }
    assert_eq!(api.post(close).json(&reason).await.expect(200)["packets"][0]["status"], "closed");
    assert_eq!(outcome(&api, "late", &rounds[2]).await, "closed");
    for id in &rounds {
        api.until("alice", id, "settled").await;
    }
    let totals = api.get("/operator/references/nye?sender_id=alice").await.expect(200);
    let money = ["total_amount", "won_amount", "refunded_amount", "undecided_amount"]
        .map(|name| totals[name].as_u64().unwrap());
    assert_eq!(money, [2_100, 50, 2_050, 0]);
    assert_eq!((&totals["won_count"], &totals["users"]), (&json!(5), &json!(3)));
    assert_eq!(totals["packets"].as_array().unwrap().len(), 3, "mallory's is another one");
    let (name, last) = sheet().await;
    assert_eq!(name, r#"attachment; filename="claims-nye.csv""#);
    let lines: Vec<&str> = last.trim_start_matches('\u{feff}').lines().collect();
    assert_eq!((lines[0], lines.len()), (header, 7));
    let first = &rows[0];
    let at = text(&first["grabbed_at"]);
    let local = DayZone::DEFAULT.parse::<DayZone>().unwrap().clock_at(at.parse().unwrap());
    let expected =
        format!("'{},'1,{},'u0,10,0.10,CNY,{at},{local},\"{{\"\"round\"\":\"\"1\"\"}}\"", rounds[0], first["slip"]);
    assert_eq!(lines[1], expected);
    assert!(lines[5].contains(",'=3,"), "{}", lines[5]);
    assert_eq!(lines[6], "sum,,5,,50,0.50,CNY,,,");
    assert_eq!(sheet().await.1, last);
}
