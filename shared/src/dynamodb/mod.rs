//! The port [`Table`](crate::ports::Table) on the AWS SDK, and the table's schema.

mod schema;
mod table;
#[cfg(any(test, feature = "test-support"))]
pub mod throttled;

pub use schema::create_table;
pub use table::SdkTable;
