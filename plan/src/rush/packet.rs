//! The packet's slips in their parts, and the owner of each.

/// Holds that one help commits in a part: see `shared/src/service/grab/help.rs`.
pub const HELPED_MOST: usize = 10;

/// Slips of a part, and parts of a packet at most: see `shared/src/domain/part.rs`.
const SLIPS_OF_A_PART: u32 = 1_000;
const PARTS_MOST: u32 = 16;

/// What a user has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// No slip.
    Nothing,
    /// A slip of this part, which the ledger does not know yet.
    Held(u8),
    /// The same, and no call is at work on it.
    Abandoned(u8),
    /// A slip of this part.
    Claimed(u8),
    /// A slip on Redis' word only: `GRAB_ACK=redis`.
    Promised(u8),
}

/// What a probe finds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Probe {
    /// The user has a hold, from now on or from before.
    Held,
    /// The user has a claim.
    Claimed,
    /// No slip for them, for certain.
    Final,
    /// No slip for them, but others have holds.
    InDoubt,
}

/// A part.
#[derive(Clone, Debug, Default)]
struct Part {
    slips: u32,
    free: u32,
    undecided: u32,
    /// Users whose hold nobody works on. Some may have come back since.
    abandoned: Vec<u32>,
}

/// The packet.
#[derive(Debug)]
pub struct Packet {
    parts: Vec<Part>,
    shards: usize,
    users: Vec<State>,
    /// Steps from part to part that meet all of them.
    strides: Vec<u32>,
}

impl Packet {
    pub fn new(slips: u32, users: u32, shards: usize) -> Self {
        let count = part_count(slips);
        let bound = |part: u32| (u64::from(part) * u64::from(slips) / u64::from(count)) as u32;
        let part = |part| {
            let slips = bound(part + 1) - bound(part);
            Part { slips, free: slips, ..Part::default() }
        };
        Self {
            parts: (0..count).map(part).collect(),
            shards,
            users: vec![State::Nothing; users as usize],
            strides: (1..=count).filter(|stride| gcd(*stride, count) == 1).collect(),
        }
    }

    pub const fn parts(&self) -> u32 {
        self.parts.len() as u32
    }

    /// The slips of a part.
    pub fn slips(&self, part: u32) -> u32 {
        self.parts[part as usize].slips
    }

    /// The shard of a part.
    pub const fn shard(&self, part: u32) -> usize {
        part as usize * self.shards / self.parts.len() % self.shards
    }

    /// The part that a user asks for after so many others. Each user has an order of their own.
    pub fn part_of(&self, user: u32, probes: u32) -> u32 {
        let hash = u64::from(user).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let stride = self.strides[(hash >> 32) as usize % self.strides.len()];
        ((hash >> 20) as u32 % self.parts() + probes * stride) % self.parts()
    }

    /// Whether a probe of this part would give the user a slip.
    pub fn is_free(&self, user: u32, part: u32) -> bool {
        self.users[user as usize] == State::Nothing && self.parts[part as usize].free > 0
    }

    /// Whether the user has a slip, decided or not.
    pub fn has_slip(&self, user: u32) -> bool {
        self.users[user as usize] != State::Nothing
    }

    /// Whether the user has a slip of this part, decided or not.
    pub fn has_slip_of(&self, user: u32, part: u32) -> bool {
        match self.users[user as usize] {
            State::Nothing => false,
            State::Held(own) | State::Abandoned(own) | State::Claimed(own) | State::Promised(own) => {
                u32::from(own) == part
            }
        }
    }

    pub fn probe(&mut self, user: u32, part: u32) -> Probe {
        let own = &mut self.users[user as usize];
        let found = &mut self.parts[part as usize];
        match *own {
            State::Nothing if found.free > 0 => {
                found.free -= 1;
                found.undecided += 1;
                *own = State::Held(part as u8);
                Probe::Held
            }
            State::Held(of) | State::Abandoned(of) if u32::from(of) == part => {
                *own = State::Held(of);
                Probe::Held
            }
            State::Claimed(of) | State::Promised(of) if u32::from(of) == part => Probe::Claimed,
            _ if found.undecided == 0 => Probe::Final,
            _ => Probe::InDoubt,
        }
    }

    /// The ledger has this user's claim, and Redis knows it.
    pub fn claim(&mut self, user: u32, part: u32) {
        if !matches!(self.users[user as usize], State::Claimed(_)) {
            self.users[user as usize] = State::Claimed(part as u8);
            self.parts[part as usize].undecided -= 1;
        }
    }

    /// The user's hold is for settle. Losers believe Redis.
    pub fn promised(&mut self, user: u32) {
        if let State::Held(part) = self.users[user as usize] {
            self.users[user as usize] = State::Promised(part);
            self.parts[part as usize].undecided -= 1;
        }
    }

    /// Nobody works on this user's hold any more.
    pub fn abandon(&mut self, user: u32, part: u32) {
        self.users[user as usize] = State::Abandoned(part as u8);
        self.parts[part as usize].abandoned.push(user);
    }

    /// Takes up a hold that nobody works on.
    pub fn abandoned(&mut self, part: u32) -> Option<u32> {
        loop {
            let user = self.parts[part as usize].abandoned.pop()?;
            if matches!(self.users[user as usize], State::Abandoned(_)) {
                return Some(user);
            }
        }
    }

    /// Those of these parts that are not final.
    pub fn not_final(&self, parts: u64) -> u64 {
        let open = |part: &u32| parts >> part & 1 == 1 && self.parts[*part as usize].undecided > 0;
        (0..self.parts()).filter(open).fold(0, |left, part| left | 1 << part)
    }

    /// Slips in the ledger, and slips that only Redis knows.
    pub fn owned(&self) -> (u64, u64) {
        let count = |is: fn(&State) -> bool| self.users.iter().filter(|user| is(user)).count() as u64;
        let claimed = count(|state| matches!(state, State::Claimed(_)));
        (claimed, count(|state| !matches!(state, State::Claimed(_) | State::Nothing)))
    }
}

/// The parts of a packet of so many slips.
pub fn part_count(slips: u32) -> u32 {
    slips.div_ceil(SLIPS_OF_A_PART).clamp(1, PARTS_MOST)
}

const fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
