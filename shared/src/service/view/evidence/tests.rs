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

/// What is known of a packet of `count` slips. Questions are answered at once.
struct Known {
    evidence: Evidence,
    terms: Terms,
    now: Instant,
}

impl Known {
    fn new(count: u32) -> Self {
        let terms = terms(count, AckMode::Ledger);
        Self { evidence: Evidence::new(&terms), terms, now: Instant::now() }
    }

    /// The first part reports these claims.
    fn report(&mut self, claims: &[(&str, Claim)]) -> bool {
        self.report_with(claims, Vec::new())
    }

    fn report_with(&mut self, claims: &[(&str, Claim)], holds: Vec<Hold>) -> bool {
        let part = self.terms.id.parts().next().unwrap();
        let amounts = Amounts::pack(&vec![AMOUNT; part.slips(self.terms.count).len()]).unwrap();
        let view = PartView {
            now: SENT_AT,
            version: claims.len().to_string(),
            is_closed: false,
            known_count: u32::try_from(claims.len()).unwrap(),
            claims: claims.iter().map(|(name, claim)| (user(name), claim.clone())).collect(),
            holds,
        };
        let asked = self.evidence.begin();
        self.evidence.report(part, asked, view, Some(&amounts), self.now)
    }

    /// A read of a group finds these claims.
    fn read(&mut self, group: u32, claims: &[(&str, Claim)]) -> bool {
        let decisions = claims.iter().map(|(name, claim)| claim.decision(&user(name))).collect();
        let begun = (self.evidence.begin(), self.now);
        self.evidence.add(group, decisions, begun)
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
