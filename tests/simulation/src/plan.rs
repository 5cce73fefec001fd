use std::time::Duration;

use shared::domain::{AckMode, Amount, Labels, LimitKey, Passphrase, Split, Timestamp, UserId, WinLimit};
use shared::service::NewPacket;

use crate::faults::Chance;
use crate::process::Setup;

/// Money that a sender has beyond the packet's amount; at most this much is withdrawn.
pub const EXTRA: u64 = 500;
/// Grace periods beyond the clock skew. None is shorter than the time by which the second primary's clock is ahead.
const GRACE_MS: [u64; 2] = [1_000, 30_000];
/// How far a clock is off, at most, in ms.
const SKEW_MS: u32 = 600_000;

/// The events of a run, without its faults.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The processes.
    pub setups: Vec<Setup>,
    /// The packets.
    pub packets: Vec<PacketPlan>,
    /// How long events and faults go on.
    pub active: Duration,
    /// Runs of settle in that time.
    pub settles: u32,
    /// The suspensions of senders.
    pub suspensions: Vec<SuspensionPlan>,
    /// The users who may not grab for a time.
    pub bans: Vec<BanPlan>,
    /// When the operator closes which packets, after the run's beginning.
    pub closes: Vec<(usize, Duration)>,
    /// The packets that the operator closes while a process stalls that is about to load one of their parts.
    pub closes_at_load: Vec<usize>,
    /// When a close of which packet dies between the ledger and the hot store, after the run's beginning.
    pub half_closes: Vec<(usize, Duration)>,
    /// The packets that the operator closes once no fault strikes any more.
    pub last_closes: Vec<usize>,
    /// The most that a user may send on a day.
    pub daily_max: Option<Amount>,
}

/// A time in which the sender of a packet is suspended.
#[derive(Clone, Debug)]
pub struct SuspensionPlan {
    /// The number of the packet.
    pub packet: usize,
    /// When it begins, after the run's beginning.
    pub from: Duration,
    /// When it is lifted.
    pub to: Duration,
}

/// A time in which a user may not grab.
#[derive(Clone, Debug)]
pub struct BanPlan {
    /// The user.
    pub user: UserId,
    /// When it begins, after the run's beginning.
    pub from: Duration,
    /// When it is lifted.
    pub to: Duration,
}

/// A packet, its sender and its grabs.
#[derive(Clone, Debug)]
pub struct PacketPlan {
    /// The packet to send.
    pub new: NewPacket,
    /// The number of parts; `None`: as the packet's size requires.
    pub parts: Option<u32>,
    /// How many sends use the same key.
    pub sends: u32,
    /// When to send it, after the run's beginning.
    pub at: Duration,
    /// The grabs.
    pub grabs: Vec<GrabPlan>,
}

/// A user who wants a slip.
#[derive(Clone, Debug)]
pub struct GrabPlan {
    /// The user.
    pub user: UserId,
    /// When, after the run's beginning.
    pub at: Duration,
    /// Whether the user knows the passphrase.
    pub is_right: bool,
    /// How often the user asks, at most, until an answer arrives.
    pub tries: u32,
}

impl Plan {
    /// Draws a plan.
    pub fn draw(chance: &Chance) -> Self {
        let active = Duration::from_millis(chance.pick(&[60, 600, 6_000, 60_000, 200_000]));
        let setups = setups(chance);
        let packets = (0..chance.pick(&[1, 1, 1, 2, 2, 3])).map(|number| packet(chance, number, active)).collect();
        let settles = chance.pick(&[0, 2, 4, 8, 16]);
        Self {
            setups,
            packets,
            active,
            settles,
            suspensions: Vec::new(),
            bans: Vec::new(),
            closes: Vec::new(),
            closes_at_load: Vec::new(),
            half_closes: Vec::new(),
            last_closes: Vec::new(),
            daily_max: None,
        }
    }

    /// Gives some packets a start, at most twice as long after `now` as the run takes. It draws from a source
    /// of its own, so that the rest of the plan is as before.
    pub fn schedule(&mut self, chance: &Chance, now: Timestamp) {
        for packet in &mut self.packets {
            if chance.happens(150) {
                packet.new.starts_at = Some(now.after(self.active * chance.between(1..=2_000) / 1_000));
            }
        }
    }

    /// Suspends some senders and some users who grab for a time, closes some packets, and limits what users send on a day to the largest packet. It draws
    /// from a source of its own.
    pub fn restrain(&mut self, chance: &Chance) {
        let active = self.active;
        let moment = || active * chance.between(0..=1_000) / 1_000;
        for packet in 0..self.packets.len() {
            if chance.happens(150) {
                let (one, other) = (moment(), moment());
                self.suspensions.push(SuspensionPlan { packet, from: one.min(other), to: one.max(other) });
            }
        }
        for packet in 0..self.packets.len() {
            if chance.happens(60) {
                let times = chance.between(1..=2);
                // Often while its first users come.
                let soon = self.packets[packet].at + chance.millis(0..=300);
                let at = |chance: &Chance| if chance.happens(500) { soon } else { moment() };
                self.closes.extend((0..times).map(|_| (packet, at(chance))));
            }
            if chance.happens(60) {
                self.last_closes.push(packet);
            }
        }
        if chance.happens(300) {
            self.daily_max = self.packets.iter().map(|packet| packet.new.total).max();
        }
        for packet in 0..self.packets.len() {
            if chance.happens(30) {
                self.closes_at_load.push(packet);
            }
            if chance.happens(40) {
                // While some of its slips are free.
                self.half_closes.push((packet, self.packets[packet].at + chance.millis(10..=100)));
            }
        }
        for packet in &self.packets {
            if let Some(grab) = packet.grabs.first().filter(|_| chance.happens(200)) {
                // Often while they grab, or from before to after it.
                let from = if chance.happens(500) { Duration::ZERO } else { grab.at };
                let to = if chance.happens(500) { active } else { grab.at + chance.millis(0..=300) };
                self.bans.push(BanPlan { user: grab.user.clone(), from, to: to.max(from) });
            }
        }
    }

    /// Gives all packets of some plans one sender, and a limit that they share. It draws from a source of its own. A suspended sender, and
    /// a day's limit, concern one packet each, so such plans stay as they are.
    pub fn share_limits(&mut self, chance: &Chance) {
        let promises = self.setups.iter().any(|setup| setup.ack == AckMode::Redis);
        if promises || !self.suspensions.is_empty() || self.daily_max.is_some() || !chance.happens(500) {
            return;
        }
        let sender = self.packets[0].new.sender.clone();
        let terms = &self.packets[0].new;
        let slip = terms.total.minor_units() / u64::from(terms.count);
        let wins = chance.happens(700).then(|| chance.between(1..=2));
        let amount = wins.is_none() || chance.happens(300);
        let amount = amount.then(|| Amount::new(slip * u64::from(chance.between(1..=4)) / 2 + 1));
        let key: LimitKey = "evening".parse().unwrap();
        for packet in &mut self.packets {
            packet.new.sender = sender.clone();
            packet.new.limit = Some(WinLimit { key: key.clone(), wins, amount });
        }
    }

    /// How far a clock is ahead of another, at most.
    pub fn skew(&self) -> Duration {
        let most = self.setups.iter().map(|setup| setup.skew_ms.unsigned_abs()).max();
        Duration::from_millis(most.unwrap_or_default())
    }
}

fn setups(chance: &Chance) -> Vec<Setup> {
    let skewed = chance.happens(400);
    let skew = || {
        let ahead = i64::from(chance.between(0..=2 * SKEW_MS)) - i64::from(SKEW_MS);
        if skewed { ahead } else { 0 }
    };
    let skews: Vec<i64> = (0..chance.between(1..=3)).map(|_| skew()).collect();
    let most = skews.iter().map(|skew| skew.unsigned_abs()).max().unwrap_or_default();
    let mode = chance.between(0..=9);
    // In `ledger` mode every grace is long enough.
    let grace = if mode < 5 && chance.happens(700) { 0 } else { chance.pick(&GRACE_MS) + most };
    let grace = Duration::from_millis(grace);
    let setup = |skew_ms| {
        let redis = mode >= 8 && chance.happens(500) || (5..8).contains(&mode);
        let ack = if redis { AckMode::Redis } else { AckMode::Ledger };
        let (is_never_frozen, claims_at_once) = (chance.happens(500), chance.pick(&[1, 1, 2, 8]));
        Setup { ack, grace, skew_ms, is_never_frozen, claims_at_once }
    };
    skews.into_iter().map(setup).collect()
}

fn user(name: &str, number: u32) -> UserId {
    format!("{name}{number}").parse().unwrap()
}

fn packet(chance: &Chance, number: u32, active: Duration) -> PacketPlan {
    let (count, parts) = size(chance);
    let users: Vec<UserId> = (0..chance.between(2..=8)).map(|number| user("u", number)).collect();
    let total = u64::from(count) * u64::from(chance.between(1..=200));
    let life = match chance.between(0..=5) {
        0 | 1 => active * chance.between(50..=800) / 1_000,
        2 => active * 2,
        _ => Duration::from_secs(chance.between(100..=1_000).into()),
    };
    let recipients = chance.happens(150).then(|| {
        let invited = |user: &&UserId| chance.happens(600) || **user == users[0];
        users.iter().filter(invited).cloned().collect()
    });
    let new = NewPacket {
        sender: user("s", number),
        split: chance.pick(&[Split::Random, Split::Equal]),
        total: Amount::new(total),
        count,
        greeting: String::new(),
        starts_at: None,
        expires_in: life,
        passphrase: chance.happens(200).then(|| Passphrase::new("open")),
        recipients,
        wants_ticket: false,
        // Some sends also write their reference.
        limit: None,
        labels: Labels { reference: (number != 1).then(|| "order-17".parse().unwrap()), ..Labels::default() },
    };
    // A rush: all grabs in a short time.
    let window = if chance.happens(500) { active / 20 } else { active };
    let grab = |user: &UserId| GrabPlan {
        user: user.clone(),
        at: window * chance.between(0..=1_000) / 1_000,
        is_right: chance.happens(850),
        tries: chance.between(1..=4),
    };
    let mut grabs: Vec<GrabPlan> = (0..chance.between(1..=3)).flat_map(|_| users.iter().map(grab)).collect();
    grabs.push(grab(&new.sender));
    let sends = chance.pick(&[1, 1, 2, 3]);
    PacketPlan { new, parts, sends, at: active * chance.between(0..=300) / 1_000, grabs }
}

/// The number of slips, and of parts.
fn size(chance: &Chance) -> (u32, Option<u32>) {
    match chance.between(0..=999) {
        0..=1 => (chance.between(1_001..=1_300), None),
        2..=29 => (chance.between(91..=200), None),
        30..=199 => {
            let parts = chance.between(2..=4);
            (chance.between(parts..=12), Some(parts))
        }
        200..=549 => (chance.between(4..=12), None),
        _ => (chance.between(1..=3), None),
    }
}
