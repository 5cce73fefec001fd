//! The functions' logs: one line per request, metrics, and no secret.

use std::collections::BTreeMap;

use super::walk::{SECRETS, Walked, walked};
use super::*;

/// The JSON lines of a function's log.
pub fn json_lines(log: &str) -> Vec<Value> {
    log.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object).collect()
}

fn no_secret_is_logged(walked: &Walked) {
    for (function, log) in &walked.logs {
        for (what, secret) in SECRETS {
            let leak = log.lines().find(|line| line.contains(secret));
            assert_eq!(leak, None, "{function} logs {what}");
        }
    }
}

#[tokio::test]
async fn each_request_has_one_line_and_each_grab_its_metrics() {
    let walked = walked("INFO").await;
    no_secret_is_logged(&walked);
    for (id, function, packet, status) in &walked.requests {
        let lines = json_lines(&walked.logs[function]);
        let of_request: Vec<&Value> =
            lines.iter().map(|line| &line["fields"]).filter(|fields| fields["request_id"] == **id).collect();
        assert_eq!(of_request.len(), 1, "{function} {id}: {of_request:?}");
        let fields = of_request[0];
        assert!(fields["outcome"].is_string() && fields["duration_us"].is_u64(), "{fields}");
        let is_ok = ["ok", "replayed", "grabbed", "sold_out", "expired"].contains(&fields["outcome"].as_str().unwrap());
        assert_eq!(is_ok, *status < 300, "{fields}");
        if let Some(packet) = packet {
            assert_eq!(fields["packet_id"], **packet, "{fields}");
        }
        assert_eq!(fields.get("cause").is_some(), *status == 503, "{fields}");
        assert_eq!(fields.get("by").is_some(), *function == "wallet", "{fields}");
    }
    let sends = walked.requests.iter().filter(|(_, function, _, status)| *function == "send" && *status < 300);
    let with_packet = json_lines(&walked.logs["send"]);
    let with_packet = with_packet.iter().filter(|line| line["fields"]["packet_id"].is_string());
    assert_eq!(with_packet.count(), sends.count(), "a send logs its packet");

    let metrics: Vec<Value> =
        json_lines(&walked.logs["grab"]).into_iter().filter(|line| line.get("_aws").is_some()).collect();
    let sum = |name: &str| metrics.iter().filter_map(|line| line[name].as_u64()).sum::<u64>();
    let mut grabs: BTreeMap<&str, u64> = BTreeMap::new();
    for line in metrics.iter().filter(|line| line.get("Grabs").is_some()) {
        assert_eq!(line["Table"], TABLE);
        *grabs.entry(line["Outcome"].as_str().unwrap()).or_default() += line["Grabs"].as_u64().unwrap();
    }
    let expected = [("expired", 2), ("grabbed", 6), ("refused", 4), ("sold_out", 1), ("unavailable", 1)];
    assert_eq!(grabs, BTreeMap::from(expected));
    assert_eq!((sum("Replays"), sum("ColdStarts")), (1, 1));
    assert!(sum("ScriptCalls") >= 6, "{metrics:?}");
    let claims = metrics.iter().filter_map(|line| line["ClaimLatency"].as_array()).flatten().count();
    assert_eq!(claims, 3, "the claims of the packet in ledger mode");
    assert_eq!(metrics.len(), walked.requests.iter().filter(|(_, function, ..)| *function == "grab").count());
}

#[tokio::test]
async fn no_secret_is_logged_at_the_debug_level() {
    no_secret_is_logged(&walked("DEBUG").await);
}
