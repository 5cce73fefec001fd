//! The split: total and count in, amounts out; integers only, from a 32-byte seed. Every packet records
//! [`SPLIT_VERSION`], and the algorithm of a version never changes: anybody who knows the seed can compute the amounts again.
//!
//! # Version 1
//!
//! The randomness is the keystream of `ChaCha20` (RFC 8439) under the seed as key, with a zero nonce and the counter from
//! 0, read as 64-bit words, little end first. `below(b)` is a number in `0..b`: words are drawn until one is less than
//! `2^64 - (2^64 mod b)`; that word modulo `b`. It draws a word for `b = 1` too.
//!
//! 1. `equal`: `total / count` (rounded down) for each slip, one more for the first `total mod count`.
//!    `random`: with `s = total - count`, `c = cap - 1`, and `p` = `count`, `count - 1`, … 2 slips left, each slip is
//!    `1 + x`, where `x = share(s, p)`, or, if `2s > p·c`, `x = c - share(p·c - s, p)`; then `s` becomes `s - x`. The last
//!    slip is `1 + s` and draws nothing. `share(t, p)`: first `u = below(p)`; `k = 2t / p` (rounded down), and one more if
//!    `u < 2t mod p`; then `below(k + 1)`. Both words are always drawn.
//! 2. The shuffle, from the same stream: for `i` from `count - 1` down to 1, swap slip `i` with slip `below(i + 1)`.

use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::money::Amount;

/// The version of the algorithm in this file.
pub const SPLIT_VERSION: u8 = 1;

/// What a split's randomness is drawn from.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Seed(pub [u8; 32]);

impl std::fmt::Debug for Seed {
    /// A seed is a secret while its packet is open: logs never show one.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// How a packet's money is divided into slips.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// By the double-mean method (二倍均值): each slip at random between the least and about twice the mean.
    Random,
    /// As equally as whole minor units allow.
    Equal,
}

impl Split {
    /// The name that requests, answers and the commitment use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Equal => "equal",
        }
    }
}

/// Why there is no split.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SplitError {
    /// There is less than one minor unit a slip, or no slip.
    #[error("the total must be at least the number of slips, which must be at least 1")]
    TooLittle,
    /// There is more than the slips can hold.
    #[error("the total must be at most the number of slips times the most that a slip can hold")]
    TooMuch,
}

/// Divides `total` into `count` slips of 1 to `cap` minor units each, in the order in which they lie in the packet.
///
/// The sum is exact, and no place in the order is luckier than another.
pub fn split(kind: Split, total: Amount, count: u32, cap: Amount, seed: Seed) -> Result<Vec<u64>, SplitError> {
    let mut words = Words::new(seed);
    let mut amounts = draw(kind, total, count, cap, &mut words)?;
    // Fisher–Yates (Durstenfeld's form), from the end.
    for i in (1..amounts.len()).rev() {
        let j = usize::try_from(words.below(i as u64 + 1)).unwrap_or(i);
        amounts.swap(i, j);
    }
    Ok(amounts)
}

/// The amounts that [`split`] draws, before it shuffles them: for tests of the distribution at each step of the draw.
pub fn split_unshuffled(
    kind: Split,
    total: Amount,
    count: u32,
    cap: Amount,
    seed: Seed,
) -> Result<Vec<u64>, SplitError> {
    draw(kind, total, count, cap, &mut Words::new(seed))
}

fn draw(kind: Split, total: Amount, count: u32, cap: Amount, words: &mut Words) -> Result<Vec<u64>, SplitError> {
    let (total, count, cap) = (total.minor_units(), u64::from(count), cap.minor_units());
    if count == 0 || total < count {
        return Err(SplitError::TooLittle);
    }
    if count.checked_mul(cap).is_none_or(|most| total > most) {
        return Err(SplitError::TooMuch);
    }
    Ok(match kind {
        Split::Random => draw_random(total, count, cap, words),
        Split::Equal => (0..count).map(|i| total / count + u64::from(i < total % count)).collect(),
    })
}

/// The double mean, in integers. Each slip keeps one unit; the surplus `s` is drawn from for each of the `p` slips left.
///
/// A slip's share is uniform on `0..=k` with `k = 2s/p`, rounded to a whole number at random so that its mean is exact.
/// Thus every place has the mean `s/p`. (Rounding down always would push the difference to the last slip.) Where `2s/p`
/// exceeds what a slip can hold, the rule draws what the slip leaves free instead. That keeps the mean and the cap. The last slip takes the rest.
fn draw_random(total: u64, count: u64, cap: u64, words: &mut Words) -> Vec<u64> {
    let mut surplus = total - count;
    let room = cap - 1;
    (1..=count)
        .rev()
        .map(|slips_left| {
            let share = if slips_left == 1 {
                surplus
            } else if u128::from(surplus) * 2 > u128::from(slips_left) * u128::from(room) {
                room - draw_share(slips_left * room - surplus, slips_left, words)
            } else {
                draw_share(surplus, slips_left, words)
            };
            surplus -= share;
            1 + share
        })
        .collect()
}

/// A number of mean `surplus / slips_left`, uniform up to about twice that.
fn draw_share(surplus: u64, slips_left: u64, words: &mut Words) -> u64 {
    let (whole, remainder) = (2 * surplus / slips_left, 2 * surplus % slips_left);
    let most = whole + u64::from(words.below(slips_left) < remainder);
    words.below(most + 1)
}

/// The keystream of `ChaCha20` (RFC 8439; zero nonce, counter from 0) under the seed, as little-endian 64-bit words.
struct Words {
    cipher: ChaCha20,
    block: [u8; Self::BLOCK],
    used: usize,
}

impl Words {
    const BLOCK: usize = 512;
    const WORD: usize = 8;

    fn new(seed: Seed) -> Self {
        Self { cipher: ChaCha20::new(&seed.0.into(), &[0; 12].into()), block: [0; Self::BLOCK], used: Self::BLOCK }
    }

    fn next(&mut self) -> u64 {
        if self.used == Self::BLOCK {
            self.block = [0; Self::BLOCK];
            self.cipher.apply_keystream(&mut self.block);
            self.used = 0;
        }
        let mut word = [0; Self::WORD];
        word.copy_from_slice(&self.block[self.used..self.used + Self::WORD]);
        self.used += Self::WORD;
        u64::from_le_bytes(word)
    }

    /// A number uniform on `0..bound`, by rejection: words of the incomplete range at the top are drawn again.
    fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        let incomplete = (u64::MAX % bound + 1) % bound;
        loop {
            let word = self.next();
            if word <= u64::MAX - incomplete {
                return word % bound;
            }
        }
    }
}

/// The commitment, which is published before anyone grabs. It is the SHA-256 of these bytes: the version (1), the seed (32),
/// total, count and cap (8 each, little end first), and the split's name. With the seed, which is revealed later, anybody can
/// check that the amounts were fixed beforehand.
#[must_use]
pub fn commitment(version: u8, seed: Seed, total: Amount, count: u32, cap: Amount, kind: Split) -> [u8; 32] {
    Sha256::new()
        .chain_update([version])
        .chain_update(seed.0)
        .chain_update(total.minor_units().to_le_bytes())
        .chain_update(u64::from(count).to_le_bytes())
        .chain_update(cap.minor_units().to_le_bytes())
        .chain_update(kind.name())
        .finalize()
        .into()
}

#[cfg(test)]
mod tests;
