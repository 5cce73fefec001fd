//! The hot store in Redis or Valkey: who gets which slip, decided by a few Lua scripts.

mod connection;
pub mod fields;
mod keys;
mod reply;
pub mod server_program;
mod store;
#[cfg(any(test, feature = "test-support"))]
pub mod test_proxy;
#[cfg(any(test, feature = "test-support"))]
pub mod test_server;

pub use connection::{
    Authorities, Call, Connection, IamAuth, RedisConfig, RedisConfigError, RedisError, Script, install_crypto_provider,
};
pub use keys::{PartKeys, partition_of};
pub use reply::holds;
pub use store::{RedisStore, Server};
