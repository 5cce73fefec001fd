//! What single reports and reads lead to.

use super::*;
use crate::domain::{Amount, PacketId, part_count};

const AMOUNT: u64 = 100;
const SENT_AT: Timestamp = Timestamp::from_ms(1_795_181_400_000);

fn terms(count: u32, ack: AckMode) -> Terms {
    Terms { id: PacketId::new(SENT_AT, part_count(count), [1; 10]), count, ack, ..Terms::sample() }
}

fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

fn claim(slip: u32) -> Claim {
    Claim { slip, amount: Amount::new(AMOUNT), at: SENT_AT.after(Duration::from_millis(slip.into())) }
}

fn hold(name: &str, slip: u32) -> Hold {
    Hold { slip, user: user(name), at: SENT_AT }
}

fn view(claims: &[(&str, Claim)], holds: Vec<Hold>) -> PartView {
    PartView {
        now: SENT_AT,
        version: claims.len().to_string(),
        is_closed: false,
        known_count: u32::try_from(claims.len()).unwrap(),
        claims: claims.iter().map(|(name, claim)| (user(name), claim.clone())).collect(),
        holds,
    }
}

/// What is known of a packet of `count` slips. Questions are answered at once.
struct Known {
    evidence: Evidence,
    terms: Terms,
    now: Instant,
}

impl Known {
    fn new(count: u32) -> Self {
        Self::with(count, AckMode::Ledger)
    }

    fn with(count: u32, ack: AckMode) -> Self {
        let terms = terms(count, ack);
        Self { evidence: Evidence::new(&terms), terms, now: Instant::now() }
    }

    fn part(&self, index: u32) -> PartId {
        PartId { packet: self.terms.id, index }
    }

    fn pass(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
    }

    /// The first part reports these claims.
    fn report(&mut self, claims: &[(&str, Claim)]) -> bool {
        self.report_with(claims, Vec::new())
    }

    fn report_with(&mut self, claims: &[(&str, Claim)], holds: Vec<Hold>) -> bool {
        self.report_of(0, claims, holds)
    }

    fn report_of(&mut self, index: u32, claims: &[(&str, Claim)], holds: Vec<Hold>) -> bool {
        let part = self.part(index);
        let amounts = Amounts::pack(&vec![AMOUNT; part.slips(self.terms.count).len()]).unwrap();
        let view = view(claims, holds);
        let asked = self.evidence.begin();
        self.evidence.report(part, asked, view, Some(&amounts), self.now)
    }

    /// A read of a group finds these claims.
    fn read(&mut self, group: u32, claims: &[(&str, Claim)]) -> bool {
        let decisions = claims.iter().map(|(name, claim)| claim.decision(&user(name))).collect();
        let begun = (self.evidence.begin(), self.now);
        self.evidence.add(group, decisions, begun)
    }

    /// All parts report that they have given out nothing.
    fn report_all(&mut self) {
        for part in self.terms.id.parts() {
            self.report_of(part.index, &[], Vec::new());
        }
    }

    /// Reads all groups, each with those of the claims that lie in it.
    fn read_all(&mut self, claims: &[(&str, Claim)]) {
        for group in Slips::groups_of(&(0..self.terms.count)) {
            let here = |claim: &Claim| Slips::group_of(claim.slip) == group;
            let found: Vec<_> = claims.iter().filter(|(_, claim)| here(claim)).cloned().collect();
            self.read(group, &found);
        }
    }

    /// The groups to read now, of a packet whose parts are believed.
    fn plan(&mut self, is_past: bool) -> Vec<u32> {
        self.evidence.plan(Depth::Reported, is_past, &BTreeSet::new(), self.now)
    }

    fn shows(&self, name: &str) -> bool {
        self.evidence.claim_of(&user(name)).is_some()
    }
}

#[test]
fn a_report_is_believed_only_with_the_recorded_amounts_and_found_out_once() {
    let mut known = Known::new(100);
    let wrong = Claim { amount: Amount::new(AMOUNT + 1), ..claim(0) };
    assert!(!known.report(&[("amy", claim(1))]));
    assert!(known.shows("amy"));
    assert!(known.report(&[("amy", claim(1)), ("bob", wrong.clone())]), "the part is found out");
    assert!(!known.shows("amy") && !known.shows("bob"), "nothing that only it reports is shown");
    assert!(!known.report(&[("amy", claim(1)), ("bob", wrong)]), "this is known already");
    assert!(!known.read(0, &[("amy", claim(1))]), "what is doubted is not shown, so the read refutes nothing");
    assert!(known.shows("amy") && !known.shows("bob"));
}

#[test]
fn a_report_does_not_replace_what_the_ledger_has_decided() {
    let mut known = Known::new(100);
    assert!(!known.read(0, &[("amy", claim(1))]));
    assert!(known.report(&[("bob", claim(1))]));
    assert!(known.shows("amy") && !known.shows("bob"));
}

#[test]
fn a_read_that_begins_after_a_report_refutes_it_and_one_from_before_does_not() {
    let mut known = Known::new(100);
    let before = (known.evidence.begin(), known.now);
    assert!(!known.report(&[("amy", claim(1))]));
    assert!(!known.evidence.add(0, Vec::new(), before));
    assert!(known.shows("amy"));
    assert!(known.read(0, &[]));
    assert!(!known.shows("amy"));
}

#[test]
fn of_a_part_that_the_hot_store_has_lost_the_claims_stay_and_the_report_goes() {
    let mut known = Known::new(100);
    let part = known.terms.id.parts().next().unwrap();
    assert!(!known.report(&[("amy", claim(1))]));
    assert_eq!((known.evidence.version(part).as_deref(), known.evidence.says_closed()), (Some("1"), Some(false)));
    let asked = known.evidence.begin();
    known.evidence.is_lost(part, asked, known.now);
    assert_eq!((known.evidence.version(part), known.evidence.says_closed()), (None, None));
    assert!(known.shows("amy"), "until the ledger was read");
    assert!(known.read(0, &[]));
    assert!(!known.shows("amy"));
}

#[test]
fn evidence_weighs_what_it_takes_in_memory() {
    let name = "u".repeat(64);
    let least = |known: &Known, texts: usize| {
        let slips = known.evidence.slips.bytes();
        let report = known.evidence.parts.iter().filter_map(|part| part.report.as_ref());
        let holds: usize = report.clone().map(|report| report.holds.len() * size_of::<(u32, (Hold, Instant))>()).sum();
        let claimed: usize = report.map(|report| report.claimed.len() * size_of::<u64>()).sum();
        let doubted: usize = known.evidence.parts.iter().map(|part| part.doubted.len() * size_of::<Decision>()).sum();
        size_of::<Evidence>() + size_of::<Part>() + slips + holds + claimed + doubted + texts
    };
    let assert_fits = |known: &Known, texts: usize| {
        let (weight, least) = (known.evidence.bytes(), least(known, texts));
        assert!((least..=2 * least).contains(&weight), "{weight} for {least}");
    };
    let mut known = Known::new(1_000);
    assert_fits(&known, 0);
    let holds =
        |count| (0..count).map(|slip| Hold { slip, user: format!("{name}-{slip}").parse().unwrap(), at: SENT_AT });
    assert!(!known.report_with(&[], holds(10).collect()));
    assert_fits(&known, 10 * 64);
    assert!(!known.report_with(&[], holds(900).collect()));
    assert_fits(&known, 900 * 64);
    let wrong = |slip| Claim { amount: Amount::new(AMOUNT + 1), ..claim(slip) };
    let names: Vec<String> = (0..500).map(|n| format!("{name}-{n}")).collect();
    let claims: Vec<(&str, Claim)> = names.iter().zip(0..).map(|(name, slip)| (&**name, wrong(slip))).collect();
    assert!(known.report(&claims));
    assert_fits(&known, 500 * 64);
}

#[test]
fn a_packet_is_looked_at_once_a_second_until_it_is_settled() {
    let mut known = Known::new(3_000);
    let now = known.now;
    let mut looks = |after| known.evidence.looks_for_settled(now + Duration::from_millis(after));
    assert_eq!([looks(0), looks(1), looks(999), looks(1_000), looks(1_500)], [true, false, false, true, false]);
    known.evidence.set_settled(Summary::default());
    assert!(!known.evidence.looks_for_settled(now + Duration::from_mins(1)));
}

#[test]
fn a_list_needs_the_groups_between_its_first_and_last_claim() {
    let mut known = Known::new(200);
    let slips = [0, 63, 64, 130];
    let names = ["amy", "bob", "eve", "kim"];
    let claims: Vec<(&str, Claim)> = names.into_iter().zip(slips.map(claim)).collect();
    assert!(!known.report(&claims));
    let unread = |from, limit, many| known.evidence.unread(Span::From(from), limit, many);
    assert_eq!(unread(0, 2, 9), [0], "the last claim is the last slip of its group");
    assert_eq!(unread(0, 3, 9), [0, 1], "the last claim is the first slip of its group");
    assert_eq!(unread(0, 4, 9), [0, 1, 2]);
    assert_eq!(unread(0, 4, 2), [0, 1], "not more than may be read");
    assert_eq!(unread(64, 9, 9), [1, 2], "a list that ends early asks for the rest");
    let newest = Span::Newest { after: None, before: None };
    assert_eq!(known.evidence.unread(newest, 2, 9), [1, 2]);
    assert!(!known.read(1, &claims[2..3]));
    assert_eq!(known.evidence.unread(newest, 2, 9), [2]);
    assert_eq!(known.evidence.unread(Span::From(0), 4, 9), [0, 2]);
}

#[test]
fn the_best_claim_shows_once_every_slip_is_decided() {
    let mut known = Known::new(2);
    let best = |known: &Known| known.evidence.summary().best.map(|best| best.slip);
    known.read(0, &[("amy", claim(0))]);
    assert_eq!(best(&known), None, "the other slip may be better");
    known.read(0, &[("bob", Claim { amount: Amount::new(AMOUNT + 1), ..claim(1) })]);
    assert_eq!(best(&known), Some(1));
}

#[test]
fn what_has_expired_stays_expired() {
    let mut known = Known::new(2);
    let mut after = |is_past| {
        known.evidence.conclude(is_past);
        known.evidence.is_past()
    };
    assert_eq!([after(false), after(true), after(false)], [false, true, true]);
}

#[test]
fn of_a_settled_packet_of_which_only_the_sums_are_known_anybody_may_have_a_claim() {
    let mut known = Known::new(3_000);
    assert!(!known.evidence.is_listed_by_slip(true) && !known.evidence.may_miss(&user("amy")));
    known.evidence.set_settled(Summary::default());
    assert!(known.evidence.is_listed_by_slip(false) && known.evidence.may_miss(&user("amy")));
}

#[test]
fn a_part_that_answers_again_is_believed_again() {
    let mut known = Known::new(100);
    known.report(&[]);
    let asked = known.evidence.begin();
    known.evidence.is_mute(known.part(0), asked, known.now);
    assert_eq!(known.evidence.says_closed(), None);
    let asked = known.evidence.begin();
    known.evidence.is_unchanged(known.part(0), asked, SENT_AT);
    assert_eq!(known.evidence.says_closed(), Some(false));
}

#[test]
fn amounts_are_needed_for_what_is_new() {
    let mut known = Known::new(3_000);
    let needs = |known: &Known, claims: &[(&str, Claim)], holds| {
        known.evidence.needs_amounts(known.part(0), &view(claims, holds))
    };
    let amy = [("amy", claim(0))];
    assert!(needs(&known, &amy, Vec::new()));
    known.read(0, &amy);
    assert!(!needs(&known, &amy, Vec::new()), "the ledger knows it");
    assert!(!needs(&known, &[("bob", claim(2_999))], Vec::new()), "its own part reports it");
    assert!(!needs(&known, &[], vec![hold("eve", 1)]), "the hold is not shown");
    let promised = Known::with(3_000, AckMode::Redis);
    assert!(needs(&promised, &[], vec![hold("eve", 1)]) && !needs(&promised, &[], Vec::new()));
}

#[test]
fn a_promise_shows_as_long_as_its_part_reports_it() {
    let mut known = Known::with(100, AckMode::Redis);
    known.report_with(&[], vec![hold("amy", 0)]);
    assert!(known.shows("amy"));
    known.report_with(&[], Vec::new());
    assert!(!known.shows("amy"));
}

#[test]
fn a_part_that_has_forgotten_a_claim_is_read_again() {
    for index in [0, 1] {
        let mut known = Known::new(3_000);
        let (first, last) = (known.evidence.parts[index].slips.start, known.evidence.parts[index].slips.end - 1);
        let claims = [("amy", claim(first)), ("bob", claim(last))];
        let index = u32::try_from(index).unwrap();
        known.report_all();
        known.report_of(index, &claims, Vec::new());
        known.read_all(&claims);
        assert_eq!(known.plan(false), [0; 0]);
        known.pass(1);
        known.report_of(index, &claims[1..], Vec::new());
        let read = known.plan(false);
        assert!(
            !read.is_empty()
                && read
                    .iter()
                    .all(|group| Slips::groups_of(&known.evidence.parts[index as usize].slips).contains(group)),
            "{read:?}"
        );
    }
}

#[test]
fn groups_whose_slips_are_given_out_are_read_first() {
    let names: Vec<String> = (64..128).map(|slip| format!("u{slip}")).collect();
    let claims: Vec<(&str, Claim)> = names.iter().zip(64..).map(|(name, slip)| (&**name, claim(slip))).collect();
    // The last slip of group 1 is the last one that is known to be given out. The next one is of group 2, and other parts begin in the
    // groups 15 and 31.
    for (how, first) in [("read", &[2, 15, 31, 0][..]), ("reported", &[1, 2, 15, 31, 0]), ("held", &[1, 2, 15, 31, 0])]
    {
        let mut known = Known::new(3_000);
        known.report_all();
        known.read_all(&[]);
        match how {
            "read" => known.read(1, &claims),
            "reported" => known.report(&claims),
            _ => known.report_with(&[], vec![hold("amy", 127)]),
        };
        known.pass(CHECK_INTERVAL.as_millis().try_into().unwrap());
        let read = known.plan(false);
        assert!(read.starts_with(first), "{how}: {read:?}");
    }
}

#[test]
fn a_hold_is_read_once_it_is_old() {
    let mut known = Known::new(100);
    known.read_all(&[]);
    for _ in 0..2 {
        known.report_with(&[], vec![hold("amy", 70)]);
        assert_eq!(known.plan(false), [0; 0]);
        known.pass(500);
    }
    known.report_with(&[], vec![hold("amy", 70)]);
    assert_eq!(known.plan(false), [1]);
    known.read(1, &[]);
    assert_eq!(known.plan(false), [0; 0], "it was read");
}

#[test]
fn nothing_is_certain_of_a_part_that_does_not_report() {
    let mut known = Known::new(3_000);
    known.report_of(0, &[], Vec::new());
    known.report_of(2, &[], Vec::new());
    let unread = known.plan(false);
    let of_second: Vec<u32> = Slips::groups_of(&known.evidence.parts[1].slips).collect();
    assert_eq!(unread, of_second, "they were never read, and no report replaces that");
    known.read_all(&[]);
    assert_eq!(known.plan(false), [15], "where its slips are given out");
    assert!(known.evidence.may_miss(&user("amy")));
    known.report_of(1, &[], Vec::new());
    assert_eq!(known.plan(false), [0; 0]);
    assert!(!known.evidence.may_miss(&user("amy")));
}

#[test]
fn the_end_of_a_packet_is_shown_on_the_ledgers_word_only() {
    let names: Vec<String> = (0..100).map(|slip| format!("u{slip}")).collect();
    let claims: Vec<(&str, Claim)> = names.iter().zip(0..).map(|(name, slip)| (&**name, claim(slip))).collect();
    let mut known = Known::new(100);
    known.read_all(&[]);
    known.report(&claims[1..]);
    assert_eq!(known.plan(false), [0; 0]);
    known.report(&claims);
    assert_eq!(known.plan(false), [0, 1]);
}

#[test]
fn once_a_packet_is_over_groups_with_news_are_read() {
    let mut known = Known::new(200);
    known.read_all(&[("amy", claim(0))]);
    known.report(&[("bob", claim(64))]);
    assert_eq!((known.plan(false), known.plan(true)), (vec![], vec![1]));
    known.report(&[("bob", claim(64)), ("amy", claim(0))]);
    assert_eq!(known.plan(true), [0, 1, 2, 3], "a part that knows of more decisions has news somewhere");
}
