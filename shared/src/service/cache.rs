use std::hash::Hash;

use quick_cache::sync::{Cache as Quick, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

/// What a process remembers of the stores, within a bound. A look costs a hash and a lock that readers share: every grab
/// takes several.
pub type Cache<K, V> = Quick<K, V, Weigh<V>>;

/// How much of the bound an entry takes.
#[derive(Clone, Debug)]
pub struct Weigh<V>(fn(&V) -> usize);

impl<K, V> Weighter<K, V> for Weigh<V> {
    fn weight(&self, _key: &K, value: &V) -> u64 {
        // What weighs nothing would never be let go.
        (self.0(value) as u64).max(1)
    }
}

/// An empty cache for entries that weigh no more than `most` together, and about `each` on average.
pub fn cache<K: Eq + Hash, V: Clone>(most: u64, each: u64, weigh: fn(&V) -> usize) -> Cache<K, V> {
    // The bound is split among shards, and nothing is kept that is more than a shard's share: hence one.
    let options = OptionsBuilder::new()
        .shards(1)
        .weight_capacity(most)
        .estimated_items_capacity(usize::try_from(most / each.max(1)).unwrap_or(usize::MAX))
        .build();
    let options = options.unwrap_or_else(|error| unreachable!("both bounds are given: {error}"));
    Cache::with_options(options, Weigh(weigh), DefaultHashBuilder::default(), DefaultLifecycle::default())
}
