//! Every key name in Redis. All keys of a part share the hash tag of its partition, so that a script finds them on one
//! node. No user's text is part of a name. [`fields`](super::fields) lists the fields of the hash.

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
        let place = usize::from(slot(tag.as_bytes()) / SLOTS_PER_PARTITION);
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

/// The cluster slot of a key: CRC-16/XMODEM modulo 16384, as the Redis cluster specification has it.
///
/// Keys with the same hash tag, which the first braces enclose, share a slot.
pub fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        rest.iter().position(|byte| *byte == b'}').filter(|len| *len > 0).map(|len| &rest[..len])
    });
    crc16::State::<crc16::XMODEM>::calculate(tag.unwrap_or(key)) % SLOTS
}

/// The keys of a part.
pub struct PartKeys {
    /// The part's name inside [`Self::pending`]: the packet's id, a colon and the part's index. No key of its own.
    pub name: String,

    /// Hash: the part's terms under the names in [`fields`](super::fields), and each user's claim or hold under the user's id. A claim is
    /// `g<slip>:<amount>:<at>`. A hold is `h<slip>:<left>`, with `:<reason>` once it is parked; `left` is how many milliseconds before the
    /// expiry it was made. The holds are the outbox. Set by load. Holds are added by grab, marked by park, turned into claims or deleted
    /// by reconcile and load, and deleted by release. Redis forgets it at `forget_at`, except while it has a hold. Missing: the part is not loaded.
    pub part: String,

    /// List: the free slips, the last the next to be taken. Set by load, shortened by grab, deleted by close. Reconcile and release put slips
    /// back, at the other end. Reconcile takes out one that a rollback made free. It expires with the packet. Missing: nobody gets a slip.
    pub free: String,

    /// Bitmap: 1 at a slip's place in the part if its decision is known. Set by load, with one bit beyond the
    /// slips, so that it exists also without a decision; reconcile sets bits, and only a load clears them. Redis forgets it at
    /// `forget_at`. Missing: views read the ledger instead, and no "no slip" of the part becomes certain.
    pub known: String,

    /// Sorted set of the whole partition: the names of its pending parts, each with the time of its first hold in milliseconds.
    /// A name is added by the grab that makes the part hold something, or by the operator's `mend`. It is removed by the reconcile, release or tidy that finds the outbox
    /// empty, or the part not loaded. Redis never forgets it. Missing: no part of the partition is pending.
    pub pending: String,

    /// Hash: how many wrong passphrases each user gave, under the user's id. Set and raised by grab. Redis forgets it a minute after its
    /// first entry, so that it grows no further than users can guess in a minute. Missing: nobody gave a wrong one.
    pub tries: String,

    /// String: the load lease. Set by the process that acquires it, for as long as the lease lasts; deleted when that process
    /// releases it. Missing: nobody loads the part.
    pub loading: String,
}

impl PartKeys {
    /// The keys of `part`.
    pub fn of(part: PartId) -> Self {
        let name = part.to_string();
        let tag = tag(part.partition());
        // Each grab makes them.
        let key = |kind| ["hb:{", tag, "}:", kind, ":", &name].concat();
        Self {
            part: key("part"),
            free: key("free"),
            known: key("known"),
            tries: key("tries"),
            loading: key("loading"),
            pending: pending(part.partition()),
            name,
        }
    }
}

/// A partition's [`PartKeys::pending`].
pub fn pending(partition: Partition) -> String {
    ["hb:{", tag(partition), "}:pending"].concat()
}

/// The partition of a key of these.
pub fn partition_of(key: &[u8]) -> Partition {
    Partition::wrapping(u32::from(slot(key) / SLOTS_PER_PARTITION))
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
            assert_eq!(u32::from(slot(tag.as_bytes())) / 64, index, "{tag}");
        }
        // From the Redis cluster specification.
        assert_eq!(slot(b"123456789"), 0x31C3 % SLOTS);
    }

    #[test]
    fn keys_with_the_same_hash_tag_share_a_slot() {
        // From the Redis cluster specification.
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
        for whole in [&b"foo{}{bar}"[..], b"foo{bar", b"}foo{"] {
            assert_eq!(slot(whole), crc16::State::<crc16::XMODEM>::calculate(whole) % SLOTS);
        }
        assert_eq!(slot(PartKeys::of("0G000000000000000000000000:0".parse().unwrap()).part.as_bytes()) / 64, 0);
    }
}
