//! The packet's slips in their parts, and the owner of each.

/// Slips of a part, and parts of a packet at most: see `shared/src/domain/part.rs`.
const SLIPS_OF_A_PART: u32 = 1_000;
const PARTS_MOST: u32 = 16;

/// What a probe finds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Probe {
    /// The user has a hold, from now on or from before.
    Held,
    /// The user has a claim.
    Claimed,
    /// No slip for them, for certain.
    Certain,
    /// No slip for them, but others have holds.
    InDoubt,
}

/// A user's slip.
#[derive(Clone, Copy, Debug)]
struct Slip {
    part: u8,
    /// Whether Redis knows its decision: it is in the ledger, or settle's with `GRAB_ACK=redis`.
    is_decided: bool,
}

/// A part.
#[derive(Clone, Debug)]
struct Part {
    free: u32,
    undecided: u32,
}

/// The packet.
#[derive(Debug)]
pub struct Packet {
    parts: Vec<Part>,
    users: Vec<Option<Slip>>,
}

impl Packet {
    pub fn new(slips: u32, users: u32) -> Self {
        let count = part_count(slips);
        let bound = |part: u32| (u64::from(part) * u64::from(slips) / u64::from(count)) as u32;
        Self {
            parts: (0..count).map(|part| Part { free: bound(part + 1) - bound(part), undecided: 0 }).collect(),
            users: vec![None; users as usize],
        }
    }

    pub const fn parts(&self) -> u32 {
        self.parts.len() as u32
    }

    /// The part that a user asks for after so many others. Each user begins at random.
    pub fn part_of(&self, user: u32, probes: u32) -> u32 {
        let hash = u64::from(user).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((hash >> 32) as u32 % self.parts() + probes) % self.parts()
    }

    /// Whether a probe of this part finds a slip for the user: a free one, or their own.
    pub fn has_slip_for(&self, user: u32, part: u32) -> bool {
        match self.users[user as usize] {
            Some(own) => u32::from(own.part) == part,
            None => self.parts[part as usize].free > 0,
        }
    }

    /// Whether the user has a slip, decided or not.
    pub fn is_owner(&self, user: u32) -> bool {
        self.users[user as usize].is_some()
    }

    pub fn probe(&mut self, user: u32, part: u32) -> Probe {
        let (own, found) = (&mut self.users[user as usize], &mut self.parts[part as usize]);
        match own {
            Some(own) if u32::from(own.part) == part => {
                if own.is_decided {
                    Probe::Claimed
                } else {
                    Probe::Held
                }
            }
            None if found.free > 0 => {
                *own = Some(Slip { part: part as u8, is_decided: false });
                found.free -= 1;
                found.undecided += 1;
                Probe::Held
            }
            _ if found.undecided == 0 => Probe::Certain,
            _ => Probe::InDoubt,
        }
    }

    /// The decision of this user's slip comes to Redis.
    pub fn decide(&mut self, user: u32) {
        if let Some(own) = self.users[user as usize].as_mut().filter(|own| !own.is_decided) {
            own.is_decided = true;
            self.parts[usize::from(own.part)].undecided -= 1;
        }
    }

    /// Slips with a decision, and slips that are only held.
    pub fn owned(&self) -> (u64, u64) {
        let (decided, held): (Vec<&Slip>, Vec<&Slip>) = self.users.iter().flatten().partition(|slip| slip.is_decided);
        (decided.len() as u64, held.len() as u64)
    }
}

/// The parts of a packet of so many slips.
pub fn part_count(slips: u32) -> u32 {
    slips.div_ceil(SLIPS_OF_A_PART).clamp(1, PARTS_MOST)
}
