//! The ledger on `PostgreSQL` 15 or later: [`PostgresTable`] is the ledger's table, and [`Database`] the way to the server.

mod commit;
mod database;
mod failure;
mod reader;
mod table;

pub use database::{ConnectError, Database};
pub use reader::PostgresReader;
pub use table::PostgresTable;
