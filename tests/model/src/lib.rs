//! The protocol.
mod call;
pub mod check;
mod grab;
mod hot;
pub mod instance;
pub mod instances;
mod ledger;
pub mod properties;
mod protocol;
mod set;
mod settle;
mod state;

pub use protocol::Protocol;
pub use state::State;
