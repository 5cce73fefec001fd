//! Every key name in Redis. All keys of a part share the hash tag of its partition, so that a script finds them on one
//! node. No user's text is part of a name.

use std::sync::LazyLock;

use crate::domain::{PARTITIONS, PartId, Partition};

/// The slots of a Redis cluster.
const SLOTS: u16 = 16_384;
const SLOTS_PER_PARTITION: u16 = SLOTS / 256;

/// The hash tags, one for each partition: partition `i`'s slot lies in `[64 i, 64 i + 64)`, so partitions spread evenly
/// over any equal division of the slots among nodes. Each is the smallest number whose slot lies there.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut tags = vec![String::new(); PARTITIONS as usize];
    let mut missing = tags.len();
    for number in 0_u32.. {
        let tag = number.to_string();
        let place = usize::from(slot(&tag) / SLOTS_PER_PARTITION);
        if tags[place].is_empty() {
            tags[place] = tag;
            missing -= 1;
        }
        if missing == 0 {
            break;
        }
    }
    tags
});

/// The cluster slot of a hash tag: CRC-16/XMODEM modulo 16384, as the Redis cluster specification has it.
fn slot(tag: &str) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(tag.as_bytes()) % SLOTS
}

/// The keys of a part.
pub struct PartKeys {
    /// The part's name inside [`Self::pending`].
    pub name: String,
    /// Hash: the terms and the free slips (fields that begin with `#`), and user → his claim or hold. The holds are the
    /// outbox.
    pub claims: String,
    /// Bitmap: the slips whose decision is known.
    pub decided: String,
    /// Sorted set of the whole partition: its parts that hold something, by the time of the first hold.
    pub pending: String,
    /// String: there while somebody loads the part.
    pub loading: String,
}

impl PartKeys {
    /// The keys of `part`.
    pub fn of(part: PartId) -> Self {
        let name = part.to_string();
        let tag = tag(part.partition());
        let key = |kind: &str| format!("hb:{{{tag}}}:{kind}:{name}");
        Self {
            claims: key("claims"),
            decided: key("decided"),
            loading: key("loading"),
            pending: pending(part.partition()),
            name,
        }
    }
}

/// The keys of `grab.lua`, of one part: the same as [`PartKeys`] has, without the others.
pub fn of_grab(part: PartId) -> [String; 2] {
    let tag = tag(part.partition());
    [format!("hb:{{{tag}}}:claims:{part}"), pending(part.partition())]
}

/// Sorted set: the parts of a partition that hold something, by the time of the first hold.
pub fn pending(partition: Partition) -> String {
    format!("hb:{{{}}}:pending", tag(partition))
}

fn tag(partition: Partition) -> &'static str {
    &TAGS[partition.index() as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_has_a_slot_of_its_own_64() {
        for index in 0..PARTITIONS {
            let tag = tag(Partition::wrapping(index));
            assert_eq!(u32::from(slot(tag)) / 64, index, "{tag}");
        }
        // From the Redis cluster specification.
        assert_eq!(slot("123456789"), 0x31C3 % SLOTS);
    }
}
