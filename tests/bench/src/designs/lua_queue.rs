use redis::{Connection, RedisResult};

use super::{Client, Design, fill_lists};
use crate::rush::{Got, Rush};

/// The published script.
pub const SCRIPT: &str = include_str!("../lua/lua_queue.lua");

/// Slips as JSON in a list; a script moves one to another list, once per user. The client sends its text each time.
pub struct LuaQueue;

impl LuaQueue {
    /// The keys of a packet: free slips, consumed slips, map of users.
    #[must_use]
    pub fn keys(packet: usize) -> [String; 3] {
        ["hongBaoList", "hongBaoConsumedList", "hongBaoConsumedMap"].map(|key| format!("{key}:{packet}"))
    }

    /// Reads the script's answer, which is nil for a loser and for a user who has a slip already.
    #[must_use]
    pub fn got(answer: Option<&str>) -> Got {
        // {"userId":"…","id":17,"money":…}: the fields come in any order.
        let id = answer.and_then(|slip| slip.split("\"id\":").nth(1));
        let id = id.and_then(|rest| rest.split([',', '}']).next()?.parse().ok());
        id.map_or(Got::Nothing, Got::Slip)
    }

    /// Writes the packets of a rush.
    pub fn fill(redis: &mut Connection, rush: &Rush) -> RedisResult<()> {
        let slip = |id| format!("{{\"id\":{id},\"money\":{}}}", id % 200 + 1);
        fill_lists(redis, rush, |packet| Self::keys(packet)[0].clone(), slip)
    }
}

impl Design for LuaQueue {
    fn name(&self) -> &'static str {
        "lua-queue"
    }

    fn fill(&self, redis: &mut Connection, rush: &Rush) -> RedisResult<()> {
        Self::fill(redis, rush)
    }

    fn grab(&self, client: &mut Client, packet: usize, user: &str) -> RedisResult<Got> {
        let mut eval = redis::cmd("EVAL");
        eval.arg(SCRIPT).arg(4).arg(&Self::keys(packet)).arg(user);
        let answer: Option<String> = client.ask(&eval)?;
        Ok(Self::got(answer.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_read_whatever_the_order_of_its_fields() {
        assert_eq!(LuaQueue::got(Some("{\"userId\":\"a\",\"id\":17,\"money\":3}")), Got::Slip(17));
        assert_eq!(LuaQueue::got(Some("{\"money\":3,\"id\":17}")), Got::Slip(17));
        assert_eq!(LuaQueue::got(None), Got::Nothing);
    }
}
