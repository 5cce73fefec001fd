//! What `scripts/cost.py` takes for the bytes of log lines is what the functions print.

use std::process::Command;

use super::logs::{json_lines, metrics};
use super::*;

/// A table's name as `CloudFormation` makes it. It is in every metric line.
const LONG_TABLE: &str = "hongbao-prod-Table-1A2B3C4D5E6F7";
/// A user id as Cognito makes it.
const USER: &str = "7c1e9f3a-5b2d-4e8f-9a6c-0d1b2e3f4a5b";
/// A duration has more digits at one time than at another.
const TOLERANCE: u64 = 12;

/// The inputs and the results of the script.
fn costs() -> Value {
    let output = Command::new("python3").arg(repository("scripts/cost.py")).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The bytes of a line as it was printed.
fn bytes(log: &str, of: impl Fn(&Value) -> bool) -> u64 {
    let line = log.lines().rfind(|line| serde_json::from_str(line).is_ok_and(|line| of(&line)));
    line.unwrap_or_else(|| panic!("no such line: {log}")).len() as u64
}

/// The access log's line of a lost grab, as API Gateway fills in the template's format.
fn access_line() -> String {
    let format = crate::template::template()["Resources"]["Api"]["Properties"]["AccessLogSettings"]["Format"].clone();
    let mut line = format.as_str().unwrap().to_owned();
    for (variable, value) in [
        ("requestId", "JKJaXmPLvHcESHA="),
        ("routeKey", "POST /packets/{packet_id}/grab"),
        ("status", "200"),
        ("responseLatency", "12"),
        ("integrationErrorMessage", "-"),
        ("authorizer.error", "-"),
        ("error.responseType", "-"),
        ("identity.sourceIp", "203.0.113.117"),
    ] {
        line = line.replace(&format!("$context.{variable}"), value);
    }
    assert!(!line.contains('$'), "{line}");
    line
}

#[test]
fn the_readmes_chart_is_of_these_costs() {
    let folder = tempfile::tempdir().unwrap();
    let drawn = folder.path().join("cost.svg");
    let output =
        Command::new("python3").arg(repository("scripts/cost.py")).arg("--chart").arg(&drawn).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = std::fs::read_to_string(repository("docs/images/cost.svg")).unwrap();
    assert_eq!(std::fs::read_to_string(drawn).unwrap(), shown, "run: scripts/cost.py --chart docs/images/cost.svg");
}

#[tokio::test]
async fn the_costs_are_computed_from_what_functions_print() {
    let mut stores = Stores::start().await;
    create_table(&dynamodb_at(&stores.dynamodb.url()), LONG_TABLE).await.unwrap();
    stores.table = LONG_TABLE;
    let packet = stores.packet_of_one_slip().await;
    let grab = stores.function("grab", &[("AWS_LAMBDA_LOG_FORMAT", "JSON")]).await;
    // The first two are not typical: a process counts its start too.
    grab.answer(&grab_of(PLACEHOLDER, USER)).await.refused(404, "packet-not-found");
    grab.answer(&grab_of(&packet, USER)).await.expect(200);
    let log_of_win = grab.log();
    let count = metrics(json_lines(&log_of_win)).len();
    let mut losers = 0;
    while metrics(json_lines(&grab.log())).len() == count {
        losers += 1;
        grab.answer(&grab_of(&packet, &format!("{}{losers:03}", &USER[3..]))).await.expect(200);
    }
    let log_of_loss = grab.log();
    let line = |outcome: &'static str| move |line: &Value| line["fields"]["outcome"] == outcome;
    let metric = |outcome: &'static str| move |line: &Value| line["Outcome"] == outcome;
    let measured = [
        ("win-log", bytes(&log_of_win, line("grabbed"))),
        ("win-metrics", bytes(&log_of_win, metric("grabbed"))),
        ("loss-log", bytes(&log_of_loss, line("sold_out"))),
        ("loss-metrics", bytes(&log_of_loss, metric("sold_out"))),
        ("access-log", access_line().len() as u64),
    ];
    println!("{measured:?}");
    let costs = costs();
    assert_eq!(costs["inputs"]["losses-a-line"], losers);
    for (name, bytes) in measured {
        let stated = costs["inputs"][name].as_u64().unwrap();
        assert!(stated.abs_diff(bytes) <= TOLERANCE, "{name}: {bytes} bytes, the script says {stated}");
    }
    assert!(costs["log_bytes"]["losses"].as_u64().unwrap() <= 500, "{}", costs["log_bytes"]);
    assert!(costs["cents_a_million"]["losses"].as_u64().unwrap() <= 150, "{}", costs["cents_a_million"]);
}
