use redis::{Connection, RedisResult, cmd};

use super::{Client, Design};
use crate::rush::{Got, Rush};

/// No design: PING for each grab, the most that a client with one command under way on each connection can have.
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
