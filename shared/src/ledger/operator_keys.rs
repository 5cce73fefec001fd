//! The keys of operators, where no IAM knows them. The ledger has a hash of each, never the key.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::items;
use super::{Ledger, LedgerError, commit::Committed, keys};
use crate::domain::{Right, Signer, Timestamp};
use crate::ports::{Expect, Query, Table, Write};

/// An operator's key, without the key itself.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct OperatorKey {
    /// What movements say in `by`.
    pub name: Signer,
    /// What it may do.
    pub rights: Vec<Right>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Since when it counts no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

/// The hash under which the ledger has a key: its SHA-256 in hex. A key is random enough that nobody finds it from that.
#[must_use]
pub fn hash_of_key(key: &str) -> String {
    hex::encode(Sha256::digest(key))
}

impl<T: Table> Ledger<T> {
    /// The operator's key with this hash, if it counts.
    pub async fn operator_key(&self, hash: &str) -> Result<Option<OperatorKey>, LedgerError> {
        let item = self.table.get(keys::operator_key(hash)).await?;
        let key: Option<OperatorKey> = item.map(items::read).transpose()?;
        Ok(key.filter(|key| key.revoked_at.is_none()))
    }

    /// All keys, also those that count no more, each with its hash.
    pub async fn operator_keys(&self) -> Result<Vec<(String, OperatorKey)>, LedgerError> {
        let pk = keys::OPERATOR_KEYS.to_owned();
        let found = self.table.query(Query { pk, sk_prefix: "", after: None, descending: false, limit: None }).await?;
        let read = |item| Ok((keys::of_item(&item).map(|key| key.sk).unwrap_or_default(), items::read(item)?));
        let mut found: Vec<(String, OperatorKey)> = found.into_iter().map(read).collect::<Result<_, LedgerError>>()?;
        found.sort_by_key(|(_, key)| key.created_at);
        Ok(found)
    }

    /// Adds a key. Returns whether there was none with its hash.
    pub async fn add_operator_key(&self, hash: &str, key: &OperatorKey) -> Result<bool, LedgerError> {
        let write = Write::PutNew { key: keys::operator_key(hash), item: items::write(key)? };
        Ok(matches!(self.commit(&[write]).await?, Committed::Yes))
    }

    /// Lets the key with this hash count no more.
    pub async fn revoke_operator_key(&self, hash: &str, at: Timestamp) -> Result<(), LedgerError> {
        let set = items::write(&Revoked { revoked_at: at })?;
        let write = Write::Change { key: keys::operator_key(hash), expect: Expect::Has("name"), set, remove: &[] };
        self.commit(&[write]).await.map(drop)
    }
}

#[derive(Serialize)]
struct Revoked {
    revoked_at: Timestamp,
}
