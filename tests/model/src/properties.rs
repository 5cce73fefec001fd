//! Properties that always hold, and events that must be reachable. An event that never happens would show a gap in the
//! model.

use stateright::Property;

use crate::grab::At;
use crate::instance::sum;
use crate::ledger::Decision;
use crate::protocol::Protocol;
use crate::set::Set;
use crate::state::State;

/// A slip has at most one decision, and it never changes.
pub const ONE_DECISION: &str = "a decision never changes";
/// A user has at most one claim.
pub const ONE_CLAIM: &str = "a user has at most one claim";
/// No money is created or lost.
pub const CONSERVATION: &str = "claimed + refunded + undecided = total";
/// A `grabbed` answer is true, and stays true.
pub const PROMISE: &str = "a promise is kept";
/// No user who has a slip is answered `sold_out` or `expired`.
pub const DENIED_WINNER: &str = "a winner is never denied";
/// No user who was answered `sold_out` wins later, with an answer after the ledger's commit.
pub const FINAL_NO: &str = "sold out is final";
/// `sold_out` is answered only while no slip is free, except slips that were lost before.
pub const SOLD_OUT: &str = "sold out only if no slip is free";
/// After a close is answered, the hot store gives out no slip, unless it has lost something.
pub const AFTER_CLOSE: &str = "nobody gets a slip after a close is answered";
/// `closed` is answered only if the operator has closed the packet.
pub const CLOSED: &str = "closed only if the packet is closed";
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
    vec![
        always(ONE_DECISION, |_, state| !state.ledger.overwritten),
        always(ONE_CLAIM, one_claim),
        always(CONSERVATION, conservation),
        always(PROMISE, promise),
        always(DENIED_WINNER, |_, state| !state.wrong.denied_winner),
        always(FINAL_NO, |_, state| !state.wrong.late_win),
        always(SOLD_OUT, |_, state| !state.wrong.sold_out),
        always(AFTER_CLOSE, |_, state| !state.wrong.after_close),
        always(CLOSED, |_, state| !state.wrong.closed),
        always(SETTLED, settled),
        always(WHOLE, |Protocol(instance), state| state.parts_are_whole(instance)),
        always(TRUE_DECISIONS, |_, state| state.decisions_are_true()),
        always(GIVEN_ONCE, given_once),
        always(RECOVERY, recovery),
        sometimes("every slip is claimed, and the packet settled", |Protocol(instance), state| {
            state.ledger.settled && state.ledger.claimed() == instance.all()
        }),
        sometimes("slips go back to the sender", |_, state| {
            state.ledger.settled && state.ledger.returned > 0 && !state.ledger.claimed().is_empty()
        }),
        sometimes("a user comes too late", |Protocol(instance), state| state.comes_too_late(instance)),
        sometimes("a user is in doubt", |_, state| state.grabs.iter().any(|grab| matches!(grab.at, At::Doubt { .. }))),
        sometimes("a hold is helped", |_, state| state.grabs.iter().any(|grab| matches!(grab.at, At::Helped { .. }))),
        sometimes("a part with decisions is loaded", |_, state| {
            state.grabs.iter().any(|grab| matches!(grab.at, At::Load { decisions, .. } if !decisions.is_empty()))
        }),
        sometimes("the ledger answers for a part that is forgotten", |_, state| {
            state.grabs.iter().any(|grab| grab.at == At::SinceSettled)
        }),
        sometimes("a claimed slip is free again", |_, state| !free_and_claimed(state).is_empty()),
        sometimes("a part is repaired", |_, state| state.grabs.iter().any(|grab| matches!(grab.at, At::Repair { .. }))),
        sometimes("a slip is put back", |Protocol(instance), state| state.puts_back(instance)),
        sometimes("a part is loaded as closed", |_, state| {
            state.grabs.iter().any(|grab| matches!(grab.at, At::Load { closed: true, .. }))
        }),
        sometimes("a closed packet is settled before its expiry", |_, state| {
            state.ledger.settled && !state.expired && state.ledger.returned > 0 && !state.ledger.claimed().is_empty()
        }),
        sometimes("a closed part holds a slip", |Protocol(instance), state| {
            let slips = |part| instance.slips_of(part);
            state.hot.closed.into_iter().any(|part| !state.hot.held().slips().within(slips(part)).is_empty())
        }),
        sometimes("a hold outlives its packet's time", |_, state| {
            state.expired && !state.hot.held().slips().is_empty()
        }),
    ]
}

type Condition = fn(&Protocol, &State) -> bool;

fn always(name: &'static str, condition: Condition) -> Property<Protocol> {
    Property::always(name, condition)
}

fn sometimes(name: &'static str, condition: Condition) -> Property<Protocol> {
    Property::sometimes(name, condition)
}

fn one_claim(_: &Protocol, state: &State) -> bool {
    let decisions = state.ledger.decisions;
    (0..).zip(state.ledger.claims).all(|(user, claim)| {
        let owned = (0..).zip(decisions).filter(|(_, decision)| *decision == Decision::Claimed(user));
        owned.map(|(slip, _): (u8, _)| slip).eq(claim)
    })
}

fn conservation(Protocol(instance): &Protocol, state: &State) -> bool {
    let ledger = &state.ledger;
    let undecided = sum(instance.all().without(ledger.decided()));
    let wallets = ledger.credited.iter().fold(ledger.returned, |sum, credit| sum.saturating_add(*credit));
    wallets.saturating_add(undecided) == sum(instance.all())
}

fn promise(Protocol(instance): &Protocol, state: &State) -> bool {
    !state.wrong.grabbed && (0..).zip(state.promised).all(|(user, _)| state.keeps_promise(instance, user))
}

fn settled(Protocol(instance): &Protocol, state: &State) -> bool {
    !state.ledger.settled || state.ledger.decided() == instance.all()
}

fn given_once(_: &Protocol, state: &State) -> bool {
    state.lost || free_and_claimed(state).is_empty()
}

fn free_and_claimed(state: &State) -> Set {
    let claimed = state.ledger.claimed();
    state.hot.free.iter().fold(Set::NONE, |all, free| all.and(free.slips().within(claimed)))
}

/// Recovery: if all actors died now and the packet expired, one run of settle empties the outbox and settles the packet.
/// All properties above still hold after it. A closed packet need not expire.
fn recovery(protocol: &Protocol, state: &State) -> bool {
    let mut expired = *state;
    expired.expire();
    let is_closed = state.ledger.closed && !state.expired;
    is_finished(protocol, &expired.recovered(&protocol.0))
        && (!is_closed || is_finished(protocol, &state.recovered(&protocol.0)))
}

fn is_finished(protocol: &Protocol, after: &State) -> bool {
    after.hot.held().slips().is_empty()
        && after.hot.pending.is_empty()
        && after.ledger.settled == after.ledger.sent
        && settled(protocol, after)
        && conservation(protocol, after)
        && promise(protocol, after)
}
