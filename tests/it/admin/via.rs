//! The same commands by the functions `operate`, over Lambda's API.

use tests::console::Console;
use tests::emulator::Function;
use tests::lambda_api::{Deployment, LambdaApi, arn};
use tests::serving::said;

use super::*;

const STACK: &str = "hongbao-test";
/// The access keys of somebody who may do everything, and of somebody who may only read.
const OPERATOR: &str = "OPERATOR";
const READER: &str = "READER";

/// A function of a world's stack: one that reads, or one that repairs.
async fn function(world: &World, repairs: bool, variables: &[(&str, &str)]) -> Function {
    let (redis, dynamodb) = (world.redis.nodes()[0].url(), world.dynamodb_url());
    let mut all = vec![
        ("TABLE_NAME", world.table()),
        ("REDIS_URL", &redis),
        ("REDIS_RESPONSE_TIMEOUT_MS", "5000"),
        ("AWS_ENDPOINT_URL_DYNAMODB", &dynamodb),
        ("AWS_REGION", "local"),
        ("AWS_ACCESS_KEY_ID", "local"),
        ("AWS_SECRET_ACCESS_KEY", "local"),
        ("OPERATE_REPAIRS", if repairs { "true" } else { "false" }),
    ];
    all.extend(variables);
    Function::start(built("operate"), &all).await
}

fn name(right: &str) -> String {
    format!("{STACK}-operate-{right}")
}

async fn stack(world: &World) -> LambdaApi {
    let (read, repair) = futures::join!(function(world, false, &[]), function(world, true, &[]));
    let deployed = [("read", read), ("repair", repair)];
    let deployed = deployed.map(|(right, function)| Deployment { name: name(right), answers: vec![function] });
    LambdaApi::start(deployed.into(), vec![(READER, name("repair"))]).await
}

/// Runs the program from a laptop, which reaches no store.
async fn via(api: &LambdaApi, key: &str, arguments: &[&str]) -> Said {
    let url = api.url();
    let variables = [
        ("AWS_ENDPOINT_URL_LAMBDA", &*url),
        ("AWS_ENDPOINT_URL_STS", &url),
        ("AWS_REGION", "local"),
        ("AWS_ACCESS_KEY_ID", key),
        ("AWS_SECRET_ACCESS_KEY", "local"),
    ];
    let mut command = Command::new(built("hongbao-admin"));
    run(command.args(["--via", STACK]).args(arguments).env_clear().envs(variables)).await
}

#[tokio::test]
async fn each_command_says_the_same_as_beside_the_stores() {
    let world = World::single().await;
    let process = world.process_with(Setup { ack: AckMode::Redis, ..Setup::default() });
    let terms = process.send_funded(packet(&user("sam"), 1_000, 5)).await;
    let part = only_part(&terms);
    process.grab(terms.id, &user("ann")).await.unwrap();
    process.settle().await;
    park(&process, part, "bob").await;
    let api = stack(&world).await;
    let id = terms.id.to_string();
    let other = "38FS4S83HF3Y07WMYNH727QYT0";
    for arguments in [
        &["audit"][..],
        &["audit", "--since", "1h", "--json"],
        &["packet", &id],
        &["packet", &id, "--json"],
        &["parked"],
        &["rebuild", &id],
    ] {
        let (near, far) = (admin(&world, arguments).await.with(0), via(&api, OPERATOR, arguments).await.with(0));
        assert_eq!(near.text, far.text, "{arguments:?}");
    }
    let waiting = via(&api, OPERATOR, &["backlog"]).await.with(0);
    assert!(waiting.line("holds ").ends_with(" 1"), "{waiting:?}");
    add_to_balance(&world, "ann").await;
    let (near, far) = (admin(&world, &["audit"]).await.with(1), via(&api, OPERATOR, &["audit"]).await.with(1));
    assert_eq!(near.text, far.text);
    let far = via(&api, OPERATOR, &["packet", other]).await.with(2);
    assert!(far.errors.ends_with(&format!(": there is no packet {other}\n")), "{far:?}");

    // The claim that a replay commits names who replayed it, and so does the log.
    let replayed = via(&api, OPERATOR, &["replay", "--all"]).await.with(0);
    assert!(replayed.line(&id).contains(" committed: "), "{replayed:?}");
    let item = world.dynamodb.get_item().table_name(world.table()).key("PK", AttributeValue::S("USER#bob".to_owned()));
    let item = item.key("SK", AttributeValue::S(format!("CLAIM#{id}"))).send().await.unwrap().item.unwrap();
    assert_eq!(item["by"], AttributeValue::S(arn(OPERATOR)));
    let log = api.function(&name("repair")).log();
    let line = log.lines().find(|line| line.contains("a repair was run") && line.contains("replay")).unwrap();
    assert!(line.contains(&arn(OPERATOR)) && line.contains("exit=0"), "{line}");
    let read = api.function(&name("read")).log();
    assert!(read.contains("a command was run") && !read.contains("a repair"), "{read}");
}

/// An invocation that names its caller.
const FORGED: &str = r#"{"arguments": ["parked"], "by": "arn:aws:iam::123456789012:user/somebody"}"#;

#[tokio::test]
async fn reading_and_repairing_are_two_rights() {
    let world = World::single().await;
    let terms = world.process().send_funded(packet(&user("sam"), 1_000, 5)).await;
    let id = terms.id.to_string();
    let api = stack(&world).await;
    via(&api, READER, &["packet", &id]).await.with(0);
    let denied = via(&api, READER, &["rebuild", &id]).await.with(2);
    assert!(denied.errors.contains("AccessDenied"), "{denied:?}");
    assert_eq!(api.called(), [name("read")]);

    // Each function enforces its own right for any caller, and no caller leads it to other stores.
    for (right, event, error) in [
        ("read", json!({"arguments": ["rebuild", id]}), "this function does not repair: rebuild"),
        ("read", json!({"arguments": ["replay", "--all"]}), "this function does not repair: replay"),
        ("repair", json!({"arguments": ["audit"]}), "this function does not read: audit"),
        ("repair", json!({"arguments": ["rebuild", id]}), "a repair must be signed: call the function's URL"),
        ("read", json!({"arguments": ["verify", "/proc/self/environ"]}), "it needs no function: verify"),
        ("read", json!({"arguments": ["--table", "other", "parked"]}), "error: unexpected argument '--table'"),
        ("read", json!({"arguments": ["--redis-url", "redis://x", "parked"]}), "error: unexpected argument"),
        ("read", json!({"arguments": []}), "Usage"),
        (
            "read",
            json!({"arguments": ["parked"], "resume": {"since_ms": null, "places": [], "report": {
                "packets": 0, "slips": 0, "wallets": 0, "movements": 0, "deposited": 0, "withdrawn": 0, "in_wallets": 0,
                "in_pending": 0, "in_slips": 0, "imbalance_count": 0, "imbalances": [], "unjudged_count": 0, "unjudged": []
            }}}),
            "only an audit can continue",
        ),
    ] {
        let answer = api.function(&name(right)).invoke(event.to_string().as_bytes()).await;
        assert_eq!((&answer["exit"], answer.get("output")), (&json!(2), None), "{event}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains(error), "{event}: {answer}");
    }
    for event in ["{}", "[]", "7", r#"{"arguments": ["parked"], "table": "x"}"#, r#"{"arguments": "parked"}"#, FORGED] {
        let answer = api.function(&name("read")).invoke(event.as_bytes()).await;
        assert!(answer["error"].as_str().unwrap().contains("no request"), "{event}: {answer}");
    }
}

#[tokio::test]
async fn what_does_not_run_ends_with_a_clear_word() {
    let world = World::single().await;
    let api = LambdaApi::start(Vec::new(), Vec::new()).await;
    let missing = via(&api, OPERATOR, &["parked"]).await.with(2);
    assert!(missing.errors.contains("Function not found: hongbao-test-operate-read"), "{missing:?}");
    let offline = via(&api, OPERATOR, &["verify", "packet.json"]).await.with(2);
    assert!(offline.errors.contains("leave out --via"), "{offline:?}");

    // Without its Redis the function still answers.
    let answers = vec![function(&world, false, &[("REDIS_URL", "redis://127.0.0.1:1")]).await];
    let api = LambdaApi::start(vec![Deployment { name: name("read"), answers }], Vec::new()).await;
    let failed = via(&api, OPERATOR, &["parked"]).await.with(2);
    assert!(failed.errors.contains("the hot store at 127.0.0.1:1 is unavailable"), "{failed:?}");
}

#[tokio::test]
async fn an_audit_outlives_a_function() {
    let world = World::single().await;
    let process = world.process();
    process.send_funded(packet(&user("sam"), 1_000, 4)).await;
    // A function whose time is over at once, and then one with time.
    let hasty = function(&world, false, &[("AWS_LAMBDA_FUNCTION_TIMEOUT", "5")]).await;
    let answers = vec![hasty, function(&world, false, &[]).await];
    let api = LambdaApi::start(vec![Deployment { name: name("read"), answers }], Vec::new()).await;
    let said = via(&api, OPERATOR, &["audit"]).await.with(0);
    assert_eq!(said.line("slips"), "slips 4");
    assert_eq!((said.errors.as_str(), api.called().len()), ("the audit continues\n", 2));
}

#[tokio::test]
async fn a_long_output_arrives_whole() {
    let world = World::single().await;
    let terms = world.process().send_funded(packet(&user("sam"), 1_000_000, 20_000)).await;
    let api = stack(&world).await;
    let id = terms.id.to_string();
    let (near, far) =
        (admin(&world, &["packet", &id, "--json"]).await, via(&api, READER, &["packet", &id, "--json"]).await);
    assert!(near.text.len() > 2_000_000, "{} bytes are not long", near.text.len());
    assert!(near.text == far.text && far.code == Some(0));
}

#[tokio::test]
async fn a_page_has_the_rights_of_its_operator() {
    let world = World::single().await;
    let terms = world.process().send_funded(packet(&user("sam"), 1_000, 5)).await;
    let id = terms.id.to_string();
    let api = stack(&world).await;
    let console = async |key: &'static str| {
        let variables = [
            ("AWS_ENDPOINT_URL_LAMBDA", api.url()),
            ("AWS_REGION", "local".to_owned()),
            ("AWS_ACCESS_KEY_ID", key.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "local".to_owned()),
        ];
        Console::start(&built("hongbao-admin"), "http://127.0.0.1:1", variables, &["--via", STACK]).await
    };
    let (reader, operator) = (console(READER).await, console(OPERATOR).await);
    let rebuild = json!({"command": ["rebuild", id, "--json"], "reason": "a test: --all"});
    let shown = reader.tool(&json!({"command": ["packet", id, "--json"]})).send().await.unwrap();
    assert_eq!(said(shown, 200).await["output"]["packet_id"], id);
    let denied = said(reader.tool(&rebuild).send().await.unwrap(), 403).await;
    assert!(denied["detail"].as_str().unwrap().contains("AccessDenied"), "{denied}");
    let mended = said(operator.tool(&rebuild).send().await.unwrap(), 200).await;
    assert_eq!((&mended["exit"], &mended["output"][0]["part"]), (&json!(0), &json!(0)), "{mended}");
    assert_eq!(api.called(), [name("read"), name("repair")]);
}
