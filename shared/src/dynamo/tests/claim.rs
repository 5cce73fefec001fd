use super::*;
use crate::domain::{Claim, Fence, Owner};
use crate::dynamo::items::{ClaimItem, FenceItem};
use crate::dynamo::{ClaimOutcome, LedgerError};

fn wanted() -> Claim {
    Claim { slip: 2, amount: Amount::new(520), at: at(11) }
}

fn fence(slip: u32, owner: Owner) -> Fence {
    Fence { slip, owner, amount: Amount::new(520), at: at(11) }
}

fn of(name: &str) -> Owner {
    Owner::User(user(name))
}

fn claim_item(claim: &Claim) -> ClaimItem {
    let Terms { id, sender, greeting, .. } = terms();
    ClaimItem { packet_id: id, slip: claim.slip, amount: claim.amount, at: claim.at, sender_id: sender, greeting }
}

async fn claim(ledger: &Ledger<Told>) -> Result<ClaimOutcome, LedgerError> {
    ledger.claim(&terms(), &user("ann"), &wanted()).await
}

#[tokio::test]
async fn a_claim_is_a_fence_a_claim_and_its_amount() {
    let ledger = ledger();
    assert!(matches!(claim(&ledger).await.unwrap(), ClaimOutcome::Committed));
    let deltas = vec![("balance", 520), ("claim_count", 1), ("claim_amount", 520)];
    let expected = [
        put(keys::fence(packet_id(1), 2), &FenceItem::from(&fence(2, of("ann")))),
        put(keys::claim(&user("ann"), packet_id(1)), &claim_item(&wanted())),
        Write::Add { key: keys::wallet(&user("ann")), deltas, bound: None },
    ];
    assert_eq!(ledger.written(), expected);
}

#[tokio::test]
async fn anothers_fence_takes_the_slip() {
    for owner in [of("bob"), Owner::Refunded] {
        let fence = fence(2, owner);
        // Shown with the refusal, or read after it.
        let shown = cancelled([there(&FenceItem::from(&fence)), Reason::None, Reason::None]);
        let read = cancelled([Reason::ConditionFailed(None), Reason::None, Reason::None]);
        read.holds(keys::fence(packet_id(1), 2), &FenceItem::from(&fence));
        for (ledger, reads) in [(shown, vec![]), (read, vec![keys::fence(packet_id(1), 2)])] {
            let outcome = claim(&ledger).await.unwrap();
            assert_eq!(*ledger.table.reads.lock().unwrap(), reads, "what was shown is not read again");
            assert!(matches!(&outcome, ClaimOutcome::Taken(found) if *found == fence), "{outcome:?}");
            assert_eq!(outcome.facts(&user("ann"), &wanted()), std::slice::from_ref(&fence));
        }
    }
}

#[tokio::test]
async fn the_users_own_claim_decides_the_answer() {
    let earlier = Claim { slip: 0, amount: Amount::new(77), at: at(9) };
    for foreign in [None, Some(fence(2, of("bob")))] {
        let fence_reason = || foreign.as_ref().map_or(Reason::None, |fence| there(&FenceItem::from(fence)));
        let shown = cancelled([fence_reason(), there(&claim_item(&earlier)), Reason::None]);
        let read = cancelled([fence_reason(), Reason::ConditionFailed(None), Reason::None]);
        read.holds(keys::claim(&user("ann"), packet_id(1)), &claim_item(&earlier));
        for ledger in [shown, read] {
            let outcome = claim(&ledger).await.unwrap();
            let ClaimOutcome::Already { claim, foreign: found } = &outcome else { panic!("{outcome:?}") };
            assert_eq!((claim, found), (&earlier, &foreign));
            let facts: Vec<Fence> = foreign.iter().cloned().chain([earlier.fence(&user("ann"))]).collect();
            assert_eq!(outcome.facts(&user("ann"), &wanted()), facts);
        }
    }
}

#[tokio::test]
async fn an_earlier_attempt_of_the_same_claim_is_his_own() {
    let own = FenceItem::from(&fence(2, of("ann")));
    let shown = cancelled([there(&own), there(&claim_item(&wanted())), Reason::None]);
    let read = cancelled([there(&own), Reason::None, Reason::None]);
    read.holds(keys::claim(&user("ann"), packet_id(1)), &claim_item(&wanted()));
    for ledger in [shown, read] {
        let outcome = claim(&ledger).await.unwrap();
        assert!(
            matches!(&outcome, ClaimOutcome::Already { claim, foreign: None } if *claim == wanted()),
            "{outcome:?}"
        );
        assert_eq!(outcome.facts(&user("ann"), &wanted()), [fence(2, of("ann"))]);
    }
    assert_eq!(ClaimOutcome::Committed.facts(&user("ann"), &wanted()), [fence(2, of("ann"))]);
}

#[tokio::test]
async fn a_fence_without_its_claim_is_a_defect() {
    let own = FenceItem::from(&fence(2, of("ann")));
    for reasons in
        [[there(&own), Reason::None, Reason::None], [Reason::None, Reason::ConditionFailed(None), Reason::None]]
    {
        assert!(matches!(claim(&cancelled(reasons)).await, Err(LedgerError::Impossible(_))));
    }
}

#[tokio::test]
async fn claims_and_fences_are_found() {
    let ledger = ledger();
    ledger.holds(keys::claim(&user("ann"), packet_id(1)), &claim_item(&wanted()));
    ledger.holds(keys::fence(packet_id(1), 2), &FenceItem::from(&fence(2, of("ann"))));
    assert_eq!(ledger.claim_of(&user("ann"), packet_id(1)).await.unwrap(), Some(wanted()));
    assert_eq!(ledger.claim_of(&user("bob"), packet_id(1)).await.unwrap(), None);
    assert_eq!(ledger.fence(packet_id(1), 2).await.unwrap(), Some(fence(2, of("ann"))));
    assert_eq!(ledger.fence(packet_id(1), 1).await.unwrap(), None);
    assert_eq!(fence(2, of("ann")).claim(), Some((&user("ann"), wanted())));
    assert_eq!(fence(2, Owner::Refunded).claim(), None);
}
