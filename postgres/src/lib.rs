//! The ledger on `PostgreSQL` 15 or later: [`PostgresTable`] is the ledger's table, and [`Database`] the way to the server.

mod commit;
mod database;
mod events;
mod failure;
mod lease;
mod reader;
mod table;

pub use database::{ConnectError, Database};
pub use events::{Events, Message};
pub use lease::Lease;
pub use reader::PostgresReader;
pub use table::PostgresTable;
