//! The ports: what the ledger and the use cases ask of the world, and `dynamodb`, `redis` and `memory` give. They are a table,
//! a hot store, a clock, randomness and the trace of a request, with their plain types. They use only the domain.

mod environment;
mod hot_store;
mod table;
mod trace;

pub use environment::{Clock, Entropy, System};
pub use hot_store::{
    Backlog, GrabAnswer, Grabber, HotStore, HotStoreError, Loaded, OutboxEntry, PartAnswers, PartGrabs, PartState,
    Reconciled,
};
pub use table::{Batch, Bound, Expect, Item, Key, Query, Reason, Table, TableError, TransactError, Write};
pub use trace::{current_trace, traced};
