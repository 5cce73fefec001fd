//! The protocol of a packet as a state machine, small enough for a checker to visit every reachable state.
//!
//! It mirrors the engine step by step. A step is one outside effect: a script of the hot store, a transaction of the
//! ledger, or a consistent read. Between two steps all other actors may act, any actor may die, the packet may expire,
//! and the hot store may lose data.
//!
//! | here | in the engine (`shared/src`) |
//! |---|---|
//! | [`hot`]: `grab`, `reconcile`, `load`, `close` | `redis/lua/{grab,reconcile,load,close}.lua` |
//! | [`hot`]: `is_final`, and the action `CacheFinalPart` | `redis/lua/snapshot.lua`, `service/grab/exhausted.rs` |
//! | [`ledger`]: `claim`, `refund` | `ledger/claim.rs`, `ledger/refund.rs`, with the retries of `ledger/commit.rs` |
//! | [`grab`]: `Pass`, `Doubt` | `GrabSlip::pass`, `answer_by_claim` and `ask_the_ledger` in `service/grab/mod.rs` |
//! | [`grab`]: `Help`, `Helped` | `Helper::help` in `service/grab/help.rs` |
//! | [`grab`]: `Commit`, `Reconcile` | `GrabSlip::take` and `reconcile` |
//! | [`grab`]: `NotLoaded`, `ReadPart`, `Load`, `ReadRepair`, `Repair` | `Loader::ensure_alone`, `load`, `repair_alone` in `service/load.rs` |
//! | [`grab`]: `Forgotten`, `IsSettled`, `SinceSettled` | `GrabSlip::expired_and_forgotten` |
//! | [`settle`]: `Ready` to `IsEmpty` | `Outboxes::drain`, `persist` in `service/settle/outbox.rs`; `Settle::drain` in `service/settle/refund.rs` |
//! | [`settle`]: `Packet` to `ReconcileParts` | `Settle::try_portion`, `refund_chunk`, `reconcile` in `service/settle/refund.rs` |
//! | [`close`]: `Operator`, `Closing` | `ClosePacket::close`, `Closer::close_part` in `service/close.rs` |
//! | [`state::Sender`] | `SendPacket::send` in `service/send.rs` |
//!
//! Faults:
//! - An actor dies after any of its writes.
//! - A transaction's result is unknown, and it is sent again.
//! - A call is executed a second time, or after its actor has died.
//! - A grab can't reconcile the hot store.
//! - A run of settle can't commit a hold, and goes on without it. It can't close a part: without promises it goes on to the refund.
//! - The hot store, or the node of one part, goes back to a snapshot, or loses everything.
//! - A loader knows no decision.
//! - The clocks of two processes differ.
//! - A grab whose claim is committed answers before it reconciles the hot store.
//!
//! Left out, because it would show no more:
//! - times and amounts: a claim item carries both, and never changes;
//! - guards and parked holds: they only remove steps;
//! - the loader's read of whether the packet is closed, in instances without a close;
//! - the leases: any number of processes may load or help at once;
//! - the wait until a part is final: asking again at any moment covers more;
//! - batched claims: they equal single claims without another step in between.
//!
//! A query of decisions is one step here; `DynamoDB` reads it item by item. The model has no hot store that invents
//! holds.
//!
//! For each state the model also checks recovery: if all actors died now and the packet expired, one run of settle leaves
//! nothing behind. Of symmetric states, which differ only in the users' names, the checker visits one ([`symmetry`]).
//!
//! [`properties`] lists the properties of each state, [`instances`] the checked bounds, and [`instance::Mutant`] the
//! mistakes that the checker must find.

pub mod call;
pub mod check;
pub mod close;
pub mod grab;
pub mod hot;
pub mod instance;
pub mod ledger;
pub mod properties;
pub mod protocol;
pub mod set;
pub mod settle;
pub mod state;

pub use protocol::{Action, Protocol};
pub use state::State;
