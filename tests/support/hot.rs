//! A part's data in Redis, read and changed directly.

use std::collections::{BTreeMap, BTreeSet};

use redis::cmd;
use shared::domain::{PartId, Terms, UserId};
use shared::ports::{GrabAnswer, Grabber, HotStore, OutboxEntry};
use shared::redis::{PartKeys, fields, holds};

use crate::books::Books;
use crate::world::{Process, World};

/// Takes a slip for each of `users` and stops there, like a function that was killed between the two stores. Returns
/// each slip and the time of its hold.
///
/// # Panics
/// If a user gets no slip.
pub async fn hold_only(process: &Process, part: PartId, users: &[UserId]) -> Vec<(u32, u64)> {
    let grabbers: Vec<Grabber> = users.iter().map(|user| Grabber { user: user.clone(), passphrase: None }).collect();
    let found = process.hot.grab(part, &grabbers).await.unwrap().expect("a loaded part");
    assert!(found.iter().all(|found| matches!(found, GrabAnswer::Held { .. })), "no hold: {found:?}");
    let outbox = process.hot.outbox(part).await.unwrap();
    let hold_of = |user: &UserId| outbox.iter().map(|entry| &entry.hold).find(|hold| hold.user == *user);
    users.iter().map(|user| hold_of(user).map(|hold| (hold.slip, hold.at.ms())).expect("a hold")).collect()
}

/// A part's data in Redis.
#[derive(Debug, Default)]
pub struct HotPart {
    /// Users (and terms, with `#`) → their values.
    pub claims: BTreeMap<String, String>,
    /// Free slips, the next one first.
    pub free: Vec<u32>,
    /// The outbox, by slip.
    pub held: BTreeMap<u32, OutboxEntry>,
    /// Slips with a known decision.
    pub decided: BTreeSet<u32>,
}

/// A part's holds, by slip.
pub(crate) fn outbox(claims: &BTreeMap<String, String>) -> BTreeMap<u32, OutboxEntry> {
    holds(claims).map(|held| (held.hold.slip, held)).collect()
}

impl World {
    /// Reads a part from Redis. A part without claims is not loaded.
    pub async fn hot_part(&self, terms: &Terms, part: PartId) -> HotPart {
        let keys = PartKeys::of(part);
        let range = part.slips(terms.count);
        let bits: Vec<u8> = self.redis(cmd("GET").arg(&keys.known)).await;
        let bit = |place: u32| bits.get(place as usize / 8).is_some_and(|byte| byte >> (7 - place % 8) & 1 == 1);
        let claims = self.redis(cmd("HGETALL").arg(&keys.part)).await;
        let mut free: Vec<u32> = self.redis(cmd("LRANGE").arg(&keys.free).arg(0).arg(-1)).await;
        free.reverse();
        HotPart {
            free,
            held: outbox(&claims),
            claims,
            decided: range.clone().filter(|slip| bit(slip - range.start)).collect(),
        }
    }

    /// Removes a free slip from a part.
    pub async fn lose_free(&self, part: PartId, slip: u32) {
        let () = self.redis(cmd("LREM").arg(PartKeys::of(part).free).arg(0).arg(slip)).await;
    }

    /// Forges an unconfirmed hold.
    pub async fn forge_hold(&self, part: PartId, slip: u32, user: &UserId) {
        let keys = PartKeys::of(part);
        self.lose_free(part, slip).await;
        let at = self.now_ms();
        // A part that is not loaded has none.
        let () = self.redis(cmd("HSETNX").arg(&keys.part).arg(fields::EXPIRES_AT).arg(at)).await;
        let expires_at: u64 = self.redis(cmd("HGET").arg(&keys.part).arg(fields::EXPIRES_AT)).await;
        let hold = format!("h{slip}:{}", expires_at - at);
        let was: Option<String> = self.redis(cmd("HGET").arg(&keys.part).arg(user.as_str())).await;
        let () = self.redis(cmd("HSET").arg(&keys.part).arg(user.as_str()).arg(hold)).await;
        if !was.is_some_and(|was| was.starts_with('h')) {
            let () = self.redis(cmd("HINCRBY").arg(&keys.part).arg(fields::HELD_COUNT).arg(1)).await;
        }
        let () = self.redis(cmd("PERSIST").arg(&keys.part)).await;
        let () = self.redis(cmd("ZADD").arg(&keys.pending).arg("NX").arg(at).arg(&keys.name)).await;
    }

    /// Removes a slip's known decision and its owner's claim from a part, as a rollback does.
    pub async fn forget_decision(&self, terms: &Terms, part: PartId, slip: u32, owner: Option<&UserId>) {
        let keys = PartKeys::of(part);
        let place = slip - part.slips(terms.count).start;
        let was: u8 = self.redis(cmd("SETBIT").arg(&keys.known).arg(place).arg(0)).await;
        assert_eq!(was, 1, "the part did not know of slip {slip}");
        let () = self.redis(cmd("HINCRBY").arg(&keys.part).arg(fields::KNOWN_COUNT).arg(-1)).await;
        if let Some(owner) = owner {
            let () = self.redis(cmd("HDEL").arg(&keys.part).arg(owner.as_str())).await;
        }
    }

    /// Checks a packet's data in Redis against itself and against the ledger. Skips parts that are not loaded.
    ///
    /// # Panics
    /// If a slip is not exactly one of free, held and decided, or a confirmed claim differs from the ledger's.
    pub async fn audit_hot(&self, terms: &Terms, books: &Books) {
        let packet = books.packet(terms.id);
        for part in terms.id.parts() {
            let hot = self.hot_part(terms, part).await;
            let Some(expires) = hot.claims.get(fields::EXPIRES_AT) else { continue };
            let mut seen: Vec<u32> = hot.free.iter().chain(hot.held.keys()).chain(&hot.decided).copied().collect();
            seen.sort_unstable();
            let all: Vec<u32> = part.slips(terms.count).collect();
            if self.now_ms() < expires.parse().unwrap() {
                assert_eq!(seen, all, "{part}: free, held and decided slips: {hot:?}");
            }
            let holds = &hot.claims[fields::HELD_COUNT];
            assert_eq!(*holds, hot.held.len().to_string(), "{part}: the number of holds: {hot:?}");
            assert_eq!(
                hot.claims[fields::KNOWN_COUNT],
                hot.decided.len().to_string(),
                "{part}: the number of decisions"
            );
            for slip in &hot.decided {
                assert!(
                    packet.decisions.contains_key(slip),
                    "{part}: slip {slip} has a known decision that the ledger lacks"
                );
            }
            for (user, said) in hot.claims.iter().filter(|(user, _)| !user.starts_with(fields::PREFIX)) {
                if said.starts_with('h') {
                    let held = hot.held.values().any(|held| held.hold.user.as_str() == user);
                    assert!(held, "{part}: {user}'s {said} is held for two users");
                } else {
                    let (slip, amount, at) =
                        packet.claims.get(user).unwrap_or_else(|| panic!("{part}: {user}'s {said}"));
                    assert_eq!(*said, format!("g{slip}:{amount}:{at}"), "{part}: {user}'s claim");
                }
            }
        }
    }
}
