//! The whole benchmark with little data: every scheme runs to its end, the report has all that it promises, and what is counted of
//! correctness holds. Nothing here asks how fast anything is.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use shared::redis::server_program;
use shared::redis::test_server::serves_tls;
use tempfile::TempDir;

const PUBLISHED: [&str; 3] = ["lua-queue", "lock-counter", "pure-queue"];
/// Of the functions there are ratios only where the emulator runs.
const FUNCTIONS: [&str; 6] = ["send", "grab", "view", "wallet", "settle", "audit"];

#[test]
fn the_benchmark_runs_through_and_reports_everything() {
    let out = TempDir::new().unwrap();
    let output =
        Command::new(env!("CARGO_BIN_EXE_bench")).args(["--rehearse", "--out"]).arg(out.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&std::fs::read(out.path().join("report.json")).unwrap()).unwrap();

    assert_eq!(keys(&report), ["cells", "functions", "machine", "million", "nodes", "ratios", "run", "tls"]);
    assert_eq!(keys(&report["machine"]), ["cores", "processor", "redis_apart", "server"]);
    assert_eq!(keys(&report["run"]), ["command", "commit", "date"]);
    cells(report["cells"].as_array().unwrap());
    nodes(report["nodes"].as_array().unwrap());
    ratios(report["ratios"].as_array().unwrap());
    written(out.path());
}

#[test]
fn a_rush_over_processes_and_nodes_gives_each_slip_once() {
    let out = TempDir::new().unwrap();
    let rush = ["--rehearse", "--only", "tls,million", "--users", "20000", "--slips", "2000", "--out"];
    let output = Command::new(env!("CARGO_BIN_EXE_bench")).args(rush).arg(out.path()).output().unwrap();
    // It fails by itself if a slip has no owner or two, a user has two slips, or Redis has other owners than the answers.
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&std::fs::read(out.path().join("report.json")).unwrap()).unwrap();
    let markdown = std::fs::read_to_string(out.path().join("report.md")).unwrap();

    let million = &report["million"];
    assert_eq!(million["size"], serde_json::json!({ "users": 20_000, "slips": 2_000 }));
    let rushes = million["rushes"].as_array().unwrap();
    assert_eq!(rushes.iter().map(|rush| text(&rush["mode"])).collect::<Vec<_>>(), ["collected", "one_user"]);
    let sum =
        |all: &Value, name: &str| all.as_array().unwrap().iter().map(|one| one[name].as_u64().unwrap()).sum::<u64>();
    for rush in rushes {
        let processes = rush["processes_us"].as_array().unwrap();
        assert_eq!((rush["nodes"].as_array().unwrap().len(), processes.len()), (3, 4), "{rush}");
        assert!(processes.iter().all(|us| us.as_u64().unwrap() > 0), "{rush}");
        for figure in ["answers_per_s", "winners_per_s"] {
            assert!(rush[figure].as_f64().unwrap() > 0.0, "{figure}: {rush}");
        }
        assert_eq!(sum(&rush["newcomer"], "calls"), 2, "each part is asked once: {rush}");
    }
    // One user a call: a call for each slip, and one for its claim.
    let calls: Vec<u64> = rushes.iter().map(|rush| sum(&rush["nodes"], "calls")).collect();
    assert!(calls[0] < calls[1] && calls[1] >= 4_000, "{calls:?}");
    assert!(
        markdown.contains("\n## Beyond one core of Redis: 20,000 requests for a packet of 2,000 slips\n"),
        "{markdown}"
    );

    if serves_tls() {
        let shapes = report["tls"]["shapes"].as_array().unwrap();
        let connections: Vec<_> = shapes.iter().map(|shape| shape["connections"].as_u64().unwrap()).collect();
        assert_eq!(connections, [1, 200]);
        assert!(markdown.contains("\n## Over TLS: "), "{markdown}");
    }
}

#[test]
fn a_rush_without_losers_is_refused() {
    let rush = ["--rehearse", "--only", "million", "--users", "2000", "--slips", "2000", "--out"];
    let out = TempDir::new().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_bench")).args(rush).arg(out.path()).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--users must be more than --slips"));
}

/// The server's name and version by its own program, such as "Redis 7.0.15".
fn server() -> String {
    let program = server_program::find().unwrap();
    let output = Command::new(program).arg("--version").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let (name, rest) = said.split_once(" server v=").unwrap();
    format!("{name} {}", rest.split_whitespace().next().unwrap())
}

fn keys(object: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn cells(cells: &[Value]) {
    let named: Vec<(&str, &str)> = cells.iter().map(|cell| (text(&cell["workload"]), text(&cell["scheme"]))).collect();
    let (expected, found) = (schemes(), named.iter().map(|(workload, scheme)| format!("{workload}: {scheme}")));
    assert_eq!(found.collect::<BTreeSet<_>>(), expected);
    assert_eq!(named.len(), expected.len(), "each once");

    for (cell, (workload, scheme)) in cells.iter().zip(&named) {
        let expected = [
            "double_winners",
            "latencies",
            "left",
            "oversold",
            "p50_us",
            "p999_us",
            "p99_us",
            "per_s",
            "redis_calls",
            "redis_cpu_us",
            "rush_s",
            "scheme",
            "winners",
            "workload",
        ];
        assert_eq!(keys(cell), expected);
        assert_eq!(keys(&cell["per_s"]), ["max", "median", "min"]);
        let figure = |value: &Value| value.as_f64().is_some_and(|figure| figure >= 0.0);
        for name in ["p50_us", "p99_us", "p999_us", "redis_cpu_us", "redis_calls"] {
            assert!(figure(&cell[name]), "{cell}");
        }
        assert!(cell["per_s"]["median"].as_f64().is_some_and(|per_s| per_s > 0.0), "{cell}");

        let count = |name: &str| cell[name].as_u64();
        if scheme.starts_with("ours") {
            assert_eq!((count("oversold"), count("double_winners")), (Some(0), Some(0)), "{cell}");
            // The packet of the losers was empty before they came.
            let (left, won) = if *scheme == "ours, losers" { (1, false) } else { (0, true) };
            assert_eq!((count("left"), count("winners").unwrap() > 0), (Some(left), won), "{cell}");
        }
        // The fault that it was published with: who asks twice gets two.
        if (*workload, *scheme) == ("D", "pure-queue") {
            assert!(count("double_winners").unwrap() > 0, "{cell}");
        }
    }
}

/// Every workload with every scheme.
fn schemes() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut add = |workload: &str, schemes: &[&str]| {
        all.extend(schemes.iter().map(|scheme| format!("{workload}: {scheme}")));
    };
    for workload in ["A", "B", "C", "D"] {
        add(workload, &PUBLISHED);
    }
    let under_way = [("A", "1000"), ("A", "20"), ("B", "10000"), ("C", "1000"), ("D", "1000")];
    for (workload, under_way) in under_way {
        for scheme in ["lua-queue pipelined", "ours, one user a call", "ours, collected"] {
            add(workload, &[&format!("{scheme}, {under_way} under way")]);
        }
    }
    let limits =
        ["ours, the raw script with 64 users a call", "a trivial script, pipelined", "LPOP, pipelined", "PING"];
    add("A", &limits);
    add("B", &["ours, acknowledged by the ledger", "bare claim transactions of the 100 winners"]);
    add("L", &["db-lock", "db-optimistic", "db-pessimistic", "db-slip-optimistic", "queue-then-db", "queue-async"]);
    add("L", &["ours, acknowledged by the ledger"]);
    add("E", &["a constant answer", "ours, losers", "ours, winners", "bare claim transactions"]);
    for packets in ["1,000 packets", "a packet of 100,000 slips"] {
        for scheme in ["ours, one user a call", "ours, collected"] {
            add("cluster", &[&format!("{scheme}, {packets}")]);
        }
    }
    all
}

fn nodes(nodes: &[Value]) {
    assert_eq!(nodes.len(), 4);
    for rush in nodes {
        assert_eq!(keys(rush), ["calls", "cpu_us", "scheme"]);
        let calls = rush["calls"].as_array().unwrap();
        assert_eq!(calls.len(), 3, "{rush}");
        assert!(calls.iter().map(|calls| calls.as_u64().unwrap()).sum::<u64>() > 0, "{rush}");
    }
}

fn ratios(ratios: &[Value]) {
    let names: Vec<&str> = ratios.iter().map(|ratio| text(&ratio["name"])).collect();
    let mut expected: Vec<String> = [
        "A: grabs/s, collected ÷ lua-queue as published",
        "A: grabs/s, collected ÷ lua-queue pipelined, 1,000 under way",
        "A: grabs/s, collected ÷ lua-queue pipelined, 20 under way",
        "A: grabs/s, collected ÷ the raw script",
        "A: Redis CPU per grab, collected ÷ lua-queue pipelined",
        "B: grabs/s, collected ÷ lock-counter as published",
        "B: grabs/s, collected ÷ lua-queue as published",
        "C: grabs/s, collected ÷ lua-queue as published",
        "E: requests/s, losers ÷ a constant answer",
        "B with the ledger: time to the last answer ÷ time of the winners' bare transactions",
        "D: grabs/s, collected ÷ A without repeats",
        "A: grabs/s, one user a call ÷ lua-queue pipelined",
        "B: grabs/s, one user a call ÷ lua-queue pipelined",
        "C: grabs/s, one user a call ÷ lua-queue pipelined",
        "D: grabs/s, one user a call ÷ lua-queue pipelined",
        "A: Redis CPU per grab, one user a call ÷ lua-queue pipelined",
        "B: Redis CPU per grab, one user a call ÷ lua-queue pipelined",
        "C: Redis CPU per grab, one user a call ÷ lua-queue pipelined",
        "D: Redis CPU per grab, one user a call ÷ lua-queue pipelined",
        "B: slips oversold, collected",
        "B: Redis calls per request, collected",
        "E: p99 of a winner ÷ p50 of a bare claim transaction",
        "Start: time from the start to the last answer ÷ time of B",
        "Settle: claims/s ÷ bare claim transactions",
        "Redis CPU per grab: 100,000 slips ÷ 10 slips, or its inverse",
        "Redis CPU per grab: 100,000 live packets ÷ 10, or its inverse",
        "Send of 100,000 slips, ms",
        "Longest command of that send in Redis, ms",
    ]
    .map(str::to_owned)
    .into();
    for packets in ["1,000 packets", "a packet of 100,000 slips"] {
        for scheme in ["ours, one user a call", "ours, collected"] {
            expected.push(format!("{scheme}, {packets}: largest deviation of a node from a third of the calls"));
        }
    }
    if cfg!(target_os = "linux") {
        for function in FUNCTIONS {
            if function == "grab" {
                expected.push("grab: cold start, ms".to_owned());
            }
            expected.extend(["peak memory, MB", "zipped, MB"].map(|what| format!("{function}: {what}")));
        }
        expected.push("grab: a warm call ÷ an empty call and the bare round trips".to_owned());
        let serves_tls = serves_tls();
        let over_tls = ["first grab ÷ tenth grab", "connections to a primary", "connections to replicas"];
        expected.extend(over_tls.iter().filter(|_| serves_tls).map(|what| format!("grab over TLS: {what}")));
    }
    assert_eq!(names, expected);
    for ratio in ratios {
        let keys: Vec<_> = keys(ratio).into_iter().filter(|key| *key != "range").collect();
        assert_eq!(keys, ["goal", "met", "name", "value"]);
        assert!(matches!(self::keys(&ratio["goal"])[..], ["at_least" | "at_most"]), "{ratio}");
        assert!(ratio["value"].as_f64().is_some_and(|value| value >= 0.0), "{ratio}");
        assert!(ratio["met"].is_boolean(), "{ratio}");
    }
    let oversold = ratios.iter().find(|ratio| ratio["name"] == "B: slips oversold, collected").unwrap();
    assert_eq!(oversold["met"], true);
}

fn written(out: &Path) {
    let markdown = std::fs::read_to_string(out.join("report.md")).unwrap();
    let sections = ["One user a call", "Collected calls", "A: ", "L: ", "Calls of each node", "Goals"];
    for section in sections {
        assert!(markdown.contains(&format!("\n## {section}")), "{section}: {markdown}");
    }
    let served_by = format!(" logical processors; {}", server());
    let run = if server().starts_with("Valkey") {
        "- Run: `make bench SERVER=valkey ARGS="
    } else {
        "- Run: `make bench ARGS="
    };
    for line in [run, &served_by, "| PING |", "| goal | bound | value | met |"] {
        assert!(markdown.contains(line), "{line}: {markdown}");
    }
    let drawn = |chart: String| {
        let svg = std::fs::read_to_string(out.join(format!("{chart}.svg"))).unwrap();
        assert!(svg.starts_with("<svg"), "{chart}");
    };
    for workload in ["a", "b", "c", "d", "l", "e", "cluster"] {
        for chart in ["throughput", "latency", "cost"] {
            drawn(format!("{workload}-{chart}"));
        }
    }
    for mode in ["one-user", "collected"] {
        drawn(format!("{mode}-throughput"));
        drawn(format!("{mode}-cost"));
    }
}
