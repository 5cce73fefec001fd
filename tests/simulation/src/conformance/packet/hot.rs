//! The scripts of the hot store, and what befalls it.

use std::time::Duration;

use model_wide::call::{Call, Reply};
use model_wide::hot::{Entry as HotEntry, GrabAnswer, Holds, Hot, Queue};
use model_wide::instance::{Part, Slip, USERS, User};
use model_wide::ledger::Decision;
use model_wide::protocol::Action;
use model_wide::set::Set;
use shared::domain::{self, Guard, Owner, PartId, Timestamp, UserId};
use shared::memory::{self, Entry as MemoryEntry};
use shared::ports::{self, Loaded, PartSnapshot, Reconciled, SnapshotResult};

use super::{FAULTS, Packet, Replies, Result, Stop, agree, differs, small};
use crate::conformance::Missing;
use crate::conformance::log::{Actor, Script};
use crate::conformance::reached::{Doing, Snapshot};
use crate::world::{SECOND_PRIMARY_AHEAD, SNAPSHOTS};

/// How long a process may remember a snapshot: `FINAL_TTL` and `SNAPSHOT_TTL` in `service/grab/exhausted.rs`.
const REMEMBERED: [Duration; 2] = [Duration::from_millis(100), Duration::from_mins(1)];
/// How long after the expiry the hot store forgets: `REMEMBER_MS` in `memory/part.rs`.
const FORGOTTEN: Duration = Duration::from_hours(1);

impl Packet {
    /// A script is about to be executed: keeps the hot store for rollbacks.
    pub fn keep(&mut self) {
        if self.kept.len() == SNAPSHOTS {
            self.kept.pop_front();
        }
        self.kept.push_back(self.state.hot);
        self.scripts += 1;
    }

    pub(super) fn script(
        &mut self,
        number: usize,
        at: Timestamp,
        actor: Actor,
        part: PartId,
        script: &Script,
        seen: &memory::Part,
    ) -> Result {
        let place = small(part.index);
        match script {
            Script::Hold(users, found) => self.hold(number, actor, place, users, found.as_deref()),
            Script::Close(is_loaded) => self.step(number, actor, Call::Close(place), Reply::Closed(*is_loaded)),
            Script::Load(decisions, closed, loaded) => {
                let decisions = self.true_decisions(decisions)?;
                let call = Call::Load { part: place, decisions, closed: *closed };
                self.step(number, actor, call, Reply::Loaded { expired: *loaded == Loaded::Expired })
            }
            Script::Reconcile(decisions, holds, reconciled) => {
                self.reconcile(number, actor, place, decisions, holds)?;
                let expected = match (self.state.hot.loaded.has(place), self.state.hot.is_final(&self.instance, place))
                {
                    (false, _) => Reconciled::NotLoaded,
                    (true, false) => Reconciled::Loaded,
                    (true, true) => Reconciled::Final,
                };
                if *reconciled == expected {
                    Ok(())
                } else {
                    differs(format!("reconciled: {reconciled:?}, not {expected:?}"))
                }
            }
            Script::Snapshot(only_final, found) => {
                // The model has no guards; a snapshot leaves the part's as it is.
                let is_guarded = seen.terms.as_ref().is_some_and(|terms| terms.guard != Guard::default())
                    || self.state.hot.closed.has(place);
                self.snapshot(number, at, place, *only_final, is_guarded, found)
            }
            Script::Outbox(holds) => {
                // Perhaps only the oldest of them.
                let (call, holds) = (Call::ReadOutbox(place), self.holds(holds));
                let held = self.state.hot.held().of(self.instance.slips_of(place));
                if held.of(holds.slips()) != holds {
                    return differs(format!("the outbox of part {part} has holds that the model does not have"));
                }
                self.replies.insert(number, Replies::Each(vec![(call, Reply::Holds(holds))]));
                Ok(())
            }
            Script::Park => Err(Stop::Missing(Missing::Parked)),
            Script::Other => Ok(()),
        }
    }

    fn hold(
        &mut self,
        number: usize,
        actor: Actor,
        part: Part,
        users: &[UserId],
        found: Option<&[ports::GrabAnswer]>,
    ) -> Result {
        let mut replies = Vec::new();
        for (place, name) in users.iter().enumerate() {
            let user = self.user(name);
            let call = Call::Grab { part, user };
            let real = match found.map(|found| &found[place]) {
                None => GrabAnswer::NotLoaded,
                Some(ports::GrabAnswer::Confirmed(claim)) => GrabAnswer::Confirmed(small(claim.slip)),
                Some(ports::GrabAnswer::Held { slip, at, .. }) => {
                    if self.is_too_early(*at) {
                        return differs(format!("{name} has a slip from {at}, before the start"));
                    }
                    GrabAnswer::Held(small(*slip))
                }
                Some(ports::GrabAnswer::Nothing { expired, certain }) => {
                    GrabAnswer::Nothing { expired: *expired, certain: *certain }
                }
                Some(ports::GrabAnswer::Closed { certain }) => GrabAnswer::Closed { certain: *certain },
                // The model has no guards. A guard asks only users who have nothing.
                Some(ports::GrabAnswer::Refused(_) | ports::GrabAnswer::NotStarted { .. }) => {
                    if self.state.hot.claims[usize::from(part)][usize::from(user)] != HotEntry::None {
                        return differs("a guard refuses a user who has a slip");
                    }
                    continue;
                }
            };
            let maker = self.maker(actor, call)?;
            let reply = self.make(maker, call)?;
            agree(call, reply, Reply::GrabAnswer(real))?;
            replies.push((call, reply));
        }
        self.replies.insert(number, Replies::Each(replies));
        Ok(())
    }

    fn reconcile(
        &mut self,
        number: usize,
        actor: Actor,
        part: Part,
        decisions: &[domain::Decision],
        holds: &[domain::Hold],
    ) -> Result {
        let order: Vec<Slip> = decisions.iter().map(|decision| small(decision.slip)).collect();
        let decisions = self.true_decisions(decisions)?;
        let holds: Vec<(Slip, User)> = holds.iter().map(|hold| (small(hold.slip), self.user(&hold.user))).collect();
        let decided: Holds = holds.iter().copied().collect();
        let call = Call::Reconcile { part, decisions, decided };
        self.replies.insert(number, Replies::Reconciled { part, decisions, holds: holds.clone() });
        if let Some((doing, call)) = self.making(actor, |made| made == call).first() {
            return self.make(*doing, *call).map(drop);
        }
        // Grabs of a process share a call: it is one after another of theirs.
        let mut parts = self.making(actor, |made| is_part_of(made, part, decisions, &holds));
        parts.retain(|(doing, _)| matches!(doing, Doing::Grab(..)));
        parts.sort_by_key(|(_, made)| match made {
            Call::Reconcile { decisions: some, .. } => order.iter().position(|slip| some.has(*slip)),
            _ => None,
        });
        let (mut all, mut ended) = (Set::NONE, Vec::new());
        for (doing, made) in parts {
            let Call::Reconcile { decisions: some, decided, .. } = made else { continue };
            all = all.and(some);
            ended.extend(decided.each());
            self.make(doing, made)?;
        }
        // A hold without its decision has no effect. Two users may have held a slip, one of them after a loss.
        let mut settling = holds.iter().filter(|(slip, _)| decisions.has(*slip));
        if all == decisions && settling.all(|hold| ended.contains(hold)) && !decisions.is_empty() {
            return Ok(());
        }
        differs(format!("nobody of {actor:?} is about to: {call}"))
    }

    fn snapshot(
        &mut self,
        number: usize,
        at: Timestamp,
        part: Part,
        only_final: bool,
        is_guarded: bool,
        found: &SnapshotResult,
    ) -> Result {
        let (hot, expired) = (self.state.hot, self.state.expired);
        let is_final = hot.is_final(&self.instance, part);
        let has_free = !expired && !hot.free[usize::from(part)].slips().is_empty();
        let expected = if !hot.loaded.has(part) || has_free {
            "a grab is needed"
        } else if only_final && !is_final {
            "not final"
        } else if is_guarded {
            "a grab is needed"
        } else {
            "exhausted"
        };
        let real = match found {
            SnapshotResult::GrabNeeded => "a grab is needed",
            SnapshotResult::NotFinal => "not final",
            SnapshotResult::Exhausted(_) => "exhausted",
        };
        if real != expected {
            return differs(format!("a snapshot of part {part}: {real}, where the model has: {expected}"));
        }
        let SnapshotResult::Exhausted(PartSnapshot { is_final: says_final, by_user, .. }) = found else {
            return Ok(());
        };
        if *says_final != is_final || by_user.len() > USERS {
            return differs(format!("a snapshot of part {part} says final: {says_final}"));
        }
        for user in by_user.keys() {
            self.user(user);
        }
        let mut answers = Vec::with_capacity(USERS);
        for user in (0..).take(USERS) {
            // A grab of an exhausted part changes nothing.
            let Reply::GrabAnswer(answer) = self.reply(Call::Grab { part, user }) else {
                return differs("a grab has another reply");
            };
            answers.push(answer);
        }
        for (user, real) in by_user {
            let user = usize::from(self.user(user));
            let slip = match real {
                ports::GrabAnswer::Confirmed(claim) => GrabAnswer::Confirmed(small(claim.slip)),
                ports::GrabAnswer::Held { slip, .. } => GrabAnswer::Held(small(*slip)),
                _ => return differs("a snapshot names a user without a slip"),
            };
            if answers[user] != slip {
                return differs(format!("a snapshot: {slip:?}, where the model has {:?}", answers[user]));
            }
        }
        let until = at.after(REMEMBERED[usize::from(is_final)]);
        self.replies.insert(number, Replies::Seen(Snapshot { part, until, found: answers }));
        Ok(())
    }

    pub(super) fn lose(&mut self, to: Option<u64>, node: Option<(u32, u32)>) -> Result {
        let id = self.terms.id;
        let here = |part: &PartId| node.is_none_or(|(nodes, lost)| part.partition().index() % nodes == lost);
        let parts: Set = id.parts().filter(here).map(|part| small(part.index)).collect();
        let first = self.scripts - self.kept.len() as u64;
        let older = match to {
            None => Hot::default(),
            Some(number) => {
                match number.checked_sub(first).and_then(|place| self.kept.get(usize::try_from(place).ok()?)) {
                    Some(hot) => *hot,
                    None => return differs("the hot store goes back to a state that it did not have"),
                }
            }
        };
        self.state.faults.rollbacks = FAULTS;
        self.state.faults.wipes = FAULTS;
        self.state.snapshot = to.map(|_| older);
        let action = if to.is_some() { Action::Rollback(parts) } else { Action::Wipe(parts) };
        self.happen(action);
        self.state.snapshot = None;
        Ok(())
    }

    /// Whether the packet cannot have begun at `at`, by whichever hot store's clock.
    fn is_too_early(&self, at: Timestamp) -> bool {
        self.terms.guard.starts_at.is_some_and(|starts_at| at.after(SECOND_PRIMARY_AHEAD) < starts_at)
    }

    /// The part must have its packet's guard, from the start on perhaps without the start.
    fn compare_guard(&self, seen: &Guard, now: Timestamp) -> Result {
        let begun = Guard { starts_at: None, ..self.terms.guard.clone() };
        if *seen == self.terms.guard || *seen == begun && !self.is_too_early(now) {
            return Ok(());
        }
        differs(format!("the guard is {seen:?} at {now}, and the packet's is {:?}", self.terms.guard))
    }

    /// The part must be as in the model.
    pub(super) fn compare_part(&mut self, part: PartId, seen: &memory::Part, pending: bool, now: Timestamp) -> Result {
        if let Some(terms) = &seen.terms {
            self.compare_guard(&terms.guard, now)?;
        }
        let place = small(part.index);
        let slips = self.instance.slips_of(place);
        let known: Set = seen.decisions.iter().map(|slip| small(*slip)).collect();
        let free: Vec<Slip> = seen.free.iter().filter(|_| !self.state.expired).map(|slip| small(*slip)).collect();
        let mut claims = [HotEntry::None; USERS];
        for (user, entry) in &seen.claims {
            claims[usize::from(self.user(user))] = match entry {
                MemoryEntry::Held { slip, .. } => HotEntry::Held(small(*slip)),
                MemoryEntry::Confirmed(claim) => HotEntry::Confirmed(small(claim.slip)),
            };
        }
        let hot = &mut self.state.hot;
        let is_closed = seen.terms.as_ref().is_some_and(|terms| terms.is_closed);
        let real = (seen.terms.is_some(), is_closed, known, free.iter().copied().collect::<Set>(), claims, pending);
        let model = (
            hot.loaded.has(place),
            hot.closed.has(place),
            hot.decisions.within(slips),
            hot.free[usize::from(place)].slips(),
            hot.claims[usize::from(place)],
            hot.pending.has(place),
        );
        if real != model {
            return differs(format!(
                "part {part} differs: (loaded, closed, known, free, claims, pending)\n  store: {real:?}\n  model: {model:?}"
            ));
        }
        // Several slips that are put back at once have no order in the model.
        hot.free[usize::from(place)] = Queue::of(free);
        Ok(())
    }

    /// The slips of decisions that a script receives, which must be those of the ledger.
    fn true_decisions(&mut self, decisions: &[domain::Decision]) -> Result<Set> {
        for decision in decisions {
            let owner = match &decision.owner {
                Owner::User(user) => Decision::Claimed(self.user(user)),
                Owner::Refunded => Decision::Refunded,
            };
            let true_one = self.state.ledger.decisions[decision.slip as usize];
            if owner != true_one {
                return differs(format!(
                    "the ledger's decision of slip {} is {true_one:?}, not {owner:?}",
                    decision.slip
                ));
            }
        }
        Ok(decisions.iter().map(|decision| small(decision.slip)).collect())
    }

    fn holds(&mut self, holds: &[domain::Hold]) -> Holds {
        holds.iter().map(|hold| (small(hold.slip), self.user(&hold.user))).collect()
    }

    /// Works on one of two primaries.
    pub(super) fn on_primary(
        &mut self,
        primary: usize,
        now: Timestamp,
        work: impl FnOnce(&mut Self) -> Result,
    ) -> Result {
        if primary == 1 {
            self.swap();
        }
        self.expire(now);
        self.forget(now);
        let result = work(self);
        if primary == 1 {
            self.swap();
        }
        result
    }

    fn swap(&mut self) {
        std::mem::swap(&mut self.state.hot, &mut self.second.0);
        std::mem::swap(&mut self.state.expired, &mut self.second.1);
    }

    pub(super) fn expire(&mut self, now: Timestamp) {
        if !self.state.expired && now >= self.terms.expires_at {
            self.happen(Action::Expire);
        }
    }

    pub(super) fn forget(&mut self, now: Timestamp) {
        if self.state.expired && now > self.terms.expires_at.after(FORGOTTEN) {
            self.happen(Action::Forget);
        }
    }
}

/// Whether a reconcile of a part with these decisions and holds does what `made` would do.
pub(super) fn is_part_of(made: Call, part: Part, decisions: Set, holds: &[(Slip, User)]) -> bool {
    let Call::Reconcile { part: other, decisions: some, decided } = made else { return false };
    other == part && decisions.covers(some) && decided.each().all(|hold| holds.contains(&hold))
}
