use std::io;

use redis::{RedisResult, Value, from_redis_value};

use super::address::Address;

/// A cluster's primaries, and which slots each of them has. Replicas are left out: no call goes to one.
#[derive(Debug)]
pub(super) struct Topology {
    /// In the order of their slots.
    ranges: Vec<Range>,
    primaries: Vec<Primary>,
}

#[derive(Debug)]
struct Range {
    first: u16,
    last: u16,
    primary: usize,
}

#[derive(Debug, Eq, PartialEq)]
struct Primary {
    /// Its name inside the cluster; empty if there is none.
    id: String,
    address: Address,
}

impl Topology {
    /// Reads the answer to CLUSTER SLOTS: `first, last, primary, replica …` for each range, where a node is `host, port, id, …`.
    ///
    /// A host that is null or empty is that of the node which `answered`. One whose host is `?` is unknown, and its slots are left
    /// out.
    pub(super) fn read(slots: Value, answered: &Address) -> RedisResult<Self> {
        let mut topology = Self { ranges: Vec::new(), primaries: Vec::new() };
        for range in from_redis_value::<Vec<Vec<Value>>>(slots)? {
            let mut fields = range.into_iter();
            let (Some(first), Some(last), Some(node)) = (fields.next(), fields.next(), fields.next()) else { continue };
            let (first, last) = (from_redis_value(first)?, from_redis_value(last)?);
            let mut node = from_redis_value::<Vec<Value>>(node)?.into_iter();
            let (Some(host), Some(port)) = (node.next(), node.next()) else { continue };
            let host: Option<String> = from_redis_value(host)?;
            let address = match host.as_deref() {
                Some("?") => continue,
                None | Some("") => Address::new(&answered.host, from_redis_value(port)?),
                Some(host) => Address::new(host, from_redis_value(port)?),
            };
            let id = node.next().map(from_redis_value).transpose()?.unwrap_or_default();
            let primary = topology.place(Primary { id, address });
            topology.ranges.push(Range { first, last, primary });
        }
        if topology.ranges.is_empty() {
            return Err(io::Error::other("the node knows no slots").into());
        }
        topology.ranges.sort_unstable_by_key(|range| range.first);
        Ok(topology)
    }

    fn place(&mut self, primary: Primary) -> usize {
        let known = self.primaries.iter().position(|known| *known == primary);
        known.unwrap_or_else(|| {
            self.primaries.push(primary);
            self.primaries.len() - 1
        })
    }

    /// The primary that has `slot`.
    pub(super) fn primary(&self, slot: u16) -> Option<&Address> {
        let after = self.ranges.partition_point(|range| range.first <= slot);
        let range = &self.ranges[after.checked_sub(1)?];
        (slot <= range.last).then(|| &self.primaries[range.primary].address)
    }

    pub(super) fn primaries(&self) -> impl Iterator<Item = &Address> {
        self.primaries.iter().map(|primary| &primary.address)
    }

    pub(super) fn contains(&self, address: &Address) -> bool {
        self.primaries().any(|primary| primary == address)
    }

    /// The address of the primary with this name.
    pub(super) fn of_id(&self, id: &str) -> Option<&Address> {
        self.primaries.iter().find(|primary| !id.is_empty() && primary.id == id).map(|primary| &primary.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: Value, port: i64, id: &str) -> Value {
        // Redis 7 adds what else it knows of a node's names.
        let metadata = Value::Array(Vec::new());
        Value::Array(vec![host, Value::Int(port), Value::BulkString(id.into()), metadata])
    }

    fn named(host: &str, port: i64, id: &str) -> Value {
        node(Value::BulkString(host.into()), port, id)
    }

    fn range(first: i64, last: i64, nodes: Vec<Value>) -> Value {
        Value::Array([vec![Value::Int(first), Value::Int(last)], nodes].concat())
    }

    fn read(ranges: Vec<Value>) -> RedisResult<Topology> {
        Topology::read(Value::Array(ranges), &Address::new("asked", 1))
    }

    #[test]
    fn each_slot_has_its_primary_and_replicas_are_left_out() {
        let topology = read(vec![
            range(8_000, 16_383, vec![named("b", 2, "B"), named("rb", 2, "RB")]),
            range(0, 99, vec![named("a", 2, "A"), named("ra", 2, "RA")]),
            range(101, 7_000, vec![named("b", 2, "B"), named("rb", 2, "RB")]),
        ])
        .unwrap();
        let (a, b) = (Address::new("a", 2), Address::new("b", 2));
        for (slot, primary) in [
            (0, Some(&a)),
            (99, Some(&a)),
            (100, None),
            (101, Some(&b)),
            (7_000, Some(&b)),
            (7_001, None),
            (16_383, Some(&b)),
        ] {
            assert_eq!(topology.primary(slot), primary, "{slot}");
        }
        assert_eq!(topology.primaries().collect::<Vec<_>>(), [&b, &a]);
        assert_eq!(topology.of_id("A"), Some(&a));
        assert_eq!((topology.of_id("RA"), topology.of_id("")), (None, None));
        assert!(!topology.contains(&Address::new("ra", 2)));
    }

    #[test]
    fn a_node_may_not_know_its_own_name_or_anothers() {
        let topology = read(vec![
            range(0, 1, vec![node(Value::Nil, 6, "A")]),
            range(2, 3, vec![named("", 7, "B")]),
            range(4, 5, vec![named("?", 8, "C")]),
            // Before Redis 4 there were no ids.
            range(6, 7, vec![Value::Array(vec![Value::BulkString(b"d".to_vec()), Value::Int(9)])]),
        ])
        .unwrap();
        assert_eq!(topology.primary(0), Some(&Address::new("asked", 6)));
        assert_eq!(topology.primary(2), Some(&Address::new("asked", 7)));
        assert_eq!(topology.primary(4), None);
        assert_eq!(topology.primary(6), Some(&Address::new("d", 9)));
    }

    #[test]
    fn an_answer_without_slots_is_a_failure() {
        assert!(read(vec![]).unwrap_err().is_io_error());
        assert!(read(vec![range(0, 1, vec![named("?", 8, "C")])]).is_err());
        assert!(Topology::read(Value::Okay, &Address::new("asked", 1)).is_err());
    }
}
