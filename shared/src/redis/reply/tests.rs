use super::*;

const NOW: Timestamp = Timestamp::from_ms(79);

/// What the header of a script says that it returns, from `Returns` to the first line that is not part of it.
fn returns(script: &str) -> impl Iterator<Item = &str> {
    let header = script.lines().skip_while(|line| line.starts_with("#!")).map_while(|line| line.strip_prefix("--"));
    header.skip_while(|line| !line.starts_with(" Returns")).take_while(|line| !line.is_empty())
}

#[test]
fn the_header_of_grab_lists_every_answer_and_every_one_reads() {
    let at = Timestamp::from_ms(7);
    let expected = [
        ("<slip>", GrabAnswer::Held { slip: 3, at: Timestamp::from_ms(9), fresh: true }),
        ("h<slip>:<at>", GrabAnswer::Held { slip: 3, at, fresh: false }),
        ("g<slip>:<amount>:<at>", GrabAnswer::Confirmed(Claim { slip: 3, amount: Amount::new(520), at })),
        ("r", GrabAnswer::Refused(Refusal::NotARecipient)),
        ("n<start>", GrabAnswer::NotStarted { starts_at: Timestamp::from_ms(69), left: Duration::from_millis(60) }),
        ("c0", GrabAnswer::Closed { certain: false }),
        ("c1", GrabAnswer::Closed { certain: true }),
        ("p", GrabAnswer::Refused(Refusal::WrongPassphrase)),
        ("t<ms>", GrabAnswer::Refused(Refusal::TooManyTries { retry_after_ms: 59 })),
        ("s0", GrabAnswer::Nothing { expired: false, certain: false }),
        ("e0", GrabAnswer::Nothing { expired: true, certain: false }),
        ("e1", GrabAnswer::Nothing { expired: true, certain: true }),
        ("s<expires>", GrabAnswer::Nothing { expired: false, certain: true }),
    ];
    // Each line of the list is indented by three; what an answer means stands two further.
    let lines = returns(include_str!("../lua/grab.lua")).filter_map(|line| line.strip_prefix("   "));
    let listed = lines.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split("  ").next());
    let listed: Vec<&str> = listed.flat_map(|answers| answers.split(", ")).collect();
    assert_eq!(listed, expected.clone().map(|(answer, _)| answer));
    let mut answers = Vec::new();
    for (answer, meaning) in &expected {
        let example = answer.replace("<slip>", "3").replace("<amount>", "520").replace("<at>", "7");
        answers.push(example.replace("<ms>", "59").replace("<start>", "69").replace("<expires>", "000000000050"));
        assert_eq!(grabbed(&format!("9;{}", answers[answers.len() - 1]), NOW), Some(vec![Some(vec![meaning.clone()])]));
    }
    let all: Vec<GrabAnswer> = expected.into_iter().map(|(_, meaning)| meaning).collect();
    let answers = answers.join(",");
    assert_eq!(grabbed(&format!("9;-;{answers};-"), NOW), Some(vec![None, Some(all), None]));
}

#[test]
fn the_other_headers_list_every_state() {
    let listed = |script| -> Vec<u8> {
        let text: Vec<&str> = returns(script).collect();
        let words = text.join(" ").replace(['{', '}', ','], " ");
        words.split(' ').filter_map(|word| word.parse().ok()).collect()
    };
    let read = |reads: &dyn Fn(u8) -> bool| (0..=u8::MAX).filter(|state| reads(*state)).collect::<Vec<_>>();
    assert_eq!(listed(include_str!("../lua/reconcile.lua")), read(&|state| reconciled(state).is_some()));
    assert_eq!(listed(include_str!("../lua/load.lua")), read(&|state| loaded(state).is_some()));
    assert_eq!(listed(include_str!("../lua/close.lua")), read(&|state| closed(state).is_some()));
    let bulk = |text: &str| Value::BulkString(text.into());
    let snapshots = |state: u8| -> Vec<usize> {
        let all = [Value::Int(state.into()), bulk("s1"), bulk("59"), bulk("ann"), bulk("g3:520:7")];
        [1, 3, 5].into_iter().filter(|len| snapshot(&Value::Array(all[..*len].to_vec())).is_some()).collect()
    };
    let text: Vec<&str> = returns(include_str!("../lua/snapshot.lua")).collect();
    for shown in ["{0}", "{1}", "{2, others, left, user, claim, user, claim, ...}", "{3, others, left}"] {
        assert!(text.iter().any(|line| line.contains(shown)), "{shown}");
    }
    let read = (0..=u8::MAX).map(|state| (state, snapshots(state))).filter(|(_, lens)| !lens.is_empty());
    assert_eq!(read.collect::<Vec<_>>(), [(0, vec![1]), (1, vec![1]), (2, vec![3, 5]), (3, vec![3])]);
    let helps = |state: u8| {
        let with = |rest: &[Value]| help(&Value::Array([&[Value::Int(state.into())], rest].concat())).is_some();
        with(&[]) || with(&[Value::Int(59)]) || with(&[bulk("59"), bulk("ann"), bulk("h3:7")])
    };
    let text: Vec<&str> = returns(include_str!("../lua/help.lua")).collect();
    assert!(text.iter().any(|line| line.contains("{4, now, user, hold, user, hold, ...}")));
    for state in 0..=4 {
        assert!(text.iter().any(|line| line.trim_start().starts_with(&format!("{{{state}"))), "{state}");
    }
    assert_eq!((0..=u8::MAX).filter(|state| helps(*state)).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    let text: Vec<&str> = returns(include_str!("../lua/view.lua")).collect();
    for shown in ["   {}  ", "   {now, closed, held, known}"] {
        assert!(text.iter().any(|line| line.starts_with(shown)), "{shown}");
    }
}

#[test]
fn a_report_is_all_of_its_fields_or_nothing() {
    let (now, bit) = (Value::Int(8), |bit| Value::Int(bit));
    let known = Value::BulkString(vec![0b1010_0000, 1]);
    let read = |fields: &[Value]| report(&Value::Array(fields.to_vec()));
    assert_eq!(read(&[]), Some(None), "the part is not loaded");
    let found = read(&[now.clone(), bit(1), bit(3), known.clone()]).unwrap().unwrap();
    assert_eq!((found.now, found.is_closed, found.held_count), (Timestamp::from_ms(8), true, 3));
    assert_eq!(found.known_places().collect::<Vec<_>>(), [0, 2, 15]);
    assert_eq!(read(&[now.clone(), bit(0), bit(0), known.clone()]).unwrap().map(|part| part.is_closed), Some(false));
    for fields in [
        vec![now.clone()],
        vec![now.clone(), bit(2), bit(0), known.clone()],
        vec![now.clone(), bit(0), bit(-1), known.clone()],
        vec![bit(-1), bit(0), bit(0), known.clone()],
        vec![now.clone(), bit(0), bit(0), bit(0)],
        vec![now, bit(0), bit(0), known.clone(), known],
    ] {
        assert_eq!(read(&fields), None, "{fields:?}");
    }
    assert_eq!(report(&Value::Nil), None);
}

#[test]
fn a_snapshot_has_an_answer_for_each_user() {
    let bulk = |text: &str| Value::BulkString(text.into());
    let read = |all: &[&str]| {
        let head = std::iter::once(Value::Int(2));
        snapshot(&Value::Array(head.chain(all.iter().map(|text| bulk(text))).collect()))
    };
    let [ann, bob, cem]: [UserId; 3] = ["ann", "h0:1", "cem"].map(|user| user.parse().unwrap());
    let found = read(&["s0", "59", "h0:1", "h4:8:why: not", "ann", "g3:520:7"]);
    let Some(SnapshotResult::Exhausted(found)) = found else { panic!("{found:?}") };
    assert_eq!((found.is_final, found.left), (false, Duration::from_millis(59)));
    let claim = Claim { slip: 3, amount: Amount::new(520), at: Timestamp::from_ms(7) };
    assert_eq!(found.answer_for(&ann), GrabAnswer::Confirmed(claim));
    assert_eq!(found.answer_for(&bob), GrabAnswer::Held { slip: 4, at: Timestamp::from_ms(8), fresh: false });
    assert_eq!(found.answer_for(&cem), GrabAnswer::Nothing { expired: false, certain: false });
    for all in [
        &[][..],
        &["s1"],
        &["3", "59"],
        &["s1", "x"],
        &["g3:520:7", "59"],
        &["s1", "59", "ann"],
        &["s1", "59", "ann", "3"],
        &["e1", "0", "a b", "h4:8"],
        &["s", "59"],
    ] {
        assert_eq!(read(all), None, "{all:?}");
    }
}

#[test]
fn only_a_final_part_has_owners() {
    let read = |known: &str, users: &[(&str, &str)]| {
        let fields = [(fields::EXPIRES_AT, "9"), (fields::SLIP_COUNT, "2"), (fields::KNOWN_COUNT, known)];
        let part: Vec<_> =
            fields.iter().chain(users).map(|(name, value)| (name.to_string(), value.to_string())).collect();
        owners(&part)
    };
    let claim = Claim { slip: 3, amount: Amount::new(520), at: Timestamp::from_ms(7) };
    let ann = ("ann".parse().unwrap(), GrabAnswer::Confirmed(claim));
    assert_eq!(read("2", &[("ann", "g3:520:7")]), Some(Some([ann].into_iter().collect())));
    assert_eq!(read("1", &[("ann", "g3:520:7")]), Some(None));
    assert_eq!(owners(&[]), Some(None), "it is gone");
    assert_eq!(read("2", &[(fields::GUARD, "pclosed"), ("ann", "g3:520:7")]), Some(None), "it is closed");
    let counts = [fields::SLIP_COUNT, fields::KNOWN_COUNT].map(|name| (name.to_owned(), "2".to_owned()));
    assert_eq!(owners(&counts), Some(None), "it is not loaded");
    for damaged in [("ann", "3"), ("a b", "g3:520:7")] {
        assert_eq!(read("2", &[damaged]), None, "{damaged:?}");
    }
}

#[test]
fn what_is_no_answer_does_not_read() {
    for answer in [
        "",
        "c",
        "c2",
        "g",
        "g3:520",
        "g3:520:7:8",
        "g-1:520:7",
        "h",
        "h3",
        "n3:7",
        "t",
        "t-1",
        "s",
        "s-1",
        "e2",
        "x",
        "é",
    ] {
        assert_eq!(grabbed(&format!("9;{answer}"), NOW), None, "{answer}");
    }
    for answer in ["", "9", ";3", "x;3", "-1;3", "09;3", "9;3,", "9;,3", "9;-,3"] {
        assert_eq!(grabbed(answer, NOW), None, "{answer}");
    }
    for answer in [
        "g+3:520:7",
        "g3:+520:7",
        "g3:520:07",
        "h03:7",
        "h3:+7",
        "t+59",
        "t00",
        "s80",
        "s00000000005A",
        "s+00000000050",
        "+3",
        "03",
    ] {
        assert_eq!(grabbed(&format!("9;{answer}"), NOW), None, "{answer}");
    }
    for (user, value) in [("ann", "hx:7"), ("ann", "h+3:7"), ("ann", "h3"), ("ann", "3:7"), ("a#b", "h3:7"), ("", "")] {
        assert_eq!(held(user, value), None, "{user} {value}");
    }
}

#[test]
fn only_a_new_hold_and_a_start_need_the_time() {
    for answer in ["h3:7", "g3:520:7", "r", "p", "t59", "c0", "s000000000050", "s0", "e0", "-"] {
        assert_eq!(grabbed(&format!(";{answer}"), NOW), grabbed(&format!("9;{answer}"), NOW), "{answer}");
    }
    for answer in ["3", "n69", "h3:7,3"] {
        assert_eq!(grabbed(&format!(";{answer}"), NOW), None, "{answer}");
    }
}

#[test]
fn a_packet_that_is_sold_out_counts_as_expired_from_its_expiry_on() {
    for (now, expired) in [(79, false), (80, true), (81, true)] {
        let found = grabbed(";s000000000050", Timestamp::from_ms(now));
        assert_eq!(found, Some(vec![Some(vec![GrabAnswer::Nothing { expired, certain: true }])]), "{now}");
    }
}

#[test]
fn a_parked_hold_keeps_its_reason() {
    let hold = Hold { slip: 3, user: "ann".parse().unwrap(), at: Timestamp::from_ms(7) };
    assert_eq!(held("ann", "h3:7"), Some(OutboxEntry { hold: hold.clone(), parked: None }));
    let parked = Some("no such slip: 4".to_owned());
    assert_eq!(held("ann", "h3:7:no such slip: 4"), Some(OutboxEntry { hold, parked }));
    let found = GrabAnswer::Held { slip: 3, at: Timestamp::from_ms(7), fresh: false };
    assert_eq!(grabbed("9;h3:7:no such slip: 4", NOW), Some(vec![Some(vec![found])]));
}
