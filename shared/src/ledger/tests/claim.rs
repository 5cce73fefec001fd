use std::collections::BTreeSet;
use std::future::pending;
use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::domain::{AckMode, Decision, Owner, WinLimit, Won};
use crate::ledger::commit::Committed;
use crate::ledger::items::{self, DecisionItem};
use crate::ledger::{ClaimOutcome, ClaimRefusal, LedgerError};
use crate::timeouts;

fn wanted() -> Claim {
    Claim { slip: 2, amount: Amount::new(520), at: at(11) }
}

fn decision(slip: u32, owner: Owner) -> Decision {
    Decision { slip, owner, amount: Amount::new(520), at: at(11) }
}

fn of(name: &str) -> Owner {
    Owner::User(user(name))
}

fn claim_item(claim: &Claim) -> ClaimItem {
    super::claim_item(packet_id(1), claim)
}

async fn claim(ledger: &Ledger<Told>) -> Result<ClaimOutcome, LedgerError> {
    ledger.claim(&terms(), &user("ann"), &wanted(), None).await
}

#[tokio::test]
async fn a_claim_is_a_decision_a_claim_and_its_amount() {
    let ledger = ledger();
    assert!(matches!(claim(&ledger).await.unwrap(), ClaimOutcome::Committed));
    let deltas = vec![("balance", 520), ("claim_count", 1), ("claim_amount", 520)];
    let expected = [
        put(keys::decision(packet_id(1), 2), &DecisionItem::from(&decision(2, of("ann")))),
        put(keys::claim(&user("ann"), packet_id(1)), &claim_item(&wanted())),
        Write::Add { key: keys::wallet(&user("ann")), deltas, bounds: vec![], absent: Some(items::MAY_NOT_GRAB) },
    ];
    assert_eq!(ledger.written(), expected);
}

#[tokio::test]
async fn a_user_who_may_not_grab_keeps_what_they_have_and_gets_no_more() {
    let wallet = || Reason::ConditionFailed(None);
    let without = cancelled([Reason::None, Reason::None, wallet()]);
    let outcome = claim(&without).await.unwrap();
    assert!(matches!(outcome, ClaimOutcome::Refused(ClaimRefusal::Suspended)), "{outcome:?}");
    assert_eq!(outcome.decisions(&user("ann"), &wanted()), []);
    assert!(!outcome.is_in_ledger(&wanted()));
    // The table is busy with the claim, and does not show it.
    let busy = || Reason::Busy("TransactionConflict".to_owned());
    let with = cancelled([Reason::None, busy(), wallet()]);
    with.holds(keys::claim(&user("ann"), packet_id(1)), &claim_item(&wanted()));
    let outcome = claim(&with).await.unwrap();
    assert!(matches!(&outcome, ClaimOutcome::Already(claim) if *claim == wanted()), "{outcome:?}");
}

/// A packet with a limit of two wins and of 1,000.
fn limited() -> Terms {
    let limit = WinLimit { key: "nye".parse().unwrap(), wins: Some(2), amount: Some(Amount::new(1_000)) };
    Terms { limit: Some(limit), ..terms() }
}

#[tokio::test]
async fn a_limit_is_one_more_item_of_the_transaction() {
    let ledger = ledger();
    ledger.claim(&limited(), &user("ann"), &wanted(), None).await.unwrap();
    let written = ledger.written();
    let won = Write::Add {
        key: keys::won(&user("ann"), &user("alice"), &"nye".parse().unwrap()),
        deltas: vec![("wins", 1), ("amount", 520)],
        bounds: vec![Bound::AtMost("wins", 1), Bound::AtMost("amount", 480)],
        absent: None,
    };
    assert_eq!((written.len(), written.last()), (4, Some(&won)));
    // A slip that is more than the limit fits nobody.
    let ledger = super::ledger();
    ledger.claim(&limited(), &user("ann"), &Claim { amount: Amount::new(1_001), ..wanted() }, None).await.unwrap();
    let bounds = vec![Bound::AtMost("wins", 1), Bound::AtLeast("wins", u64::MAX)];
    assert!(matches!(ledger.written().last(), Some(Write::Add { bounds: found, .. }) if *found == bounds));
}

#[tokio::test]
async fn a_user_above_a_limit_keeps_what_they_have_and_gets_no_more() {
    let won = Won { wins: 2, amount: Amount::new(600) };
    let (shown, hidden) = (there(&won), Reason::ConditionFailed(None));
    for reason in [shown, hidden] {
        let ledger = cancelled([Reason::None, Reason::None, Reason::None, reason]);
        let outcome = ledger.claim(&limited(), &user("ann"), &wanted(), None).await.unwrap();
        assert!(matches!(outcome, ClaimOutcome::Refused(ClaimRefusal::LimitReached)), "{outcome:?}");
    }
    // The table is busy with the claim of before, whose answer was lost, and does not show it.
    let busy = Reason::Busy("TransactionConflict".to_owned());
    let ledger = cancelled([Reason::None, busy, Reason::None, there(&won)]);
    ledger.holds(keys::claim(&user("ann"), packet_id(1)), &claim_item(&wanted()));
    let outcome = ledger.claim(&limited(), &user("ann"), &wanted(), None).await.unwrap();
    assert!(matches!(&outcome, ClaimOutcome::Already(claim) if *claim == wanted()), "{outcome:?}");
}

#[tokio::test]
async fn redis_word_is_kept_whatever_the_operator_says() {
    let ledger = ledger();
    let terms = Terms { ack: AckMode::Redis, ..terms() };
    let outcome = ledger.claim(&terms, &user("ann"), &wanted(), None).await.unwrap();
    assert!(matches!(outcome, ClaimOutcome::Committed), "{outcome:?}");
    let written = ledger.written();
    assert!(matches!(written.last(), Some(Write::Add { absent: None, .. })), "{written:?}");
}

#[tokio::test]
async fn anothers_decision_takes_the_slip() {
    for owner in [of("bob"), Owner::Refunded] {
        let decision = decision(2, owner);
        // Shown with the refusal, or read after it.
        let shown = cancelled([there(&DecisionItem::from(&decision)), Reason::None, Reason::None]);
        let read = cancelled([Reason::ConditionFailed(None), Reason::None, Reason::None]);
        read.holds(keys::decision(packet_id(1), 2), &DecisionItem::from(&decision));
        for (ledger, reads) in [(shown, vec![]), (read, vec![keys::decision(packet_id(1), 2)])] {
            let outcome = claim(&ledger).await.unwrap();
            assert_eq!(*ledger.table.reads.lock().unwrap(), reads, "what was shown is not read again");
            assert!(matches!(&outcome, ClaimOutcome::Taken(found) if *found == decision), "{outcome:?}");
            assert_eq!(outcome.decisions(&user("ann"), &wanted()), std::slice::from_ref(&decision));
        }
    }
}

#[tokio::test]
async fn the_users_own_claim_decides_the_answer() {
    let earlier = Claim { slip: 0, amount: Amount::new(77), at: at(9) };
    for foreign in [None, Some(decision(2, of("bob")))] {
        let decision_reason = || foreign.as_ref().map_or(Reason::None, |decision| there(&DecisionItem::from(decision)));
        let shown = cancelled([decision_reason(), there(&claim_item(&earlier)), Reason::None]);
        let read = cancelled([decision_reason(), Reason::ConditionFailed(None), Reason::None]);
        read.holds(keys::claim(&user("ann"), packet_id(1)), &claim_item(&earlier));
        for ledger in [shown, read] {
            let outcome = claim(&ledger).await.unwrap();
            let (claim, found) = match &outcome {
                ClaimOutcome::Already(claim) => (claim, None),
                ClaimOutcome::AlreadyAndTaken(claim, decision) => (claim, Some(decision)),
                other => panic!("{other:?}"),
            };
            assert_eq!((claim, found), (&earlier, foreign.as_ref()));
            let decisions: Vec<Decision> = foreign.iter().cloned().chain([earlier.decision(&user("ann"))]).collect();
            assert_eq!(outcome.decisions(&user("ann"), &wanted()), decisions);
        }
    }
}

#[tokio::test]
async fn an_earlier_attempt_of_the_same_claim_is_the_users_own() {
    let own = DecisionItem::from(&decision(2, of("ann")));
    let shown = cancelled([there(&own), there(&claim_item(&wanted())), Reason::None]);
    let read = cancelled([there(&own), Reason::None, Reason::None]);
    read.holds(keys::claim(&user("ann"), packet_id(1)), &claim_item(&wanted()));
    for ledger in [shown, read] {
        let outcome = claim(&ledger).await.unwrap();
        assert!(matches!(&outcome, ClaimOutcome::Already(claim) if *claim == wanted()), "{outcome:?}");
        assert_eq!(outcome.decisions(&user("ann"), &wanted()), [decision(2, of("ann"))]);
    }
    assert_eq!(ClaimOutcome::Committed.decisions(&user("ann"), &wanted()), [decision(2, of("ann"))]);
}

#[tokio::test]
async fn a_decision_without_its_claim_is_a_defect() {
    let own = DecisionItem::from(&decision(2, of("ann")));
    for reasons in
        [[there(&own), Reason::None, Reason::None], [Reason::None, Reason::ConditionFailed(None), Reason::None]]
    {
        assert!(matches!(claim(&cancelled(reasons)).await, Err(LedgerError::Impossible(_))));
    }
}

/// The outcomes of several claims, in their order.
async fn claim_each(ledger: &Ledger<Told>, claims: &[(UserId, Claim)]) -> Vec<Result<ClaimOutcome, LedgerError>> {
    let mut outcomes = BTreeMap::new();
    let answer = |place, outcome| assert!(outcomes.insert(place, outcome).is_none(), "{place} is answered twice");
    ledger.claim_each(Instant::now() + timeouts::TRANSACTION, &terms(), claims, |_| None, pending(), answer).await;
    assert!(outcomes.keys().copied().eq(0..claims.len()), "{outcomes:?}");
    outcomes.into_values().collect()
}

/// Claims of so many users, each of another slip.
fn several(count: u32) -> Vec<(UserId, Claim)> {
    (0..count).map(|slip| (user(&format!("u{slip}")), Claim { slip, ..wanted() })).collect()
}

#[tokio::test(start_paused = true)]
async fn several_claims_go_together() {
    let ledger = ledger();
    // The token tells the next attempt how one without an answer ended.
    ledger.answer(Err(unavailable()));
    let claims = several(3);
    let outcomes = claim_each(&ledger, &claims).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(ClaimOutcome::Committed))), "{outcomes:?}");
    assert_eq!(outcomes.len(), 3);
    let transactions = ledger.table.transactions.lock().unwrap().clone();
    assert_eq!(transactions.len(), 2);
    assert_eq!(transactions[0], transactions[1]);
    let mut apart = Vec::new();
    for (user, claim) in &claims {
        let alone = super::ledger();
        alone.claim(&terms(), user, claim, None).await.unwrap();
        apart.extend(alone.written());
    }
    assert_eq!(transactions[0].0, apart);
}

#[tokio::test(start_paused = true)]
async fn what_is_in_the_way_of_one_claim_is_in_nobody_elses() {
    let foreign = decision(1, of("bob"));
    let anothers = || there(&DecisionItem::from(&foreign));
    let busy = || Reason::Busy("TransactionConflict".to_owned());
    let refused = || TransactError::from(TableError::Refused("too large".into()));
    // Of nine writes something is in the way of one.
    let cancelled = |place: usize, reason: Reason| {
        let mut reasons = vec![Reason::None; 9];
        reasons[place] = reason;
        TransactError::Cancelled(reasons)
    };
    let together = [vec![cancelled(3, anothers())], vec![cancelled(5, busy())], vec![refused()]];
    for answers in together {
        let ledger = ledger();
        let said = format!("{answers:?}");
        let tries = answers.len();
        for answer in answers {
            ledger.answer(Err(answer));
        }
        // By itself each is answered as if there had been no others.
        ledger.answer(Ok(()));
        ledger.answer(Err(TransactError::Cancelled(vec![anothers(), Reason::None, Reason::None])));
        ledger.answer(Ok(()));
        let outcomes = claim_each(&ledger, &several(3)).await;
        let [Ok(ClaimOutcome::Committed), Ok(ClaimOutcome::Taken(taken)), Ok(ClaimOutcome::Committed)] = &outcomes[..]
        else {
            panic!("{said}: {outcomes:?}")
        };
        assert_eq!(*taken, foreign, "{said}");
        assert_eq!(ledger.tokens().len(), tries + 3, "{said}");
    }
}

/// The numbers of writes in a ledger's transactions, one after another.
fn sizes(ledger: &Ledger<Told>) -> Vec<usize> {
    ledger.table.transactions.lock().unwrap().iter().map(|(writes, _)| writes.len()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_ledger_is_not_asked_ten_times_instead_of_once() {
    let throttled = || TransactError::Cancelled(vec![Reason::Busy("ThrottlingError".to_owned()); 30]);
    for error in [unavailable as fn() -> TransactError, throttled] {
        let ledger = ledger();
        (0..1_000).for_each(|_| ledger.answer(Err(error())));
        let outcomes = claim_each(&ledger, &several(10)).await;
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(LedgerError::Unavailable(_)))), "{outcomes:?}");
        let transactions = ledger.table.transactions.lock().unwrap().clone();
        let by_itself: BTreeSet<&Key> = transactions.iter().skip(2).map(|(writes, _)| wallet_of(writes)).collect();
        assert_eq!((sizes(&ledger)[..3].to_vec(), by_itself.len()), (vec![30, 30, 3], 2), "two claims go ahead");
    }
    // A process that has no permit for one transaction has none for ten.
    let ledger = ledger();
    ledger.answer(Err(TableError::Overloaded("no permit".into()).into()));
    let outcomes = claim_each(&ledger, &several(10)).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(LedgerError::Unavailable(_)))), "{outcomes:?}");
    assert_eq!(sizes(&ledger), [30]);
}

/// The first wallet that a transaction changes.
fn wallet_of(writes: &[Write]) -> &Key {
    let wallet = writes.iter().find_map(|write| if let Write::Add { key, .. } = write { Some(key) } else { None });
    wallet.expect("a claim")
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_the_ledger_does_not_answer_fails_by_itself() {
    for muted in 0..10 {
        let ledger = ledger();
        *ledger.table.mute.lock().unwrap() = Some(keys::wallet(&user(&format!("u{muted}"))));
        let begun = Instant::now();
        let mut waits = Vec::new();
        let answer = |place, outcome: Result<ClaimOutcome, LedgerError>| {
            assert_eq!(outcome.is_err(), place == muted, "{place}: {outcome:?}");
            waits.push((place, begun.elapsed()));
        };
        ledger
            .claim_each(Instant::now() + timeouts::TRANSACTION, &terms(), &several(10), |_| None, pending(), answer)
            .await;
        assert_eq!(waits.len(), 10);
        let slow = waits.iter().filter(|(_, wait)| *wait > Duration::from_millis(100));
        assert_eq!(slow.map(|(place, _)| *place).collect::<Vec<_>>(), [muted], "nobody waits for it");
    }
}

fn write() -> [Write; 1] {
    [Write::Add { key: keys::wallet(&user("ann")), deltas: vec![("balance", 5)], bounds: vec![], absent: None }]
}

fn busy() -> TransactError {
    TransactError::Cancelled(vec![Reason::None, Reason::Busy("TransactionConflict".to_owned())])
}

#[tokio::test(start_paused = true)]
async fn the_same_is_sent_again_until_it_commits() {
    let ledger = ledger();
    ledger.answer(Err(busy()));
    ledger.answer(Err(unavailable()));
    assert!(matches!(ledger.commit(&write()).await, Ok(Committed::Yes)));
    let transactions = ledger.table.transactions.lock().unwrap();
    assert_eq!(transactions.len(), 3);
    assert!(transactions.iter().all(|transaction| *transaction == transactions[0]), "{transactions:?}");
    assert_eq!(transactions[0].0, write());
    assert_eq!(transactions[0].1, "01".repeat(16), "a token is 16 random bytes in hex");
}

#[tokio::test(start_paused = true)]
async fn a_spent_token_is_replaced() {
    let ledger = ledger();
    ledger.answer(Err(TransactError::TokenSpent("spent".into())));
    assert!(matches!(ledger.commit(&write()).await, Ok(Committed::Yes)));
    let tokens = ledger.tokens();
    assert!(tokens.len() == 2 && tokens[0] != tokens[1], "{tokens:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_condition_is_an_answer_whatever_else_is_said() {
    let reasons = [Reason::Busy("ThrottlingError".to_owned()), Reason::ConditionFailed(None)];
    let ledger = cancelled(reasons);
    let Ok(Committed::No(reasons)) = ledger.commit(&write()).await else { panic!("an answer") };
    assert!(matches!(reasons[..], [Reason::Busy(_), Reason::ConditionFailed(None)]));
    assert_eq!(ledger.tokens().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_is_not_repeated() {
    let ledger = ledger();
    ledger.answer(Err(TableError::Refused("malformed".into()).into()));
    assert!(matches!(ledger.commit(&write()).await, Err(LedgerError::Impossible(_))));
    assert_eq!(ledger.tokens().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_commit_gives_up_after_its_timeout_with_the_last_error() {
    let ledger = ledger();
    for _ in 0..1_000 {
        ledger.answer(Err(busy()));
    }
    let start = Instant::now();
    let Err(LedgerError::Unavailable(error)) = ledger.commit(&write()).await else { panic!("no end") };
    assert_eq!(error.chain(), "the transaction is still open: cancelled: TransactionConflict");
    // Pauses of 5 ms, then twice as long each up to 400 ms, less up to half of each: in 8 s that is 25 to 50 attempts.
    let (attempts, took) = (ledger.tokens().len(), start.elapsed());
    assert!((25..=50).contains(&attempts), "{attempts}");
    assert!((Duration::from_secs(7)..=Duration::from_secs(8)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn no_transaction_names_an_item_twice() {
    let [ann, bob] = ["ann", "bob"].map(user);
    let other = Claim { slip: 3, ..wanted() };
    for claims in [[(ann.clone(), wanted()), (ann.clone(), other)], [(ann, wanted()), (bob, wanted())]] {
        let ledger = ledger();
        claim_each(&ledger, &claims).await;
        assert!(ledger.table.transactions.lock().unwrap().iter().all(|(writes, _)| writes.len() == 3));
    }
}

#[test]
fn a_claim_is_in_the_ledger_if_it_is_the_very_one_that_was_asked_for() {
    let other = Claim { slip: wanted().slip + 1, ..wanted() };
    let taken = ClaimOutcome::Taken(decision(wanted().slip, of("bob")));
    let outcomes = [ClaimOutcome::Committed, ClaimOutcome::Already(wanted()), ClaimOutcome::Already(other), taken];
    assert_eq!(outcomes.map(|outcome| outcome.is_in_ledger(&wanted())), [true, true, false, false]);
}

#[tokio::test]
async fn a_repaired_claim_is_the_same_and_names_its_repairer() {
    let ledger = ledger();
    ledger.claim(&terms(), &user("ann"), &wanted(), Some(&signer())).await.unwrap();
    let [decision, named_claim, wallet] = &ledger.written()[..] else { panic!("not three writes") };
    let named = ClaimItem { by: Some(signer()), ..claim_item(&wanted()) };
    assert_eq!(*named_claim, put(keys::claim(&user("ann"), packet_id(1)), &named));
    let plain = super::ledger();
    claim(&plain).await.unwrap();
    assert_eq!([decision, wallet], [&plain.written()[0], &plain.written()[2]]);
}
