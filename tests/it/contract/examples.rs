//! The document's examples: requests are sent, answers are checked against their own schemas.

use std::time::Duration;

use serde_json::Value;
use shared::ports::{Clock, System};

use super::api::{Api, random};
use super::packet::from_seed;
use super::spec::{AS_PUBLISHED, Operation, SPEC};

fn examples(media: &Value) -> Vec<(&String, &Value)> {
    let examples = media["examples"].as_object().expect("examples");
    examples.iter().map(|(name, example)| (name, &SPEC.resolve(example)["value"])).collect()
}

fn contents(holder: &Value) -> Vec<(&String, &Value)> {
    holder["content"].as_object().into_iter().flatten().collect()
}

fn responses(operation: &Operation<'static>) -> Vec<(&'static String, &'static Value)> {
    let responses = operation.value["responses"].as_object().unwrap();
    responses.iter().map(|(status, response)| (status, SPEC.resolve(response))).collect()
}

#[track_caller]
fn fits(what: &str, schema: &Value, example: &Value) {
    let faults = SPEC.faults(schema, example);
    assert!(faults.is_empty(), "{what}: {faults:?} in {example}");
}

#[test]
fn every_answer_has_an_example_that_fits_its_schema() {
    for operation in SPEC.operations() {
        for (status, response) in responses(&operation) {
            for (kind, media) in contents(response) {
                for (name, example) in examples(media) {
                    fits(&format!("{} {status} {kind} {name}", operation.id), &media["schema"], example);
                }
            }
            for (name, header) in response["headers"].as_object().into_iter().flatten() {
                let header = SPEC.resolve(header);
                fits(name, &header["schema"], &header["example"]);
            }
        }
    }
}

#[test]
fn every_parameter_has_an_example_that_fits_its_schema() {
    for (name, parameter) in SPEC.document["components"]["parameters"].as_object().unwrap() {
        fits(name, &parameter["schema"], &parameter["example"]);
    }
    for (name, schema) in SPEC.document["components"]["schemas"].as_object().unwrap() {
        for example in schema["examples"].as_array().into_iter().flatten() {
            fits(name, schema, example);
        }
    }
}

#[tokio::test]
async fn every_example_of_a_request_is_accepted() {
    let api = Api::start().await;
    api.fund("alice", 1_000_000).await;
    let packet = api.packet("sender", "k", &random(1_000, 10)).await;
    let mut sent = 0;
    for operation in SPEC.operations() {
        let Some(request) = operation.value.get("requestBody") else { continue };
        for (_, media) in contents(SPEC.resolve(request)) {
            for (name, example) in examples(media) {
                fits(name, &media["schema"], example);
                let mut example = example.clone();
                if let Some(starts_at) = example.get_mut("starts_at").filter(|starts_at| !starts_at.is_null()) {
                    // The document's is past one day.
                    *starts_at = System.now().after(Duration::from_hours(1)).to_string().into();
                }
                let key = format!("{}-{name}", operation.id);
                let path = operation.path.replace("{packet_id}", &packet).replace(['{', '}'], "");
                let user = format!("user-{name}");
                let caller = if operation.id == "sendPacket" { "alice" } else { &user };
                let path = if operation.id == "sendPacketForUser" { path.replace("user_id", "alice") } else { path };
                // The other examples are of users who are not suspended.
                let path = if operation.id == "suspendUser" { path.replace("user_id", "mallory") } else { path };
                if operation.id == "withdraw" {
                    api.fund("user_id", example["amount"].as_u64().unwrap()).await;
                }
                let answer = api.call(operation.method, path).by(caller).key(&key).json(&example).await;
                assert!(answer.status == 201 || answer.status == 200, "{name}: {}", answer.describe());
                sent += 1;
            }
        }
    }
    assert!(sent >= 7, "only {sent}");
}

#[test]
fn the_packets_of_the_examples_are_valid() {
    let shown = &SPEC.document["components"]["responses"]["PacketShown"];
    let mut proven = 0;
    for (name, packet) in examples(&shown["content"]["application/json"]) {
        if packet["seed"].is_null() {
            continue;
        }
        let (amounts, commitment) = from_seed(packet);
        assert_eq!(packet["commitment"], commitment, "{name}");
        let slip = |claim: &Value| amounts[usize::try_from(claim["slip"].as_u64().unwrap()).unwrap()];
        if !packet["mine"].is_null() {
            assert_eq!(packet["mine"]["amount"], slip(&packet["mine"]), "{name}");
        }
        assert!(amounts.iter().any(|amount| packet["best"]["amount"] == *amount), "{name}");
        if packet["claimed_count"] == packet["count"] {
            assert_eq!(packet["best"]["amount"], *amounts.iter().max().unwrap(), "{name}");
        }
        proven += 1;
    }
    assert!(proven >= 2);
}

/// Otherwise an unknown field of a request would pass.
#[test]
fn requests_are_closed_and_answers_are_open() {
    for (name, schema) in AS_PUBLISHED.document["components"]["schemas"].as_object().unwrap() {
        if schema["type"] == "object" && !name.ends_with("Metadata") {
            let is_closed = schema.get("additionalProperties").is_some_and(|additional| additional == false);
            assert_eq!(is_closed, name.ends_with("Request"), "{name}");
            assert_eq!(SPEC.document["components"]["schemas"][name]["additionalProperties"], false, "{name}");
        }
    }
}

/// An answer of a later version: with a field that is not known here, everywhere.
fn with_more_fields(answer: &Value) -> Value {
    match answer {
        Value::Object(fields) => {
            let more = ("later".to_owned(), Value::from("x"));
            fields.iter().map(|(name, value)| (name.clone(), with_more_fields(value))).chain([more]).collect()
        }
        Value::Array(items) => items.iter().map(with_more_fields).collect(),
        other => other.clone(),
    }
}

/// The same, with a value that is not known here for each enumeration.
fn with_more_values(answer: &Value) -> Value {
    match answer {
        Value::Object(fields) => {
            let one = |(name, value): (&String, &Value)| {
                let is_one = matches!(&**name, "outcome" | "status" | "split" | "kind" | "code") && value.is_string();
                (name.clone(), if is_one { Value::from("later") } else { with_more_values(value) })
            };
            fields.iter().map(one).collect()
        }
        Value::Array(items) => items.iter().map(with_more_values).collect(),
        other => other.clone(),
    }
}

#[test]
fn the_document_accepts_the_answers_of_a_later_version_and_our_tests_do_not() {
    let mut changed = [0; 2];
    for operation in SPEC.operations() {
        for (status, response) in responses(&operation) {
            for (kind, media) in contents(response) {
                let published = AS_PUBLISHED.operations();
                let published = published.iter().find(|other| other.id == operation.id).unwrap();
                let published = AS_PUBLISHED.resolve(&published.value["responses"][status]);
                for (name, example) in examples(media) {
                    let what = format!("{} {status} {name}", operation.id);
                    let grown = [with_more_fields(example), with_more_values(example)];
                    for (place, grown) in grown.iter().enumerate().filter(|(_, grown)| *grown != example) {
                        let faults = AS_PUBLISHED.faults(&published["content"][kind]["schema"], grown);
                        assert!(faults.is_empty(), "{what}: {faults:?} in {grown}");
                        assert!(!SPEC.faults(&media["schema"], grown).is_empty(), "{what}: {grown}");
                        changed[place] += 1;
                    }
                }
            }
        }
    }
    assert!(changed.iter().all(|count| *count > 50), "{changed:?}");
}
