//! What one user has of a packet, for the operator's staff.

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;

use super::ViewPackets;
use crate::domain::{AckMode, Amount, Claim, Hold, PacketId, PartId, Signer, Terms, Timestamp, UserId};
use crate::ports::{HotStore, Table};
use crate::service::Failure;

/// What a user has of a packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Share {
    /// A claim in the ledger. Settle or their own grab committed it, or else `by`: a repair.
    Claimed {
        /// The claim.
        claim: Claim,
        /// Who repaired it.
        by: Option<Signer>,
    },
    /// A slip that is held for them, and undecided: their next grab or settle may make a claim of it. A parked one stays so.
    Held {
        /// The slip.
        slip: u32,
        /// When it was held.
        at: Timestamp,
        /// What was promised to them, if the packet is acknowledged on the hot store's word.
        promised: Option<Amount>,
    },
    /// A slip was held for them, but it went back to the sender before it was claimed. Once the hot store knows that, they have nothing.
    Refunded {
        /// The slip.
        slip: u32,
        /// When it went back.
        at: Timestamp,
    },
    /// Nothing.
    None,
}

impl<T: Table, H: HotStore> ViewPackets<T, H> {
    /// What a user has of a packet, with its terms. `None`: there is no such packet.
    pub async fn share(&self, id: PacketId, user: &UserId) -> Result<Option<(Arc<Terms>, Share)>, Failure> {
        let Some(terms) = self.reads.stores.packets.terms(id).await? else { return Ok(None) };
        if let Some(claimed) = self.claimed_by(user, id).await? {
            return Ok(Some((terms, claimed)));
        }
        // The claim is read once more, and last: if the hold has become one meanwhile, its decision and its claim came together.
        let undecided = match self.hold_of(&terms, user).await? {
            Some(hold) => self.share_of_hold(&terms, &hold).await?,
            None => Share::None,
        };
        let share = self.claimed_by(user, id).await?.unwrap_or(undecided);
        Ok(Some((terms, share)))
    }

    async fn claimed_by(&self, user: &UserId, id: PacketId) -> Result<Option<Share>, Failure> {
        let claimed = self.ledger().signed_claim_of(user, id).await?;
        Ok(claimed.map(|(claim, by)| Share::Claimed { claim, by }))
    }

    async fn hold_of(&self, terms: &Terms, user: &UserId) -> Result<Option<Hold>, Failure> {
        let hot = &self.reads.stores.hot;
        let holds = try_join_all(terms.id.parts().map(|part| hot.outbox(part, Duration::ZERO))).await?;
        Ok(holds.into_iter().flatten().map(|entry| entry.hold).find(|hold| hold.user == *user))
    }

    /// What becomes of a hold depends on whether the ledger has a decision of its slip.
    async fn share_of_hold(&self, terms: &Terms, hold: &Hold) -> Result<Share, Failure> {
        let Hold { slip, at, .. } = *hold;
        match self.ledger().decision(terms.id, slip).await? {
            Some(decision) if decision.owner.user().is_none() => Ok(Share::Refunded { slip, at: decision.at }),
            Some(_) => Ok(Share::None),
            None => Ok(Share::Held { slip, at, promised: self.promised(terms, slip).await? }),
        }
    }

    async fn promised(&self, terms: &Terms, slip: u32) -> Result<Option<Amount>, Failure> {
        let part = terms.id.parts().find(|part: &PartId| part.slips(terms.count).contains(&slip));
        let Some(part) = part.filter(|_| terms.ack == AckMode::Redis) else { return Ok(None) };
        let amounts = self.reads.stores.packets.amounts(part).await?;
        Ok(amounts.get((slip - part.slips(terms.count).start) as usize))
    }
}
