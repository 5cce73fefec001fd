use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;

/// The node, of three, that has a slot.
fn node_of(slot: u32) -> u32 {
    slot * 3 / 16_384
}

async fn slot(rig: &Rig, key: &str) -> u32 {
    rig.run(["CLUSTER", "KEYSLOT", key]).await
}

#[tokio::test]
async fn all_keys_of_a_part_have_one_slot() {
    let rig = Rig::in_a_cluster().await;
    for count in [1, 1_001, 100_000] {
        for part in Packet::of(count).terms.id.parts() {
            let PartKeys { name: _, part: hash, known, pending, tries, loading } = PartKeys::of(part);
            let mut slots = BTreeSet::new();
            for key in [hash, known, pending, tries, loading] {
                slots.insert(slot(&rig, &key).await);
            }
            assert_eq!(slots.len(), 1, "{part}");
        }
    }
}

#[tokio::test]
async fn parts_spread_evenly_over_three_nodes() {
    let rig = Rig::in_a_cluster().await;
    let mut slots: HashMap<u32, u32> = HashMap::new();
    let mut spread = async |packets: u32, parts: u32| {
        let mut random = StdRng::seed_from_u64(7);
        let mut counts = [0_u32; 3];
        for _ in 0..packets {
            for part in PacketId::new(now(), parts, random.random()).parts() {
                // A slot belongs to a partition, so each is computed once.
                let partition = part.partition().index();
                let slot = match slots.entry(partition) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(unknown) => *unknown.insert(slot(&rig, &PartKeys::of(part).part).await),
                };
                counts[node_of(slot) as usize] += 1;
            }
        }
        counts
    };
    for parts in [1, 2, 5, 12, 16] {
        let counts = spread(1_000, parts).await;
        let third = 1_000 * parts / 3;
        assert!(counts.iter().all(|count| count.abs_diff(third) <= third / 10), "{parts} parts: {counts:?}");
    }
    // A very large packet does so by itself.
    let counts = spread(1, 16).await;
    assert!(counts.iter().all(|count| (5..=6).contains(count)), "{counts:?}");
}
