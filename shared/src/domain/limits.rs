use std::time::Duration;

use super::money::Amount;

/// The most that one deposit or withdrawal can move: 10^12 minor units.
pub const MAX_MOVEMENT: Amount = Amount::new(1_000_000_000_000);

/// The most that deposits can fill a wallet to: 10^15 minor units. Wins, refunds and the returns of withdrawals are never refused, so they
/// may lift a balance above it. Even then it stays an integer that every JSON client can hold (below 2^53).
pub const MAX_BALANCE: Amount = Amount::new(1_000_000_000_000_000);

/// The limits of a deployment on what users can send, and ask for. Each packet records what it was made under, so that changing one
/// never changes a packet that was sent before.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    /// The most that one slip can hold.
    pub slip_amount_max: Amount,
    /// The most slips of a packet.
    pub count_max: u32,
    /// The least that a user can ask to withdraw.
    pub withdrawal_min: Amount,
}

impl Limits {
    /// The hard bound on [`Self::count_max`].
    pub const COUNT_CEILING: u32 = 100_000;
    /// The hard bound on [`Self::slip_amount_max`]: an amount fits four bytes.
    pub const SLIP_AMOUNT_CEILING: Amount = Amount::new(1_000_000_000);
    /// The longest greeting, in characters.
    pub const GREETING_CHARS_MAX: usize = 64;
    /// The longest passphrase, in characters.
    pub const PASSPHRASE_CHARS_MAX: usize = 64;
    /// The most wrong passphrases of a user for one packet in a minute.
    pub const WRONG_PASSPHRASES_A_MINUTE: u32 = 10;
    /// The most pending withdrawals that a user may have asked for.
    pub const PENDING_WITHDRAWALS: u32 = 3;
    /// The most recipients of a packet.
    pub const RECIPIENTS_MAX: usize = 500;
    /// How far ahead a packet's start can be.
    pub const START_AHEAD_MAX: Duration = Duration::from_hours(7 * 24);
    /// The longest time for which a packet can be grabbed.
    pub const EXPIRY_MAX: Duration = Duration::from_hours(72);
    /// The time for which a packet can be grabbed where the sender does not say.
    pub const EXPIRY_DEFAULT: Duration = Duration::from_hours(24);
}

impl Default for Limits {
    /// 200.00 a slip, 100,000 slips, withdrawals of 0.01.
    fn default() -> Self {
        Self { slip_amount_max: Amount::new(20_000), count_max: Self::COUNT_CEILING, withdrawal_min: Amount::new(1) }
    }
}

/// How often one user may ask a process; 0: as often as they like.
#[derive(Clone, Copy, Debug)]
pub struct UserRates {
    /// Requests a second, and as many at once.
    pub requests_a_second: u32,
    /// Grabs a minute, and as many at once.
    pub grabs_a_minute: u32,
}
