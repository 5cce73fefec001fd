//! The protocol of a packet as a state machine, small enough for a checker to visit every state that it can come to.
//!
//! It mirrors the engine step by step. A step is one outside effect: a script of the hot store, a transaction of the
//! ledger, a consistent read. Between any two steps everybody else may go on, anybody may die, the packet may expire, and
//! the hot store may lose what it knew.
//!
//! | here | in the engine (`shared/src`) |
//! |---|---|
//! | [`hot`]: `grab`, `reconcile`, `load` | `redis/lua/{grab,reconcile,load}.lua` |
//! | [`hot`]: `is_final`, and the action `Look` | `redis/lua/final_owners.lua`, `service/grab/exhausted.rs` |
//! | [`ledger`]: `claim`, `refund` | `ledger/claim.rs`, `ledger/refund.rs`, with the retries of `ledger/commit.rs` |
//! | [`grab`]: `Pass`, `Doubt` | `GrabSlip::pass` and `ask_the_ledger` in `service/grab/mod.rs` |
//! | [`grab`]: `Commit`, `Reconcile` | `GrabSlip::take` and `reconcile` |
//! | [`grab`]: `NotLoaded`, `Load`, `ReadRepair`, `Repair` | `Loader::ensure_alone`, `load`, `repair_alone` in `service/load.rs` |
//! | [`grab`]: `Forgotten`, `IsSettled`, `SinceSettled` | `GrabSlip::expired_and_forgotten` |
//! | [`settle`]: `Ready` to `IsEmpty` | `Outboxes::drain`, `persist` in `service/settle/outbox.rs`; `Settle::drain_packet` in `service/settle/mod.rs` |
//! | [`settle`]: `Packet` to `Spread` | `Settle::settle_packet`, `refund_chunk`, `tell` |
//! | [`state::Sender`] | `SendPacket::send` in `service/send.rs` |
//!
//! What can go wrong: an actor dies after any of his writes; a transaction's result is unknown, and it is sent again; a
//! call is executed a second time, or late when nobody waits for it; a grab can't tell the hot store what it reconciled; the
//! hot store goes back to a snapshot, or loses everything; a loader knows of no decision; the clocks of two processes differ. A
//! grab whose claim is committed may also answer before it tells the hot store.
//!
//! What is left out, and why that shows no less: times and amounts (a claim item carries both, and never changes), guards
//! and parked holds (they only take steps away), the lease of a load (so that any number may load at once), and the
//! waiting for a part to become final (asking again at any moment is more). Claims that go together are as many claims with
//! nothing in between. A query of decisions is one step here; in
//! `DynamoDB` it reads item by item. A hot store that makes up holds is not modelled.
//!
//! In each state it is asked besides what would become of it if everybody died now: whether one run of settle, after the
//! expiry, leaves nothing behind. Where users are alike, one is visited of all states that differ only in who is who
//! ([`symmetry`]).
//!
//! [`properties`] says what must hold in each state, [`instances`] which bounds are checked, and [`instance::Mutant`] which
//! mistakes the checker must find.

pub mod call;
pub mod check;
pub mod grab;
pub mod hot;
pub mod instance;
pub mod instances;
pub mod ledger;
pub mod properties;
pub mod protocol;
pub mod set;
pub mod settle;
pub mod state;
pub mod symmetry;

pub use protocol::{Action, Protocol};
pub use state::State;
