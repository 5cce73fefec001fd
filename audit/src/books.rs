//! What a ledger says, for tests that have found it in order.

#![allow(clippy::panic)]

use std::collections::BTreeMap;

use shared::domain::PacketId;
use shared::ports::{Item, Key};

use crate::item::{Amounts, Fields, Malformed, Name, Own, Slip};

/// (slip, amount in minor units, time in ms).
pub type Claimed = (u32, u64, u64);

/// The ledger's content.
#[derive(Debug, Default)]
pub struct Books {
    /// By id.
    pub packets: BTreeMap<String, PacketBooks>,
    /// Balances by user.
    pub balances: BTreeMap<String, u64>,
}

/// A packet.
#[derive(Debug, Default)]
pub struct PacketBooks {
    /// The user who paid.
    pub sender: String,
    /// Number of slips.
    pub slips: usize,
    /// Whether it is marked as settled.
    pub settled: bool,
    /// Slip → its decision.
    pub decisions: BTreeMap<u32, DecisionBooks>,
    /// User → their claim.
    pub claims: BTreeMap<String, Claimed>,
}

/// A slip decision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DecisionBooks {
    /// The owner; `None`: refunded.
    pub user: Option<String>,
    /// The slip's amount.
    pub amount: u64,
    /// When it was decided, in ms.
    pub at: u64,
}

impl PacketBooks {
    /// Number of claimed slips.
    pub fn claimed(&self) -> usize {
        self.claims.len()
    }

    /// Number of refunded slips.
    pub fn refunded(&self) -> usize {
        self.decisions.len() - self.claims.len()
    }

    /// Number of undecided slips.
    pub fn undecided(&self) -> usize {
        self.slips - self.decisions.len()
    }
}

impl Books {
    /// A packet that exists.
    ///
    /// # Panics
    /// If it does not.
    pub fn packet(&self, id: PacketId) -> &PacketBooks {
        self.packets.get(&id.to_string()).unwrap_or_else(|| panic!("the ledger has no packet {id}"))
    }

    /// A user's balance.
    pub fn balance(&self, user: &str) -> u64 {
        self.balances.get(user).copied().unwrap_or(0)
    }

    fn of(&mut self, id: PacketId) -> &mut PacketBooks {
        self.packets.entry(id.to_string()).or_default()
    }

    /// Adds an item.
    pub fn enter(&mut self, key: &Key, item: &Item) -> Result<(), Malformed> {
        let fields = Fields(item);
        match Name::of(key) {
            Some(Name::Packet(id)) => {
                let packet = self.of(id);
                fields.text("sender_id")?.clone_into(&mut packet.sender);
                packet.slips = fields.slip("slip_count")? as usize;
                packet.settled = fields.text("status")? == "settled";
            }
            Some(Name::Decision(id, slip)) => {
                let Slip { user, amount, at, .. } = Slip::decision(item)?;
                let user = user.map(|user| user.as_str().to_owned());
                self.of(id).decisions.insert(slip, DecisionBooks { user, amount, at });
            }
            Some(Name::Of(user, Own::Claim(id))) => {
                let Slip { index, amount, at, .. } = Slip::claim(user.clone(), item)?;
                self.of(id).claims.insert(user.as_str().to_owned(), (index, amount, at));
            }
            Some(Name::Of(user, Own::Wallet)) => {
                let balance = u64::try_from(fields.total("balance")?).unwrap_or_default();
                self.balances.insert(user.as_str().to_owned(), balance);
            }
            _ => {}
        }
        Ok(())
    }
}

/// The amounts of the slips of a part.
pub fn amounts_of(part: &Item) -> Vec<u64> {
    Amounts::read(part).map(|amounts| amounts.iter().collect()).unwrap_or_default()
}
