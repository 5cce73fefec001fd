use std::time::Duration;

use super::*;

/// What the header of a script says that it returns, from `Returns` to the first line that is not part of it.
fn returns(script: &str) -> impl Iterator<Item = &str> {
    let header = script.lines().skip_while(|line| line.starts_with("#!")).map_while(|line| line.strip_prefix("--"));
    header.skip_while(|line| !line.starts_with(" Returns")).take_while(|line| !line.is_empty())
}

#[test]
fn the_header_of_grab_lists_every_answer_and_every_one_reads() {
    let (at, left) = (Timestamp::from_ms(7), Duration::from_millis(59));
    let went_back = |certain| GrabAnswer::WentBack { expires_at: Timestamp::from_ms(99), certain };
    let expected = [
        ("<slip>:<left>", vec![GrabAnswer::Held { slip: 3, left, fresh: true }]),
        ("h<slip>:<left>", vec![GrabAnswer::Held { slip: 3, left, fresh: false }]),
        ("g<slip>:<amount>:<at>", vec![GrabAnswer::Confirmed(Claim { slip: 3, amount: Amount::new(520), at })]),
        ("r", vec![GrabAnswer::Refused(Refusal::NotARecipient)]),
        ("n<start>:<left>", vec![GrabAnswer::NotStarted { starts_at: Timestamp::from_ms(69), left }]),
        ("p", vec![GrabAnswer::Refused(Refusal::WrongPassphrase)]),
        ("t<left>", vec![GrabAnswer::Refused(Refusal::TooManyTries { retry_after_ms: 59 })]),
        ("s<certain>", vec![GrabAnswer::SoldOut { certain: false }, GrabAnswer::SoldOut { certain: true }]),
        ("e<certain>:<expiry>", vec![went_back(false), went_back(true)]),
        ("c<certain>", vec![GrabAnswer::Closed { certain: false }, GrabAnswer::Closed { certain: true }]),
        ("x<certain>", vec![GrabAnswer::NoList { certain: false }, GrabAnswer::NoList { certain: true }]),
    ];
    // Each line of the list is indented by three; what an answer means stands two further.
    let lines = returns(include_str!("../lua/grab.lua")).filter_map(|line| line.strip_prefix("   "));
    let listed = lines.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split("  ").next());
    let listed: Vec<&str> = listed.flat_map(|answers| answers.split(", ")).collect();
    assert_eq!(listed, expected.clone().map(|(answer, _)| answer));
    let (mut answers, mut all) = (Vec::new(), Vec::new());
    for (answer, meanings) in expected {
        for (certain, meaning) in ["0", "1"].into_iter().zip(meanings) {
            let example = answer.replace("<slip>", "3").replace("<amount>", "520").replace("<at>", "7");
            let example = example
                .replace("<left>", "59")
                .replace("<start>", "69")
                .replace("<certain>", certain)
                .replace("<expiry>", "99");
            assert_eq!(grabbed(&example), Some(vec![Some(vec![meaning.clone()])]), "{example}");
            answers.push(example);
            all.push(meaning);
        }
    }
    assert_eq!(grabbed(&format!("-;{};-", answers.join(","))), Some(vec![None, Some(all), None]));
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
    let text: Vec<&str> = returns(include_str!("../lua/part_state.lua")).collect();
    for shown in ["   {}  ", "   {now, closed, held, known}"] {
        assert!(text.iter().any(|line| line.starts_with(shown)), "{shown}");
    }
}

#[test]
fn the_state_of_a_part_is_all_of_its_fields_or_nothing() {
    let (now, bit) = (Value::Int(8), |bit| Value::Int(bit));
    let known = Value::BulkString(vec![0b1010_0000, 1]);
    let read = |fields: &[Value]| part_state(&Value::Array(fields.to_vec()));
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
    assert_eq!(part_state(&Value::Nil), None);
}

#[test]
fn what_is_no_answer_does_not_read() {
    for answer in " c c2 g g3:520 g3:520:7:8 g-1:520:7 h h3 n3 n3: t t-1 s s-1 e2:9 e1 e1: x x:1 3 3: -1:7 é".split(' ')
    {
        assert_eq!(grabbed(answer), None, "{answer}");
    }
    for answer in ["3:7,", ",3:7", "-,3:7", "3:7;", ";3:7", "3:7;;3:7"] {
        assert_eq!(grabbed(answer), None, "{answer}");
    }
    for answer in ["g+3:520:7", "g3:+520:7", "g3:520:07", "h03:7", "h3:+7", "t+59", "t00", "s2", "+3:7", "03:7", "3:07"]
    {
        assert_eq!(grabbed(answer), None, "{answer}");
    }
    for (user, value) in [("ann", "hx:7"), ("ann", "h+3:7"), ("ann", "h3"), ("ann", "3:7"), ("a#b", "h3:7"), ("", "")] {
        assert_eq!(held(user, value, Timestamp::from_ms(9)), None, "{user} {value}");
    }
}

#[test]
fn a_parked_hold_keeps_its_reason() {
    let expires_at = Timestamp::from_ms(9);
    let hold = Hold { slip: 3, user: "ann".parse().unwrap(), at: Timestamp::from_ms(2) };
    assert_eq!(held("ann", "h3:7", expires_at), Some(OutboxEntry { hold: hold.clone(), parked: None }));
    let parked = Some("no such slip: 4".to_owned());
    assert_eq!(held("ann", "h3:7:no such slip: 4", expires_at), Some(OutboxEntry { hold, parked }));
    let found = GrabAnswer::Held { slip: 3, left: Duration::from_millis(7), fresh: false };
    assert_eq!(grabbed("h3:7:no such slip: 4"), Some(vec![Some(vec![found])]));
}

#[test]
fn an_outbox_has_an_expiry_and_pairs() {
    let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(outbox(&text(&[""])), Some((Timestamp::default(), &[][..])), "it is not loaded");
    let full = text(&["9", "ann", "h3:7"]);
    assert_eq!(outbox(&full), Some((Timestamp::from_ms(9), &[["ann".to_owned(), "h3:7".to_owned()]][..])));
    for wrong in [&[][..], &["x"], &["9", "ann"], &["9", "ann", "h3:7", "bob"]] {
        assert_eq!(outbox(&text(wrong)), None, "{wrong:?}");
    }
}
