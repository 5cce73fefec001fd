use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;

use redis::{RedisError, RedisResult, Value, from_redis_value, from_redis_value_ref};

use super::connector::Address;

/// Which primary has which slots. It is never empty. Replicas are left out, because no call goes to them.
pub(super) type Topology = Arc<[Range]>;

/// Slots that lie side by side.
#[derive(Debug)]
pub(super) struct Range {
    pub(super) slots: RangeInclusive<u16>,
    pub(super) primary: Address,
    /// The primary's name inside the cluster; empty if there is none.
    pub(super) id: String,
}

pub(super) fn is_primary(topology: &[Range], address: &Address) -> bool {
    topology.iter().any(|range| range.primary == *address)
}

/// The primary of `slot`; any, if that has none or the call has no key.
pub(super) fn primary_of(topology: &[Range], slot: Option<u16>) -> &Address {
    let range = topology.iter().find(|range| slot.is_some_and(|slot| range.slots.contains(&slot)));
    &range.unwrap_or(&topology[0]).primary
}

/// Where the node at `from` sends a call. A node that knows no name for a host leaves it out, and means its own.
pub(super) fn redirection(error: &RedisError, from: &Address) -> Option<Address> {
    let (to, _slot) = error.redirect_node()?;
    let (host, port) = to.rsplit_once(':')?;
    Some(Address::new(if host.is_empty() { &from.host } else { host }, port.parse().ok()?))
}

/// Reads the answer to CLUSTER SLOTS: `first, last, primary, replica …` for each range, where a node is `host, port, id, …`.
///
/// A host that is null or empty is that of the node which `answered`. One whose host is `?` is unknown, and its slots are left out.
pub(super) fn parse(slots: Value, answered: &Address) -> RedisResult<Topology> {
    let mut ranges = Vec::new();
    for range in from_redis_value::<Vec<Vec<Value>>>(slots)? {
        let [first, last, Value::Array(primary), ..] = &*range else { continue };
        let [host, port, names @ ..] = &**primary else { continue };
        let host: Option<String> = from_redis_value_ref(host)?;
        let host = match host.as_deref() {
            Some("?") => continue,
            None | Some("") => &answered.host,
            Some(host) => host,
        };
        ranges.push(Range {
            slots: from_redis_value_ref(first)?..=from_redis_value_ref(last)?,
            primary: Address::new(host, from_redis_value_ref(port)?),
            id: names.first().map(from_redis_value_ref).transpose()?.unwrap_or_default(),
        });
    }
    if ranges.is_empty() { Err(io::Error::other("the node knows no slots").into()) } else { Ok(ranges.into()) }
}

#[cfg(test)]
mod tests {
    use redis::parse_redis_value;

    use super::*;

    /// A range of slots as a server says it: each node with its host, which may be null, and its id.
    fn range(first: i64, last: i64, nodes: &[(Option<&str>, &str)]) -> Value {
        let text = |text: &str| Value::BulkString(text.into());
        let node = |(host, id): &(Option<&str>, &str)| {
            Value::Array(vec![host.map_or(Value::Nil, text), Value::Int(2), text(id)])
        };
        Value::Array([Value::Int(first), Value::Int(last)].into_iter().chain(nodes.iter().map(node)).collect())
    }

    fn parsed(ranges: Vec<Value>) -> RedisResult<Topology> {
        parse(Value::Array(ranges), &Address::new("asked", 1))
    }

    #[test]
    fn each_slot_has_its_primary_and_replicas_are_left_out() {
        let unknown = range(105, 106, &[(Some("?"), "U")]);
        let topology = parsed(vec![
            range(8_000, 16_383, &[(Some("b"), "B"), (Some("rb"), "RB")]),
            range(0, 99, &[(Some("a"), "A"), (Some("ra"), "RA")]),
            // A node may not know its own name or another's.
            range(101, 102, &[(None, "N")]),
            range(103, 104, &[(Some(""), "E")]),
            unknown.clone(),
        ])
        .unwrap();
        for (slot, host) in [(0, "a"), (99, "a"), (101, "asked"), (104, "asked"), (8_000, "b"), (16_383, "b")] {
            assert_eq!(primary_of(&topology, Some(slot)), &Address::new(host, 2), "{slot}");
        }
        // Any, for a slot without a primary, and for a call without a key.
        for slot in [Some(100), Some(105), None] {
            assert_eq!(primary_of(&topology, slot), &Address::new("b", 2));
        }
        assert!(!is_primary(&topology, &Address::new("ra", 2)));
        for no_slots in [parsed(vec![]), parsed(vec![unknown]), parse(Value::Okay, &Address::new("asked", 1))] {
            no_slots.unwrap_err();
        }
    }

    #[test]
    fn a_redirection_may_leave_the_host_out() {
        for (to, host) in [("b.example:2", Some("b.example")), ("::1:2", Some("::1")), (":2", Some("a")), ("b", None)] {
            let moved = parse_redis_value(format!("-MOVED 1 {to}\r\n").as_bytes()).unwrap();
            let moved = moved.extract_error().unwrap_err();
            assert_eq!(redirection(&moved, &Address::new("a", 1)), host.map(|host| Address::new(host, 2)), "{to}");
        }
    }
}
