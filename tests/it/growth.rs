//! Growth, by counting: what each action costs by the size of a packet, what a limit adds to it, and what money out costs.
//!
//! Nothing here reads a clock. Redis is real, and counts its commands and bytes itself. The ledger is in memory; its requests and
//! units are counted by the rules of `DynamoDB`. Time stands still, except for Redis.
//!
//! `make growth` prints the page of figures. The other tests hold smaller sizes to the same orders of growth.

mod figures;
mod page;
mod place;

use std::time::Duration;

use serde_json::{Value, json};
use shared::domain::{Amount, PacketId, PartId, UserId, WithdrawalEnd, WithdrawalRequest};
use shared::ledger::{EndOutcome, WithdrawalOutcome, keys};
use shared::ports::Table;
use tests::user;

use self::figures::{Figure, Figures, size};
use self::page::{Orders, Section, by_slips_grow, by_withdrawals_grow, hold_to, write};
use self::place::Place;

/// Slips that hold a claim when a packet is viewed, of ten.
const CLAIMED_OF_TEN: u32 = 7;
/// Claims that a later view finds; of a small packet, a tenth of its slips.
const NEW_CLAIMS: u32 = 100;
/// After this a view reads again what may have changed.
const CHECKED_AGAIN: Duration = Duration::from_secs(11);

/// What actions cost at one size, and what is stored after them, each under its name.
#[derive(Default)]
struct Measured {
    costs: Vec<(&'static str, Figures)>,
    stored: Vec<(&'static str, u64)>,
}

impl Measured {
    fn cost(&mut self, action: &'static str, cost: Figures) {
        self.costs.push((action, cost));
    }
}

/// The part that a user probes first.
fn first_part(id: PacketId, user: &UserId) -> Option<PartId> {
    PartId::probe_order(id, user).next()
}

/// How many claims the answer to a view shows.
fn claimed_count(body: &Value) -> u64 {
    body["claimed_count"].as_u64().unwrap_or_else(|| panic!("{body}"))
}

fn grabbed(answer: &(String, bool)) -> bool {
    answer.0 == "grabbed"
}

/// What is done to a packet: all, or what comes before its last claim.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Until {
    Views,
    End,
}

/// What actions on a packet of `slips` slips cost.
async fn by_slips(slips: u32, until: Until) -> Measured {
    let place = Place::new().await;
    let mut all = Measured::default();
    let sender = user("the-sender-1");
    let process = place.process().await;
    process.fund(&place, &sender, slips).await;
    let (cost, id) = place.cost(process.post(&place, &sender, slips)).await;
    all.cost("send", cost);
    all.stored.push(("Redis, after the send", place.redis().memory()));

    let process = place.process().await;
    let first = place.next_user();
    let second =
        std::iter::repeat_with(|| place.next_user()).find(|user| first_part(id, user) == first_part(id, &first));
    let second = second.unwrap();
    let (cost, answer) = place.cost(process.grab(id, first.as_str())).await;
    assert!(grabbed(&answer));
    all.cost("winning grab, the first of a part in a process", cost);
    let (cost, answer) = place.cost(process.grab(id, second.as_str())).await;
    assert!(grabbed(&answer));
    all.cost("winning grab", cost);
    let (cost, answer) = place.cost(process.grab(id, second.as_str())).await;
    assert_eq!(answer, ("grabbed".to_owned(), true));
    all.cost("repeat", cost);

    let terms = process.terms(id).await;
    let claimed = slips * CLAIMED_OF_TEN / 10;
    // A hash chose the part of the first two claims; all parts get an equal share of the others.
    place.claim(&process, &terms, 0, claimed - 2).await;
    let new = NEW_CLAIMS.min(slips / 10);
    let path = format!("/packets/{id}");
    let changes = async || place.claim(&process, &terms, claimed - 2, claimed - 2 + new).await;
    Box::pin(views(&place, &mut all, &path, (claimed, new), changes)).await;
    if until == Until::Views {
        return all;
    }

    place.claim_except_one(&process, &terms).await;
    let held = place.hold(&process, id.parts().next_back().unwrap()).await;
    let mut loser = place.process().await;
    for action in
        ["losing grab, a hold left behind", "losing grab, a process knows nothing", "losing grab, a process knows"]
    {
        if action.ends_with("nothing") {
            assert_eq!(
                process.grab(id, held.user.as_str()).await,
                ("grabbed".to_owned(), true),
                "its user comes again"
            );
            loser = place.process().await;
        }
        let (cost, answer) = place.cost(loser.grab(id, place.next_user().as_str())).await;
        assert_eq!(answer, ("sold_out".to_owned(), false));
        all.cost(action, cost);
    }
    all.stored.push(("Redis, all slips claimed", place.redis().memory()));
    let of_packet = ["PACKET#", "PART#", "SLIPS#"].map(|kind| format!("{kind}{id}"));
    all.stored.push(("ledger, all slips claimed", place.counters.table.bytes_of(&of_packet)));

    let settler = place.process().await;
    let (idle, _) = place.cost(settler.settle()).await;
    settler.expire();
    let (cost, refunded) = place.cost(settler.settle()).await;
    assert_eq!(refunded, (0, 0));
    all.cost("settle, nothing left", cost - idle);
    process.send(&place, &sender, slips).await;
    let (cost, refunded) = place.cost(settler.settle()).await;
    assert_eq!(refunded, (1, u64::from(slips)));
    all.cost("settle, everything left", cost - idle);
    all
}

/// Views of a packet of which `claimed` slips are claimed, and then `new` more by `claim`.
async fn views(place: &Place, all: &mut Measured, path: &str, (claimed, new): (u32, u32), claim: impl AsyncFnOnce()) {
    let sender = "the-sender-1";
    let viewer = place.process().await;
    let (cost, body) = place.cost(viewer.view(path, sender)).await;
    assert_eq!(claimed_count(&body), u64::from(claimed));
    all.cost("first view", cost);
    let (cost, _) = place.cost(viewer.view(path, sender)).await;
    all.cost("later view, nothing new", cost);
    claim().await;
    let (cost, body) = place.cost(viewer.view(path, sender)).await;
    assert_eq!(claimed_count(&body), u64::from(claimed + new));
    all.cost("later view, new claims", cost);
    tokio::time::advance(CHECKED_AGAIN).await;
    let (cost, _) = place.cost(viewer.view(path, sender)).await;
    all.cost("later view, after 11 s", cost);

    for (first, later, query) in [
        ("claims, first page", "claims, the page again", "limit=100"),
        ("newest claims, first page", "newest claims, again", "limit=100&order=newest"),
    ] {
        let lister = place.process().await;
        let path = format!("{path}/claims?{query}");
        let (cost, body) = place.cost(lister.view(&path, sender)).await;
        assert_eq!(body["claims"].as_array().unwrap().len(), (claimed + new).min(100) as usize, "{body}");
        all.cost(first, cost);
        let (cost, _) = place.cost(lister.view(&path, sender)).await;
        all.cost(later, cost);
    }
}

/// Runs `measure` for each size, with a clock that stands still.
fn each<M: AsyncFn(u32) -> Measured>(sizes: &[u32], measure: M) -> Vec<Measured> {
    let run = |size: &u32| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(measure(*size))
    };
    sizes.iter().map(run).collect()
}

/// What money out costs a user who has had `earlier` withdrawals, and the bytes of their wallet.
async fn by_withdrawals(earlier: u32) -> Measured {
    let place = Place::new().await;
    let process = place.process().await;
    let user = place.next_user();
    process.fund(&place, &user, 1_000).await;
    let mut all = Measured::default();
    let bytes = async || {
        let wallet = place.counters.table.table.get(keys::wallet(&user)).await.unwrap();
        size(&wallet.unwrap())
    };
    let request = |id: &str| WithdrawalRequest::at_once(id.parse().unwrap(), Amount::new(2));
    for number in 0..earlier {
        let made = process.wallets.withdraw(&user, &request(&format!("earlier-{number:08}")), None).await;
        assert!(matches!(made, Ok(WithdrawalOutcome::Made(_))), "{made:?}");
    }
    all.stored.push(("wallet, no withdrawal in two steps", bytes().await));
    let (cost, made) = place.cost(process.wallets.withdraw(&user, &request("at-once"), None)).await;
    assert!(matches!(made, Ok(WithdrawalOutcome::Made(_))), "{made:?}");
    all.cost("withdrawal at once", cost);
    for (action, end) in [
        ("post", WithdrawalEnd::Post(None)),
        ("post, a part", WithdrawalEnd::Post(Some(Amount::new(1)))),
        ("void", WithdrawalEnd::Void(None)),
    ] {
        let id = action.replace(", ", "-").replace(' ', "-");
        let request = WithdrawalRequest { pending: true, ..request(&id) };
        let (cost, made) = place.cost(process.wallets.withdraw(&user, &request, None)).await;
        assert!(matches!(made, Ok(WithdrawalOutcome::Made(_))), "{made:?}");
        if action == "post" {
            all.cost("pending withdrawal", cost);
        }
        let (cost, ended) = place.cost(process.wallets.end_withdrawal(&user, &request.id, end, None)).await;
        assert!(matches!(ended, Ok(EndOutcome::Ended(_))), "{ended:?}");
        all.cost(action, cost);
    }
    all.stored.push(("wallet, with some", bytes().await));
    all
}

/// What a limit costs that a packet of `slips` slips shares with others.
async fn by_limited_slips(slips: u32) -> Measured {
    let place = Place::new().await;
    let process = place.process().await;
    let mut all = Measured::default();
    let sender = user("the-sender-1");
    process.fund(&place, &sender, 3 * slips).await;
    let limit = json!({"key": "evening", "wins": 1});
    let plain = process.post(&place, &sender, slips).await;
    let (cost, first) = place.cost(process.post_with(&place, &sender, slips, &limit)).await;
    all.cost("send with a limit", cost);
    let second = process.post_with(&place, &sender, slips, &limit).await;
    // The first grab of a packet in a process reads its terms and amounts.
    for id in [plain, first, second] {
        assert!(grabbed(&process.grab(id, place.next_user().as_str()).await));
    }
    let winner = place.next_user();
    for (action, id, outcome) in [
        ("winning grab, no limit", plain, "grabbed"),
        ("winning grab, with a limit", first, "grabbed"),
        ("grab above the limit", second, "limit_reached"),
    ] {
        let (cost, answer) = place.cost(process.grab(id, winner.as_str())).await;
        assert_eq!(answer.0, outcome, "{action}");
        all.cost(action, cost);
    }
    all
}

const SLIPS: &str = "Growth by the slips of a packet";
const LIMITS: &str = "Growth by the slips of packets with a limit";
const WITHDRAWALS: &str = "Growth by the withdrawals that a user has had";

/// What is measured by one number, at these sizes.
fn section<M: AsyncFn(u32) -> Measured>(title: &'static str, sizes: &[u32], measure: M) -> Section {
    Section { title, sizes: sizes.to_vec(), measured: each(sizes, measure) }
}

fn slips(sizes: &[u32], until: Until) -> Section {
    section(SLIPS, sizes, async |size| Box::pin(by_slips(size, until)).await)
}

#[test]
fn costs_grow_with_slips_no_more_than_they_may() {
    hold_to(&slips(&[10, 1_000, 10_000], Until::End), by_slips_grow);
}

#[test]
fn costs_of_a_view_of_70_000_claims_grow_no_more_than_they_may() {
    let section = slips(&[10, 1_000, 100_000], Until::Views);
    hold_to(&section, by_slips_grow);
    for (action, cost) in section.measured[2].costs.iter().filter(|(action, _)| action.contains("view")) {
        let (moved, reads) = (cost.get(Figure::Moved), cost.get(Figure::Reads));
        assert!(moved <= 200_000 && reads <= 64, "{action}: {moved} bytes of Redis, {reads} reads of the ledger");
    }
}

#[test]
fn a_limit_costs_one_item_more_and_money_out_a_known_number_of_units() {
    let limits = section(LIMITS, &[10, 1_000], by_limited_slips);
    hold_to(&limits, by_slips_grow);
    let of = |action: &str| {
        let costs = &limits.measured[0].costs;
        costs.iter().find(|(name, _)| *name == action).map(|(_, cost)| *cost).unwrap()
    };
    let (plain, limited) = (of("winning grab, no limit"), of("winning grab, with a limit"));
    // One item more, which is read before the slip is taken.
    let more = [(Figure::WriteUnits, 2), (Figure::Reads, 1), (Figure::ReadUnits, 2)];
    let expected = more.into_iter().fold(plain, |cost, (figure, by)| cost.with(figure, plain.get(figure) + by));
    assert_eq!(limited.with(Figure::Moved, 0), expected.with(Figure::Moved, 0));
    let known = of("grab above the limit");
    assert_eq!([Figure::Calls, Figure::Transactions].map(|figure| known.get(figure)), [0, 0]);
    let withdrawals = section(WITHDRAWALS, &[1, 100], by_withdrawals);
    hold_to(&withdrawals, by_withdrawals_grow);
    let [first, _] = &withdrawals.measured[..] else { panic!("two sizes") };
    let units: Vec<_> = first.costs.iter().map(|(action, cost)| (*action, cost.get(Figure::WriteUnits))).collect();
    // Four items of a transaction, and three of an end; an entry of the index comes or goes; what goes back is a movement of its own.
    let expected =
        [("withdrawal at once", 8), ("pending withdrawal", 9), ("post", 7), ("post, a part", 9), ("void", 9)];
    assert_eq!(units, expected);
    assert!(first.stored[1].1 - first.stored[0].1 <= 40, "the bytes of a wallet grow: {:?}", first.stored);
}

#[test]
#[ignore = "make growth runs it, for minutes"]
fn page_of_figures() {
    let all = [
        (slips(&[10, 1_000, 100_000], Until::End), by_slips_grow as Orders),
        (section(LIMITS, &[10, 1_000], by_limited_slips), by_slips_grow),
        (section(WITHDRAWALS, &[1, 1_000], by_withdrawals), by_withdrawals_grow),
    ];
    write(all.iter().map(|(section, _)| section));
    for (section, grow) in &all {
        hold_to(section, *grow);
    }
}
