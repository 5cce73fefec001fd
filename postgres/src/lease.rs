use std::time::Duration;

use rand::random;
use shared::ports::TableError;
use shared::timeouts;

use crate::Database;
use crate::failure::failed;

/// The right to do something that one process does at a time. It ends by itself, by the database's clock. Two that believe to have it do
/// no harm: what is done under it can be done twice.
#[derive(Clone, Debug)]
pub struct Lease {
    database: Database,
    name: &'static str,
    /// This process.
    holder: String,
}

impl Lease {
    /// The lease with this name. Nobody has it yet.
    pub fn new(database: Database, name: &'static str) -> Self {
        Self { database, name, holder: format!("{:032x}", random::<u128>()) }
    }

    /// Takes the lease for some time, or takes it for longer. Returns whether this process has it now.
    pub async fn take(&self, time: Duration) -> Result<bool, TableError> {
        self.set(time, "leases.holder = excluded.holder OR leases.until < clock_timestamp()").await
    }

    /// Takes the lease only once its time is over, also that of this process.
    pub async fn take_if_over(&self, time: Duration) -> Result<bool, TableError> {
        self.set(time, "leases.until < clock_timestamp()").await
    }

    /// Lets nobody have the lease for some time, and leaves a note.
    pub async fn leave(&self, time: Duration, note: i64) -> Result<(), TableError> {
        let statement = format!(
            "UPDATE {}.leases SET until = clock_timestamp() + $2 * interval '1 second', note = $3 WHERE name = $1",
            self.database.quoted_schema()
        );
        let seconds = time.as_secs_f64();
        let mut connection = self.database.connection().await.map_err(failed)?;
        connection.query(timeouts::TRY, &statement, &[&self.name, &seconds, &note]).await?;
        Ok(())
    }

    /// The last note; 0 if there is none.
    pub async fn note(&self) -> Result<i64, TableError> {
        let statement = format!("SELECT note FROM {}.leases WHERE name = $1", self.database.quoted_schema());
        let mut connection = self.database.connection().await.map_err(failed)?;
        let rows = connection.query(timeouts::TRY, &statement, &[&self.name]).await?;
        rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(|error| TableError::Refused(error.into()))
    }

    async fn set(&self, time: Duration, condition: &str) -> Result<bool, TableError> {
        let statement = format!(
            "INSERT INTO {}.leases (name, holder, until) VALUES ($1, $2, clock_timestamp() + $3 * interval '1 second')
             ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until WHERE {condition} RETURNING 1",
            self.database.quoted_schema()
        );
        let seconds = time.as_secs_f64();
        let mut connection = self.database.connection().await.map_err(failed)?;
        let rows = connection.query(timeouts::TRY, &statement, &[&self.name, &self.holder, &seconds]).await?;
        Ok(!rows.is_empty())
    }
}
