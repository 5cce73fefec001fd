//! The promises that users received.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use shared::domain::{Claim, PacketId, UserId};
use shared::service::{Failure, GrabOutcome};

use crate::books::Books;
use crate::world::Process;

/// Every promise so far. No later answer may contradict it.
#[derive(Debug, Default)]
pub struct Promises(Mutex<BTreeMap<(PacketId, UserId), Claim>>);

impl Promises {
    /// Grabs, and checks the answer against the user's earlier answers.
    ///
    /// # Panics
    /// If it contradicts them.
    pub async fn grab(&self, process: &Process, id: PacketId, user: &UserId) -> Result<GrabOutcome, Failure> {
        let key = (id, user.clone());
        let before = self.all().get(&key).cloned();
        let answer = process.grab(id, user).await?;
        match (&answer, before) {
            (GrabOutcome::Grabbed { claim, replayed }, before) => {
                assert!(before.is_none() || *replayed, "{user} had {before:?} before {answer:?}");
                let first = self.all().entry(key).or_insert_with(|| claim.clone()).clone();
                assert_eq!(*claim, first, "{user} of {id} had another answer before");
            }
            (no, Some(before)) => panic!("{user} of {id} had {before:?} and was then answered {no:?}"),
            (_, None) => {}
        }
        Ok(answer)
    }

    /// Number of promises.
    pub fn count(&self) -> usize {
        self.all().len()
    }

    /// # Panics
    /// If a promise differs from the ledger's claim.
    pub fn are_kept(&self, books: &Books) {
        for ((id, user), claim) in &*self.all() {
            let booked = books.packet(*id).claims.get(user.as_str());
            let promised = (claim.slip, claim.amount.minor_units(), claim.at.ms());
            assert_eq!(booked, Some(&promised), "the promise to {user} of {id} differs from the ledger's claim");
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<(PacketId, UserId), Claim>> {
        self.0.lock().unwrap()
    }
}
