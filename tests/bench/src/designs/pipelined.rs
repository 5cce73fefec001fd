use shared::redis::{Connection, RedisConfig, Script};

use super::LuaQueue;
use crate::BoxError;
use crate::concurrent::Grabs;
use crate::rush::{Got, Rush};

/// lua-queue with this engine's client: it calls the script by its hash, pipelined over one connection.
pub struct LuaQueuePipelined {
    redis: redis::Client,
    connection: Connection,
    script: Script,
}

impl LuaQueuePipelined {
    /// A client of the Redis at `url`.
    pub fn new(url: &str) -> Result<Self, BoxError> {
        Ok(Self {
            redis: redis::Client::open(url)?,
            connection: Connection::new(&RedisConfig {
                response_timeout: crate::RESPONSE_TIMEOUT,
                ..RedisConfig::new(url)
            })?,
            script: Script::new(super::lua_queue::SCRIPT),
        })
    }
}

impl Grabs for LuaQueuePipelined {
    async fn fill(&self, rush: &Rush) -> Result<(), BoxError> {
        LuaQueue::fill(&mut self.redis.get_connection()?, rush)?;
        Ok(())
    }

    async fn grab(&self, packet: usize, user: &str) -> Result<Got, BoxError> {
        let [free, consumed, map] = LuaQueue::keys(packet);
        let call = self.script.call(&[free.as_str(), &consumed, &map, user]);
        let answer: Option<String> = self.connection.run(&call).await?;
        Ok(LuaQueue::got(answer.as_deref()))
    }
}
