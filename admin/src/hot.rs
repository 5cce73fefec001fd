//! A part's data in Redis.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::LazyLock;

use serde::Serialize;
use shared::domain::{PartId, Terms};
use shared::ports::OutboxEntry;
use shared::redis::{Connection, PartKeys, RedisError, Script, fields, holds};

static INSPECT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("inspect.lua")));

/// A part's data in Redis at one moment.
#[derive(Debug, Default)]
pub struct HotPart {
    /// User → their claim or hold; and the terms, in fields that begin with `#`.
    pub fields: BTreeMap<String, String>,
    pub free: BTreeSet<u32>,
    /// Holds by slip. A slip that is held for two users is broken.
    pub held: BTreeMap<u32, Vec<OutboxEntry>>,
    pub known: BTreeSet<u32>,
}

/// A slip's state in Redis.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HotSlip {
    /// Its part is not loaded.
    NotLoaded,
    /// The slip is free.
    Free,
    /// The slip is held for a user. Its hold may be parked.
    Held(OutboxEntry),
    /// The slip's decision is known.
    Known,
    /// None of these, or several.
    Broken,
}

impl fmt::Display for HotSlip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoaded => f.write_str("not loaded"),
            Self::Free => f.write_str("free"),
            Self::Held(OutboxEntry { hold, parked }) => {
                write!(f, "held for {} since {}", hold.user, hold.at)?;
                parked.iter().try_for_each(|reason| write!(f, ", parked: {reason}"))
            }
            Self::Known => f.write_str("known"),
            Self::Broken => f.write_str("broken"),
        }
    }
}

/// A part's numbers of slips.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct HotCounts {
    /// Whether it is loaded.
    pub loaded: bool,
    /// Free slips.
    pub free: usize,
    /// Held slips, in the outbox.
    pub held: usize,
    /// Slips with a known decision.
    pub known: usize,
}

impl HotPart {
    pub async fn read(connection: &Connection, part: PartId, terms: &Terms) -> Result<Self, RedisError> {
        type Answer = (BTreeMap<String, String>, Vec<u8>, BTreeSet<u32>);
        let keys = PartKeys::of(part);
        let call = INSPECT.call(&[&keys.part, &keys.known, &keys.free]);
        let (found, bits, mut free): Answer = connection.run(&call).await?;
        if !found.contains_key(fields::EXPIRES_AT) {
            free.clear();
        }
        let slips = part.slips(terms.count);
        let bit = |place: u32| bits.get(place as usize / 8).is_some_and(|byte| byte >> (7 - place % 8) & 1 == 1);
        let known = slips.clone().filter(|slip| bit(slip - slips.start)).collect();
        Ok(Self { held: held_by_slip(&found), fields: found, free, known })
    }

    /// Whether it is loaded.
    pub fn is_loaded(&self) -> bool {
        self.fields.contains_key(fields::EXPIRES_AT)
    }

    /// A user's field: `g…` confirmed, `h…` held.
    pub fn claim_of(&self, user: &str) -> Option<&str> {
        self.fields.get(user).map(String::as_str)
    }

    pub fn counts(&self) -> HotCounts {
        HotCounts {
            loaded: self.is_loaded(),
            free: self.free.len(),
            held: self.held.values().map(Vec::len).sum(),
            known: self.known.len(),
        }
    }

    /// A slip's state. Redis forgets free slips after the expiry and the close.
    pub fn slip(&self, slip: u32, is_over: bool) -> HotSlip {
        let held = self.held.get(&slip).map_or(&[][..], Vec::as_slice);
        match (self.is_loaded(), self.free.contains(&slip), held, self.known.contains(&slip)) {
            (true, false, [held], false) => HotSlip::Held(held.clone()),
            (false, ..) => HotSlip::NotLoaded,
            (true, true, [], false) => HotSlip::Free,
            (true, false, [], true) => HotSlip::Known,
            (true, false, [], false) if is_over => HotSlip::Free,
            _ => HotSlip::Broken,
        }
    }
}

/// The holds among the fields of a part's `claims`.
pub fn held_by_slip(claims: &BTreeMap<String, String>) -> BTreeMap<u32, Vec<OutboxEntry>> {
    let mut by_slip: BTreeMap<u32, Vec<OutboxEntry>> = BTreeMap::new();
    for held in holds(claims) {
        by_slip.entry(held.hold.slip).or_default().push(held);
    }
    by_slip
}
