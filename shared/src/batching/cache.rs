use std::hash::Hash;

use quick_cache::sync::{Cache as Quick, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

/// What a process remembers of the stores, within a bound. A lookup costs a hash and a lock that readers share; every grab makes
/// several.
pub type Cache<K, V> = Quick<K, V, Weigh<V>>;

/// The share of the bound that entries may keep which were asked for more than once. New entries have the rest.
const NOT_NEW: f64 = 0.5;
/// The same for a few large entries. The library keeps no entry above this share.
const NOT_NEW_OF_LARGE: f64 = 0.75;

/// How much of the bound an entry takes.
#[derive(Clone, Debug)]
pub struct Weigh<V>(fn(&V) -> usize);

impl<K, V> Weighter<K, V> for Weigh<V> {
    fn weight(&self, _key: &K, value: &V) -> u64 {
        // An entry without weight would never be evicted.
        (self.0(value) as u64).max(1)
    }
}

/// An empty cache for entries that together weigh at most `most`, and on average about `each`. It keeps no entry that weighs more than
/// half of `most`.
pub fn cache<K: Eq + Hash, V: Clone>(most: u64, each: u64, weigh: fn(&V) -> usize) -> Cache<K, V> {
    sized(most, each, weigh, NOT_NEW)
}

/// Like [`cache`], for a few large entries: it keeps one of up to three quarters of `most`.
pub fn cache_of_large<K: Eq + Hash, V: Clone>(most: u64, each: u64, weigh: fn(&V) -> usize) -> Cache<K, V> {
    sized(most, each, weigh, NOT_NEW_OF_LARGE)
}

fn sized<K: Eq + Hash, V: Clone>(most: u64, each: u64, weigh: fn(&V) -> usize, not_new: f64) -> Cache<K, V> {
    // The library splits the bound among its shards, and keeps no entry that is larger than a shard's share: hence one shard. By
    // default, packets that were popular once would leave the newest ones only three hundredths of the bound.
    let options = OptionsBuilder::new()
        .shards(1)
        .hot_allocation(not_new)
        .weight_capacity(most)
        .estimated_items_capacity(usize::try_from(most / each.max(1)).unwrap_or(usize::MAX))
        .build();
    let options = options.unwrap_or_else(|error| unreachable!("both bounds are given: {error}"));
    Cache::with_options(options, Weigh(weigh), DefaultHashBuilder::default(), DefaultLifecycle::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yesterdays_packets_leave_room_for_todays() {
        let (most, new) = (1_000, 1_000..1_200);
        let cache = cache::<u64, u64>(most, 1, |_| 1);
        for old in 0..most {
            cache.insert(old, old);
        }
        for old in (0..most).cycle().take(5_000) {
            cache.get(&old);
        }
        for packet in new.clone() {
            cache.insert(packet, packet);
        }
        assert_eq!(new.filter(|packet| cache.get(packet).is_none()).collect::<Vec<_>>(), [0; 0]);
        assert!(cache.weight() <= most);
    }

    #[test]
    fn what_is_heavier_than_the_room_is_not_kept() {
        let cache = cache::<u64, usize>(1_000, 10, |weight| *weight);
        cache.insert(1, 2_000);
        cache.insert(2, 400);
        assert_eq!((cache.get(&1), cache.get(&2)), (None, Some(400)));
        cache.insert(2, 501);
        assert_eq!(cache.get(&2), None, "above its share");

        let cache = cache_of_large::<u64, usize>(1_000, 10, |weight| *weight);
        cache.insert(1, 700);
        cache.insert(1, 740);
        assert_eq!(cache.get(&1), Some(740));
        cache.insert(2, 700);
        assert_eq!((cache.get(&1), cache.get(&2)), (None, Some(700)), "only the newest fits");
    }
}
