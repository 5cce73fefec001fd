//! The hot store: one packet's data in Redis. A script is one step.

use crate::instance::{Ack, Instance, Mutant, PARTS, Part, SLIPS, Set, Slip, USERS, User};
use crate::ledger::Ledger;

/// The hot store's data about the packet.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Hot {
    /// The loaded parts, whose hashes have the terms.
    pub loaded: Set,
    /// The loaded parts that are closed.
    pub closed: Set,
    /// Each user's field in the hash of each part.
    pub fields: [[Field; USERS]; PARTS],
    /// The free slips of all parts. None is free after the expiry: no grab takes one.
    pub free: Set,
    /// The bitmaps of all parts: the slips with a known decision.
    pub known: Set,
    /// The queue: the parts that may have holds.
    pub pending: Set,
    /// Whether the packet is expired, by the hot store's clock.
    pub expired: bool,
}

/// The user of each held slip.
pub type Holds = [Option<User>; SLIPS];

/// No hold.
pub const NO_HOLDS: Holds = [None; SLIPS];

/// The held slips, each with its user.
pub fn each(holds: Holds) -> impl Iterator<Item = (Slip, User)> {
    (0..).zip(holds).filter_map(|(slip, user)| Some((slip, user?)))
}

/// The held slips.
pub fn slips(holds: Holds) -> Set {
    each(holds).map(|(slip, _)| slip).collect()
}

/// A user's field in a part's hash.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Field {
    /// There is none.
    #[default]
    None,
    /// `h`: a slip that is held for the user.
    Held(Slip),
    /// `g`: a slip that the ledger gave the user.
    Confirmed(Slip),
}

/// Why a user has no slip: `NoSlip` in the engine. If parts differ, the last of these counts.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Why {
    /// No part has a free slip.
    SoldOut,
    /// The packet is expired.
    Expired,
    /// The operator has closed it.
    Closed,
}

/// An answer of `grab.lua`: `GrabAnswer` in the engine.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum GrabAnswer {
    /// The part is not loaded.
    NotLoaded,
    /// The user's claim.
    Confirmed(Slip),
    /// A slip that is held for the user, by this call or before.
    Held(Slip),
    /// No slip for the user.
    Nothing {
        /// The reason.
        why: Why,
        /// Whether the answer is certain.
        certain: bool,
    },
}

impl Hot {
    /// The holds of all parts. No slip is held for two users; [`crate::properties`] checks it.
    pub fn held(&self) -> Holds {
        let mut holds = NO_HOLDS;
        for fields in self.fields {
            for (user, field) in (0..).zip(fields) {
                if let Field::Held(slip) = field {
                    holds[usize::from(slip)] = Some(user);
                }
            }
        }
        holds
    }

    /// The holds of a part: `outbox.lua`.
    pub fn outbox(&self, instance: &Instance, part: Part) -> Holds {
        let (mut holds, slips) = (self.held(), instance.slips_of(part));
        (0..).zip(&mut holds).filter(|(slip, _)| !slips.has(*slip)).for_each(|(_, user)| *user = None);
        holds
    }

    fn field(&mut self, part: Part, user: User) -> &mut Field {
        &mut self.fields[usize::from(part)][usize::from(user)]
    }

    /// `grab.lua`: takes a slip for a user.
    pub fn grab(&mut self, instance: &Instance, part: Part, user: User) -> GrabAnswer {
        if !self.loaded.has(part) {
            return GrabAnswer::NotLoaded;
        }
        match *self.field(part, user) {
            Field::Held(_) if instance.has(Mutant::OverlookHold) => {}
            Field::Held(slip) => return GrabAnswer::Held(slip),
            Field::Confirmed(slip) => return GrabAnswer::Confirmed(slip),
            Field::None => {}
        }
        let slips = instance.slips_of(part);
        let free = self.free.within(slips);
        let is_final = self.known.covers(slips) || instance.has(Mutant::EmptyIsFinal) && free.is_empty();
        let certain = is_final || instance.ack == Ack::Redis;
        let nothing = |why| GrabAnswer::Nothing { why, certain };
        if self.closed.has(part) {
            return nothing(Why::Closed);
        }
        if self.expired {
            return nothing(Why::Expired);
        }
        let Some(slip) = free.first() else { return nothing(Why::SoldOut) };
        self.free = self.free.without(Set::of(slip));
        self.pending = self.pending.and(Set::of(part));
        *self.field(part, user) = Field::Held(slip);
        GrabAnswer::Held(slip)
    }

    /// `load.lua`: loads a part unless it is loaded or expired. Returns whether it is loaded now.
    pub fn load(&mut self, instance: &Instance, ledger: &Ledger, part: Part, decisions: Set, closed: bool) -> bool {
        if self.loaded.has(part) && !instance.has(Mutant::LoadOverLoaded) {
            return true;
        }
        if self.expired {
            return false;
        }
        let slips = instance.slips_of(part);
        self.fields[usize::from(part)] = [Field::None; USERS];
        for slip in decisions.each() {
            if let Some(owner) = ledger.owner(slip) {
                *self.field(part, owner) = Field::Confirmed(slip);
            }
        }
        self.known = self.known.without(slips).and(decisions);
        self.free = self.free.without(slips).and(slips.without(decisions));
        self.loaded = self.loaded.and(Set::of(part));
        self.closed = if closed { self.closed.and(Set::of(part)) } else { self.closed.without(Set::of(part)) };
        true
    }

    /// `close.lua`: closes a part. Returns whether it is loaded.
    pub fn close(&mut self, part: Part) -> bool {
        self.closed = self.closed.and(self.loaded.within(Set::of(part)));
        self.loaded.has(part)
    }

    /// `reconcile.lua`: applies decisions of the ledger to a part, and ends those of `holds` whose slip has another owner.
    pub fn reconcile(&mut self, instance: &Instance, ledger: &Ledger, part: Part, decisions: Set, holds: Holds) {
        let slips = instance.slips_of(part);
        if self.loaded.has(part) {
            for slip in decisions.each() {
                let owner = ledger.owner(slip);
                if slips.has(slip) && !self.known.has(slip) {
                    self.known = self.known.and(Set::of(slip));
                    match self.held()[usize::from(slip)] {
                        Some(holder) if Some(holder) != owner => {
                            self.retract(part, slip, holder);
                        }
                        Some(_) => {}
                        // A loss had made it free again.
                        None => self.free = self.free.without(Set::of(slip)),
                    }
                }
                let Some(owner) = owner else { continue };
                if let Field::Held(other) = *self.field(part, owner)
                    && other != slip
                    && slips.has(other)
                    && !self.expired
                    && !self.known.has(other)
                {
                    self.free = self.free.and(Set::of(other));
                }
                *self.field(part, owner) = Field::Confirmed(slip);
            }
            for (slip, user) in each(holds) {
                let is_anothers = decisions.has(slip) && ledger.owner(slip) != Some(user);
                if is_anothers || instance.has(Mutant::EndWithoutDecision) {
                    self.retract(part, slip, user);
                }
            }
        }
        self.tidy(instance, part);
    }

    /// `reconcile.lua` without decisions (`HotStore::release`): ends the hold of a user who may not have its slip, which others may
    /// have.
    pub fn release(&mut self, instance: &Instance, slip: Slip, user: User) {
        let part = instance.part_of(slip);
        if self.loaded.has(part) {
            let was_held = self.retract(part, slip, user) || instance.has(Mutant::FreeWithoutHold);
            if was_held && !self.expired && !self.known.has(slip) {
                self.free = self.free.and(Set::of(slip));
            }
        }
        self.tidy(instance, part);
    }

    /// Takes a part without holds out of the queue.
    fn tidy(&mut self, instance: &Instance, part: Part) {
        if self.outbox(instance, part) == NO_HOLDS {
            self.pending = self.pending.without(Set::of(part));
        }
    }

    /// Ends the hold of a user whose slip it is not. Returns whether they held it.
    fn retract(&mut self, part: Part, slip: Slip, user: User) -> bool {
        let is_held = *self.field(part, user) == Field::Held(slip);
        if is_held {
            *self.field(part, user) = Field::None;
        }
        is_held
    }

    /// The same, with these parts as they are in `other`: each node loses data by itself.
    #[must_use]
    pub fn with(&self, instance: &Instance, other: Self, parts: Set) -> Self {
        let mut mixed = *self;
        let mut slips = Set::NONE;
        for part in parts.each() {
            mixed.fields[usize::from(part)] = other.fields[usize::from(part)];
            slips = slips.and(instance.slips_of(part));
        }
        let mix = |mine: Set, others: Set, which: Set| mine.without(which).and(others.within(which));
        mixed.loaded = mix(self.loaded, other.loaded, parts);
        mixed.closed = mix(self.closed, other.closed, parts);
        mixed.pending = mix(self.pending, other.pending, parts);
        mixed.free = mix(self.free, other.free, slips);
        mixed.known = mix(self.known, other.known, slips);
        if self.expired {
            mixed.expire();
        }
        mixed
    }

    /// The packet expires.
    pub const fn expire(&mut self) {
        self.expired = true;
        self.free = Set::NONE;
    }

    /// Long after expiry the bitmaps are forgotten, and the hashes without holds.
    pub fn forget(&mut self, instance: &Instance) {
        self.known = Set::NONE;
        for part in self.loaded.each() {
            if self.outbox(instance, part) == NO_HOLDS {
                self.loaded = self.loaded.without(Set::of(part));
                self.closed = self.closed.without(Set::of(part));
                self.fields[usize::from(part)] = [Field::None; USERS];
            }
        }
    }
}
