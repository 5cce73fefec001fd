use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use redis::Value;

use crate::Refusal;

/// The name of a key.
pub type Key = Arc<[u8]>;

/// All keys of a server. A clone costs little: it shares the values until they change.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Keyspace {
    entries: BTreeMap<Key, Arc<Entry>>,
    /// Whether the server has as much data as it may have. It then refuses commands that could need more.
    pub is_full: bool,
}

/// A key's value, and when it expires.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Entry {
    pub value: Data,
    /// The last millisecond of its life.
    pub expires_ms: Option<u64>,
}

/// A value of each type that the scripts use.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Data {
    Text(Vec<u8>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    List(VecDeque<Vec<u8>>),
    Sorted(BTreeMap<Vec<u8>, Score>),
}

/// A finite score of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct Score(pub f64);

// Scores are never NaN: Redis refuses it.
impl Eq for Score {}

impl Hash for Score {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // 0 and -0 are equal.
        let bits = if self.0 == 0.0 { 0 } else { self.0.to_bits() };
        bits.hash(state);
    }
}

/// Why a call runs, which decides what a full or a read-only call may do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Call {
    /// The server's clock, in microseconds since the epoch. It stands still while a script runs.
    pub now_us: u64,
    /// Whether the call may grow a full server.
    pub may_grow: bool,
    /// Whether the call may change nothing.
    pub is_read_only: bool,
}

impl Keyspace {
    /// The names of its keys.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.entries.keys()
    }

    /// The fields of a hash, in the order of their names; none if there is no such hash.
    pub fn hash(&self, key: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
        let fields = match self.entries.get(key).map(|entry| &entry.value) {
            Some(Data::Hash(fields)) => Some(fields),
            _ => None,
        };
        fields.into_iter().flatten().map(|(name, value)| (name.as_slice(), value.as_slice()))
    }

    /// The elements of a list; none if there is no such list.
    pub fn list(&self, key: &[u8]) -> impl Iterator<Item = &[u8]> + use<'_> {
        let elements = match self.entries.get(key).map(|entry| &entry.value) {
            Some(Data::List(elements)) => Some(elements),
            _ => None,
        };
        elements.into_iter().flatten().map(Vec::as_slice)
    }

    /// Takes the selected keys back to what they were in `earlier`. Keys that it lacks are gone.
    pub fn restore(&mut self, earlier: &Self, is_selected: impl Fn(&[u8]) -> bool) {
        self.entries.retain(|key, _| !is_selected(key));
        let selected = earlier.entries.iter().filter(|(key, _)| is_selected(key));
        self.entries.extend(selected.map(|(key, entry)| (Arc::clone(key), Arc::clone(entry))));
    }

    /// A key's entry, unless it has expired.
    pub(crate) fn live(&self, now_us: u64, key: &[u8]) -> Option<&Entry> {
        let entry = self.entries.get(key)?;
        entry.expires_ms.is_none_or(|expires| now_us / 1_000 <= expires).then_some(&**entry)
    }

    /// The same, to change it.
    pub(crate) fn live_mut(&mut self, now_us: u64, key: &[u8]) -> Option<&mut Entry> {
        self.live(now_us, key)?;
        self.entries.get_mut(key).map(Arc::make_mut)
    }

    /// A key's value, made by `empty` if there is none.
    pub(crate) fn or_new(&mut self, now_us: u64, key: &[u8], empty: fn() -> Data) -> &mut Data {
        if self.live(now_us, key).is_none() {
            self.put(key, empty(), None);
        }
        let new = || Arc::new(Entry { value: empty(), expires_ms: None });
        &mut Arc::make_mut(self.entries.entry(key.into()).or_insert_with(new)).value
    }

    pub(crate) fn put(&mut self, key: &[u8], value: Data, expires_ms: Option<u64>) {
        self.entries.insert(key.into(), Arc::new(Entry { value, expires_ms }));
    }

    /// Removes a key. Returns whether it was there.
    pub(crate) fn remove(&mut self, now_us: u64, key: &[u8]) -> bool {
        let was_there = self.live(now_us, key).is_some();
        self.entries.remove(key);
        was_there
    }
}

impl Data {
    /// Whether Redis removes a key with this value.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Hash(fields) => fields.is_empty(),
            Self::List(elements) => elements.is_empty(),
            Self::Sorted(members) => members.is_empty(),
        }
    }
}

/// What a command of another type than the key's gets.
pub(crate) fn wrong_type() -> Refusal {
    Refusal::new("WRONGTYPE", "Operation against a key holding the wrong kind of value")
}

/// The members of a sorted set, in its order.
pub(crate) fn in_order(members: &BTreeMap<Vec<u8>, Score>) -> Vec<(&[u8], f64)> {
    let mut all: Vec<_> = members.iter().map(|(member, score)| (member.as_slice(), score.0)).collect();
    all.sort_by(|one, other| one.1.total_cmp(&other.1).then_with(|| one.0.cmp(other.0)));
    all
}

pub(crate) fn bulk(bytes: impl Into<Vec<u8>>) -> Value {
    Value::BulkString(bytes.into())
}

/// The distinct names among arguments.
pub(crate) fn distinct<'a>(names: &[&'a [u8]]) -> BTreeSet<&'a [u8]> {
    names.iter().copied().collect()
}
