//! Properties that always hold, and events that must be reachable. An event that never happens would show a gap in the
//! model.

use stateright::Property;

use crate::grab::At;
use crate::hot::NO_HOLDS;
use crate::instance::{Set, Slip, sum};
use crate::protocol::Protocol;
use crate::settle::Settle;
use crate::state::State;

/// A slip has at most one decision, and it never changes.
pub const ONE_DECISION: &str = "a decision never changes";
/// A user has at most one claim.
pub const ONE_CLAIM: &str = "a user has at most one claim";
/// No money is created or lost.
pub const CONSERVATION: &str = "claimed + refunded + undecided = total";
/// A `grabbed` answer is true, and stays true.
pub const PROMISE: &str = "a promise is kept";
/// No user who has a claim at this moment is answered `sold_out`, `expired`, `closed` or `limit_reached`. Another request of a user
/// without one may still win, but not after `limit_reached`.
pub const DENIED_WINNER: &str = "a winner is never denied";
/// A user who asks again gets their claim, or the slip that an earlier request has left held for them.
pub const ASKS_AGAIN: &str = "a user who asks again is answered the truth";
/// `sold_out` is answered only while no slip is free. Slips that were lost before don't count, nor those that came back: perhaps after
/// Redis had answered that they are taken.
pub const SOLD_OUT: &str = "sold out only if no slip is free";
/// After a close is answered, the hot store gives out no slip, unless it has lost something.
pub const AFTER_CLOSE: &str = "nobody gets a slip after a close is answered";
/// `closed` is answered only if the operator has closed the packet.
pub const CLOSED: &str = "closed only if the packet is closed";
/// A user who has reached the packet's limit gets no claim any more. They keep the one that they have.
pub const LIMIT: &str = "a user who has reached the limit gets no claim";
/// `limit_reached` is answered only to a user who has reached the limit, and by [`DENIED_WINNER`] has no claim. By [`LIMIT`] they never
/// get one.
pub const LIMIT_REACHED: &str = "limit reached only if the user has reached it";
/// The slip of a hold whose user may not have it is not lost. After one run of settle, also before the expiry, no slip is held.
/// Those without a decision are free for others.
pub const FREE_AGAIN: &str = "one settle run frees the slips that their users may not have";
/// A settled packet has no undecided slip.
pub const SETTLED: &str = "settled only if every slip is decided";
/// A slip of a loaded part is in exactly one place.
pub const WHOLE: &str = "a slip is either free, held or decided";
/// The hot store may forget decisions, but knows no false ones.
pub const TRUE_DECISIONS: &str = "decisions are true";
/// A slip is given to two users only after a loss.
pub const GIVEN_ONCE: &str = "a claimed slip is not free unless something was lost";
/// A run of settle repairs everything.
pub const RECOVERY: &str = "one settle run finishes everything";

/// The properties that always hold, then the events that happen in at least one of the checked instances.
pub fn all() -> Vec<Property<Protocol>> {
    let always = Property::<Protocol>::always;
    let sometimes = Property::<Protocol>::sometimes;
    vec![
        always(ONE_DECISION, |_, state| !state.ledger.overwritten),
        always(ONE_CLAIM, |_, state| {
            let claims = (0..).zip(state.ledger.claims);
            claims.into_iter().all(|(user, claim)| state.ledger.claimed_by(user) == claim.into_iter().collect())
        }),
        always(CONSERVATION, conservation),
        always(PROMISE, promise),
        always(DENIED_WINNER, |_, state| state.broken != Some(DENIED_WINNER)),
        always(ASKS_AGAIN, |Protocol(instance), state| {
            instance.grabs.iter().all(|user| state.tells_truth(instance, *user))
        }),
        always(SOLD_OUT, |_, state| state.broken != Some(SOLD_OUT)),
        always(AFTER_CLOSE, |_, state| state.broken != Some(AFTER_CLOSE)),
        always(CLOSED, |_, state| state.broken != Some(CLOSED)),
        always(LIMIT, |_, state| state.broken != Some(LIMIT)),
        always(LIMIT_REACHED, |_, state| state.broken != Some(LIMIT_REACHED)),
        always(FREE_AGAIN, free_again),
        always(SETTLED, settled),
        always(WHOLE, |Protocol(instance), state| state.parts_are_whole(instance)),
        always(TRUE_DECISIONS, |_, state| state.decisions_are_true()),
        always(GIVEN_ONCE, |_, state| state.lost || free_and_claimed(state).is_empty()),
        always(RECOVERY, recovery),
        sometimes("every slip is claimed, and the packet settled", |Protocol(instance), state| {
            state.ledger.settled && state.ledger.claimed() == instance.all()
        }),
        sometimes("slips go back to the sender", |_, state| state.ledger.settled && is_shared(state)),
        sometimes("a second pass finds a slip", |_, state| {
            state.grabs.iter().any(|grab| grab.is_second && matches!(grab.at, At::Commit(_)))
        }),
        sometimes("a second pass asks only some parts", |Protocol(instance), state| {
            state.grabs.iter().any(|grab| grab.is_second && !grab.parts.covers(instance.all_parts()))
        }),
        sometimes("a user is still in doubt", |_, state| is_at(state, |at| matches!(at, At::InDoubt(_)))),
        sometimes("a packet is known to be final", |_, state| state.is_final.is_some()),
        sometimes("a part with decisions is loaded", |_, state| {
            is_at(state, |at| matches!(at, At::Load { decisions, .. } if !decisions.is_empty()))
        }),
        sometimes("the ledger answers for a part that is forgotten", |_, state| {
            is_at(state, |at| at == At::SinceSettled)
        }),
        sometimes("a claimed slip is free again", |_, state| !free_and_claimed(state).is_empty()),
        sometimes("a part is repaired", |_, state| is_at(state, |at| matches!(at, At::ReadRepair { .. }))),
        sometimes("a slip is put back", |_, state| {
            let is_other = |at| matches!(at, At::Reconcile { hold: Some(held), repair: false, answer: Some(own), .. } if held != own);
            !state.hot.expired && is_at(state, is_other)
        }),
        sometimes("a part is loaded as closed", |_, state| {
            is_at(state, |at| matches!(at, At::Load { closed: true, .. }))
        }),
        sometimes("a closed packet is settled before its expiry", |_, state| {
            state.ledger.settled && !state.hot.expired && is_shared(state)
        }),
        sometimes("a closed part holds a slip", |Protocol(instance), state| {
            state.hot.closed.each().any(|part| state.hot.outbox(instance, part) != NO_HOLDS)
        }),
        sometimes("a hold outlives its packet's time", |_, state| state.hot.expired && state.hot.held() != NO_HOLDS),
        sometimes("a grab releases a slip that is held for another user by now", |Protocol(instance), state| {
            let (held, mut grabs) = (state.hot.held(), instance.grabs.iter().zip(state.grabs));
            let is_anothers = |user, slip: Slip| held[usize::from(slip)].is_some_and(|holder| holder != user);
            grabs.any(|(user, grab)| matches!(grab.at, At::Release(slip) if is_anothers(*user, slip)))
        }),
        sometimes("settle releases a hold", |_, state| {
            state.settles.iter().any(|settle| matches!(settle, Settle::Release(..)))
        }),
        sometimes("a user who has a claim reaches the limit", |_, state| {
            state.ledger.at_limit.each().any(|user| state.ledger.claims[usize::from(user)].is_some())
        }),
    ]
}

fn is_at(state: &State, is_wanted: impl Fn(At) -> bool) -> bool {
    state.grabs.iter().any(|grab| is_wanted(grab.at))
}

/// Whether some slips are claimed and others refunded.
fn is_shared(state: &State) -> bool {
    state.ledger.returned > 0 && !state.ledger.claimed().is_empty()
}

fn conservation(Protocol(instance): &Protocol, state: &State) -> bool {
    let ledger = &state.ledger;
    let undecided = sum(instance.all().without(ledger.decided()));
    let wallets = ledger.credited.iter().fold(ledger.returned, |sum, credit| sum.saturating_add(*credit));
    wallets.saturating_add(undecided) == sum(instance.all())
}

fn promise(Protocol(instance): &Protocol, state: &State) -> bool {
    state.broken != Some(PROMISE) && (0..).zip(state.promised).all(|(user, _)| state.keeps_promise(instance, user))
}

fn settled(Protocol(instance): &Protocol, state: &State) -> bool {
    !state.ledger.settled || state.ledger.decided() == instance.all()
}

fn free_and_claimed(state: &State) -> Set {
    state.hot.free.within(state.ledger.claimed())
}

/// Recovery: if all actors died now and the packet expired, one run of settle empties the outbox and settles the packet.
/// All properties above still hold after it. A closed packet need not expire.
fn recovery(protocol: &Protocol, state: &State) -> bool {
    let mut expired = *state;
    expired.hot.expire();
    let is_closed = state.ledger.closed && !state.hot.expired;
    is_finished(protocol, &expired.recovered(&protocol.0, true))
        && (!is_closed || is_finished(protocol, &state.recovered(&protocol.0, true)))
}

/// Without a limit no claim is refused.
fn free_again(Protocol(instance): &Protocol, state: &State) -> bool {
    if instance.limits == 0 || state.hot.expired {
        return true;
    }
    let after = state.recovered(instance, false);
    let undecided = instance.all().without(after.ledger.decided());
    let loaded: Set = undecided.each().filter(|slip| after.hot.loaded.has(instance.part_of(*slip))).collect();
    after.hot.held() == NO_HOLDS && after.hot.pending.is_empty() && after.hot.free.covers(loaded)
}

fn is_finished(protocol: &Protocol, after: &State) -> bool {
    after.hot.held() == NO_HOLDS
        && after.hot.pending.is_empty()
        && after.ledger.settled
        && settled(protocol, after)
        && conservation(protocol, after)
        && promise(protocol, after)
}
