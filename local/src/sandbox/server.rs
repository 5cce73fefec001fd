use std::sync::Arc;

use redis::Value;
use shared::memory::MemoryServer;
use shared::redis::{Call, Connection, RedisError, Server};

/// What runs the hot store's scripts.
#[derive(Debug)]
pub enum HotServer {
    /// A Redis or Valkey server.
    Redis(Connection),
    /// This process.
    InProcess(Arc<MemoryServer>),
}

impl Server for HotServer {
    async fn run(&self, call: &Call) -> Result<Value, RedisError> {
        match self {
            Self::Redis(connection) => Server::run(connection, call).await,
            Self::InProcess(memory) => memory.run(call).await,
        }
    }

    fn is_cluster(&self) -> bool {
        match self {
            Self::Redis(connection) => connection.is_cluster(),
            Self::InProcess(memory) => memory.is_cluster(),
        }
    }
}
