//! `hongbao-admin plan`, which needs no stores.

use super::*;

async fn plan(arguments: &str) -> Said {
    run(Command::new(built("hongbao-admin")).arg("plan").args(arguments.split_whitespace()).env_clear()).await
}

#[tokio::test]
async fn a_rush_is_planned_without_any_store() {
    let text = plan("--users 100000 --within 10s --slips 1000").await.with(1).text;
    for part in
        ["WHAT SERVES THIS RUSH", "\"GrabRate=11000\",", "the grab route", "  binds", "429, gave up", "together"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let served = plan("--users 1000 --within 10s --slips 100").await.with(0).text;
    assert!(served.contains("nothing has to be raised"), "{served}");
}

#[tokio::test]
async fn a_plan_for_programs_counts_every_user_once() {
    let told = plan("--users 50000 --within 5s --slips 500 --set GrabRate=1000 --json").await.with(1).json();
    let answers = told["deployed"]["outcome"]["answers"].as_object().unwrap();
    assert_eq!(answers.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), 50_000);
    assert_eq!(told["deployed"]["outcome"]["binds"], "grab_rate");
    assert_eq!(told["deployed"]["inputs"]["GrabRate"], 1000.0);
    assert_eq!(told["raised"]["outcome"]["answers"]["slip"], 500);
}

#[tokio::test]
async fn inputs_and_their_mistakes_are_named() {
    let inputs = plan("--inputs --set GrabRate=7").await.with(0).text;
    assert!(inputs.contains("docs.aws.amazon.com/lambda/latest/dg/scaling-behavior.html"), "{inputs}");
    assert!(inputs.lines().any(|line| line.split_whitespace().eq(["GrabRate", "7"])), "{inputs}");
    let wrong = plan("--users 1 --within 1s --slips 1 --set rate=7").await.with(2).errors;
    assert!(wrong.contains("there is no input rate"), "{wrong}");
}
