//! Checks answers against `openapi.yaml`.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

use http::HeaderMap;
use jsonschema::Validator;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

const SHEET: &str = "text/csv; charset=utf-8";

/// Headers with a meaning: an answer has each of them exactly where it is documented.
const HEADERS: [&str; 6] = ["Allow", "ETag", "Idempotent-Replayed", "Retry-After", "Vary", "X-Request-Id"];

/// Words that no text for clients may contain: our type names, parser messages, key names, parts.
const INTERNALS: [&str; 24] = [
    "struct", "enum", "serde", "line ", "column", "expected", "::", "`", "u32", "i64", "u64", "i128", "f64", "Option",
    "PACKET#", "PART#", "SLIPS#", "USER#", "KEY#", "hb:", "redis", "Redis", "DynamoDB", "panic",
];

/// The document as our own answers must follow it: without what it leaves open for later versions.
pub static SPEC: LazyLock<Spec> = LazyLock::new(|| {
    let mut document = Spec::load();
    close(&mut document.document);
    document
});

/// The document as clients read it.
pub static AS_PUBLISHED: LazyLock<Spec> = LazyLock::new(Spec::load);

/// Closes the schemas of answers, and the enumerations that later versions may extend.
fn close(document: &mut Value) {
    for schema in document["components"]["schemas"].as_object_mut().unwrap().values_mut() {
        let schema = schema.as_object_mut().unwrap();
        if schema.get("type").is_some_and(|kind| kind == "object") {
            schema.entry("additionalProperties").or_insert(json!(false));
        }
        if let Some(values) = schema.remove("x-extensible-enum") {
            schema.insert("enum".to_owned(), values);
        }
    }
}

/// An answer, with its request.
#[derive(Clone, Debug)]
pub struct Answer {
    pub method: String,
    pub target: String,
    pub status: u16,
    pub headers: HeaderMap,
    pub bytes: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error}: {}", self.describe()))
    }

    /// The answer's JSON; its status must be this one. A 204, and the answer to a HEAD, has no body, so it is null.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.describe());
        let has_none = status == 204 || self.method == "HEAD";
        if has_none && self.bytes.is_empty() { Value::Null } else { self.json() }
    }

    /// The problem's invalid fields, if it has any; its status and code must be these.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> Vec<String> {
        let body = self.expect(status);
        assert_eq!(body["code"], code, "{}", self.describe());
        let errors = body["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().map(|error| error["field"].as_str().unwrap().to_owned()).collect()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn describe(&self) -> String {
        let target: String = self.target.chars().take(200).collect();
        format!("{} {target}: {} {}", self.method, self.status, String::from_utf8_lossy(&self.bytes))
    }
}

/// A method of a path.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    pub id: &'a str,
    pub method: &'static str,
    pub path: &'a str,
    pub value: &'a Value,
}

pub struct Spec {
    pub document: Value,
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

impl Spec {
    fn load() -> Self {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../openapi.yaml");
        let document = yaml_serde::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        Self { document, validators: Mutex::default() }
    }

    pub fn operations(&self) -> Vec<Operation<'_>> {
        const METHODS: [(&str, &str); 5] =
            [("get", "GET"), ("post", "POST"), ("put", "PUT"), ("patch", "PATCH"), ("delete", "DELETE")];
        let mut operations = Vec::new();
        for (path, item) in self.document["paths"].as_object().unwrap() {
            for (key, method) in METHODS {
                if let Some(value) = item.get(key) {
                    operations.push(Operation { id: value["operationId"].as_str().unwrap(), method, path, value });
                }
            }
        }
        operations
    }

    /// The value that a reference refers to, or the value itself.
    pub fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        let mut value = value;
        while let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            let pointer = reference.strip_prefix('#').unwrap();
            value = self.document.pointer(pointer).unwrap_or_else(|| panic!("{reference} leads nowhere"));
        }
        value
    }

    /// The parts of `instance` that a schema of the document does not allow.
    pub fn faults(&self, schema: &Value, instance: &Value) -> Vec<String> {
        let validator = self.validator(schema);
        validator.iter_errors(instance).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    /// What checks values against a schema of the document.
    pub fn validator(&self, schema: &Value) -> Arc<Validator> {
        let mut validators = self.validators.lock().unwrap();
        let compile = || {
            let whole = json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "allOf": [schema],
                "components": {"schemas": self.document["components"]["schemas"]},
            });
            Arc::new(jsonschema::validator_for(&whole).unwrap())
        };
        Arc::clone(validators.entry(schema.to_string()).or_insert_with(compile))
    }

    /// The operations of a path. API Gateway decodes a path before it routes it. An id that falls apart at an encoded
    /// slash is documented with the operation that the client meant.
    fn operations_at(&self, target: &str) -> Vec<Operation<'_>> {
        let path = target.split('?').next().unwrap();
        let decoded = percent_decode_str(path).decode_utf8_lossy();
        let at = |path: &str| -> Vec<Operation<'_>> {
            self.operations().into_iter().filter(|operation| fits(operation.path, path)).collect()
        };
        let found = at(&decoded);
        if found.is_empty() { at(path) } else { found }
    }

    /// Checks an answer against the document. Returns the operations and statuses that it covers.
    #[track_caller]
    pub fn check(&self, answer: &Answer) -> Vec<(String, u16)> {
        let operations = self.operations_at(&answer.target);
        // A HEAD is answered like the GET.
        let method = if answer.method == "HEAD" { "GET" } else { &*answer.method };
        let meant = operations.iter().find(|operation| operation.method == method);
        let (seen, response) = match meant {
            Some(operation) => {
                let response = &operation.value["responses"][answer.status.to_string()];
                assert!(!response.is_null(), "{}: not documented: {}", operation.id, answer.describe());
                (vec![*operation], response)
            }
            None if operations.is_empty() => {
                assert_eq!(answer.status, 404, "{}", answer.describe());
                (Vec::new(), &self.document["components"]["responses"]["RouteNotFound"])
            }
            None => {
                assert_eq!(answer.status, 405, "{}", answer.describe());
                assert_eq!(answer.header("allow"), Some(&*methods(&operations).join(", ")), "{}", answer.describe());
                (operations.clone(), &self.document["components"]["responses"]["MethodNotAllowed"])
            }
        };
        self.check_response(answer, self.resolve(response));
        seen.into_iter().map(|operation| (operation.id.to_owned(), answer.status)).collect()
    }

    #[track_caller]
    fn check_response(&self, answer: &Answer, response: &Value) {
        let is_sheet = answer.header("content-type") == Some(SHEET) && !response["content"]["text/csv"].is_null();
        let content_type = match answer.status {
            ..400 if is_sheet => SHEET,
            ..400 => "application/json",
            _ => "application/problem+json",
        };
        let has_none = [204, 304].contains(&answer.status);
        assert_eq!(answer.header("content-type"), (!has_none).then_some(content_type), "{}", answer.describe());
        // An answer that may be cached is documented so; every other answer forbids it.
        let keeping = json!(answer.header("cache-control"));
        let documented = response["headers"].get("Cache-Control").map(|header| &self.resolve(header)["schema"]);
        let faults = self.faults(documented.unwrap_or(&json!({"const": "no-store"})), &keeping);
        assert!(faults.is_empty(), "{faults:?}: {}", answer.describe());
        for name in HEADERS {
            let documented = response["headers"].get(name).map(|header| self.resolve(header));
            match (documented, answer.header(name)) {
                (None, None) => {}
                (Some(header), Some(text)) => {
                    let is_integer = header["schema"]["type"] == "integer";
                    let value = if is_integer { serde_json::from_str(text).unwrap() } else { json!(text) };
                    let faults = self.faults(&header["schema"], &value);
                    assert!(faults.is_empty(), "{name}: {text}: {faults:?}");
                }
                (documented, given) => panic!("{name}: {given:?}, documented: {documented:?}: {}", answer.describe()),
            }
        }
        if answer.method == "HEAD" || has_none {
            assert!(answer.bytes.is_empty());
            return;
        }
        if is_sheet {
            let text = json!(std::str::from_utf8(&answer.bytes).unwrap());
            let faults = self.faults(&response["content"]["text/csv"]["schema"], &text);
            assert!(faults.is_empty(), "{faults:#?}\n{}", answer.describe());
            return;
        }
        let body = answer.json();
        let faults = self.faults(&response["content"][content_type]["schema"], &body);
        assert!(faults.is_empty(), "{faults:#?}\n{}", answer.describe());
        if answer.status >= 400 {
            assert_eq!(answer.header("x-request-id"), body["request_id"].as_str(), "{}", answer.describe());
            let codes = response["x-problem-codes"].as_array().unwrap();
            assert!(codes.contains(&body["code"]), "{codes:?}: {}", answer.describe());
            let kind = format!("urn:hongbao:problem:{}", body["code"].as_str().unwrap());
            assert_eq!(
                (&body["status"], &body["type"]),
                (&json!(answer.status), &json!(kind)),
                "{}",
                answer.describe()
            );
            assert_eq!(body["resets_at"].is_string(), body["code"] == "daily-limit-exceeded", "{}", answer.describe());
            let is_limited = ["daily-limit-exceeded", "too-many-pending", "too-many-requests"]
                .iter()
                .any(|code| body["code"] == *code);
            assert_eq!(body["limit"].is_object(), is_limited, "{}", answer.describe());
            no_internals(&body);
        }
    }
}

/// The methods of a path's operations. Beside each GET there is a HEAD.
fn methods(operations: &[Operation<'_>]) -> Vec<&'static str> {
    let of = |operation: &Operation<'_>| match operation.method {
        "GET" => vec!["GET", "HEAD"],
        method => vec![method],
    };
    operations.iter().flat_map(of).collect()
}

/// Checks that no text of ours in a problem names internals. A field's name may be the client's own.
#[track_caller]
fn no_internals(problem: &Value) {
    let reasons = problem["errors"].as_array().into_iter().flatten().map(|error| &error["reason"]);
    for text in reasons.chain([&problem["detail"], &problem["title"]]) {
        let text = text.as_str().unwrap();
        let shown: BTreeSet<&str> = INTERNALS.into_iter().filter(|internal| text.contains(internal)).collect();
        assert!(shown.is_empty(), "{shown:?} in {problem}");
    }
}

fn fits(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    pattern.len() == path.len()
        && pattern.iter().zip(path).all(|(wanted, given)| match wanted.strip_prefix('{') {
            Some(_) => !given.is_empty(),
            None => *wanted == given,
        })
}
