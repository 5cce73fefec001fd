//! A database for one command: `SQLite` sorts, matches and adds more rows than memory holds.

use rusqlite::Connection;

/// An empty database with these tables, in a temporary file. `SQLite` puts it into `TMPDIR`, and removes it at the end.
pub fn database(schema: &str) -> rusqlite::Result<Connection> {
    let database = Connection::open("")?;
    database.execute_batch("PRAGMA journal_mode = OFF; PRAGMA temp_store = FILE; BEGIN")?;
    database.execute_batch(schema)?;
    Ok(database)
}
