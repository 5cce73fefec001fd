//! A part's data in Redis.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Serialize;
use shared::domain::{PartId, Terms};
use shared::ports::OutboxEntry;
use shared::redis::{Connection, PartKeys, RedisError, Script, fields, free_slips, held};

static INSPECT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("inspect.lua")));

/// A part's data in Redis at one moment.
#[derive(Debug, Default)]
pub struct HotPart {
    /// User → their claim or hold; and the terms, in fields that begin with `#`.
    fields: BTreeMap<String, String>,
    free: BTreeSet<u32>,
    /// Holds by slip. A slip that is held for two users is broken.
    held: BTreeMap<u32, Vec<OutboxEntry>>,
    known: BTreeSet<u32>,
}

/// A slip's state in Redis.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum HotSlip {
    /// Its part is not loaded.
    NotLoaded,
    /// The slip is free.
    Free,
    /// The slip is held for a user.
    Held {
        /// The user.
        user: String,
        /// Time of the hold, in milliseconds since the epoch.
        at_ms: u64,
        /// The reason if the hold is parked.
        #[serde(skip_serializing_if = "Option::is_none")]
        parked: Option<String>,
    },
    /// The slip's decision is known.
    Known,
    /// None of these, or several.
    Broken,
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
        type Answer = (BTreeMap<String, String>, Vec<u8>);
        let keys = PartKeys::of(part);
        let call = INSPECT.call(&[&keys.part, &keys.known]);
        let (found, bits): Answer = connection.run(&call).await?;
        let free = free_slips(&found).unwrap_or_default().into_iter().collect();
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

    /// A slip's state. Redis forgets free slips after expiry.
    pub fn slip(&self, slip: u32, is_expired: bool) -> HotSlip {
        let held = self.held.get(&slip).map_or(&[][..], Vec::as_slice);
        match (self.is_loaded(), self.free.contains(&slip), held, self.known.contains(&slip)) {
            (true, false, [OutboxEntry { hold, parked }], false) => {
                HotSlip::Held { user: hold.user.to_string(), at_ms: hold.at.ms(), parked: parked.clone() }
            }
            (false, ..) => HotSlip::NotLoaded,
            (true, true, [], false) => HotSlip::Free,
            (true, false, [], true) => HotSlip::Known,
            (true, false, [], false) if is_expired => HotSlip::Free,
            _ => HotSlip::Broken,
        }
    }
}

/// The holds among the fields of a part's `claims`.
fn held_by_slip(claims: &BTreeMap<String, String>) -> BTreeMap<u32, Vec<OutboxEntry>> {
    let mut by_slip: BTreeMap<u32, Vec<OutboxEntry>> = BTreeMap::new();
    for held in claims.iter().filter_map(|(user, claim)| held(user, claim)) {
        by_slip.entry(held.hold.slip).or_default().push(held);
    }
    by_slip
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part() -> HotPart {
        let alone = [
            (fields::EXPIRES_AT, "7"),
            (fields::PASSPHRASE, "h0:1"),
            ("ann", "h1:5"),
            ("bob", "h2:6:no such slip"),
            ("cat", "g3:1:2"),
        ];
        let twice = [("eve", "h4:6"), ("fay", "h6:6"), ("gus", "h6:7")];
        let found = alone.into_iter().chain(twice).map(|(user, claim)| (user.to_owned(), claim.to_owned())).collect();
        HotPart { held: held_by_slip(&found), fields: found, free: [0, 4].into(), known: [3].into() }
    }

    #[test]
    fn a_slip_is_exactly_one_of_free_held_and_known() {
        let states = (0..7).map(|slip| part().slip(slip, false)).collect::<Vec<_>>();
        let held = |user: &str, at_ms, parked: Option<&str>| HotSlip::Held {
            user: user.to_owned(),
            at_ms,
            parked: parked.map(str::to_owned),
        };
        let expected = [
            HotSlip::Free,
            held("ann", 5, None),
            held("bob", 6, Some("no such slip")),
            HotSlip::Known,
            HotSlip::Broken,
            HotSlip::Broken,
            HotSlip::Broken,
        ];
        assert_eq!(states, expected);
        assert_eq!(part().slip(5, true), HotSlip::Free, "an expired part no longer shows its free slips");
        assert_eq!(HotPart::default().slip(0, false), HotSlip::NotLoaded);
    }
}
