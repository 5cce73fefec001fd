use std::time::Duration;

use super::*;

/// What the header of a script says that it returns, from `Returns` to the first line that is not part of it.
fn returns(script: &str) -> impl Iterator<Item = &str> {
    let header = script.lines().skip_while(|line| line.starts_with("#!")).map_while(|line| line.strip_prefix("--"));
    header.skip_while(|line| !line.starts_with(" Returns")).take_while(|line| !line.is_empty())
}

#[test]
fn the_header_of_grab_lists_every_answer_and_every_one_reads() {
    let at = Timestamp::from_ms(7);
    let expected = [
        ("h<slip>:<at>", GrabAnswer::Held { slip: 3, at, fresh: false }),
        ("g<slip>:<amount>:<at>", GrabAnswer::Confirmed(Claim { slip: 3, amount: Amount::new(520), at })),
        ("r", GrabAnswer::Refused(Refusal::NotARecipient)),
        ("c0", GrabAnswer::Closed { certain: false }),
        ("c1", GrabAnswer::Closed { certain: true }),
        ("n<start>", GrabAnswer::NotStarted { starts_at: Timestamp::from_ms(69), left: Duration::from_millis(60) }),
        ("p", GrabAnswer::Refused(Refusal::WrongPassphrase)),
        ("t<ms>", GrabAnswer::Refused(Refusal::TooManyTries { retry_after_ms: 59 })),
        ("e0", GrabAnswer::Nothing { expired: true, certain: false }),
        ("e1", GrabAnswer::Nothing { expired: true, certain: true }),
        ("s0", GrabAnswer::Nothing { expired: false, certain: false }),
        ("s1", GrabAnswer::Nothing { expired: false, certain: true }),
        ("<slip>", GrabAnswer::Held { slip: 3, at: Timestamp::from_ms(9), fresh: true }),
    ];
    // Each line of the list is indented by three; what an answer means stands two further.
    let lines = returns(include_str!("../lua/grab.lua")).filter_map(|line| line.strip_prefix("   "));
    let listed = lines.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split("  ").next());
    let listed: Vec<&str> = listed.flat_map(|answers| answers.split(", ")).collect();
    assert_eq!(listed, expected.clone().map(|(answer, _)| answer));
    let mut answers = Vec::new();
    for (answer, meaning) in &expected {
        let example = answer.replace("<slip>", "3").replace("<amount>", "520").replace("<at>", "7");
        answers.push(example.replace("<ms>", "59").replace("<start>", "69"));
        assert_eq!(grabbed(&format!("9;{}", answers[answers.len() - 1])), Some(vec![Some(vec![meaning.clone()])]));
    }
    let all: Vec<GrabAnswer> = expected.into_iter().map(|(_, meaning)| meaning).collect();
    let answers = answers.join(",");
    assert_eq!(grabbed(&format!("9;-;{answers};-")), Some(vec![None, Some(all), None]));
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
fn what_is_no_answer_does_not_read() {
    for answer in " c c2 g g3:520 g3:520:7:8 g-1:520:7 h h3 n3:7 t t-1 s s-1 e2 x é".split(' ') {
        assert_eq!(grabbed(&format!("9;{answer}")), None, "{answer}");
    }
    for answer in ["", "9", ";3", "x;3", "-1;3", "09;3", "9;3,", "9;,3", "9;-,3"] {
        assert_eq!(grabbed(answer), None, "{answer}");
    }
    for answer in ["g+3:520:7", "g3:+520:7", "g3:520:07", "h03:7", "h3:+7", "t+59", "t00", "s2", "+3", "03"] {
        assert_eq!(grabbed(&format!("9;{answer}")), None, "{answer}");
    }
    for (user, value) in [("ann", "hx:7"), ("ann", "h+3:7"), ("ann", "h3"), ("ann", "3:7"), ("a#b", "h3:7"), ("", "")] {
        assert_eq!(held(user, value), None, "{user} {value}");
    }
}

#[test]
fn a_parked_hold_keeps_its_reason() {
    let hold = Hold { slip: 3, user: "ann".parse().unwrap(), at: Timestamp::from_ms(7) };
    assert_eq!(held("ann", "h3:7"), Some(OutboxEntry { hold: hold.clone(), parked: None }));
    let parked = Some("no such slip: 4".to_owned());
    assert_eq!(held("ann", "h3:7:no such slip: 4"), Some(OutboxEntry { hold, parked }));
    let found = GrabAnswer::Held { slip: 3, at: Timestamp::from_ms(7), fresh: false };
    assert_eq!(grabbed("9;h3:7:no such slip: 4"), Some(vec![Some(vec![found])]));
}
