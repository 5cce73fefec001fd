//! Processes of the version before, beside which this one runs during a rollout. They do not know that packets can start later.

use shared::domain::{PartId, PassphraseDigest};
use shared::memory::MemoryHot;
use shared::ports::{GrabAnswer, Grabber, HotStore, HotStoreError, Item};

use crate::hot::now;
use crate::mutants::Mutant;

/// What their script takes for the digest of the passphrase if the guard has a start. Nobody's passphrase has it.
const NOT_A_DIGEST: PassphraseDigest = PassphraseDigest([0xff; 32]);

/// Their grab script.
pub fn grab(
    hot: &MemoryHot,
    part: PartId,
    grabbers: &[Grabber],
    mutant: Option<Mutant>,
) -> Result<Option<Vec<GrabAnswer>>, HotStoreError> {
    let mut guard = None;
    hot.tamper(part, |part| {
        if let Some(terms) = part.terms.as_mut().filter(|terms| terms.guard.starts_at.is_some()) {
            guard = Some(terms.guard.clone());
            terms.guard.starts_at = None;
            if mutant != Some(Mutant::StartNotInGuard) {
                terms.guard.passphrase = Some(NOT_A_DIGEST);
            }
        }
    });
    let found = now(hot.grab(part, grabbers));
    hot.tamper(part, |part| {
        if let (Some(terms), Some(guard)) = (&mut part.terms, guard) {
            terms.guard = guard;
        }
    });
    found
}

/// An item as they read it. The acknowledgement mode of a packet with a start is in an attribute that they do not know, and
/// without the mode they read no packet.
pub fn read(mut item: Item) -> Item {
    item.inner_mut().remove("start");
    item
}
