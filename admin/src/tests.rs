//! Tests of the commands' parts that need no stores.

mod options {
    use clap::{CommandFactory, Parser};

    use crate::options::Options;

    fn parse(arguments: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(std::iter::once("hongbao-admin").chain(arguments.split_whitespace()))
    }

    #[test]
    fn the_definition_is_valid() {
        Options::command().debug_assert();
    }

    #[test]
    fn contradictions_and_missing_arguments_are_refused() {
        for good in [
            "audit --since 24h --json",
            "replay --all",
            "verify -",
            "journal --day 2026-11-23 --export export --output out --previous before --unfinished",
            "reconcile journal-2026-11-23 transfers.csv --kinds claim,refund --output differences.jsonl",
            "plan --users 1000000 --within 10s --slips 100000 --set GrabRate=20000 --set tries=1 --seed 2 --json",
            "plan --inputs --set GrabRate=1",
            "plan --users 1000 --within 10s --slips 100 --rounds 5 --every 10m",
            "webhooks",
            "person export ann --output out --json",
            "person erase ann --reason asked",
            "ledger-check --json --dynamodb-url http://127.0.0.1:8000 --table other",
            "webhooks replay --queue https://sqs.example/events --dead-letters https://sqs.example/dead --json",
            "webhooks deliver --from 2026-11-20T13:30:00Z --to 2026-11-21T00:00:00+08:00",
            "packet 38FS4S83HF3Y07WMYNH727QYT0 --json --via hongbao-prod",
            "replay 38FS4S83HF3Y07WMYNH727QYT0 1 2",
        ] {
            parse(good).unwrap_or_else(|error| panic!("{good}: {error}"));
        }
        for bad in [
            "",
            "audit --since -1h",
            "replay",
            "replay --all 38FS4S83HF3Y07WMYNH727QYT0",
            "webhooks deliver",
            "person erase",
            "person export a#b",
            "ledger-check other",
            "webhooks deliver --from 2026-11-20T13:30:00Z",
            "webhooks deliver --from yesterday --to 2026-11-20T13:30:00Z",
            "webhooks deliver evt_1 --from 2026-11-20T13:30:00Z --to 2026-11-20T13:30:00Z",
            "plan",
            "plan --users 1 --within -1s --slips 1",
            "plan --sizing --inputs",
            "plan --users 1000 --within 10s --slips 100 --rounds 5",
            "plan --users 1000 --within 10s --slips 100 --every 10m",
            "packet x",
            "verify",
            "journal",
            "journal --day 2026-02-30",
            "journal --day 2026-11-23 --day-zone CST",
            "reconcile journal-2026-11-23",
            "reconcile journal-2026-11-23 transfers.csv --kinds gift",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}

mod verify {
    use serde_json::{Value, json};

    use crate::verify::verify;

    /// 100.00 in 10 random slips, with the bytes 0, 1, 2… as the seed. The last slip was refunded.
    fn packet() -> Value {
        let amounts = [40, 867, 2_638, 300, 448, 83, 1_878, 1_205, 1_332];
        let claims: Vec<Value> = (0..)
            .zip(amounts)
            .map(|(slip, amount)| json!({"user_id": format!("u{slip}"), "slip": slip, "amount": amount, "best": slip == 2}))
            .collect();
        json!({
            "packet_id": "38FS4S83HF3Y07WMYNH727QYT0", "split": "random", "total_amount": 10_000, "count": 10,
            "status": "settled", "claimed_count": 9, "claimed_amount": 8_791, "refunded_amount": 1_209,
            "split_version": 1, "slip_cap": 20_000,
            "commitment": "4db9665cd845e2f343e1c695d740f724d69abb80dd17b0cddb43178e36bcefcc",
            "seed": "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
            "claims": claims,
        })
    }

    fn faults(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut packet = packet();
        change(&mut packet);
        verify(&packet.to_string()).unwrap().faults
    }

    #[test]
    fn a_packet_that_was_paid_as_fixed_is_fair() {
        assert_eq!(faults(|_| {}), Vec::<String>::new());
    }

    #[test]
    fn each_difference_is_a_fault() {
        let zeros = "0".repeat(64);
        assert!(faults(|packet| packet["commitment"] = zeros.clone().into())[0].starts_with("the seed and the terms"));
        assert!(faults(|packet| packet["seed"] = zeros.into()).len() > 5);
        assert_eq!(faults(|packet| packet["claims"][3]["amount"] = 301.into()).len(), 2, "a slip, and the sum");
        assert_eq!(faults(|packet| packet["claims"][3]["slip"] = 9.into()).len(), 2, "a slip, and the refund");
        assert!(!faults(|packet| packet["claims"][3]["slip"] = 10.into()).is_empty());
        assert!(!faults(|packet| drop(packet["claims"].as_array_mut().unwrap().pop())).is_empty());
        assert_eq!(faults(|packet| packet["refunded_amount"] = 1_208.into()).len(), 1);
        assert_eq!(faults(|packet| packet["claimed_amount"] = 8_790.into()).len(), 1);
        assert_eq!(faults(|packet| packet["split"] = "equal".into()).len(), 11);
        assert_eq!(faults(|packet| packet["slip_cap"] = 19_999.into()).len(), 1, "the commitment covers it");
    }

    #[test]
    fn an_unverifiable_packet_is_not_judged() {
        let refused = |change: &dyn Fn(&mut Value)| {
            let mut packet = packet();
            change(&mut packet);
            verify(&packet.to_string()).unwrap_err().to_string()
        };
        assert_eq!(refused(&|packet| packet["seed"] = Value::Null), "the seed is not revealed yet");
        assert_eq!(refused(&|packet| packet["seed"] = "00".into()), "the seed is not 64 hex digits");
        assert!(refused(&|packet| packet["claims"] = Value::Null).starts_with("not a packet"));
        assert!(refused(&|packet| packet["total_amount"] = 9.into()).starts_with("the total must be"));
        assert_eq!(refused(&|packet| packet["split_version"] = 2.into()), "version 2 of the split is not known");
        assert!(refused(&|packet| packet["slip_cap"] = Value::Null).starts_with("not a packet"));
        assert!(refused(&|packet| packet["slip_cap"] = 999.into()).starts_with("the total must be"));
    }
}

mod hot {
    use shared::redis::fields;

    use crate::hot::{HotPart, HotSlip, held_by_slip};

    fn part() -> HotPart {
        let alone = [
            (fields::EXPIRES_AT, "7"),
            (fields::PASSPHRASE, "h0:1"),
            ("ann", "h1:2"),
            ("bob", "h2:1:no such slip"),
            ("cat", "g3:1:2"),
        ];
        let twice = [("eve", "h4:1"), ("fay", "h6:1"), ("gus", "h6:0")];
        let found = alone.into_iter().chain(twice).map(|(user, claim)| (user.to_owned(), claim.to_owned())).collect();
        HotPart { held: held_by_slip(&found), fields: found, free: [0, 4].into(), known: [3].into() }
    }

    #[test]
    fn a_slip_is_exactly_one_of_free_held_and_known() {
        let states = (0..7).map(|slip| part().slip(slip, false).to_string()).collect::<Vec<_>>();
        let ann = "held for ann since 1970-01-01T00:00:00.005Z";
        let bob = "held for bob since 1970-01-01T00:00:00.006Z, parked: no such slip";
        assert_eq!(states, ["free", ann, bob, "known", "broken", "broken", "broken"]);
        assert_eq!(part().slip(5, true), HotSlip::Free, "an expired part no longer shows its free slips");
        assert_eq!(HotPart::default().slip(0, false), HotSlip::NotLoaded);
    }
}

mod status {
    use std::time::Duration;

    use shared::domain::Timestamp;
    use shared::ledger::{ReceiverState, ReceiverStatus as State};

    #[test]
    fn a_receiver_that_has_failed_for_a_day_is_failing_and_one_that_is_gone_is_disabled() {
        let (at, hour) = (|hours: u64| Some(Timestamp::from_ms(hours * 3_600_000)), Duration::from_hours(1));
        let failing = |receiver: ReceiverState| ReceiverState { failing_since: at(10), ..receiver };
        let put_off = ReceiverState { put_off_until: at(20), ..ReceiverState::default() };
        let now = Timestamp::from_ms(15 * 3_600_000);
        for (receiver, now, expected) in [
            (ReceiverState::default(), now, (State::Well, None)),
            (
                ReceiverState { last_answer: Some("500".to_owned()), ..ReceiverState::default() },
                now,
                (State::Well, None),
            ),
            (failing(ReceiverState::default()), now, (State::Retrying, at(10))),
            (failing(put_off.clone()), now, (State::PutOff, at(10))),
            (put_off.clone(), now, (State::PutOff, None)),
            (put_off, now.after(5 * hour), (State::Well, None)),
            (failing(ReceiverState::default()), now.after(19 * hour), (State::Failing, at(10))),
            (
                failing(ReceiverState { put_off_until: at(50), ..ReceiverState::default() }),
                now.after(20 * hour),
                (State::Failing, at(10)),
            ),
            (
                failing(ReceiverState { disabled_at: at(11), ..ReceiverState::default() }),
                now.after(20 * hour),
                (State::Disabled, at(11)),
            ),
        ] {
            assert_eq!(receiver.status(now), expected, "{receiver:?}");
        }
    }
}

mod remote {
    use crate::remote::{Answer, PLAIN_BYTES_MAX};
    use crate::{Exit, Outcome};

    fn answer(text: &str) -> Answer {
        let answer = Answer::from(Outcome { text: text.to_owned(), exit: Exit::Wrong });
        let wire = serde_json::to_string(&answer).unwrap();
        assert!(wire.len() < 6_000_000, "Lambda's limit");
        serde_json::from_str(&wire).unwrap()
    }

    #[test]
    fn an_output_arrives_as_it_was_or_not_at_all() {
        let quotes = "\"\n".repeat(PLAIN_BYTES_MAX / 2);
        // As the lines of a packet of 100,000 slips.
        let long = (0..100_000).fold(String::new(), |text, slip| text + &format!("{slip:<6} -  undecided  free\n"));
        for text in ["", "all is well", &quotes, &long] {
            let answer = answer(text);
            assert_eq!((answer.exit, answer.output().unwrap().as_deref()), (1, Some(text)));
        }
        assert!(answer(&quotes).output.is_some() && answer(&long).output_gzip.is_some());

        let mut state = 7_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b' ' + u8::try_from(state >> 24).unwrap() % 90)
        };
        let refused = answer(&std::iter::repeat_with(&mut noise).take(8_000_000).collect::<String>());
        assert_eq!((refused.exit, refused.output().unwrap()), (2, None));
        assert!(refused.error.unwrap().contains("8000000 bytes"));
    }
}
