//! The scripts of `redis/lua`, each as a method of a part that does the same.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

use crate::domain::{AckMode, Claim, Decision, Guard, Hold, Refusal, Terms, Timestamp, UserId};
use crate::ports::{GrabAnswer, Grabber, Loaded, OutboxEntry, PartReport, PartSnapshot, Reconciled, SnapshotResult};

/// Wrong passphrases that a user may give within [`TRIES_MS`].
const TRIES: u32 = 10;
const TRIES_MS: u64 = 60_000;
/// How long after a packet's expiry its claims still answer repeated grabs.
const REMEMBER_MS: u64 = 3_600_000;

/// A part: all of its keys.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Part {
    /// The terms; `None`: the part is not loaded.
    pub terms: Option<LoadedTerms>,
    /// Who has what.
    pub claims: BTreeMap<UserId, Entry>,
    /// When the minute ends in which wrong passphrases are counted, and each user's count. `None`: nobody gave a wrong one.
    pub tries: Option<(u64, BTreeMap<UserId, u32>)>,
    /// The free slips, the next one first.
    pub free: VecDeque<u32>,
    /// The slips whose decision is known.
    pub decisions: BTreeSet<u32>,
}

/// What a loaded part knows of its packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LoadedTerms {
    /// When it expires, in milliseconds since the epoch.
    pub expires: u64,
    /// Its first slip.
    pub first: u32,
    /// Slips of the part.
    pub count: u32,
    /// When its grabs are answered.
    pub ack: AckMode,
    /// Who may grab.
    pub guard: Guard,
    /// Whether the operator has closed the packet.
    pub is_closed: bool,
}

/// What a user has of a part.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Entry {
    /// A claim that the ledger is known to have.
    Confirmed(Claim),
    /// A slip that is held for the user. All of these together are the outbox.
    Held {
        /// The slip.
        slip: u32,
        /// Since when.
        at: Timestamp,
        /// Why it can't be persisted, if it can't.
        parked: Option<String>,
    },
}

impl Entry {
    fn found(&self) -> GrabAnswer {
        match self {
            Self::Confirmed(claim) => GrabAnswer::Confirmed(claim.clone()),
            Self::Held { slip, at, .. } => GrabAnswer::Held { slip: *slip, at: *at, fresh: false },
        }
    }

    const fn held_slip(&self) -> Option<u32> {
        if let Self::Held { slip, .. } = self { Some(*slip) } else { None }
    }
}

/// What a script that may change a part's outbox does to the part's place in the queue of pending parts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Queue {
    /// It leaves the place as it is.
    AsBefore,
    /// It puts the part into the queue, unless the part is there already.
    In,
    /// It takes the part out of the queue.
    Out,
}

impl Part {
    /// Removes what has expired. After the packet's expiry that is the free slips, and later the whole part unless it has holds.
    pub(super) fn expire(&mut self, now: u64) {
        self.tries.take_if(|(end, _)| now >= *end);
        let Some(terms) = &self.terms else { return };
        let expires = terms.expires;
        if now > expires {
            self.free.clear();
        }
        if now > expires + REMEMBER_MS && !self.holds_something() {
            *self = Self::default();
        }
    }

    /// The held slips, each with its user.
    pub fn holds(&self) -> impl Iterator<Item = (u32, &UserId)> {
        self.claims.iter().filter_map(|(user, entry)| Some((entry.held_slip()?, user)))
    }

    /// Whether it has an outbox that is not empty.
    pub fn holds_something(&self) -> bool {
        self.holds().next().is_some()
    }

    /// `grab.lua`
    pub(super) fn grab(&mut self, grabbers: &[Grabber], now: u64) -> (Option<Vec<GrabAnswer>>, Queue) {
        let Some(terms) = &mut self.terms else { return (None, Queue::AsBefore) };
        // The first grab from the start on takes the start out of the guard.
        terms.guard.starts_at.take_if(|start| start.ms() <= now);
        let terms = terms.clone();
        let (mut wrong, mut queue) = (Vec::new(), Queue::AsBefore);
        // All reads come before the first write.
        let decided: Vec<Option<GrabAnswer>> = grabbers
            .iter()
            .map(|grabber| match self.claims.get(&grabber.user) {
                Some(entry) => Some(entry.found()),
                None => self.refusal_of(&terms, grabber, now).inspect(|refusal| {
                    if *refusal == GrabAnswer::Refused(Refusal::WrongPassphrase) && grabber.passphrase.is_some() {
                        wrong.push(grabber.user.clone());
                    }
                }),
            })
            .collect();
        let mut found = Vec::with_capacity(grabbers.len());
        let is_open = now < terms.expires;
        for (grabber, decided) in grabbers.iter().zip(decided) {
            let slip = if decided.is_none() && is_open { self.free.pop_front() } else { None };
            found.push(match (decided, slip) {
                (Some(decided), _) => decided,
                (None, Some(slip)) => {
                    queue = Queue::In;
                    self.hold(slip, &grabber.user, Timestamp::from_ms(now))
                }
                (None, None) => self.nothing(&terms, now),
            });
        }
        for user in wrong {
            let (_, counts) = self.tries.get_or_insert_with(|| (now + TRIES_MS, BTreeMap::new()));
            *counts.entry(user).or_default() += 1;
        }
        (Some(found), queue)
    }

    /// The answer to a user who gets no slip.
    fn nothing(&self, terms: &LoadedTerms, now: u64) -> GrabAnswer {
        GrabAnswer::Nothing { expired: now >= terms.expires, certain: self.is_final() || terms.ack == AckMode::Redis }
    }

    fn hold(&mut self, slip: u32, user: &UserId, at: Timestamp) -> GrabAnswer {
        self.claims.insert(user.clone(), Entry::Held { slip, at, parked: None });
        GrabAnswer::Held { slip, at, fresh: true }
    }

    fn refusal_of(&self, terms: &LoadedTerms, grabber: &Grabber, now: u64) -> Option<GrabAnswer> {
        let guard = &terms.guard;
        if !guard.invites(&grabber.user) {
            return Some(GrabAnswer::Refused(Refusal::NotARecipient));
        }
        if terms.is_closed {
            return Some(GrabAnswer::Closed { certain: self.is_final() || terms.ack == AckMode::Redis });
        }
        if let Some(starts_at) = guard.starts_at {
            return Some(GrabAnswer::NotStarted { starts_at, left: starts_at.since(Timestamp::from_ms(now)) });
        }
        guard.passphrase?;
        // A missing passphrase is no guess.
        if let Some((end, counts)) = self.tries.as_ref().filter(|_| grabber.passphrase.is_some())
            && counts.get(&grabber.user).is_some_and(|count| *count >= TRIES)
        {
            return Some(GrabAnswer::Refused(Refusal::TooManyTries { retry_after_ms: end - now }));
        }
        guard.admit(&grabber.user, grabber.passphrase).err().map(GrabAnswer::Refused)
    }

    fn is_final(&self) -> bool {
        self.terms.as_ref().is_some_and(|terms| self.decisions.len() == terms.count as usize)
    }

    /// Removes the hold of `user` for a slip that turned out to belong to another user.
    fn retract(&mut self, slip: u32, user: &UserId) {
        if self.held_slip(user) == Some(slip) {
            self.claims.remove(user);
        }
    }

    fn held_slip(&self, user: &UserId) -> Option<u32> {
        self.claims.get(user).and_then(Entry::held_slip)
    }

    /// `reconcile.lua`
    pub(super) fn reconcile(
        &mut self,
        slips: &Range<u32>,
        decisions: &[Decision],
        resolved: &[Hold],
        now: u64,
    ) -> (Reconciled, Queue) {
        let reconciled = match self.terms.as_ref().map(|terms| terms.expires) {
            None => Reconciled::NotLoaded,
            Some(expires) => {
                for decision in decisions {
                    self.reconcile_decision(slips, decision, now < expires);
                }
                for hold in resolved {
                    let decision = decisions.iter().rev().find(|decision| decision.slip == hold.slip);
                    if decision.is_some_and(|decision| decision.owner.user() != Some(&hold.user)) {
                        self.retract(hold.slip, &hold.user);
                    }
                }
                if self.is_final() { Reconciled::Final } else { Reconciled::Loaded }
            }
        };
        (reconciled, if self.holds_something() { Queue::AsBefore } else { Queue::Out })
    }

    fn reconcile_decision(&mut self, slips: &Range<u32>, decision: &Decision, is_open: bool) {
        let owner = decision.owner.user();
        let hold = owner.and_then(|owner| self.held_slip(owner));
        if slips.contains(&decision.slip) && self.decisions.insert(decision.slip) && hold != Some(decision.slip) {
            let holder = self.holds().find(|(slip, _)| *slip == decision.slip).map(|(_, user)| user.clone());
            if let Some(user) = holder {
                self.claims.remove(&user);
            } else {
                self.free.retain(|free| *free != decision.slip);
            }
        }
        let Some((owner, claim)) = decision.claim() else { return };
        if let Some(other) = hold.filter(|other| is_open && slips.contains(other))
            && !self.decisions.contains(&other)
        {
            self.free.push_back(other);
        }
        self.claims.insert(owner.clone(), Entry::Confirmed(claim));
    }

    /// `load.lua`
    pub(super) fn load(
        &mut self,
        slips: &Range<u32>,
        terms: &Terms,
        is_closed: bool,
        decisions: &[Decision],
        now: u64,
    ) -> (Loaded, Queue) {
        if self.terms.is_some() {
            return (Loaded::Yes, Queue::AsBefore);
        }
        if now >= terms.expires_at.ms() {
            return (Loaded::Expired, Queue::AsBefore);
        }
        // The counts of wrong passphrases have a key of their own.
        *self = Self { tries: self.tries.take(), ..Self::default() };
        for decision in decisions {
            if slips.contains(&decision.slip) {
                self.decisions.insert(decision.slip);
            }
            if let Some((owner, claim)) = decision.claim() {
                self.claims.insert(owner.clone(), Entry::Confirmed(claim));
            }
        }
        self.free = slips.clone().filter(|slip| !self.decisions.contains(slip)).collect();
        self.terms = Some(LoadedTerms {
            expires: terms.expires_at.ms(),
            first: slips.start,
            count: slips.end - slips.start,
            ack: terms.ack,
            guard: terms.guard.clone(),
            is_closed,
        });
        (Loaded::Yes, Queue::AsBefore)
    }

    /// `close.lua`
    pub(super) fn close(&mut self) -> bool {
        self.terms.as_mut().is_some_and(|terms| {
            terms.is_closed = true;
            true
        })
    }

    /// `snapshot.lua`
    pub(super) fn snapshot(&self, now: u64, only_final: bool) -> SnapshotResult {
        let Some(terms) = &self.terms else { return SnapshotResult::GrabNeeded };
        let (left, is_final) = (terms.expires.saturating_sub(now), self.is_final());
        if left > 0 && !self.free.is_empty() {
            return SnapshotResult::GrabNeeded;
        }
        if only_final && !is_final {
            return SnapshotResult::NotFinal;
        }
        if terms.is_closed || terms.guard != Guard::default() {
            return SnapshotResult::GrabNeeded;
        }
        let by_user = self.claims.iter().map(|(user, entry)| (user.clone(), entry.found())).collect();
        let (left, others) = (Duration::from_millis(left), self.nothing(terms, now));
        SnapshotResult::Exhausted(PartSnapshot { is_final, left, by_user, others })
    }

    /// `help.lua`, for a part whose help lease is free. `None`: a grab has another answer by now. Else the holds that are old
    /// enough, oldest first, and how long the next one is too young.
    pub(super) fn help(&self, now: u64, least_age: u64) -> Option<(Vec<Hold>, Option<u64>)> {
        let terms = self.terms.as_ref()?;
        if self.is_final() || now >= terms.expires || !self.free.is_empty() {
            return None;
        }
        let open =
            self.outbox(Duration::ZERO, now).into_iter().filter(|entry| entry.parked.is_none()).map(|entry| entry.hold);
        let is_old = |at: Timestamp| now.checked_sub(at.ms()).is_none_or(|age| age >= least_age);
        let (old, young): (Vec<Hold>, Vec<Hold>) = open.partition(|hold| is_old(hold.at));
        Some((old, young.first().map(|hold| hold.at.ms() + least_age - now)))
    }

    /// `view.lua`
    pub(super) fn report(&self, now: u64) -> Option<PartReport> {
        let terms = self.terms.as_ref()?;
        let mut known = vec![0_u8; terms.count as usize / 8 + 1];
        for place in self.decisions.iter().map(|slip| slip - terms.first) {
            if let Some(byte) = known.get_mut(place as usize / 8) {
                *byte |= 0x80 >> (place % 8);
            }
        }
        let held_count = u32::try_from(self.holds().count()).unwrap_or(u32::MAX);
        Some(PartReport { now: Timestamp::from_ms(now), is_closed: terms.is_closed, held_count, known })
    }

    /// `outbox.lua`
    pub(super) fn outbox(&self, least_age: Duration, now: u64) -> Vec<OutboxEntry> {
        let is_redis = self.terms.as_ref().is_some_and(|terms| terms.ack == AckMode::Redis);
        let least_ms = if is_redis { 0 } else { least_age.as_millis() };
        let is_due = |at: Timestamp| now.checked_sub(at.ms()).is_none_or(|age| u128::from(age) >= least_ms);
        let held = |(user, entry): (&UserId, &Entry)| match entry {
            Entry::Held { slip, at, parked } if is_due(*at) => {
                Some(OutboxEntry { hold: Hold { slip: *slip, user: user.clone(), at: *at }, parked: parked.clone() })
            }
            Entry::Held { .. } | Entry::Confirmed(_) => None,
        };
        let mut held: Vec<OutboxEntry> = self.claims.iter().filter_map(held).collect();
        held.sort_by_key(|held| (held.hold.at, held.hold.slip));
        held
    }

    /// `park.lua`
    pub(super) fn park(&mut self, hold: &Hold, reason: &str) {
        if let Some(Entry::Held { slip, parked, .. }) = self.claims.get_mut(&hold.user)
            && *slip == hold.slip
        {
            *parked = Some(reason.replace([',', ';'], " "));
        }
    }
}
