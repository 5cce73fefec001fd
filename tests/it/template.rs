//! Checks `template.yaml` and the table of `stacks/state.yaml` against the routes, `openapi.yaml`, the configuration, and the table.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::{AttributeDefinition, KeySchemaElement};
use local::dynamodb::DynamoDb;
use local::gateway::routes::DEFAULT;
use serde_json::{Map, Value, json};
use shared::config::Config;
use shared::dynamodb::create_table;
use shared::wiring::dynamodb_at;

use crate::contract::spec::SPEC;
use crate::repository;

fn read(path: &str) -> String {
    std::fs::read_to_string(repository(path)).unwrap()
}

/// The main template.
pub fn template() -> Value {
    written("template.yaml")
}

/// A template, where a short form such as `!Ref Table` is `{"!Ref": "Table"}`.
fn written(path: &str) -> Value {
    let mut template: yaml_serde::Value = yaml_serde::from_str(&read(path)).unwrap();
    template.apply_merge().unwrap();
    plain(template)
}

fn plain(value: yaml_serde::Value) -> Value {
    match value {
        yaml_serde::Value::Tagged(tagged) => json!({tagged.tag.to_string(): plain(tagged.value)}),
        yaml_serde::Value::Sequence(items) => items.into_iter().map(plain).collect(),
        yaml_serde::Value::Mapping(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (name.as_str().unwrap().to_owned(), plain(value)));
            Value::Object(fields.collect())
        }
        scalar => serde_json::to_value(scalar).unwrap(),
    }
}

/// The functions of the engine, each with the name of its program. A program may be two functions.
fn functions(template: &Value) -> Vec<(String, &Value)> {
    let resources = template["Resources"].as_object().unwrap().values();
    let functions = resources.filter(|resource| {
        resource["Type"] == "AWS::Serverless::Function" && resource["Metadata"]["BuildMethod"].is_string()
    });
    functions
        .map(|function| (text(&function["Metadata"]["BuildProperties"]["Binary"]), &function["Properties"]))
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// A route of API Gateway.
#[derive(Debug)]
struct Route {
    /// `ANY` is every method.
    method: String,
    path: String,
    function: String,
    who: &'static str,
}

const USER: &str = "a signed-in user";
const OPERATOR: &str = "the operator";

impl Route {
    /// The parameters of a path that is the route's. A greedy one has the rest of it.
    fn parameters(&self, path: &str) -> Option<Map<String, Value>> {
        let mut found = Map::new();
        let mut rest = path;
        for wanted in self.path.split('/') {
            if wanted == "{proxy+}" {
                found.insert("proxy".to_owned(), json!(rest));
                return (!rest.is_empty()).then_some(found);
            }
            let (given, left) = rest.split_once('/').unwrap_or((rest, ""));
            match wanted.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
                Some(name) if !given.is_empty() => drop(found.insert(name.to_owned(), json!(given))),
                None if wanted == given => {}
                _ => return None,
            }
            rest = left;
        }
        rest.is_empty().then_some(found)
    }
}

/// The routes that have a caller, and the functions of the two that have none.
fn routes(template: &Value) -> (Vec<Route>, Vec<String>) {
    let (mut routes, mut open) = (Vec::new(), Vec::new());
    for (function, properties) in functions(template) {
        // The two scheduled functions have no events.
        let events = properties["Events"].as_object().into_iter().flat_map(Map::values);
        for event in events.filter(|event| event["Type"] == "HttpApi") {
            let event = &event["Properties"];
            assert_eq!(event["ApiId"], json!({"!Ref": "Api"}));
            let who = match &event["Auth"]["Authorizer"] {
                Value::Null => USER,
                authorizer if authorizer == "AWS_IAM" => OPERATOR,
                other => {
                    assert_eq!(*other, "NONE", "{function}");
                    let (method, path) = (event.get("Method"), event.get("Path"));
                    let is_preflight = method == Some(&json!("OPTIONS")) && path == Some(&json!("/{proxy+}"));
                    assert!(is_preflight || (method, path) == (None, None), "only these two are open to everyone");
                    open.push(function.clone());
                    continue;
                }
            };
            routes.push(Route {
                method: text(&event["Method"]),
                path: text(&event["Path"]),
                function: function.clone(),
                who,
            });
        }
    }
    (routes, open)
}

/// The routes that fit a request, the one that API Gateway chooses last. It prefers a whole path to a greedy one, a longer one to a
/// shorter one, and a method to any.
fn fitting<'a>(routes: &'a [Route], method: &str, path: &str) -> Vec<&'a Route> {
    let fits = |route: &&Route| [method, "ANY"].contains(&&*route.method) && route.parameters(path).is_some();
    let mut found: Vec<&Route> = routes.iter().filter(fits).collect();
    found.sort_by_key(|route| (!route.path.ends_with("{proxy+}"), route.path.len(), route.method != "ANY"));
    found
}

/// Whichever route API Gateway chooses, its guard is that of the document.
#[test]
fn each_operation_has_its_function_and_its_guard() {
    let template = template();
    let (routes, open) = routes(&template);
    assert_eq!(open, [DEFAULT.name(); 2]);
    assert_eq!(template["Resources"]["Api"]["Properties"]["Auth"]["DefaultAuthorizer"], "UserToken");
    for operation in SPEC.operations() {
        let who = match &operation.value["security"] {
            security if *security == json!([{"userToken": []}]) => USER,
            security if *security == json!([{"operatorSignature": []}]) => OPERATOR,
            other => panic!("{}: {other}", operation.id),
        };
        assert_eq!(local::gateway::routes::is_operators(operation.path), who == OPERATOR, "{}", operation.id);
        let head = (operation.method == "GET").then_some("HEAD");
        for method in [operation.method].into_iter().chain(head) {
            let found = fitting(&routes, method, operation.path);
            let chosen = found.last().unwrap_or_else(|| panic!("{method} {} has no route", operation.path));
            assert_eq!(chosen.function, operation.value["x-hongbao-function"], "{}", operation.id);
            assert!(found.iter().all(|route| route.who == who), "{method} {}: {found:?}", operation.path);
        }
    }
    // Nor does one guard's route begin with the paths of the other.
    for route in &routes {
        assert_eq!(local::gateway::routes::is_operators(&route.path), route.who == OPERATOR, "{route:?}");
    }
}

/// The variables that a function reads at start: all, the required ones, and those that are also required with tokens
/// for Redis.
struct Reads {
    all: BTreeSet<String>,
    required: BTreeSet<String>,
    by_iam: BTreeSet<String>,
}

impl Reads {
    fn of(function: &str) -> Self {
        let main = read(&format!("functions/{function}/src/main.rs"));
        let asked = std::cell::RefCell::new(BTreeSet::new());
        let required = |auth: Option<&str>| -> BTreeSet<String> {
            let ask = |name: &str| {
                asked.borrow_mut().insert(name.to_owned());
                auth.filter(|_| name == "REDIS_AUTH").map(str::to_owned)
            };
            let calls = ["both_stores", "the_ledger", "events", "webhooks"]
                .map(|for_what| main.contains(&format!("Config::for_{for_what}(")));
            let error = match calls {
                [true, false, false, false] => Config::for_both_stores(ask),
                [false, true, false, false] => Config::for_the_ledger(ask),
                [false, false, true, false] => Config::for_events(ask),
                [false, false, false, true] => Config::for_webhooks(ask),
                other => panic!("{function}: {other:?}"),
            };
            let error = error.unwrap_err().to_string();
            let asked = asked.borrow();
            asked.iter().filter(|name| error.contains(&format!("{name} is required"))).cloned().collect()
        };
        let (by_password, by_iam) = (required(None), required(Some("iam")));
        let by_iam = by_iam.difference(&by_password).cloned().collect();
        Self { all: asked.into_inner(), required: by_password, by_iam }
    }
}

/// The variables that the template sets for a function.
fn set(template: &Value, properties: &Value) -> Map<String, Value> {
    let variables = |value: &Value| value["Environment"]["Variables"].as_object().cloned().unwrap_or_default();
    variables(&template["Globals"]["Function"]).into_iter().chain(variables(properties)).collect()
}

/// The list of variables in `docs/OPERATE.md`: each variable's default and readers.
fn documented() -> BTreeMap<String, (String, Vec<String>)> {
    let page = read("docs/OPERATE.md");
    let (_, section) = page.split_once("\n## Variables\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let all = "send, grab, view, wallet, settle, audit, publish, notify, operate";
    let mut found = BTreeMap::new();
    // An entry may go on in the next lines.
    for entry in section.replace("\n  ", " ").lines().filter_map(|line| line.strip_prefix("- **")) {
        let (readers, variables) = entry.split_once("**: ").unwrap();
        let readers = if readers == "all" { all } else { readers };
        let readers: Vec<String> = readers.split(", ").map(str::to_owned).collect();
        for variable in variables.replace('`', "").split(", ") {
            let (name, default) = variable.trim_end_matches(')').split_once(" (").unwrap_or((variable, ""));
            found.insert(name.to_owned(), (default.to_owned(), readers.clone()));
        }
    }
    found
}

#[test]
fn each_function_has_exactly_the_variables_that_it_reads() {
    let (template, documented) = (template(), documented());
    for (function, properties) in functions(&template) {
        let (set, reads) = (set(&template, properties), Reads::of(&function));
        let names: BTreeSet<String> = set.keys().cloned().collect();
        assert!(reads.required.is_subset(&names), "{function} lacks {:?}", reads.required.difference(&names));
        assert!(names.is_subset(&reads.all), "{function} never reads {:?}", names.difference(&reads.all));
        for name in names {
            let (_, readers) = documented.get(&name).unwrap_or_else(|| panic!("docs/OPERATE.md lacks {name}"));
            assert!(readers.contains(&function), "docs/OPERATE.md says that {function} does not read {name}");
        }
    }
}

#[test]
fn the_documents_list_all_variables_with_their_defaults() {
    let both = |set: Option<(&str, &str)>| {
        let config = Config::for_both_stores(|name| match (name, set) {
            ("TABLE_NAME", _) => Some("t".to_owned()),
            ("REDIS_URL", _) => Some("redis://localhost".to_owned()),
            (name, Some((set, value))) if name == set => Some(value.to_owned()),
            _ => None,
        });
        format!("{:?}", config.unwrap())
    };
    let mut reads = Reads::of("send");
    reads.required.extend(["publish", "notify"].into_iter().flat_map(|function| Reads::of(function).required));
    let documented = documented();
    assert_eq!(documented.keys().cloned().collect::<BTreeSet<_>>(), reads.all);
    for (name, (default, _)) in &documented {
        if reads.required.contains(name) {
            assert_eq!(default, "required", "{name}");
        } else if default == "required by alb" {
            assert!(["JWT_ISSUER", "JWT_AUDIENCE"].contains(&&**name));
        } else if reads.by_iam.contains(name) {
            assert_eq!(default, "required by iam", "{name}");
        } else {
            assert_eq!(both(Some((name, default))), both(None), "{name} is {default} by default");
        }
    }
}

#[test]
fn the_parameters_defaults_are_those_of_the_functions() {
    let template = template();
    let documented = documented();
    for (function, properties) in functions(&template) {
        for (name, value) in set(&template, properties) {
            // The sign-in to Redis is set only with tokens, and its secret only where there is one; what a token must have, only behind a
            // load balancer.
            if value["!If"][2]["!Ref"] == "AWS::NoValue" {
                let expected = match &*name {
                    "REDIS_SECRET" => "HasRedisSecret",
                    "EDGE_KEY" => "HasWebAcl",
                    "TICKET_SECRET" => "HasTickets",
                    "WITHDRAWAL_MIN" => "UsersWithdraw",
                    "JWT_ISSUER" | "JWT_AUDIENCE" => "HasBalancer",
                    "CORS_ORIGINS" => "BalancerHasCors",
                    _ => "MakesRedis",
                };
                assert_eq!(value["!If"][0], expected, "{name}");
                continue;
            }
            if name == "OPERATE_REPAIRS" {
                assert!(value == "true" || value == "false", "{function}");
                continue;
            }
            if name == "EVENT_TARGET" {
                let targets = ["WebhooksUrl", "EventBusArn"].map(|output| format!("EventStack.Outputs.{output}"));
                assert!(targets.iter().any(|target| value == json!({"!GetAtt": target})), "{value}");
                continue;
            }
            let of_others = [
                ("REDIS_CLUSTER", json!({"!If": ["RedisIsOneNode", "false", "true"]})),
                ("ENTRANCE", json!({"!If": ["HasBalancer", "alb", "api"]})),
                ("USER_WITHDRAWALS", json!({"!If": ["UsersWithdraw", "true", "false"]})),
                ("USER_GRABS", json!(60)),
            ];
            if let Some((_, expected)) = of_others.into_iter().find(|(known, _)| *known == name) {
                assert_eq!(value, expected, "{function}: {name}");
                continue;
            }
            if name == "LOG_KEY" {
                assert_eq!(value["!Select"][1]["!Split"][1]["!Ref"], "AWS::StackId", "{function}");
                continue;
            }
            // Redis' address depends on its owner; the parameter is for an existing Redis.
            let given = if value["!If"][0] == "RedisExists" { &value["!If"][1] } else { &value };
            let Some(parameter) = given["!Ref"].as_str().and_then(|name| template["Parameters"].get(name)) else {
                let of_stacks = [
                    ("TABLE_NAME", "State.Outputs.Table"),
                    ("WEBHOOK_QUEUE", "EventStack.Outputs.WebhooksUrl"),
                    ("EVENT_DEAD_LETTERS", "EventStack.Outputs.DeadLettersUrl"),
                    ("WEBHOOK_DEAD_LETTERS", "EventStack.Outputs.WebhookDeadLettersUrl"),
                ];
                let expected = of_stacks
                    .into_iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, output)| json!({"!GetAtt": output}));
                assert_eq!(Some(value), expected, "{function}: {name}");
                continue;
            };
            let default = &parameter["Default"];
            let default = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
            if default.is_empty() {
                let expected = if name == "BASE_PATH" { "" } else { "required" };
                assert_eq!(documented[&name].0, expected, "{name}");
                continue;
            }
            let expected = match &*name {
                // On AWS users are strangers.
                "USER_RATE" => "20",
                _ => &documented[&name].0,
            };
            assert_eq!(default, expected, "{name}");
        }
    }
}

#[tokio::test]
async fn the_table_is_the_one_that_local_stacks_make() {
    let dynamodb = DynamoDb::start(None).await.unwrap();
    let client = dynamodb_at(&dynamodb.url());
    create_table(&client, "hongbao").await.unwrap();
    let table = client.describe_table().table_name("hongbao").send().await.unwrap().table.unwrap();
    let [index] = table.global_secondary_indexes() else { panic!("not one index") };
    let made = json!({
        "attributes": sorted(table.attribute_definitions().iter().map(attribute).collect()),
        "keys": table.key_schema().iter().map(key).collect::<Vec<_>>(),
        "index": index.index_name(),
        "index_keys": index.key_schema().iter().map(key).collect::<Vec<_>>(),
        "projection": index.projection().unwrap().projection_type().unwrap().as_str(),
        "billing": table.billing_mode_summary().unwrap().billing_mode().unwrap().as_str(),
        "other_indexes": table.local_secondary_indexes().len(),
    });

    let template = written("stacks/state.yaml");
    let properties = &template["Resources"]["Table"]["Properties"];
    let [index] = &properties["GlobalSecondaryIndexes"].as_array().unwrap()[..] else { panic!("not one index") };
    let planned = json!({
        "attributes": sorted(properties["AttributeDefinitions"].as_array().unwrap().clone()),
        "keys": properties["KeySchema"],
        "index": index["IndexName"],
        "index_keys": index["KeySchema"],
        "projection": index["Projection"]["ProjectionType"],
        "billing": properties["BillingMode"],
        "other_indexes": properties["LocalSecondaryIndexes"].as_array().map_or(0, Vec::len),
    });
    assert_eq!(made, planned);
    dynamodb.stop().await;
}

fn attribute(attribute: &AttributeDefinition) -> Value {
    json!({"AttributeName": attribute.attribute_name(), "AttributeType": attribute.attribute_type().as_str()})
}

fn key(key: &KeySchemaElement) -> Value {
    json!({"AttributeName": key.attribute_name(), "KeyType": key.key_type().as_str()})
}

fn sorted(mut items: Vec<Value>) -> Vec<Value> {
    items.sort_by_key(|item| text(&item["AttributeName"]));
    items
}

/// The sample events belong to existing routes, with the ids in their paths.
#[test]
fn the_sample_events_are_of_these_routes() {
    let (routes, _) = routes(&template());
    for function in ["send", "grab", "view", "wallet"] {
        let event: Value = serde_json::from_str(&read(&format!("events/{function}.json"))).unwrap();
        let http = &event["requestContext"]["http"];
        assert_eq!(http["path"], event["rawPath"], "{function}");
        assert_eq!(event["requestContext"]["routeKey"], event["routeKey"], "{function}");
        let (method, path) = (text(&http["method"]), text(&event["rawPath"]));
        let chosen = fitting(&routes, &method, &path).pop().unwrap();
        let key = format!("{} {}", chosen.method, chosen.path);
        assert_eq!((event["routeKey"].as_str(), function), (Some(&*key), &*chosen.function));
        let parameters = Value::Object(chosen.parameters(&path).unwrap());
        assert_eq!(event.get("pathParameters").unwrap_or(&json!({})), &parameters, "{function}");
        let length = event["body"].as_str().map(|body| body.len().to_string());
        assert_eq!(event["headers"]["content-length"].as_str(), length.as_deref(), "{function}");
        let caller = if function == "wallet" { "iam" } else { "jwt" };
        assert!(event["requestContext"]["authorizer"][caller].is_object(), "{function}");
    }
}
