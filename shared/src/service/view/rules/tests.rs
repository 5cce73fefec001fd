use super::*;
use crate::domain::Status;

const NOW: Timestamp = Timestamp::from_ms(1_795_181_400_000);

/// A packet of `count` slips; slip `n` has 10 × (n + 1).
fn terms(count: u32) -> Terms {
    Terms { count, ..Terms::sample() }
}

fn amount(slip: u32) -> Option<Amount> {
    (slip < 4).then(|| Amount::new(10 * u64::from(slip + 1)))
}

fn claim(slip: u32) -> Claim {
    Claim { slip, amount: amount(slip).unwrap(), at: NOW }
}

fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

/// Slip `n` is claimed by user `un`.
fn won(slip: u32) -> Decision {
    claim(slip).decision(&user(&format!("u{slip}")))
}

fn refunded(slip: u32) -> Decision {
    Decision { owner: crate::domain::Owner::Refunded, ..won(slip) }
}

fn state(known: &[u32]) -> PartState {
    let mut bits = vec![0_u8; 8];
    for slip in known {
        bits[*slip as usize / 8] |= 0x80 >> (slip % 8);
    }
    PartState { now: NOW, known: bits, ..PartState::default() }
}

/// What is read of a packet of four slips, and what its viewer `u0` sees.
#[derive(Clone, Default)]
struct Case {
    end: End,
    /// The part's report; `None`: it is silent.
    known: Option<&'static [u32]>,
    promised: &'static [u32],
    /// The group's decisions, and the slips that the part knew before the read. `None`: it was not read.
    read: Option<(Vec<Decision>, &'static [u32])>,
    own: Option<u32>,
}

/// A name, what was read, and what the viewer sees: the status with the claimed slips and the amounts claimed and refunded, whether all is
/// decided, and their own slip.
type Row = (&'static str, Case, (Status, u32, u64, u64), bool, Option<u32>);

#[test]
fn what_a_viewer_sees_follows_from_what_was_read() {
    let (past, closed) = (End { is_past: true, ..End::default() }, End { closed_at: Some(NOW), ..End::default() });
    let settled = End { is_settled: true, ..past };
    let all = || (0..4).map(won).collect::<Vec<_>>();
    let mixed = || vec![won(0), refunded(1), won(2), refunded(3)];
    let base = Case { known: Some(&[]), ..Case::default() };
    let knows = |known: &'static [u32]| Case { known: Some(known), ..Case::default() };
    let with = |case: &Case, read: Vec<Decision>| Case { read: Some((read, &[])), ..case.clone() };
    let cases: &[Row] = &[
        ("nothing", base.clone(), (Status::Open, 0, 0, 0), false, None),
        ("the part knows two", knows(&[0, 2]), (Status::Open, 2, 40, 0), false, None),
        ("slips beyond the last", knows(&[1, 4, 60]), (Status::Open, 1, 20, 0), false, None),
        ("a read and a report of the same", with(&knows(&[0]), vec![won(0)]), (Status::Open, 1, 10, 0), false, None),
        (
            "the part knows more than was read",
            with(&knows(&[0, 2]), vec![won(0)]),
            (Status::Open, 2, 40, 0),
            false,
            None,
        ),
        ("the part knows less", with(&base, vec![won(0), won(3)]), (Status::Open, 2, 50, 0), false, None),
        (
            "the ledger does not have it",
            Case { read: Some((vec![won(0)], &[0, 2])), ..knows(&[0, 2]) },
            (Status::Open, 1, 10, 0),
            false,
            None,
        ),
        ("silent", Case { read: Some((vec![won(1)], &[])), ..Case::default() }, (Status::Open, 1, 20, 0), false, None),
        ("own, not known yet", Case { own: Some(0), ..knows(&[2]) }, (Status::Open, 2, 40, 0), false, Some(0)),
        ("own, known", Case { own: Some(0), ..knows(&[0]) }, (Status::Open, 1, 10, 0), false, Some(0)),
        ("promised", Case { promised: &[0, 3], ..knows(&[3]) }, (Status::Open, 2, 50, 0), false, Some(0)),
        ("promised, no such slip", Case { promised: &[9], ..base.clone() }, (Status::Open, 0, 0, 0), false, None),
        (
            "all promised",
            Case { promised: &[0, 1, 2, 3], ..base.clone() },
            (Status::SoldOut, 4, 100, 0),
            false,
            Some(0),
        ),
        ("all known", knows(&[0, 1, 2, 3]), (Status::SoldOut, 4, 100, 0), false, None),
        (
            "all known, the ledger has less",
            Case { read: Some((vec![won(0)], &[0, 1, 2, 3])), ..knows(&[0, 1, 2, 3]) },
            (Status::Open, 1, 10, 0),
            false,
            None,
        ),
        ("all decided", with(&base, all()), (Status::SoldOut, 4, 100, 0), true, None),
        ("all decided, past", Case { end: past, ..with(&base, all()) }, (Status::SoldOut, 4, 100, 0), true, None),
        ("past", Case { end: past, ..with(&base, vec![won(1)]) }, (Status::Expired, 1, 20, 0), false, None),
        ("closed", Case { end: closed, ..with(&base, vec![won(1)]) }, (Status::Closed, 1, 20, 0), false, None),
        (
            "partly refunded",
            Case { end: closed, ..with(&base, vec![won(1), refunded(2)]) },
            (Status::Closed, 1, 20, 30),
            false,
            None,
        ),
        ("refunded", Case { end: closed, ..with(&base, mixed()) }, (Status::Closed, 2, 40, 60), true, None),
        ("refunded, past", Case { end: past, ..with(&base, mixed()) }, (Status::Expired, 2, 40, 60), true, None),
        ("settled", Case { end: settled, ..with(&base, mixed()) }, (Status::Settled, 2, 40, 60), true, None),
    ];
    for (name, case, (status, count, claimed, back), is_decided, mine) in cases {
        let terms = Arc::new(terms(4));
        let hold = |slip: &u32| Hold { slip: *slip, user: user(&format!("u{slip}")), at: NOW };
        let promises = case.promised.iter().map(hold).collect();
        let joint = JointState::of(&terms, NOW, vec![(0..4, case.known.map(state))], promises);
        let bits = |known: &[u32]| known.iter().fold(0, |bits, slip| bits | 1 << slip);
        let read =
            case.read.clone().map(|(read, known)| (0, Arc::new(Group::new(read, 4, bits(known), Instant::now()))));
        let shared = Shared::of(&terms, case.end, joint, &read.into_iter().collect(), amount);
        let seen = shared.for_viewer(Some(&user("u0")), case.own.map(claim), Arc::clone(&terms), NOW);
        let sums = &seen.summary;
        let amounts = (sums.claimed_amount.minor_units(), sums.refunded_amount.minor_units());
        assert_eq!((seen.status, sums.claimed_count, amounts), (*status, *count, (*claimed, *back)), "{name}");
        assert_eq!((seen.is_decided, seen.mine), (*is_decided, mine.map(claim)), "{name}");
        assert_eq!((sums.best.is_some(), seen.closed_at), (*is_decided, case.end.closed_at), "{name}");
    }
}

#[test]
fn the_parts_say_whether_a_packet_is_open_past_or_may_be_decided() {
    let terms = Terms { expires_at: NOW.after(Duration::from_millis(1)), ..terms(4) };
    let open = state(&[0, 1, 2]);
    let late = PartState { now: terms.expires_at, ..open.clone() };
    for (part, facts) in [
        (Some(open.clone()), (true, false, false)),
        (None, (false, false, true)),
        (Some(PartState { is_closed: true, ..open }), (false, false, false)),
        (Some(late), (true, true, false)),
        (Some(state(&[0, 1, 2, 3])), (true, false, true)),
    ] {
        let joint = JointState::of(&terms, NOW, vec![(0..4, part.clone())], Vec::new());
        assert_eq!((joint.is_open(), joint.is_past, joint.may_be_all(4)), facts, "{part:?}");
    }
}

#[test]
fn groups_are_read_where_the_parts_do_not_know_enough() {
    // Three parts; the second is silent. The first knows slips of the groups 0 and 2.
    let large = terms(3_000);
    let first = PartState { known: [&[0x80][..], &[0; 15], &[1]].concat(), ..state(&[]) };
    let parts = vec![(0..1_000, Some(first)), (1_000..2_000, None), (2_000..3_000, Some(state(&[])))];
    let joint = JointState::of(&large, NOW, parts, Vec::new());
    let silent: Vec<u32> = (15..32).collect();
    assert_eq!(joint.groups_to_read(&large, &(0..3_000), Need::Sums), silent);
    assert_eq!(joint.groups_to_read(&large, &(0..3_000), Need::Each), [&[0, 2][..], &silent].concat());
    assert_eq!(joint.groups_to_read(&large, &(64..1_088), Need::Each), [2, 15, 16]);
    assert_eq!(joint.groups_to_read(&large, &(1..200), Need::Each), [2], "the other one is before them");
    assert_eq!(joint.with_ledger_for_all().groups_to_read(&large, &(0..200), Need::Each), [0, 1, 2, 3]);
    let small = JointState::of(&terms(100), NOW, vec![(0..100, Some(state(&[])))], Vec::new());
    assert_eq!(small.groups_to_read(&terms(100), &(0..100), Need::Sums), [0, 1], "a small packet is read as a whole");
}

#[tokio::test(start_paused = true)]
async fn a_group_is_used_again_unless_a_decision_may_be_missing() {
    let life = Duration::from_secs(1);
    let read = |decisions: Vec<Decision>, known| Group::new(decisions, 2, known, Instant::now());
    let (partly, whole, asked) = (read(vec![won(0)], 0), read(vec![won(0), won(1)], 0), read(vec![won(0)], 0b11));
    let rows = [
        ("nothing is new", &partly, 0b01, Need::Each, (true, false)),
        ("the part knows more", &partly, 0b11, Need::Each, (false, false)),
        ("the part knows more, and sums do not need it", &partly, 0b11, Need::Sums, (true, false)),
        ("the ledger was asked for it", &asked, 0b11, Need::Each, (true, false)),
        ("all decided", &whole, 0b11, Need::Each, (true, true)),
    ];
    for is_old in [false, true] {
        for (name, group, known, need, (young, old)) in &rows {
            let usable = group.is_usable(*known, *need, life);
            assert_eq!(usable, if is_old { *old } else { *young }, "{name}, old: {is_old}");
        }
        tokio::time::advance(life).await;
    }
}

#[test]
fn of_two_equal_claims_the_earlier_one_is_the_best_and_none_before_all_are_decided() {
    let decisions = |last: Decision| (0..3).map(won).chain([last]).collect::<Vec<_>>();
    let best = |decisions: Vec<Decision>| {
        let groups: Groups = [(0, Arc::new(Group::new(decisions, 4, 0, Instant::now())))].into();
        Shared::of(&terms(4), End::default(), JointState::unknown(), &groups, amount).summary.best.map(|best| best.slip)
    };
    assert_eq!(best(decisions(refunded(3))), Some(2));
    assert_eq!(best((0..3).map(won).collect()), None, "the other slip may be better");
    let equal = Decision { amount: won(2).amount, at: NOW.before(Duration::from_secs(1)), ..won(3) };
    assert_eq!(best(decisions(equal)), Some(3));
}
