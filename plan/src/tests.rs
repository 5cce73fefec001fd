//! Properties of the simulation: nobody is lost, more helps, and formulas hold where there are some.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::advice::rounded;
use crate::station::{Bucket, Core, Nanos, SECOND, Window};

fn rush(users: u32, within_ms: u64, slips: u32) -> Rush {
    Rush::new(users, Duration::from_millis(within_ms), slips, 1).unwrap()
}

fn times(inputs: &Inputs) -> Times {
    Times::of(inputs, &Costs::recorded().unwrap())
}

/// Nothing stands in the way.
fn open() -> Inputs {
    let mut inputs = Inputs::default();
    for set in [
        "GrabRate=1e9",
        "GrabBurst=1e9",
        "api-rate=1e9",
        "api-burst=1e9",
        "AccountConcurrency=1e6",
        "GrabProvisioned=100000",
        "RedisShards=64",
        "TableWarmWrites=1e9",
        "table-quota=1e9",
        "win-us=6",
        "lose-us=4",
        "reconcile-us=31",
        "TableWarmReads=1e9",
        "reads-quota=1e9",
    ] {
        inputs.set(set).unwrap();
    }
    inputs
}

fn with(inputs: &Inputs, sets: &[&str]) -> Inputs {
    let mut inputs = inputs.clone();
    for set in sets {
        inputs.set(set).unwrap();
    }
    inputs
}

fn run(inputs: &Inputs, rush: &Rush) -> Outcome {
    simulate(inputs, &times(inputs), rush)
}

#[test]
fn without_limits_everybody_is_served() {
    let outcome = run(&open(), &rush(20_000, 1_000, 5_000));
    assert_eq!((outcome.answers, outcome.refused), ([5_000, 15_000, 0, 0], [0; 7]));
    assert_eq!((outcome.committed, outcome.held, outcome.binds()), (5_000, 0, None));
    // A winner waits for the network, the function and the durable writes, and hardly for anyone else.
    let p50 = outcome.quantile_ms(Answer::Slip, 0.5).unwrap();
    assert!((85.0..90.0).contains(&p50), "{p50}");
}

#[test]
fn the_same_seed_gives_the_same_answer() {
    let [one, again] = [(); 2].map(|()| run(&Inputs::default(), &rush(50_000, 2_000, 1_000)));
    assert_eq!((one.answers, &one.micros, one.refused), (again.answers, &again.micros, again.refused));
    let other = run(&Inputs::default(), &Rush { seed: 2, ..rush(50_000, 2_000, 1_000) });
    assert_ne!(one.micros, other.micros);
}

#[test]
fn the_gateway_accepts_its_burst_and_then_its_rate() {
    // The formula of a token bucket, with one try each so that the crowd of each moment is larger than the rate.
    let inputs = with(&open(), &["GrabRate=1000", "GrabBurst=500", "tries=1"]);
    let outcome = run(&inputs, &rush(100_000, 10_000, 100_000));
    let formula = 500.0 + 10.0 * 1_000.0;
    assert!((outcome.accepted as f64 / formula - 1.0).abs() < 0.01, "{}", outcome.accepted);
    assert_eq!(outcome.binds(), Some(Limit::GrabRate));
}

#[test]
fn lambda_allows_ten_requests_a_second_for_each_execution() {
    let inputs =
        with(&open(), &["GrabProvisioned=0", "warm-executions=200", "AccountConcurrency=200", "tries=1", "redis-ms=0"]);
    // Calls of a loser take 3 ms: 200 executions could serve 66,000 a second.
    let outcome = run(&inputs, &rush(100_000, 10_000, 1));
    assert!((19_000..=22_000).contains(&outcome.invocations), "{}", outcome.invocations);
    assert_eq!(outcome.binds(), Some(Limit::Requests));
}

#[test]
fn the_ramp_adds_a_thousand_executions_in_ten_seconds() {
    // Each call takes longer than the rush, so each needs an execution of its own.
    let inputs = with(&open(), &["GrabProvisioned=0", "warm-executions=0", "tries=1"]);
    let slow = Times { loser: 20 * SECOND, ..times(&inputs) };
    let outcome = simulate(&inputs, &slow, &rush(20_000, 10_000, 1));
    assert!((1_990..=2_010).contains(&outcome.cold_starts), "{}", outcome.cold_starts);
    assert_eq!(outcome.binds(), Some(Limit::Ramp));
}

#[test]
fn the_table_commits_its_rate() {
    let inputs = with(&open(), &["TableWarmWrites=6000", "table-quota=6000", "tries=1"]);
    let outcome = run(&inputs, &rush(20_000, 5_000, 20_000));
    // 6 units a claim, so 1,000 a second and as many in the bucket, until the last one gives up after three seconds.
    assert!((8_500..=9_100).contains(&outcome.committed), "{}", outcome.committed);
    assert_eq!(outcome.committed + outcome.held, 20_000);
    assert_eq!(outcome.binds(), Some(Limit::Table));
}

#[test]
fn one_shard_is_a_queue_with_random_arrivals_and_constant_service() {
    // Nearly everybody loses with one call of 20 µs each: an M/D/1 queue. Its mean wait is ρ / (2 (1 − ρ)) service times.
    let sets = [
        "RedisShards=1",
        "lose-us=20",
        "GrabAck=redis",
        "RedisDurability=disabled",
        "network-ms=0",
        "redis-ms=0",
        "GrabProvisioned=1000000",
    ];
    let outcome = run(&with(&open(), &sets), &rush(400_000, 10_000, 1));
    let micros = &outcome.micros[Answer::SoldOut as usize];
    let mean = micros.iter().map(|micros| f64::from(*micros)).sum::<f64>() / micros.len() as f64;
    let (rho, service) = (0.8, 20.0);
    let formula = 3_000.0 + service + rho / (2.0 * (1.0 - rho)) * service;
    assert!((mean - formula).abs() < 0.1 * (formula - 3_000.0), "{mean} µs, the formula says {formula}");
}

#[test]
fn losers_in_doubt_ask_once_more_and_then_read_their_claim() {
    // All come at once for ten slips, whose transactions take longer than both rounds.
    let inputs = open();
    let slow = Times { winner: SECOND, ..times(&inputs) };
    let outcome = simulate(&inputs, &slow, &rush(1_000, 0, 10));
    assert_eq!((outcome.answers, outcome.claim_reads), ([10, 990, 0, 0], 990));
    assert_eq!(outcome.redis_calls, 10 * 2 + 990 * 2);
    let last = outcome.quantile_ms(Answer::SoldOut, 1.0).unwrap();
    assert!((100.0..300.0).contains(&last), "{last} ms");
}

#[test]
fn a_process_asks_each_part_of_a_decided_packet_once() {
    // 2,000 slips in two parts are gone within a tenth of a second.
    let inputs =
        with(&open(), &["GrabProvisioned=50", "AccountConcurrency=50", "requests-per-execution=1e6", "tries=100"]);
    let outcome = run(&inputs, &rush(20_000, 20_000, 2_000));
    assert_eq!(outcome.answers, [2_000, 18_000, 0, 0]);
    assert!(outcome.redis_calls < 2 * 2_000 + 5_000 && outcome.claim_reads > 15_000, "{outcome:?}");
}

#[test]
fn more_shards_answer_no_later() {
    // Over two seconds of work for one core come within one.
    let rush = rush(40_000, 1_000, 64_000);
    let p99s = [1, 2, 4, 8, 16].map(|shards| {
        let outcome = run(
            &with(
                &open(),
                &[
                    &format!("RedisShards={shards}"),
                    "RedisResponseTimeoutMs=1e6",
                    "win-us=56",
                    "lose-us=54",
                    "reconcile-us=81",
                ],
            ),
            &rush,
        );
        outcome.quantile_ms(Answer::Slip, 0.99).unwrap()
    });
    assert!(p99s.is_sorted_by(|fewer, more| more <= fewer), "{p99s:?}");
    assert!(p99s[0] > 5.0 * p99s[4], "{p99s:?}");
}

#[test]
fn a_plan_names_the_limit_and_what_lifts_it() {
    let plan = Plan::make(&rush(100_000, 10_000, 1_000), Rounds::ONE, &Inputs::default()).unwrap();
    assert_eq!(plan.deployed[0].binds, Some(Limit::GrabRate));
    let raised = &plan.raised.unwrap()[0];
    assert_eq!((raised.outcome.answers, raised.binds), ([1_000, 99_000, 0, 0], None));
    for (raise, how) in [("GrabRate=11000", "in samconfig.toml"), ("AccountConcurrency=1100", "AWS raises the quota")] {
        assert!(plan.changes.iter().any(|change| (&*change.raise, change.how) == (raise, how)), "{:?}", plan.changes);
    }
    assert_eq!((&plan.costs[4]["dollars"], plan.costs.len()), (&"together".into(), 5));
    // Nothing has to be raised for a rush that is served.
    let small = Plan::make(&rush(1_000, 10_000, 100), Rounds::ONE, &Inputs::default()).unwrap();
    assert!(small.raised.is_none() && small.changes.is_empty() && small.all_served);
}

#[test]
fn the_plan_for_a_million_users_serves_them_all() {
    let plan = Plan::make(&rush(1_000_000, 10_000, 100_000), Rounds::ONE, &Inputs::default()).unwrap();
    let raised = &plan.raised.unwrap()[0];
    assert!(raised.outcome.all_served(), "{:?}", raised.outcome.answers);
}

fn evening(rush: &Rush, rounds: u32, minutes: u64, inputs: &Inputs) -> Plan {
    let rounds = Rounds::new(rounds, Duration::from_secs(60 * minutes), rush).unwrap();
    Plan::make(rush, rounds, inputs).unwrap()
}

fn warm(courses: &[Course]) -> Vec<f64> {
    courses.iter().map(|course| course.warm).collect()
}

#[test]
fn a_round_on_cold_environments_is_a_rush_of_its_own() {
    let (rush, inputs) = (rush(20_000, 3_000, 1_000), Inputs::default());
    let cold = evening(&rush, 3, 5, &inputs);
    for (n, round) in cold.deployed.iter().enumerate() {
        let alone = run(&inputs, &Rush { seed: rush.seed + n as u64, ..rush });
        assert_eq!((round.outcome.answers, round.warm, round.binds), (alone.answers, 0.0, Some(Limit::GrabRate)));
    }
    // What is advised for the worst of them serves all.
    let raised = cold.raised.unwrap();
    assert!(!cold.all_served && cold.changes.iter().any(|change| change.raise == "GrabRate=12000"));
    assert!(raised.iter().all(|round| round.outcome.answers == [1_000, 19_000, 0, 0]));
}

#[test]
fn executions_are_warm_for_rounds_that_begin_soon_enough() {
    let (rush, inputs) = (rush(1_000, 1_000, 100), with(&open(), &["GrabProvisioned=0", "idle-minutes=10"]));
    let soon = evening(&rush, 5, 4, &inputs);
    let cold: Vec<f64> = soon.deployed.iter().map(|round| round.outcome.cold_starts as f64).collect();
    assert!(soon.all_served && soon.raised.is_none() && soon.changes.is_empty());
    // All that started in the first round are warm in the two that begin within ten minutes, and more only if one of those needs more.
    let kept = warm(&soon.deployed);
    assert_eq!(kept[..3], [0.0, cold[0], cold[0] + cold[1]], "{cold:?}");
    assert!(cold[0] > 50.0 && kept[3] < kept[2], "{kept:?} {cold:?}");
    assert_eq!(warm(&evening(&rush, 3, 10, &inputs).deployed), [0.0; 3]);
    // What runs from the minutes before the evening is kept no longer.
    let before = with(&inputs, &["warm-executions=2000", "AccountConcurrency=1500"]);
    let kept = warm(&evening(&rush, 4, 4, &before).deployed);
    assert!(kept[..3] == [1_500.0; 3] && kept[3] < 100.0, "{kept:?}");
}

#[test]
fn an_evening_costs_its_requests_and_once_what_runs_through_it() {
    let (rush, inputs) = (rush(50_000, 5_000, 500), with(&Inputs::default(), &["GrabProvisioned=1000", "tries=1"]));
    let dollars = |plan: &Plan| plan.costs.iter().map(|cost| cost["deployed"].as_f64().unwrap()).collect::<Vec<_>>();
    let (four, one) = (evening(&rush, 4, 10, &inputs), Plan::make(&rush, Rounds::ONE, &inputs).unwrap());
    let (cost, alone) = (dollars(&four), dollars(&one));
    assert!((cost[0] - 4.0 * alone[0]).abs() < 0.03 && alone[0] > 0.01, "{cost:?} {alone:?}");
    assert_eq!((cost[1], four.hours), (alone[1], 1.0));
    assert!((cost[4] - cost[..4].iter().sum::<f64>()).abs() < 0.02, "{cost:?}");
    // Seventy minutes are paid as two hours.
    let seven = evening(&rush, 7, 10, &inputs);
    assert_eq!((dollars(&seven)[1], seven.hours), (2.0 * alone[1], 2.0));
}

#[test]
fn an_evening_has_some_rounds_and_time_between_them() {
    for (rounds, seconds, is_good) in [(1, 10, true), (100, 10, true), (0, 10, false), (101, 10, false), (2, 9, false)]
    {
        let made = Rounds::new(rounds, Duration::from_secs(seconds), &rush(10, 10_000, 1));
        assert_eq!(made.is_ok(), is_good, "{rounds} rounds, {seconds} s");
    }
    Rounds::new(2, Duration::ZERO, &rush(10, 0, 1)).unwrap_err();
}

#[test]
fn the_defaults_are_those_of_the_template() {
    let template = include_str!("../../template.yaml");
    for input in Inputs::default().list().iter().filter(|input| input.source == TEMPLATE) {
        let declared = template.lines().find(|line| line.starts_with(&format!("  {}: {{", input.name))).unwrap();
        let default = declared.split_once("Default: ").unwrap().1.trim_end_matches('}').trim_matches('\'');
        let mut inputs = Inputs::default();
        inputs.set(&format!("{}={default}", input.name)).unwrap();
        assert_eq!(inputs, Inputs::default(), "{}", input.name);
    }
}

#[test]
fn costs_are_those_of_the_script() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/cost.py");
    // A plan is for rushes, and so for nodes.
    let output = std::process::Command::new("python3").args([script, "--json", "--serverless", "0"]).output().unwrap();
    let cents: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let dollars = Costs::recorded().unwrap().a_million(&Inputs::default());
    for (kind, dollars) in ["wins", "losses", "sends"].into_iter().zip(dollars) {
        let stated = cents["cents_a_million"][kind].as_f64().unwrap();
        assert!((stated - dollars * 100.0).abs() <= 1.0, "{kind}: {dollars} dollars, the script says {stated} cents");
    }
}

#[test]
fn the_sizing_table_of_the_document_is_the_one_that_is_printed() {
    let table = sizing_table(&Inputs::default(), &Costs::recorded().unwrap());
    assert!(include_str!("../../docs/PERFORMANCE.md").contains(&table), "docs/PERFORMANCE.md lacks\n{table}");
}

#[test]
fn inputs_are_set_by_name() {
    let mut inputs = Inputs::default();
    inputs.set("GrabAck=redis").unwrap();
    inputs.set("TableWarmWrites=120_000").unwrap();
    assert_eq!((inputs.grab_ack_ledger, inputs.table_warm), (0.0, 120_000.0));
    for bad in
        ["GrabRate", "grab-rate=1", "GrabRate=fast", "GrabRate=-1", "RedisShards=0", "GrabRate=inf", "GrabRate=NaN"]
    {
        inputs.set(bad).unwrap_err();
    }
}

#[test]
fn with_redis_acknowledging_settle_has_the_rest() {
    let outcome = run(&with(&open(), &["GrabAck=redis"]), &rush(5_000, 500, 1_000));
    assert_eq!((outcome.answers, outcome.committed, outcome.held), ([1_000, 4_000, 0, 0], 0, 1_000));
}

/// Inputs with limits of all sizes.
fn any_inputs() -> impl Strategy<Value = Inputs> {
    let small = |most: u32| 1..most;
    (small(20_000), small(5_000), small(2_000), small(4), small(50_000), small(6), small(3_000), 0..2_u32).prop_map(
        |(rate, burst, concurrency, shards, units, tries, provisioned, ack)| {
            let sets = [
                format!("GrabRate={rate}"),
                format!("GrabBurst={burst}"),
                format!("AccountConcurrency={concurrency}"),
                format!("RedisShards={shards}"),
                format!("table-new={units}"),
                format!("tries={tries}"),
                format!("GrabProvisioned={provisioned}"),
                format!("GrabAck={ack}"),
                "RedisResponseTimeoutMs=20".to_owned(),
            ];
            with(&Inputs::default(), &sets.each_ref().map(String::as_str))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn everybody_has_one_last_answer_and_no_slip_has_two_owners(
        inputs in any_inputs(), users in 1..30_000_u32, within_ms in 0..3_000_u64, slips in 1..20_000_u32,
    ) {
        let outcome = run(&inputs, &rush(users, within_ms, slips));
        prop_assert_eq!(outcome.users(), u64::from(users));
        prop_assert_eq!(outcome.micros.iter().map(Vec::len).sum::<usize>(), users as usize);
        let owned = outcome.committed + outcome.held;
        prop_assert!(owned <= u64::from(slips.min(users)), "{owned} of {slips}");
        // A winner who was answered has a slip; so may one who gave up. Nobody loses while a slip is free.
        prop_assert!(outcome.answers[0] <= owned);
        prop_assert!(outcome.answers[1] == 0 || owned == u64::from(slips));
        let refused: u64 = outcome.refused.iter().sum();
        prop_assert_eq!(outcome.tries, outcome.answers[0] + outcome.answers[1] + refused);
        prop_assert!(outcome.tries <= u64::from(users) * inputs.tries as u64);
    }

    /// Raising the limit that binds: one try each, since the tries of clients are drawn anew.
    #[test]
    fn raising_the_limit_that_binds_serves_no_fewer(
        users in 5_000..30_000_u32, within_ms in 0..2_000_u64, slips in 1..3_000_u32, which in 0..3_usize,
    ) {
        let (name, small) = [("GrabRate", 1_000), ("AccountConcurrency", 50), ("TableWarmWrites", 3_000)][which];
        let base = with(&open(), &["tries=1", "table-new=1", "GrabBurst=500", "RedisResponseTimeoutMs=1e6", "GrabProvisioned=0", "warm-executions=1000000"]);
        let served = |value: u32| {
            let outcome = run(&with(&base, &[&format!("{name}={value}")]), &rush(users, within_ms, slips));
            outcome.served()
        };
        let (before, after) = (served(small), served(4 * small));
        prop_assert!(after >= before, "{name}: {before:?}, then {after:?}");
    }
}

#[test]
fn a_bucket_lets_its_burst_pass_and_then_its_rate() {
    // A crowd at once, and for four seconds more than the rate: burst + rate × time pass, as the formula says.
    let mut bucket = Bucket::new(1_000.0, 500.0);
    let passed = (0..40_000).filter(|n| bucket.take(n * SECOND / 10_000, 1.0)).count();
    assert!(passed.abs_diff(500 + 4 * 1_000) <= 1, "{passed}");
    // After a pause it has its burst again, and no more.
    assert!(bucket.has(60 * SECOND, 500.0) && !bucket.has(60 * SECOND, 501.0));
}

#[test]
fn a_window_allows_so_many_in_each_second() {
    let mut window = Window::default();
    let passed = (0..4_000).filter(|n| window.take(n * SECOND / 2_000, 300.0)).count();
    assert_eq!(passed, 600);
}

#[test]
fn a_core_serves_in_order_and_counts_its_work() {
    let mut core = Core::default();
    let done: Vec<Nanos> = [0, 0, 5, 100].map(|at| core.serve(at, 10)).into();
    assert_eq!(done, [10, 20, 30, 110]);
    assert!((core.busiest() * SECOND as f64 - 40.0).abs() < 1e-6);
}

#[test]
fn values_are_rounded_up_to_two_digits() {
    assert_eq!(
        [0.4, 7.2, 99.0, 101.0, 110_000.0, 123_456.0].map(|value| rounded(value) as u32),
        [1, 8, 99, 110, 110_000, 130_000]
    );
}
