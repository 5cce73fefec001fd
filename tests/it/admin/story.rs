//! What `admin story` tells of a user: from the ledger, and from the log that the local stack writes.

use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};
use tests::program::Program;
use tokio::process::Command;

use super::{Said, run};
use crate::programs::built;

const ALWAYS: [&str; 4] = ["--from", "2026-01-01T00:00:00Z", "--to", "2100-01-01T00:00:00Z"];

/// A request of a user to the stack.
async fn ask(stack: &Program, user: &str, method: Method, path: &str, body: &str) -> Value {
    let request = reqwest::Client::new().request(method, format!("{}{path}", stack.url));
    let answer = request.header("x-user-id", user).header("idempotency-key", "k").body(body.to_owned()).send();
    answer.await.unwrap().json().await.unwrap()
}

fn whats_of(rows: &Value) -> Vec<&str> {
    rows.as_array().unwrap().iter().map(|row| row["what"].as_str().unwrap()).collect()
}

async fn story(folder: &Path, user: &str, more: &[&str]) -> Said {
    admin(folder, &[&["story", "--user", user], more].concat()).await
}

/// Runs the program with the variables that the stack wrote for it.
async fn admin(folder: &Path, arguments: &[&str]) -> Said {
    let stores = std::fs::read_to_string(folder.join("stores.env")).unwrap();
    let stores =
        stores.lines().filter_map(|line| line.split_once('=')).map(|(name, value)| (name, value.trim_matches('\'')));
    let mut command = Command::new(built("hongbao-admin"));
    run(command.arg("--json").args(arguments).env_clear().envs(stores)).await
}

#[tokio::test]
async fn a_story_has_what_was_asked_and_answered_and_what_moved() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(built("hongbao"));
    let stack =
        Program::start(command.args(["dev", "--port", "0", "--settle-every", "0s", "--data-dir"]).arg(folder.path()))
            .unwrap();
    ask(&stack, "", Method::PUT, "/wallets/alice/deposits/top-up", r#"{"amount":100}"#).await;
    let body = r#"{"split":"equal","total_amount":100,"count":1,"greeting":"greeting-7Qx2"}"#;
    let packet = ask(&stack, "alice", Method::POST, "/packets", body).await["packet_id"].as_str().unwrap().to_owned();
    let grab = format!("/packets/{packet}/grab");
    for user in ["taker-bob", "taker-carol"] {
        ask(&stack, user, Method::POST, &grab, "").await;
    }
    ask(&stack, "taker-carol", Method::POST, "/packets", body).await;
    // The operator's staff read, and decide.
    for read in [format!("/operator/packets/{packet}/users/taker-bob"), "/wallets/taker-bob".to_owned()] {
        ask(&stack, "", Method::GET, &read, "").await;
    }

    let rows_of_bob = story(folder.path(), "taker-bob", &ALWAYS).await.with(0).json();
    let rows_of_bob: Vec<[&Value; 4]> = rows_of_bob
        .as_array()
        .unwrap()
        .iter()
        .map(|row| [&row["what"], &row["slip"], &row["amount"], &row["packet_id"]])
        .collect();
    let (moved, answered, id) = (json!("moved: claim"), json!("answered: grabPacket, grabbed"), json!(packet));
    assert_eq!(rows_of_bob, [[&moved, &json!(0), &json!(100), &id], [&answered, &json!(0), &json!(null), &id]]);
    let lost = story(folder.path(), "taker-carol", &ALWAYS).await.with(0).json();
    assert_eq!(whats_of(&lost), ["answered: grabPacket, sold_out", "answered: sendPacket, insufficient-balance"]);
    let refused = story(folder.path(), "taker-carol", &["--refused"]).await.with(0).json();
    assert_eq!(refused, lost);
    story(folder.path(), "taker-bob", &["--refused"]).await.with(1);
    // Of one packet, without a time; of the packet by itself; and of one request.
    let of_packet = story(folder.path(), "taker-carol", &["--packet", &packet]).await.with(0).json();
    assert_eq!(whats_of(&of_packet), ["answered: grabPacket, sold_out"]);
    story(folder.path(), "taker-carol", &["--packet", "38FS4S83HF3Y07WMYNH727QYT0"]).await.with(1);
    let packets = admin(folder.path(), &["story", "--packet", &packet]).await.with(0).json();
    let grabs = ["answered: grabPacket, grabbed", "answered: grabPacket, sold_out"];
    assert_eq!(whats_of(&packets), [&["packet: sent", "answered: sendPacket, ok"][..], &grabs].concat());
    let request = of_packet[0]["id"].as_str().unwrap();
    let one = admin(folder.path(), &["story", "--request", request]).await.with(0).json();
    assert_eq!(one, of_packet);
    admin(folder.path(), &["story", "--request", "another"]).await.with(1);
    // A trace has all of its requests. One that is not well-formed has none.
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let traced = async |traceparent: String| {
        let request = reqwest::Client::new().post(format!("{}{grab}", stack.url)).header("x-user-id", "taker-dan");
        request.header("traceparent", traceparent).send().await.unwrap()
    };
    for _ in 0..2 {
        traced(format!("00-{trace}-00f067aa0ba902b7-01")).await;
    }
    traced(format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase())).await;
    let of_trace = admin(folder.path(), &["story", "--request", trace]).await.with(0).json();
    assert_eq!(whats_of(&of_trace), ["answered: grabPacket, sold_out"; 2]);
    admin(folder.path(), &["story", "--request", &trace.to_uppercase()]).await.with(1);
    admin(folder.path(), &["story"]).await.with(2);
    let sent = story(folder.path(), "alice", &[]).await.with(0).json();
    assert!(sent.as_array().unwrap().iter().any(|row| row["id"] == format!("evt_{packet}_sent")), "{sent}");
    let before = ["--from", "2026-01-01T00:00:00Z", "--to", "2026-01-02T00:00:00Z"];
    story(folder.path(), "alice", &before).await.with(1);
    story(folder.path(), "nobody", &ALWAYS).await.with(1);
    let backwards = ["--from", "2026-01-02T00:00:00Z", "--to", "2026-01-01T00:00:00Z"];
    story(folder.path(), "alice", &backwards).await.with(2);

    // The runbook's query of Logs Insights shows the same lines, each behind its time.
    let log = std::fs::read_dir(folder.path().join("log")).unwrap().next().unwrap().unwrap().path();
    let log = std::fs::read_to_string(log).unwrap();
    for secret in ["taker-", "alice", "greeting-7Qx2"] {
        assert!(!log.contains(secret), "the log has {secret}: {log}");
    }
    // The line of a hold of bob's slip names no user. That of a void hold was another's.
    let of_hold = |message: &str| {
        let fields = json!({"message": message, "packet_id": packet, "slip": 0});
        json!({"timestamp": "2026-11-27T06:21:57.900Z", "level": "INFO", "fields": fields}).to_string()
    };
    let holds = [of_hold("a hold was persisted"), of_hold("a hold is void")];
    let lines = log.lines().chain(holds.iter().map(String::as_str));
    let rows: Vec<String> = lines.map(|line| format!("2026-11-27 06:21:57.900\t{line}")).collect();
    let answer = folder.path().join("story.log");
    std::fs::write(&answer, rows.join("\n")).unwrap();
    let with_answer = [&ALWAYS[..], &["--log", answer.to_str().unwrap()]].concat();
    let of_answer = story(folder.path(), "taker-bob", &with_answer).await.with(0).json();
    let whats = whats_of(&of_answer);
    assert_eq!(
        (whats.len(), whats.iter().filter(|what| **what == "a hold was persisted").count()),
        (3, 1),
        "{whats:?}"
    );
    let utf16: Vec<u8> = log.encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(&answer, utf16).unwrap();
    let unread = story(folder.path(), "taker-bob", &with_answer).await.with(2);
    assert!(unread.errors.ends_with("story.log is no text in UTF-8\n"), "{unread:?}");

    // And who a name of the log is. Carol has lost, so the ledger does not know her.
    let rows: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let name = |outcome: &str| {
        let row = rows.iter().find(|row| row["fields"]["outcome"] == outcome).unwrap();
        row["fields"]["user"].as_str().unwrap().to_owned()
    };
    let (bob, carol) = (name("grabbed"), name("sold_out"));
    let ids = folder.path().join("ids");
    std::fs::write(&ids, "taker-ann\r\n\nno id\ntaker-carol\n").unwrap();
    let ids = ids.to_str().unwrap();
    assert_eq!(admin(folder.path(), &["who", &bob]).await.with(0).json(), json!(["taker-bob"]));
    assert_eq!(admin(folder.path(), &["who", &carol]).await.with(1).json(), json!([]));
    assert_eq!(admin(folder.path(), &["who", &carol, "--ids", ids]).await.with(0).json(), json!(["taker-carol"]));
    assert_eq!(admin(folder.path(), &["who", &bob, "--ids", ids]).await.with(1).json(), json!([]));
    assert!(stack.terminate().success());
}
