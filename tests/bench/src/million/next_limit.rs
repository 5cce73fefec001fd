//! Where the next limit is, by counting: what an answer takes of each resource, and how many answers a second use it up. The
//! machine's speed is in the microseconds, but not its number of processors.

use serde::Serialize;

use crate::cell::float;
use crate::heat::Usage;

/// The number of resources.
pub const LIMITS: usize = 4;
/// Microseconds of a core in a second.
const CORE: f64 = 1e6;
/// Bytes a second of a node's network in one direction: 1 Gbit/s, which is assumed.
const NETWORK: f64 = 1e9 / 8.0;

/// What a rush took of its resources.
#[derive(Clone, Debug)]
pub struct Taken<'a> {
    /// The answers.
    pub answers: u64,
    /// Of each node.
    pub nodes: &'a [Usage],
    /// Microseconds of processor time of each process of this engine.
    pub processes_us: &'a [u64],
}

/// A resource that a rush can use up.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// The core that runs the scripts of the busiest node.
    Node,
    /// A core of the busiest process of this engine.
    Process,
    /// The network to the node that receives most.
    ToNode,
    /// The network from the node that sends most.
    FromNode,
}

/// A resource, and when it is full.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// The resource.
    pub resource: Resource,
    /// What an answer takes of it on average: microseconds or bytes.
    pub per_answer: f64,
    /// The answers a second at which it is full.
    pub per_s: f64,
}

impl Taken<'_> {
    /// Every resource, in a fixed order.
    #[must_use]
    pub fn limits(&self) -> [Limit; LIMITS] {
        let most = |of: fn(&Usage) -> u64| self.nodes.iter().map(of).max().unwrap_or_default();
        let process = self.processes_us.iter().copied().max().unwrap_or_default();
        let limit = |resource, most: u64, capacity: f64| {
            let per_answer = self.per_answer(most);
            Limit { resource, per_answer, per_s: capacity / per_answer }
        };
        [
            limit(Resource::Node, most(|node| node.cpu_us), CORE),
            limit(Resource::Process, process, CORE),
            limit(Resource::ToNode, most(|node| node.received), NETWORK),
            limit(Resource::FromNode, most(|node| node.sent), NETWORK),
        ]
    }

    /// The answers a second at which a core of the busiest of so many nodes is full. A part lies on one node, so the busiest has
    /// its share of the parts, rounded up.
    #[must_use]
    pub fn with_nodes(&self, nodes: u32, parts: u32) -> f64 {
        let share = f64::from(parts.div_ceil(nodes)) / f64::from(parts);
        CORE / (self.per_answer(self.nodes.iter().map(|node| node.cpu_us).sum()) * share)
    }

    /// The processes of this engine, with a core each, that so many answers a second need.
    #[must_use]
    pub fn processes_for(&self, per_s: f64) -> f64 {
        (per_s * self.per_answer(self.processes_us.iter().sum()) / CORE).ceil()
    }

    fn per_answer(&self, taken: u64) -> f64 {
        float(taken) / float(self.answers)
    }
}

/// The resource that is full first.
#[must_use]
pub fn next(limits: &[Limit]) -> Option<&Limit> {
    limits.iter().min_by(|one, other| one.per_s.total_cmp(&other.per_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(cpu_us: u64, received: u64, sent: u64) -> Usage {
        Usage { cpu_us, calls: 0, received, sent }
    }

    fn whole<const N: usize>(numbers: [f64; N]) -> [String; N] {
        numbers.map(|number| format!("{number:.0}"))
    }

    #[test]
    fn the_next_limit_is_the_resource_that_an_answer_takes_most_of() {
        let nodes = [node(100, 5_000, 9_000), node(300, 4_000, 2_000), node(200, 3_000, 1_000)];
        let mut taken = Taken { answers: 100, nodes: &nodes, processes_us: &[500, 700] };
        let limits = taken.limits();
        assert_eq!(whole(limits.map(|limit| limit.per_answer)), ["3", "7", "50", "90"], "of the busiest of each");
        assert_eq!(whole(limits.map(|limit| limit.per_s)), ["333333", "142857", "2500000", "1388889"]);
        let first = |taken: &Taken<'_>| next(&taken.limits()).map(|limit| limit.resource);
        assert_eq!(first(&taken), Some(Resource::Process));
        // With more processes each has less to do, and the busiest node is next.
        taken.processes_us = &[200, 250, 250, 200, 150, 150];
        assert_eq!(first(&taken), Some(Resource::Node));
        // A thousand times as many bytes fill the network first.
        let nodes = [node(300, 500, 9_000_000), node(300, 400, 2_000)];
        assert_eq!(first(&Taken { nodes: &nodes, ..taken }), Some(Resource::FromNode));
    }

    #[test]
    fn more_nodes_serve_more_until_each_has_one_part() {
        let nodes = [node(200, 0, 0), node(200, 0, 0), node(200, 0, 0)];
        let taken = Taken { answers: 100, nodes: &nodes, processes_us: &[1_000, 1_000] };
        // Six microseconds an answer in all. Of 64 parts three nodes have 22, 21 and 21.
        let per_s = [1, 2, 3, 64, 65, 1_000].map(|nodes| taken.with_nodes(nodes, 64));
        assert_eq!(whole(per_s), ["166667", "333333", "484848", "10666667", "10666667", "10666667"]);
        // 20 microseconds an answer.
        assert_eq!(whole([166_667.0, 150_000.0].map(|per_s| taken.processes_for(per_s))), ["4", "3"]);
    }
}
