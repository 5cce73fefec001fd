//! The use cases: send, grab, view, wallet, settle; replay and rebuild for the operator. Each stands on the ledger and, where it needs it, the hot store.

mod cache;
mod collector;
mod committer;
mod environment;
mod failure;
mod finals;
mod flights;
mod grab;
mod hot_store;
mod learner;
mod live;
mod loader;
mod outbox;
mod packets;
mod rebuild;
mod replay;
mod send;
mod settle;
mod stores;
mod view;
mod wallet;

pub use cache::{Cache, cache};
pub use environment::{Clock, Entropy, System};
pub use failure::Failure;
pub use grab::{GrabOutcome, GrabSlip};
pub use hot_store::{
    Ask, Backlog, FinalPart, Finality, Found, Grabber, Held, HotStore, HotStoreError, Learned, Loaded, Look, PartLook,
    Rest,
};
pub use packets::Packets;
pub use rebuild::Rebuild;
pub use replay::{Replay, Replayed};
pub use send::{NewPacket, SendOutcome, SendPacket, SendPolicy};
pub use settle::{Report, Settle};
pub use stores::Stores;
pub use view::{ClaimsView, ListedClaim, PacketView, SentRecord, Status, ViewPackets, Viewed};
pub use wallet::Wallets;
