//! The use cases: send, grab, view, wallet, settle; close, replay and rebuild for the operator. Each uses the ledger, and most use the
//! hot store too.

mod admission;
mod close;
mod failure;
mod grab;
mod load;
mod own_claims;
mod packets;
mod report;
mod send;
mod settle;
mod sold_out;
mod stores;
mod view;
mod wallet;

pub use crate::ledger::Slice;
pub use crate::ports::traced;
pub use admission::Voucher;
pub use close::ClosePacket;
pub use failure::Failure;
pub use grab::{GrabOutcome, GrabSlip};
pub use packets::Packets;
pub use report::{
    Bounded, CampaignReports, PacketTotals, ReportPlace, ReportedClaim, SelectionTotals, SheetError, sheet_name,
    text_cell, text_of_cell, write_sheet,
};
pub use send::{NewPacket, SendOutcome, SendPacket, SendPolicy};
pub use settle::{Rebuild, Replay, Replayed, RunReport, Settle};
pub use stores::Stores;
pub use view::{
    ClaimsAsked, ClaimsView, ListedClaim, NextRound, Obstacle, Order, PacketView, SentAsked, Share, ShareView,
    ViewError, ViewPackets,
};
pub use wallet::{Decided, LimitUse, ReceiverState, ReceiverStatus, Requested, Wallets, WithdrawalOutcome};
