//! The state of the receiver that receives webhooks. All processes that deliver share it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::items;
use super::{Ledger, LedgerError, keys};
use crate::domain::{Deed, DeedKind, Mandate, Timestamp};
use crate::ports::{Expect, Item, Table, Write};

/// What is known of the receiver. Of a receiver that takes each event nothing is.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct ReceiverState {
    /// When the first try failed since an event was delivered last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// How the last failed try that was noted ended, and when. It stays when the receiver recovers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_answer: Option<String>,
    /// See [`Self::last_answer`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_answer_at: Option<Timestamp>,
    /// When the oldest event happened that waits since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_at: Option<Timestamp>,
    /// Until when it asked not to be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub put_off_until: Option<Timestamp>,
    /// When it said that it is gone, or an operator disabled it. It is not called until an operator enables it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_at: Option<Timestamp>,
    /// When an operator enabled it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled_at: Option<Timestamp>,
}

/// How long no event is delivered before the receiver counts as failing.
const FAILING_AFTER: Duration = Duration::from_hours(24);

/// How a receiver is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiverStatus {
    /// It takes what it is sent, as far as is known.
    Well,
    /// It failed last, less than a day ago.
    Retrying,
    /// It asked to be called later.
    PutOff,
    /// No event was delivered for a day.
    Failing,
    /// It said that it is gone, or an operator disabled it. It is not called until it is enabled.
    Disabled,
}

/// The attributes that a delivery removes.
const OF_FAILURE: &[&str] = &["failing_since", "oldest_at"];
/// The attributes that an operator removes.
const OF_HOLD: &[&str] = &["failing_since", "oldest_at", "put_off_until", "disabled_at"];

impl ReceiverState {
    /// Whether it must not be called at `now`.
    pub fn is_held(&self, now: Timestamp) -> bool {
        self.disabled_at.is_some() || self.put_off_until.is_some_and(|until| now < until)
    }

    /// How it is at `now`, and since when.
    pub fn status(&self, now: Timestamp) -> (ReceiverStatus, Option<Timestamp>) {
        let has_failed = self.failing_since.is_some_and(|since| now >= since.after(FAILING_AFTER));
        if self.disabled_at.is_some() {
            (ReceiverStatus::Disabled, self.disabled_at)
        } else if has_failed {
            (ReceiverStatus::Failing, self.failing_since)
        } else if self.is_held(now) {
            (ReceiverStatus::PutOff, self.failing_since)
        } else if self.failing_since.is_some() {
            (ReceiverStatus::Retrying, self.failing_since)
        } else {
            (ReceiverStatus::Well, None)
        }
    }

    /// What this has and `before` had not, or not so.
    fn news(&self, before: &Self) -> Self {
        fn news<V: Clone + PartialEq>(now: Option<&V>, before: Option<&V>) -> Option<V> {
            now.filter(|now| before != Some(*now)).cloned()
        }
        Self {
            failing_since: news(self.failing_since.as_ref(), before.failing_since.as_ref()),
            last_answer: news(self.last_answer.as_ref(), before.last_answer.as_ref()),
            last_answer_at: news(self.last_answer_at.as_ref(), before.last_answer_at.as_ref()),
            oldest_at: news(self.oldest_at.as_ref(), before.oldest_at.as_ref()),
            put_off_until: news(self.put_off_until.as_ref(), before.put_off_until.as_ref()),
            disabled_at: news(self.disabled_at.as_ref(), before.disabled_at.as_ref()),
            enabled_at: news(self.enabled_at.as_ref(), before.enabled_at.as_ref()),
        }
    }
}

impl<T: Table> Ledger<T> {
    /// What is known of the receiver of webhooks.
    pub async fn receiver(&self) -> Result<ReceiverState, LedgerError> {
        let item = self.table.get(keys::receiver()).await?;
        Ok(item.map(items::read).transpose()?.unwrap_or_default())
    }

    /// Notes how the receiver differs from what was known `before`. Nothing is written if it does not. Processes that note different
    /// things at once overwrite nothing of each other but the same things.
    pub async fn note_receiver(&self, before: &ReceiverState, now: &ReceiverState) -> Result<(), LedgerError> {
        let is_recovered = (before.failing_since.is_some() && now.failing_since.is_none())
            || (before.oldest_at.is_some() && now.oldest_at.is_none());
        let set = items::write(&now.news(before))?;
        if is_recovered || !set.inner().is_empty() {
            self.change_receiver(set, if is_recovered { OF_FAILURE } else { &[] }).await?;
        }
        Ok(())
    }

    /// Lets the receiver be called again, as if it had never failed. It is a deed if it is known whose.
    pub async fn enable_receiver<'a>(&self, mandate: impl Into<Mandate<'a>>, at: Timestamp) -> Result<(), LedgerError> {
        let set = items::write(&ReceiverState { enabled_at: Some(at), ..ReceiverState::default() })?;
        self.decide_on_receiver(DeedKind::EnableWebhooks, mandate.into(), at, change(set, OF_HOLD)).await
    }

    /// Lets nobody call the receiver until an operator enables it.
    pub async fn disable_receiver<'a>(
        &self,
        mandate: impl Into<Mandate<'a>>,
        at: Timestamp,
    ) -> Result<(), LedgerError> {
        let set = items::write(&ReceiverState { disabled_at: Some(at), ..ReceiverState::default() })?;
        self.decide_on_receiver(DeedKind::DisableWebhooks, mandate.into(), at, change(set, &[])).await
    }

    /// In the tool nobody is named. Its user may write this item only, so they can't write the deeds of others.
    async fn decide_on_receiver(
        &self,
        kind: DeedKind,
        mandate: Mandate<'_>,
        at: Timestamp,
        write: Write,
    ) -> Result<(), LedgerError> {
        let committed = match mandate.by {
            Some(_) => self.commit_deed(&Deed::new(kind, mandate, at), &[write]).await,
            None => self.commit(&[write]).await,
        };
        committed.map(drop)
    }

    async fn change_receiver(&self, set: Item, remove: &'static [&'static str]) -> Result<(), LedgerError> {
        self.commit(&[change(set, remove)]).await.map(drop)
    }
}

fn change(set: Item, remove: &'static [&'static str]) -> Write {
    Write::Change { key: keys::receiver(), expect: Expect::Nothing, set, remove }
}
