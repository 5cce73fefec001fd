//! `hongbao-admin plan`, which needs no stores.

use super::*;

async fn plan(arguments: &str) -> Said {
    run(Command::new(built("hongbao-admin")).arg("plan").args(arguments.split_whitespace()).env_clear()).await
}

#[tokio::test]
async fn a_rush_is_planned_without_any_store() {
    let said = plan("--users 100000 --within 10s --slips 1000").await.with(1);
    assert_eq!(said.line("GrabRate="), "GrabRate=11000 5000 in samconfig.toml");
    assert_eq!(said.line("binds"), "binds grab_rate");
    let served = plan("--users 1000 --within 10s --slips 100").await.with(0).text;
    assert!(served.contains("Nothing has to be raised"), "{served}");
}

#[tokio::test]
async fn a_plan_for_programs_counts_every_user_once() {
    let told = plan("--users 50000 --within 5s --slips 500 --set GrabRate=1000 --json").await.with(1).json();
    let answers = told["deployed"][0]["answers"].as_array().unwrap();
    assert_eq!(answers.iter().map(|row| row["users"].as_u64().unwrap()).sum::<u64>(), 50_000);
    assert_eq!((&told["deployed"][0]["binds"], &told["inputs"]["GrabRate"]), (&json!("grab_rate"), &json!(1000.0)));
    assert_eq!(told["raised"][0]["answers"][0]["users"], 500);
}

#[tokio::test]
async fn an_evening_is_planned_round_by_round() {
    let served = plan("--users 1000 --within 10s --slips 100 --rounds 3 --every 4m").await.with(0).text;
    let rounds = served.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    assert_eq!(rounds.count(), 3, "{served}");
    assert!(served.contains("Nothing has to be raised") && served.contains("together"), "{served}");

    let json = plan("--users 20000 --within 3s --slips 1000 --rounds 2 --every 10m --json").await.with(1).json();
    for round in [0, 1] {
        assert_eq!(json["raised"][round]["answers"][0]["users"], 1_000, "{json}");
    }
    assert_eq!((&json["every_ms"], &json["idle_minutes"]), (&json!(600_000), &json!(5.0)));

    let early = plan("--users 1 --within 10s --slips 1 --rounds 2 --every 9s").await.with(2).errors;
    assert!(early.contains("no shorter than --within"), "{early}");
}

#[tokio::test]
async fn inputs_and_their_mistakes_are_named() {
    let inputs = plan("--inputs --set GrabRate=7").await.with(0).text;
    assert!(inputs.contains("docs.aws.amazon.com/lambda/latest/dg/scaling-behavior.html"), "{inputs}");
    assert!(inputs.lines().any(|line| line.split_whitespace().take(2).eq(["GrabRate", "7"])), "{inputs}");
    let wrong = plan("--users 1 --within 1s --slips 1 --set rate=7").await.with(2).errors;
    assert!(wrong.contains("there is no input rate"), "{wrong}");
}
