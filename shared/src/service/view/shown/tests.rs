use super::*;

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

fn report(known: &[u32]) -> PartReport {
    let mut bits = vec![0_u8; 8];
    for slip in known {
        bits[*slip as usize / 8] |= 0x80 >> (slip % 8);
    }
    PartReport { now: NOW, known: bits, ..PartReport::default() }
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
        let reported = Reported::of(vec![(0..4, case.known.map(report))], case.promised.iter().map(hold).collect());
        let bits = |known: &[u32]| known.iter().fold(0, |bits, slip| bits | 1 << slip);
        let read = case.read.clone().map(|(read, known)| (0, Arc::new(Group::new(read, bits(known), Instant::now()))));
        let look = Look::of(&terms, case.end, reported, &read.into_iter().collect(), amount);
        let seen = look.seen_by(Some(&user("u0")), case.own.map(claim), Arc::clone(&terms), NOW);
        let sums = &seen.summary;
        let amounts = (sums.claimed_amount.minor_units(), sums.refunded_amount.minor_units());
        assert_eq!((seen.status, sums.claimed_count, amounts), (*status, *count, (*claimed, *back)), "{name}");
        assert_eq!((seen.is_decided, seen.mine), (*is_decided, mine.map(claim)), "{name}");
        assert_eq!((sums.best.is_some(), seen.closed_at), (*is_decided, case.end.closed_at), "{name}");
    }
}

#[test]
fn the_parts_hint_at_an_end_or_are_calm() {
    let terms = Terms { expires_at: NOW.after(Duration::from_millis(1)), ..terms(4) };
    let open = report(&[0, 1, 2]);
    let late = PartReport { now: terms.expires_at, ..open.clone() };
    for (report, is_calm) in [
        (Some(open.clone()), true),
        (None, false),
        (Some(PartReport { is_closed: true, ..open }), false),
        (Some(late), false),
        (Some(report(&[0, 1, 2, 3])), false),
    ] {
        assert_eq!(Reported::of(vec![(0..4, report.clone())], Vec::new()).is_calm(&terms), is_calm, "{report:?}");
    }
}

#[test]
fn groups_are_read_where_the_parts_do_not_know_enough() {
    // Three parts; the second is silent. The first knows slips of the groups 0 and 2.
    let large = terms(3_000);
    let first = PartReport { known: [&[0x80][..], &[0; 15], &[1]].concat(), ..report(&[]) };
    let parts = vec![(0..1_000, Some(first)), (1_000..2_000, None), (2_000..3_000, Some(report(&[])))];
    let reported = Reported::of(parts, Vec::new());
    let silent: Vec<u32> = (15..32).collect();
    assert_eq!(reported.groups_to_read(&large, &(0..3_000), Need::Sums), silent);
    assert_eq!(reported.groups_to_read(&large, &(0..3_000), Need::Claims), [&[0, 2][..], &silent].concat());
    assert_eq!(reported.groups_to_read(&large, &(64..1_088), Need::Claims), [2, 15, 16]);
    assert_eq!(reported.groups_to_read(&large, &(0..200), Need::All), [0, 1, 2, 3]);
    let small = Reported::of(vec![(0..100, Some(report(&[])))], Vec::new());
    assert_eq!(small.groups_to_read(&terms(100), &(0..100), Need::Sums), [0, 1], "a small packet is read as a whole");
}

#[tokio::test(start_paused = true)]
async fn a_group_is_used_again_unless_a_decision_may_be_missing() {
    let terms = terms(66);
    let read = |decisions: Vec<Decision>, known| Group::new(decisions, known, Instant::now());
    let (partly, whole, refuting) = (read(vec![won(0)], 0), read(vec![won(0), won(1)], 0), read(vec![won(0)], 0b11));
    let knows = |places: &[u32]| Reported::of(vec![(0..64, None), (64..66, Some(report(places)))], Vec::new());
    let rows = [
        ("nothing is new", &partly, &[0][..], Need::Claims, 1, (true, false)),
        ("the part knows more", &partly, &[0, 1], Need::Claims, 1, (false, false)),
        ("the part knows more, and sums do not need it", &partly, &[0, 1], Need::Sums, 1, (true, false)),
        ("the ledger was asked for it", &refuting, &[0, 1], Need::Claims, 1, (true, false)),
        ("one of very many", &partly, &[0], Need::Claims, 65, (true, true)),
        ("all decided", &whole, &[0, 1], Need::Claims, 1, (true, true)),
    ];
    for is_old in [false, true] {
        for (name, group, places, need, of, (young, old)) in &rows {
            let usable = knows(places).is_usable(group, 1, &terms, *need, *of);
            assert_eq!(usable, if is_old { *old } else { *young }, "{name}, old: {is_old}");
        }
        tokio::time::advance(GROUP_LIFE).await;
    }
}

#[test]
fn of_two_equal_claims_the_earlier_one_is_the_best_and_none_before_all_are_decided() {
    let decisions = |last: Decision| (0..3).map(won).chain([last]).collect::<Vec<_>>();
    let best = |decisions: Vec<Decision>| {
        let groups: Groups = [(0, Arc::new(Group::new(decisions, 0, Instant::now())))].into();
        let reported = Reported::of(vec![(0..4, None)], Vec::new());
        Look::of(&terms(4), End::default(), reported, &groups, amount).summary.best.map(|best| best.slip)
    };
    assert_eq!(best(decisions(refunded(3))), Some(2));
    assert_eq!(best((0..3).map(won).collect()), None, "the other slip may be better");
    let equal = Decision { amount: won(2).amount, at: NOW.before(Duration::from_secs(1)), ..won(3) };
    assert_eq!(best(decisions(equal)), Some(3));
}
