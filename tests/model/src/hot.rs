//! The hot store: one packet's data in Redis. A script is one step.

use crate::instance::{Ack, Instance, Mutant, PARTS, Part, SLIPS, Slip, USERS, User};
use crate::ledger::Ledger;
use crate::set::Set;

/// The hot store's data about the packet.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Hot {
    /// The loaded parts, whose `claims` have the terms.
    pub loaded: Set,
    /// The loaded parts that are closed.
    pub closed: Set,
    /// `claims` of each part: each user's entry.
    pub claims: [[Entry; USERS]; PARTS],
    /// `slips` of each part: the free slips.
    pub free: [Queue; PARTS],
    /// `decisions` of all parts: the slips with a known decision.
    pub decisions: Set,
    /// `pending`: the parts that may have a non-empty outbox.
    pub pending: Set,
}

/// The holds: the user of each held slip.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Holds([Option<User>; SLIPS]);

impl Holds {
    /// No hold.
    pub const NONE: Self = Self([None; SLIPS]);

    /// A single hold.
    pub fn one(slip: Slip, user: User) -> Self {
        let mut holds = Self::default();
        holds.set(slip, Some(user));
        holds
    }

    /// The user of a slip's hold.
    pub fn user(self, slip: Slip) -> Option<User> {
        self.0[usize::from(slip)]
    }

    /// The same slips, held for other users.
    #[must_use]
    pub fn map(self, other: impl Fn(User) -> User) -> Self {
        Self(self.0.map(|user| user.map(&other)))
    }

    fn set(&mut self, slip: Slip, user: Option<User>) {
        self.0[usize::from(slip)] = user;
    }

    /// Each hold.
    pub fn each(self) -> impl Iterator<Item = (Slip, User)> {
        (0..).zip(self.0).filter_map(|(slip, user)| Some((slip, user?)))
    }

    /// The slips that are held.
    pub fn slips(self) -> Set {
        self.each().map(|(slip, _)| slip).collect()
    }

    /// The holds of `slips`.
    #[must_use]
    pub fn of(self, slips: Set) -> Self {
        let mut holds = Self::default();
        self.each().filter(|(slip, _)| slips.has(*slip)).for_each(|(slip, user)| holds.set(slip, Some(user)));
        holds
    }
}

impl FromIterator<(Slip, User)> for Holds {
    fn from_iter<I: IntoIterator<Item = (Slip, User)>>(each: I) -> Self {
        let mut holds = Self::default();
        each.into_iter().for_each(|(slip, user)| holds.set(slip, Some(user)));
        holds
    }
}

/// A user's entry in a part's `claims`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Entry {
    /// Nothing.
    #[default]
    None,
    /// `h`: a slip that is held for the user.
    Held(Slip),
    /// `g`: a slip that the ledger gave the user.
    Confirmed(Slip),
}

/// A part's free slips, in the order in which grabs take them.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Queue([Option<Slip>; SLIPS]);

impl Queue {
    fn pop(&mut self) -> Option<Slip> {
        let first = self.0[0];
        self.0.rotate_left(1);
        self.0[SLIPS - 1] = None;
        first
    }

    /// A queue of these slips, in this order.
    pub fn of(slips: impl IntoIterator<Item = Slip>) -> Self {
        let mut queue = Self::default();
        slips.into_iter().for_each(|slip| queue.push(slip));
        queue
    }

    /// The slips, the next one first.
    pub fn in_order(self) -> impl Iterator<Item = Slip> {
        self.0.into_iter().flatten()
    }

    fn push(&mut self, slip: Slip) {
        if let Some(place) = self.0.iter_mut().find(|place| place.is_none()) {
            *place = Some(slip);
        }
    }

    fn remove(&mut self, slip: Slip) {
        let rest = *self;
        *self = Self::default();
        rest.0.into_iter().flatten().filter(|other| *other != slip).for_each(|other| self.push(other));
    }

    /// The slips in the queue.
    pub fn slips(self) -> Set {
        self.0.into_iter().flatten().collect()
    }
}

/// An answer of `grab.lua`: `GrabAnswer` in `ports/hot_store.rs`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum GrabAnswer {
    /// The part is not loaded.
    NotLoaded,
    /// The user's claim.
    Confirmed(Slip),
    /// A slip that is held for the user.
    Held(Slip),
    /// The operator has closed the packet.
    Closed {
        /// Whether the answer is certain.
        certain: bool,
    },
    /// No slip for the user.
    Nothing {
        /// Whether the packet is expired.
        expired: bool,
        /// Whether the answer is certain.
        certain: bool,
    },
}

impl Hot {
    /// The outbox: the holds in `claims` of all parts. No slip is held for two users; [`crate::properties`] checks it.
    pub fn held(&self) -> Holds {
        let mut holds = Holds::default();
        for claims in self.claims {
            for (user, entry) in (0..).zip(claims) {
                if let Entry::Held(slip) = entry {
                    holds.set(slip, Some(user));
                }
            }
        }
        holds
    }

    fn claim(&mut self, part: Part, user: User) -> &mut Entry {
        &mut self.claims[usize::from(part)][usize::from(user)]
    }

    /// Whether every slip of a loaded part has a known decision.
    pub fn is_final(&self, instance: &Instance, part: Part) -> bool {
        self.loaded.has(part) && self.decisions.covers(instance.slips_of(part))
    }

    /// `grab.lua`: takes a slip for a user.
    pub fn grab(&mut self, instance: &Instance, expired: bool, part: Part, user: User) -> GrabAnswer {
        if !self.loaded.has(part) {
            return GrabAnswer::NotLoaded;
        }
        match *self.claim(part, user) {
            Entry::Confirmed(slip) => return GrabAnswer::Confirmed(slip),
            Entry::Held(slip) => return GrabAnswer::Held(slip),
            Entry::None => {}
        }
        let certain = self.is_final(instance, part) || instance.ack == Ack::Redis;
        if self.closed.has(part) {
            return GrabAnswer::Closed { certain };
        }
        let taken = if expired { None } else { self.free[usize::from(part)].pop() };
        let Some(slip) = taken else {
            return GrabAnswer::Nothing { expired, certain };
        };
        self.pending = self.pending.and(Set::of(part));
        *self.claim(part, user) = Entry::Held(slip);
        GrabAnswer::Held(slip)
    }

    /// `load.lua`: loads a part unless it is loaded. Returns whether the packet is expired.
    pub fn load(
        &mut self,
        instance: &Instance,
        expired: bool,
        ledger: &Ledger,
        part: Part,
        decisions: Set,
        closed: bool,
    ) -> bool {
        if self.loaded.has(part) && !instance.has(Mutant::LoadOverLoaded) {
            return false;
        }
        if expired {
            return true;
        }
        let slips = instance.slips_of(part);
        let mut claims = [Entry::None; USERS];
        for slip in decisions {
            if let Some(owner) = ledger.owner(slip) {
                claims[usize::from(owner)] = Entry::Confirmed(slip);
            }
        }
        self.claims[usize::from(part)] = claims;
        self.decisions = self.decisions.without(slips).and(decisions.within(slips));
        self.free[usize::from(part)] = Queue::of(slips.without(decisions));
        self.loaded = self.loaded.and(Set::of(part));
        self.closed = if closed { self.closed.and(Set::of(part)) } else { self.closed.without(Set::of(part)) };
        false
    }

    /// `close.lua`: closes a part. Returns whether it is loaded.
    pub fn close(&mut self, part: Part) -> bool {
        let is_loaded = self.loaded.has(part);
        if is_loaded {
            self.closed = self.closed.and(Set::of(part));
        }
        is_loaded
    }

    /// `reconcile.lua`: applies decisions of the ledger to a part, and settles holds.
    pub fn reconcile(
        &mut self,
        instance: &Instance,
        expired: bool,
        ledger: &Ledger,
        part: Part,
        decisions: Set,
        decided: Holds,
    ) {
        let slips = instance.slips_of(part);
        if self.loaded.has(part) {
            for slip in decisions {
                if slips.has(slip) {
                    self.reconcile_slip(part, slip, ledger.owner(slip));
                }
                if let Some(owner) = ledger.owner(slip) {
                    self.confirm(slips, expired, part, slip, owner);
                }
            }
            for (slip, user) in decided.each() {
                if decisions.has(slip) && ledger.owner(slip) != Some(user) {
                    self.retract(part, slip, user);
                }
            }
        }
        if self.held().slips().within(slips).is_empty() {
            self.pending = self.pending.without(Set::of(part));
        }
    }

    /// Applies a decision to its slip.
    fn reconcile_slip(&mut self, part: Part, slip: Slip, owner: Option<User>) {
        let is_news = !self.decisions.has(slip);
        self.decisions = self.decisions.and(Set::of(slip));
        let holder = self.held().user(slip);
        if !is_news || (holder.is_some() && holder == owner) {
            return;
        }
        match holder {
            Some(user) => self.retract(part, slip, user),
            // Only in repairs: a rollback had made the slip free again.
            None => self.free[usize::from(part)].remove(slip),
        }
    }

    /// Applies a decision to its owner, who has this slip and no other. Another slip that is held for the owner becomes
    /// free.
    fn confirm(&mut self, slips: Set, expired: bool, part: Part, slip: Slip, owner: User) {
        if let Entry::Held(other) = *self.claim(part, owner)
            && other != slip
            && slips.has(other)
            && !expired
            && !self.decisions.has(other)
        {
            self.free[usize::from(part)].push(other);
        }
        *self.claim(part, owner) = Entry::Confirmed(slip);
    }

    /// Removes the entry of a user whose slip has another owner.
    fn retract(&mut self, part: Part, slip: Slip, user: User) {
        if *self.claim(part, user) == Entry::Held(slip) {
            *self.claim(part, user) = Entry::None;
        }
    }

    /// The same, with these parts as they are in `other`: each node loses data by itself.
    #[must_use]
    pub fn with(&self, instance: &Instance, other: Self, parts: Set) -> Self {
        let mut mixed = *self;
        for part in parts {
            let (place, slips) = (usize::from(part), instance.slips_of(part));
            mixed.claims[place] = other.claims[place];
            mixed.free[place] = other.free[place];
            mixed.decisions = mixed.decisions.without(slips).and(other.decisions.within(slips));
        }
        mixed.loaded = mixed.loaded.without(parts).and(other.loaded.within(parts));
        mixed.closed = mixed.closed.without(parts).and(other.closed.within(parts));
        mixed.pending = mixed.pending.without(parts).and(other.pending.within(parts));
        mixed
    }

    /// The packet expires: the keys of the free slips expire.
    pub fn expire(&mut self) {
        self.free = [Queue::default(); PARTS];
    }

    /// Long after expiry a part is forgotten, unless it has holds.
    pub fn forget(&mut self, instance: &Instance) {
        for part in self.loaded {
            let slips = instance.slips_of(part);
            if self.held().slips().within(slips).is_empty() {
                self.loaded = self.loaded.without(Set::of(part));
                self.closed = self.closed.without(Set::of(part));
                self.decisions = self.decisions.without(slips);
                self.claims[usize::from(part)] = [Entry::None; USERS];
            }
        }
    }

    /// Only in [`Mutant::AckBeforeCommit`]: drops holds without a decision.
    pub fn drop_holds(&mut self, slips: Set) {
        for entry in self.claims.as_flattened_mut() {
            if matches!(entry, Entry::Held(slip) if slips.has(*slip)) {
                *entry = Entry::None;
            }
        }
    }

    /// Only in [`Mutant::PutBackAfterTimeout`]: makes a held slip free.
    pub fn put_back(&mut self, instance: &Instance, slip: Slip, user: User) {
        let part = instance.part_of(slip);
        if self.held().user(slip) == Some(user) {
            self.retract(part, slip, user);
            self.free[usize::from(part)].push(slip);
        }
    }
}
