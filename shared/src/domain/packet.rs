use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::id::{PacketId, UserId};
use super::labels::Labels;
use super::money::Amount;
use super::split::{self, Seed, Split};
use super::text::Passphrase;
use super::time::Timestamp;
use super::win_limit::WinLimit;

/// When a grab is answered. It is a term of each packet, so that a redeployment never changes a promise that was made.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AckMode {
    /// Once the claim is committed to the ledger: as durable as `DynamoDB`.
    #[default]
    Ledger,
    /// Once the hot store holds the slip; settle commits it soon after: as durable as the Redis behind it.
    Redis,
}

/// A salted digest of a passphrase. The passphrase itself is kept nowhere.
///
/// The packet's id is the salt, so that a function can compute the digest of a guess without reading anything. A fast
/// hash is a choice. A passphrase is shared with a group and lives for a day, and the grab itself counts and bounds guesses.
/// A slow hash would let every grabber slow down a rush.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PassphraseDigest(pub [u8; 32]);

impl PassphraseDigest {
    /// The digest of `passphrase` for `packet`.
    #[must_use]
    pub fn new(packet: PacketId, passphrase: &Passphrase) -> Self {
        let hash = Sha256::new().chain_update("hongbao passphrase 1\0").chain_update(packet.to_string());
        Self(hash.chain_update(passphrase.as_str()).finalize().into())
    }
}

/// Who may grab a packet, and from when on.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Guard {
    /// When grabs begin, by the hot store's clock. `None`: at once.
    pub starts_at: Option<Timestamp>,
    /// The passphrase that a grabber must give, if the packet has one.
    pub passphrase: Option<PassphraseDigest>,
    /// The only users who may grab, if the sender named any.
    pub recipients: Option<BTreeSet<UserId>>,
}

/// Why a packet's guard turns a user away.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// The packet has recipients, and the user is not one of them.
    NotARecipient,
    /// The passphrase is wrong, or missing.
    WrongPassphrase,
    /// Too many wrong passphrases from this user, who may try again later.
    TooManyTries {
        /// Milliseconds until the next try is allowed.
        retry_after_ms: u64,
    },
}

impl Guard {
    /// Whether `user` may view the packet, and grab it from its start on with its passphrase.
    #[must_use]
    pub fn invites(&self, user: &UserId) -> bool {
        self.recipients.as_ref().is_none_or(|recipients| recipients.contains(user))
    }

    /// Whether `user` may grab the packet with `passphrase` once it has started. Recipients are checked first.
    pub fn check(&self, user: &UserId, passphrase: Option<PassphraseDigest>) -> Result<(), Refusal> {
        if !self.invites(user) {
            Err(Refusal::NotARecipient)
        } else if self.passphrase.is_some() && self.passphrase != passphrase {
            Err(Refusal::WrongPassphrase)
        } else {
            Ok(())
        }
    }
}

/// A packet's terms: all of it that never changes once it is sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Terms {
    /// The packet's id.
    pub id: PacketId,
    /// Who paid for it.
    pub sender: UserId,
    /// How it is divided.
    pub split: Split,
    /// The version of the split's algorithm.
    pub split_version: u8,
    /// What the split is drawn from; a secret until the ledger has a decision for every slip.
    pub seed: Seed,
    /// The currency (ISO 4217).
    pub currency: String,
    /// All of its money.
    pub total: Amount,
    /// The number of its slips.
    pub count: u32,
    /// The most that a slip can hold, as configured when the packet was sent.
    pub cap: Amount,
    /// The sender's greeting; may be empty.
    pub greeting: String,
    /// When it was sent.
    pub created_at: Timestamp,
    /// The time from which nobody can grab it any more.
    pub expires_at: Timestamp,
    /// When its grabs are answered.
    pub ack: AckMode,
    /// Who may grab it.
    pub guard: Guard,
    /// What one user wins at most of this packet and others together, if that is limited.
    pub limit: Option<WinLimit>,
    /// What the sender's app wrote on it.
    pub labels: Labels,
}

impl Terms {
    /// What a slip holds at least.
    #[must_use]
    pub fn least_slip(&self) -> Amount {
        match self.split {
            Split::Random => Amount::new(1),
            Split::Equal => Amount::new(self.total.minor_units() / u64::from(self.count.max(1))),
        }
    }

    /// What fixes the split before anyone grabs. See [`split::commitment`].
    #[must_use]
    pub fn commitment(&self) -> [u8; 32] {
        split::commitment(self.split_version, self.seed, self.total, self.count, self.cap, self.split)
    }
}

#[cfg(test)]
impl Terms {
    /// A packet of alice's, for tests: 1,000 in 3 slips.
    pub(crate) fn sample() -> Self {
        Self {
            id: PacketId::new(Timestamp::from_ms(1_795_181_400_000), 1, [1; 10]),
            sender: "alice".parse().unwrap_or_else(|error| unreachable!("{error}")),
            split: Split::Random,
            split_version: 1,
            seed: Seed([1; 32]),
            currency: "CNY".to_owned(),
            total: Amount::new(1_000),
            count: 3,
            cap: Amount::new(20_000),
            greeting: "恭喜发财".to_owned(),
            created_at: Timestamp::from_ms(10),
            expires_at: Timestamp::from_ms(20),
            ack: AckMode::Ledger,
            guard: Guard::default(),
            limit: None,
            labels: Labels::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    fn digest(packet: PacketId, passphrase: &str) -> PassphraseDigest {
        PassphraseDigest::new(packet, &Passphrase::new(passphrase))
    }

    #[test]
    fn recipients_are_checked_before_the_passphrase() {
        let packet = PacketId::new(Timestamp::from_ms(1), 1, [1; 10]);
        let right = digest(packet, "芝麻开门");
        let guard = Guard { starts_at: None, passphrase: Some(right), recipients: Some([user("ann")].into()) };
        assert_eq!(guard.check(&user("bob"), Some(right)), Err(Refusal::NotARecipient));
        assert_eq!(guard.check(&user("ann"), None), Err(Refusal::WrongPassphrase));
        assert_eq!(guard.check(&user("ann"), Some(digest(packet, "x"))), Err(Refusal::WrongPassphrase));
        assert_eq!(guard.check(&user("ann"), Some(right)), Ok(()));
        assert_eq!(Guard::default().check(&user("bob"), Some(right)), Ok(()));
    }

    #[test]
    fn a_digest_is_its_packets_own() {
        let other = PacketId::new(Timestamp::from_ms(1), 1, [2; 10]);
        let packet = PacketId::new(Timestamp::from_ms(1), 1, [1; 10]);
        assert_ne!(digest(packet, "a"), digest(other, "a"));
        assert_ne!(digest(packet, "a"), digest(packet, "A"));
        assert_eq!(digest(packet, "a"), digest(packet, "ａ "));
    }

    #[test]
    fn terms_are_committed_to_as_a_split_is() {
        let terms = Terms { split: Split::Equal, count: 7, ..Terms::sample() };
        let Terms { seed, total, cap, .. } = terms;
        assert_eq!(terms.commitment(), split::commitment(1, seed, total, 7, cap, Split::Equal));
    }
}
