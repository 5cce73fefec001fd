use proptest::prelude::*;

use super::*;
use crate::domain::{Movement, MovementFilter, MovementKind};
use crate::ledger::items::{OutsideItem, RefundItem, SentItem};
use crate::ledger::{LedgerError, Slice};

const DAY: u64 = 24 * 60 * 60 * 1_000;
const NOW: u64 = 1_795_181_400_000;

/// A packet of so many milliseconds since 1970.
fn packet(created: u64, n: u8) -> PacketId {
    PacketId::new(at(created), 1, [n; 10])
}

impl Ledger<Told> {
    fn holds_claim(&self, id: PacketId, ms: u64) {
        let claim = Claim { slip: 5, amount: Amount::new(10), at: at(ms) };
        self.holds(keys::claim(&user("alice"), id), &claim_item(id, &claim));
    }

    fn holds_sent(&self, id: PacketId) {
        let sent = SentItem { packet_id: id, amount: Amount::new(300), at: id.created_at(), day: None };
        self.holds(keys::sent(&user("alice"), id), &sent);
    }

    fn holds_in_timeline<I: serde::Serialize>(&self, key: Key, ms: u64, item: &I) {
        self.holds(keys::in_timeline(&key, at(ms)), item);
        self.holds(key, item);
    }

    fn holds_refund(&self, id: PacketId, lowest: u32, ms: u64) {
        let refund = RefundItem { packet_id: id, slip_count: 2, amount: Amount::new(100), at: at(ms) };
        self.holds_in_timeline(keys::refund(&user("alice"), id, lowest), ms, &refund);
    }

    fn holds_return(&self, id: &str, ms: u64) {
        let item = OutsideItem { id: id.to_owned(), amount: Amount::new(5), at: at(ms), by: None };
        self.holds(keys::in_timeline(&keys::returned(&user("alice"), &id.parse().unwrap()), at(ms)), &item);
    }

    fn holds_outside(&self, is_deposit: bool, id: &str, ms: u64, by: Option<Signer>) {
        let (alice, key) = (user("alice"), id.parse().unwrap());
        let key = if is_deposit { keys::deposit(&alice, &key) } else { keys::withdrawal(&alice, &key) };
        let item = OutsideItem { id: id.to_owned(), amount: Amount::new(300), at: at(ms), by };
        self.holds_in_timeline(key, ms, &item);
    }

    async fn page(&self, filter: MovementFilter, limit: u32) -> Vec<Movement> {
        self.movements(&user("alice"), filter, None, limit).await.unwrap().rows
    }

    /// All pages of a list.
    async fn pages(&self, filter: MovementFilter, limit: u32) -> Vec<Movement> {
        let (mut rows, mut after) = (Vec::new(), None);
        loop {
            let page = self.movements(&user("alice"), filter, after, limit).await.unwrap();
            assert!(page.rows.len() == limit as usize || page.next.is_none(), "{limit}");
            rows.extend(page.rows);
            // A cursor goes through the client's hands.
            after = page.next.map(|next| next.to_string().parse().unwrap());
            if after.is_none() {
                return rows;
            }
        }
    }
}

fn row(movement: &Movement) -> (u64, &'static str, String) {
    (movement.at.ms(), movement.kind.name(), movement.id.clone())
}

/// A ledger with one movement of each kind and two claims, all of alice's.
fn ledger_with_movements() -> Ledger<Told> {
    let ledger = ledger();
    let old = packet(NOW - 3 * DAY, 1);
    ledger.holds_claim(old, NOW - 10);
    ledger.holds_claim(packet(NOW - 20, 2), NOW - 15);
    ledger.holds_sent(packet(NOW - 12, 3));
    ledger.holds_refund(packet(NOW - 2 * DAY, 4), 90, NOW - 11);
    ledger.holds_outside(true, "d1", NOW - 5, Some(signer()));
    ledger.holds_outside(false, "w1", NOW - 5, None);
    ledger.holds(keys::wallet(&user("alice")), &BTreeMap::from([("balance", 1)]));
    ledger
}

#[tokio::test]
async fn movements_of_every_kind_come_newest_first_with_their_signs() {
    let ledger = ledger_with_movements();
    let Slice { rows, next } = ledger.movements(&user("alice"), MovementFilter::default(), None, 10).await.unwrap();
    assert!(next.is_none());
    let ids = [packet(NOW - 3 * DAY, 1), packet(NOW - 20, 2), packet(NOW - 12, 3), packet(NOW - 2 * DAY, 4)];
    let shown: Vec<_> =
        rows.iter().map(|row| (row.kind.name(), &*row.id, row.amount, NOW - row.at.ms(), row.packet_id)).collect();
    let [old, young, sent, refunded] = ids.map(|id| id.to_string());
    let refund = format!("{refunded}-90");
    let expected = [
        ("withdrawal", "w1", -300, 5, None),
        ("deposit", "d1", 300, 5, None),
        ("claim", &*old, 10, 10, Some(ids[0])),
        ("refund", &refund, 100, 11, Some(ids[3])),
        ("sent", &sent, -300, 12, Some(ids[2])),
        ("claim", &young, 10, 15, Some(ids[1])),
    ];
    assert_eq!(shown, expected);
    let signers: Vec<_> = rows.into_iter().map(|row| row.by).collect();
    assert_eq!(signers, [None, Some(signer()), None, None, None, None], "older items name nobody");
}

#[tokio::test]
async fn a_claim_whose_clock_was_wrong_is_in_one_page_all_the_same() {
    let ledger = ledger();
    for (n, ms) in [(1, 0), (2, NOW - 2 * DAY), (3, NOW + 20 * DAY), (4, u64::MAX), (5, NOW)] {
        ledger.holds_claim(packet(NOW, n), ms);
        ledger.holds_outside(true, &format!("d{n}"), NOW - DAY + u64::from(n), None);
    }
    for limit in 1..=10 {
        let mut ids: Vec<String> =
            ledger.pages(MovementFilter::default(), limit).await.iter().map(|row| row.id.clone()).collect();
        assert_eq!(ids.len(), 10);
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 10, "{limit}");
    }
    // Every stretch of time has its own.
    let days = [None, Some(NOW - 30 * DAY), Some(NOW - DAY), Some(NOW), Some(NOW + DAY), Some(NOW + 30 * DAY), None];
    let mut count = 0;
    for days in days.windows(2) {
        let [from, to] = [days[0], days[1]].map(|ms| ms.map(at));
        count += ledger.pages(MovementFilter { from, to, kind: None }, 3).await.len();
    }
    assert_eq!(count, 10);
}

#[tokio::test]
async fn the_newest_claim_may_be_of_a_packet_that_is_older_than_200_others() {
    let ledger = ledger();
    ledger.holds_claim(packet(NOW - DAY / 2, 255), NOW);
    for n in 0..200_u8 {
        ledger.holds_claim(packet(NOW - DAY / 4, n), NOW - DAY / 5);
    }
    let newest = ledger.pages(MovementFilter::default(), 10).await;
    assert_eq!((newest.len(), newest[0].at), (201, at(NOW)));
}

/// A movement: its kind, its packet's age or its own, and how long after its packet's creation a claim is. In units, so that there are
/// ties.
type Plan = (usize, u64, u64);

fn planned(ledger: &Ledger<Told>, n: usize, (kind, age, lag): Plan) {
    let created = NOW - age * DAY / 4;
    let id = packet(created, u8::try_from(n).unwrap());
    match MovementKind::ALL[kind] {
        MovementKind::Claim => ledger.holds_claim(id, created + lag * DAY / 4),
        MovementKind::Deposit => ledger.holds_outside(true, &format!("d{n}"), created, None),
        MovementKind::Refund => ledger.holds_refund(id, u32::try_from(n).unwrap(), created),
        MovementKind::Return => ledger.holds_return(&format!("r{n}"), created),
        MovementKind::Sent => ledger.holds_sent(id),
        MovementKind::Withdrawal => ledger.holds_outside(false, &format!("w{n}"), created, None),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Pages are pieces of one list in order, of any filter, also while movements of other times are added.
    #[test]
    fn all_pages_together_are_the_sorted_list(
        plans in prop::collection::vec((0_usize..6, 0_u64..60, 0_u64..40), 0..60),
        later in prop::collection::vec((0_usize..6, 0_u64..60, 0_u64..40), 0..20),
        limit in 1_u32..12,
        (from, to) in (prop::option::of(0_u64..60), prop::option::of(0_u64..60)),
        kind in prop::option::of(0_usize..6),
    ) {
        let ledger = ledger();
        for (n, plan) in plans.iter().enumerate() {
            planned(&ledger, n, *plan);
        }
        let ago = |age: Option<u64>| age.map(|age| at(NOW - age * DAY / 4));
        let filter = MovementFilter { from: ago(from), to: ago(to), kind: kind.map(|kind| MovementKind::ALL[kind]) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let all = ledger.pages(MovementFilter { kind: None, from: None, to: None }, 100).await;
            prop_assert_eq!(all.len(), plans.len());
            prop_assert!(all.iter().map(|movement| (movement.at, movement.kind)).is_sorted_by(|one, other| one >= other));
            let is_asked = |movement: &&Movement| {
                filter.from.is_none_or(|from| movement.at >= from)
                    && filter.to.is_none_or(|to| movement.at < to)
                    && filter.kind.is_none_or(|kind| movement.kind == kind)
            };
            let expected: Vec<_> = all.iter().filter(is_asked).map(row).collect();
            let pages: Vec<_> = ledger.pages(filter, limit).await.iter().map(row).collect();
            prop_assert_eq!(&pages, &expected);

            // What is added between two pages changes nothing about what was there.
            let (mut shown, mut after, mut added) = (Vec::new(), None, later.iter().enumerate());
            loop {
                let page = ledger.movements(&user("alice"), filter, after, limit).await.unwrap();
                shown.extend(page.rows.iter().map(row));
                after = page.next;
                if after.is_none() {
                    break;
                }
                if let Some((n, plan)) = added.next() {
                    planned(&ledger, plans.len() + n, *plan);
                }
            }
            let there: Vec<_> = shown.iter().filter(|row| expected.contains(row)).cloned().collect();
            prop_assert_eq!(there, expected);
            shown.dedup();
            let count = shown.len();
            shown.sort();
            shown.dedup();
            prop_assert_eq!(shown.len(), count);
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn an_item_without_a_sort_key_or_a_packet_is_a_defect() {
    let claim = BTreeMap::from([("amount", 1)]);
    let Write::PutNew { key, item } = put(keys::claim(&user("alice"), packet_id(1)), &claim) else { panic!("a put") };
    let without = ledger();
    without.table.items.lock().unwrap().insert(key, item);
    let nameless = ledger();
    let key = Key { sk: "CLAIM#x".to_owned(), ..keys::claim(&user("alice"), packet_id(1)) };
    nameless.holds(key, &claim_item(packet_id(1), &Claim { slip: 5, amount: Amount::new(1), at: at(7) }));
    for ledger in [without, nameless] {
        let page = ledger.movements(&user("alice"), MovementFilter::default(), None, 1).await;
        assert!(matches!(page, Err(LedgerError::Impossible(_))), "{page:?}");
    }
}

#[tokio::test]
async fn claims_are_read_as_far_as_they_can_belong_to_the_page() {
    let claims = MovementFilter { kind: Some(MovementKind::Claim), ..MovementFilter::default() };
    let queries = async |ledger: &Ledger<Told>, filter: &MovementFilter| {
        ledger.page(*filter, 10).await;
        std::mem::take(&mut *ledger.table.queries.lock().unwrap()).len()
    };
    assert_eq!(queries(&ledger_with_movements(), &claims).await, 1, "all of them came");
    let ledger = ledger();
    // One a day.
    for n in 0..400 {
        let created = NOW - n * DAY;
        ledger.holds_claim(packet(created, 1), created);
    }
    assert_eq!(queries(&ledger, &claims).await, 1, "older packets have older claims");
    let from = MovementFilter { from: Some(at(NOW + DAY)), ..claims };
    assert_eq!(queries(&ledger, &from).await, 1, "older packets have no claim after that");
}
