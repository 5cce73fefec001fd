use redis::{Connection, RedisResult, cmd};

use super::{Client, Design};
use crate::rush::{Got, Rush};

/// Not a design: PING instead of a grab. No client with one command in flight per connection can be faster.
pub struct Ping;

impl Design for Ping {
    fn name(&self) -> &'static str {
        "PING"
    }

    fn fill(&self, _redis: &mut Connection, _rush: &Rush) -> RedisResult<()> {
        Ok(())
    }

    fn grab(&self, client: &mut Client, _packet: usize, _user: &str) -> RedisResult<Got> {
        let _: String = client.ask(&cmd("PING"))?;
        Ok(Got::Nothing)
    }
}
