use deadpool_postgres::{PoolError, TimeoutType};
use shared::ports::TableError;
use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

/// What a failed statement means.
pub enum Failure {
    /// It is undone, because the items are not as a write expects them.
    Objection,
    /// It is undone, because others are in the way. The same statement may succeed.
    Conflict(Error),
    /// The same, and the connection has no further use: its server takes no writes, or is ending.
    Elsewhere(Error),
    /// The server calls it wrong: it would fail at any other time too.
    Refused(Error),
    /// Nothing is known of it: its connection broke.
    Unknown(Error),
    /// Nothing is known of it: it took too long.
    Late,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let Some(said) = error.as_db_error() else { return Self::Unknown(error) };
        // A statement that ended with an error is undone. Others end with their connection: nobody knows when.
        if said.parsed_severity() != Some(Severity::Error) {
            return Self::Unknown(error);
        }
        match said.code() {
            &SqlState::UNIQUE_VIOLATION | &SqlState::DIVISION_BY_ZERO => Self::Objection,
            &SqlState::READ_ONLY_SQL_TRANSACTION => Self::Elsewhere(error),
            // A faulty value, or more of something than the server can hold.
            code if matches!(&code.code()[..2], "22" | "54") => Self::Refused(error),
            // What the operator mends, such as a missing permission or a full disk, is passing too: until then holds must wait.
            _ => Self::Conflict(error),
        }
    }
}

/// The error of a read, or of a connection.
pub fn failed(error: PoolError) -> TableError {
    match error {
        PoolError::Timeout(TimeoutType::Wait) => TableError::Overloaded(error.into()),
        _ => TableError::Unavailable(error.into()),
    }
}

impl From<Failure> for TableError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Objection => Self::Unavailable("the statement met its own condition".into()),
            Failure::Late => Self::Unavailable("no answer in time".into()),
            Failure::Refused(error) => Self::Refused(error.into()),
            Failure::Conflict(error) | Failure::Elsewhere(error) | Failure::Unknown(error) => {
                Self::Unavailable(error.into())
            }
        }
    }
}
