use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use super::id::{LOW_BITS, MAX_PARTS, PacketId, UserId};

/// The number of partitions of the hot store. It never changes, because it decides where in Redis a packet lies.
pub const PARTITIONS: u32 = 256;

/// A packet up to this many slips is one part.
const SLIPS_PER_PART: u32 = 1_000;
/// The number of parts of a new packet of `count` slips: one per 1,000 slips begun, at most 16.
#[must_use]
pub fn part_count(count: u32) -> u32 {
    count.div_ceil(SLIPS_PER_PART).clamp(1, MAX_PARTS)
}

/// One of the [`PARTITIONS`] hash tags under which the hot store keeps its keys.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Partition(u32);

impl Partition {
    /// Partition `index` modulo [`PARTITIONS`].
    #[must_use]
    pub const fn wrapping(index: u32) -> Self {
        Self(index % PARTITIONS)
    }

    /// The partition's number, 0 to 255.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0
    }
}

/// A part: the piece of a packet that lies under one hash tag. Most packets have a single one.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PartId {
    /// The packet.
    pub packet: PacketId,
    /// Which part of it, from 0.
    pub index: u32,
}

impl PacketId {
    /// The packet's parts, in order.
    pub fn parts(self) -> impl DoubleEndedIterator<Item = PartId> + Clone {
        (0..self.part_count()).map(move |index| PartId { packet: self, index })
    }

    /// The partition of the packet, which is that of its first part: the lowest eight of its random bits.
    #[must_use]
    pub const fn partition(self) -> Partition {
        const _: () = assert!(PARTITIONS == 256);
        let [.., high, low] = self.to_be_bytes();
        Partition::wrapping(((high << (8 - LOW_BITS)) | (low >> LOW_BITS)) as u32)
    }
}

impl PartId {
    /// Part `k` of `parts` lies `k × 256 / parts` partitions after the packet's first.
    #[must_use]
    pub const fn partition(self) -> Partition {
        Partition::wrapping(self.packet.partition().index() + self.index * PARTITIONS / self.packet.part_count())
    }

    /// The slips of this part of a packet of `count` slips.
    #[must_use]
    pub fn slips(self, count: u32) -> Range<u32> {
        let parts = u64::from(self.packet.part_count());
        let bound = |k: u64| u32::try_from(k * u64::from(count) / parts).unwrap_or(count);
        bound(u64::from(self.index))..bound(u64::from(self.index) + 1)
    }

    /// The part of `packet` (of `count` slips) in which `slip` lies.
    #[must_use]
    pub fn of_slip(packet: PacketId, count: u32, slip: u32) -> Option<Self> {
        packet.parts().find(|part| part.slips(count).contains(&slip))
    }

    /// The fixed order in which `user` tries the parts of `packet`. A hash gives its start, and its stride, which is coprime to
    /// the number of parts. So users start at different parts, and the users of an exhausted part go on to different ones.
    pub fn probe_order(packet: PacketId, user: &UserId) -> impl Iterator<Item = Self> {
        let parts = packet.part_count();
        let (start, seed) = if parts == 1 { (0, 0) } else { start_and_seed(packet, user, parts) };
        // Most grabs end at the first part, and need no stride.
        let mut known_stride = None;
        let index = move |i| match i {
            0 => start,
            _ => (start + i * *known_stride.get_or_insert_with(|| stride(seed, parts))) % parts,
        };
        (0..parts).map(index).map(move |index| Self { packet, index })
    }
}

/// The index of the first part, and the byte of the hash from which [`stride`] finds the step to the next ones.
fn start_and_seed(packet: PacketId, user: &UserId, parts: u32) -> (u32, u8) {
    let hash = Sha256::new().chain_update(packet.to_be_bytes()).chain_update(user.as_str()).finalize();
    (u32::from(hash[0]) % parts, hash[1])
}

/// The step from part to part: the first number, counted on from `seed`, that is coprime to the number of parts. A list of all
/// such numbers would cost more.
fn stride(seed: u8, parts: u32) -> u32 {
    let first = u32::from(seed) % (parts - 1) + 1;
    (first..parts).chain(1..first).find(|&stride| gcd(stride, parts) == 1).unwrap_or(1)
}

const fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl fmt::Display for PartId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.packet, self.index)
    }
}

impl FromStr for PartId {
    type Err = ();

    /// Takes the name that [`Display`](fmt::Display) gives, and no other spelling of it.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (packet, index) = text.split_once(':').ok_or(())?;
        let packet: PacketId = packet.parse().map_err(drop)?;
        packet.parts().find(|part| part.index.to_string() == index).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::domain::Timestamp;

    fn packet(parts: u32) -> PacketId {
        PacketId::new(Timestamp::from_ms(1), parts, [7; 10])
    }

    #[test]
    fn parts_cover_every_slip_once() {
        for count in [1, 2, 999, 1_000, 1_001, 5_000, 63_999, 64_001, 99_999, 100_000] {
            let packet = packet(part_count(count));
            let slips: Vec<u32> = packet.parts().flat_map(|part| part.slips(count)).collect();
            assert_eq!(slips, (0..count).collect::<Vec<_>>());
            for slip in [0, count / 2, count - 1] {
                assert!(PartId::of_slip(packet, count, slip).is_some_and(|part| part.slips(count).contains(&slip)));
            }
            assert_eq!(PartId::of_slip(packet, count, count), None);
        }
    }

    #[test]
    fn the_number_of_parts_grows_to_16() {
        assert_eq!([0, 1, 1_000, 1_001, 15_000, 15_001, 100_000].map(part_count), [1, 1, 1, 2, 15, 16, 16]);
    }

    #[test]
    fn parts_spread_over_the_partitions() {
        let partitions: BTreeSet<_> = packet(16).parts().map(|part| part.partition().index() % 16).collect();
        assert_eq!(partitions.len(), 1, "16 parts stand 16 partitions apart");
        assert_eq!(packet(16).parts().map(PartId::partition).collect::<BTreeSet<_>>().len(), 16);
        let partitions: Vec<_> = packet(3).parts().map(|part| part.partition().index()).collect();
        assert_eq!(partitions, [7, 7 + 85, 7 + 170], "thirds of 256, after the packet's own");
    }

    #[test]
    fn a_user_probes_every_part_once_in_an_order_of_their_own() {
        let orders: BTreeSet<Vec<u32>> = (0..50)
            .map(|n| {
                let user: UserId = format!("user-{n}").parse().unwrap();
                PartId::probe_order(packet(12), &user).map(|part| part.index).collect()
            })
            .collect();
        for order in &orders {
            assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), (0..12).collect());
        }
        assert!(orders.len() > 20, "{} orders", orders.len());
    }

    #[test]
    fn a_user_probes_each_packet_in_another_order() {
        let user: UserId = "user".parse().unwrap();
        let orders: BTreeSet<Vec<u32>> = (0..50)
            .map(|ms| {
                let packet = PacketId::new(Timestamp::from_ms(ms), 12, [7; 10]);
                PartId::probe_order(packet, &user).map(|part| part.index).collect()
            })
            .collect();
        assert!(orders.len() > 20, "{} orders", orders.len());
    }

    #[test]
    fn every_coprime_stride_is_used() {
        let strides: BTreeSet<u32> = (0..2_000)
            .map(|n| stride(start_and_seed(packet(16), &format!("user-{n}").parse().unwrap(), 16).1, 16))
            .collect();
        assert_eq!(strides, (0..8).map(|n| 2 * n + 1).collect());
    }

    #[test]
    fn every_stride_is_coprime_to_the_number_of_parts() {
        for parts in 2..=MAX_PARTS {
            for n in 0..100 {
                let (start, seed) = start_and_seed(packet(parts), &format!("user-{n}").parse().unwrap(), parts);
                let stride = stride(seed, parts);
                assert!(start < parts && (1..parts).contains(&stride), "{parts}: {start}, {stride}");
                assert!(
                    (2..=stride).all(|divisor| !stride.is_multiple_of(divisor) || !parts.is_multiple_of(divisor)),
                    "{parts}: {stride}"
                );
            }
        }
    }

    #[test]
    fn a_part_reads_back_from_its_name() {
        let part = PartId { packet: packet(3), index: 2 };
        assert_eq!(part.to_string().parse(), Ok(part));
        for other in ["3", "+2", "02", "-0", "", " 2", "2 "] {
            assert!(format!("{}:{other}", packet(3)).parse::<PartId>().is_err(), "{other:?}");
        }
    }
}
