//! A function that serves several requests at once, as on Lambda Managed Instances.

use std::collections::BTreeSet;

use futures::future::join_all;
use tests::hot;

use super::logs::json_lines;
use super::*;

const USERS: u32 = 64;
const SLIPS: usize = 20;

/// Number of script calls that Redis executed.
async fn script_calls(redis: &TestServer) -> u64 {
    hot::script_calls(&redis.command::<String>(redis::cmd("INFO").arg("commandstats")).await)
}

#[tokio::test]
async fn concurrent_grabs_in_one_process_are_each_answered_and_share_calls() {
    let stores = Stores::start().await;
    let [wallet, send] = [stores.function("wallet", &[]).await, stores.function("send", &[]).await];
    wallet.answer(&sample("wallet", "")).await.expect(201);
    let mut event = sample("send", "");
    event["body"] = json!({"split": "random", "total_amount": 1_000, "count": SLIPS}).to_string().into();
    let packet = send.answer(&event).await.expect(201);
    let packet = packet["packet_id"].as_str().unwrap();

    let before = script_calls(&stores.redis).await;
    let grab = stores.managed("grab", USERS).await;
    let events: Vec<Value> = (0..USERS).map(|user| grab_of(packet, &format!("user-{user}"))).collect();
    let answers = join_all(events.iter().map(|event| grab.invoke(event))).await;
    let calls = script_calls(&stores.redis).await - before;

    let (mut slips, mut paid) = (BTreeSet::new(), 0);
    for (event, answer) in events.iter().zip(&answers) {
        let answer = http_answer(event, answer);
        SPEC.check(&answer);
        let answer = answer.expect(200);
        if answer["outcome"] == "grabbed" {
            assert!(slips.insert(answer["slip"].as_u64().unwrap()), "a slip has two owners: {answer}");
            paid += answer["amount"].as_u64().unwrap();
        } else {
            assert_eq!(answer["outcome"], "sold_out");
        }
    }
    assert_eq!((slips.len(), paid), (SLIPS, 1_000));
    // One after another, each user would make two calls: a winner to hold the slip and to reconcile it, a loser in doubt to ask again.
    assert!(calls < (2 * USERS).into(), "{calls} calls");

    // The metrics are written at intervals, not with each grab.
    let lines = poll("the metrics", async || {
        let lines = json_lines(&grab.log());
        let lines: Vec<Value> = lines.into_iter().filter(|line| line.get("Grabs").is_some()).collect();
        let grabs: u64 = lines.iter().map(|line| line["Grabs"].as_u64().unwrap()).sum();
        (grabs == u64::from(USERS)).then_some(lines)
    })
    .await;
    assert!(lines.len() < answers.len(), "{lines:?}");
}
