//! The `DynamoDB` actions that each function's code calls, checked against `tests/aws/actions.json`. The tests of the
//! roles use that file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use tests::relay::Passed;

use super::walk::walked;
use super::*;

/// Recorded actions: (name, table or index, enclosing transaction) → prefixes of the keys.
type Actions = BTreeMap<(String, String, Option<String>), BTreeSet<String>>;

const FILE: &str = "tests/aws/actions.json";
/// If this variable is set, the test writes the file instead of checking it.
const RENEW: &str = "RENEW_ACTIONS";

/// The actions that IAM sees in a request.
fn add(actions: &mut Actions, Passed { operation, body }: &Passed) {
    let on = body["IndexName"].as_str().map_or("table".to_owned(), |index| format!("index/{index}"));
    let Some(writes) = body["TransactItems"].as_array() else {
        actions.entry((operation.clone(), on, None)).or_default();
        return;
    };
    for (kind, write) in writes.iter().flat_map(|write| write.as_object().unwrap()) {
        let key = if kind == "Put" { &write["Item"]["PK"]["S"] } else { &write["Key"]["PK"]["S"] };
        let key = key.as_str().unwrap();
        let kind_of_key = &key[..=key.find('#').unwrap()];
        let action = (format!("{kind}Item"), on.clone(), Some(operation.clone()));
        actions.entry(action).or_default().insert(kind_of_key.to_owned());
    }
}

/// The file's format: one action per line.
fn written(all: &BTreeMap<&str, Actions>) -> String {
    let mut functions = Vec::new();
    for (function, actions) in all {
        let mut text = format!("  \"{function}\": [\n");
        for (n, ((action, on, within), keys)) in actions.iter().enumerate() {
            let mut line = format!("{{\"action\": \"dynamodb:{action}\", \"on\": \"{on}\"");
            if let Some(within) = within {
                let keys = serde_json::to_string(keys).unwrap().replace(',', ", ");
                write!(line, ", \"in\": \"{within}\", \"keys\": {keys}").unwrap();
            }
            let comma = if n + 1 < actions.len() { "," } else { "" };
            writeln!(text, "    {line}}}{comma}").unwrap();
        }
        text.push_str("  ]");
        functions.push(text);
    }
    format!("{{\n{}\n}}\n", functions.join(",\n"))
}

#[tokio::test]
async fn the_recorded_actions_are_those_that_the_functions_call() {
    let mut all: BTreeMap<&str, Actions> = BTreeMap::new();
    for (function, passed) in &walked("INFO").await.passed {
        let actions = all.entry(function).or_default();
        for passed in passed {
            add(actions, passed);
        }
    }
    let (path, recorded) = (repository(FILE), written(&all));
    if std::env::var_os(RENEW).is_some() {
        std::fs::write(path, recorded).unwrap();
        return;
    }
    assert_eq!(
        recorded,
        std::fs::read_to_string(path).unwrap(),
        "if the code is right, run `make generate ONLY=actions`"
    );
}
