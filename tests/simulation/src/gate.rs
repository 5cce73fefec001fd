//! In an enumeration, the calls of all processes wait here until one of them is chosen.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, oneshot};

use crate::faults::Fault;

/// What kind of call waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Call {
    /// A read of the table.
    Read,
    /// A transaction.
    Write,
    /// A read of the hot store that concerns no part.
    Look,
    /// A script.
    Script,
    /// A call whose process no longer waits for it.
    Late,
    /// No call yet: the process may begin at any time.
    Begin,
}

impl Call {
    /// The faults that may strike it.
    pub const fn faults(self) -> &'static [Fault] {
        match self {
            Self::Read => &[Fault::ReadLost],
            Self::Write => &[Fault::RequestLost, Fault::ReplyLost, Fault::Late],
            Self::Look => &[Fault::HotRequestLost],
            Self::Script => &[Fault::HotRequestLost, Fault::HotReplyLost, Fault::HotLate, Fault::HotTwice],
            Self::Late | Self::Begin => &[],
        }
    }
}

/// A call: the slot of its process, and its number among that process's calls.
pub type CallId = (u32, u32);

/// Holds back every call. `None`: lets every call pass at once.
pub struct Gate(Option<Mutex<State>>);

#[derive(Default)]
struct State {
    waiting: BTreeMap<CallId, (Call, oneshot::Sender<()>)>,
    processes: BTreeMap<u32, Heard>,
    /// The fault that strikes the chosen call.
    fault: Option<Fault>,
    turns: u32,
}

/// What determines the state of a process: all that it was answered, and how many calls it has made since.
#[derive(Clone, Default)]
pub struct Heard {
    pub answers: DefaultHasher,
    pub calls: u32,
    /// When it was answered last; orders those that pause.
    pub turn: u32,
}

impl Gate {
    pub const OPEN: Self = Self(None);

    pub fn closed() -> Self {
        Self(Some(Mutex::default()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.as_ref().expect("a closed gate").lock().unwrap()
    }

    /// Waits until the call is chosen. Returns false if it never will be.
    pub async fn pass(&self, slot: u32, call: Call) -> bool {
        if self.0.is_none() {
            return true;
        }
        let (go, chosen) = oneshot::channel();
        {
            let mut state = self.state();
            let process = state.processes.entry(slot).or_default();
            process.calls += 1;
            let id = (slot, process.calls);
            state.waiting.insert(id, (call, go));
        }
        chosen.await.is_ok()
    }

    /// Lets a call pass, struck by this fault.
    pub fn choose(&self, id: CallId, fault: Option<Fault>) {
        let mut state = self.state();
        let (_, go) = state.waiting.remove(&id).expect("a call that waits");
        state.turns += 1;
        let (turn, process) = (state.turns, state.processes.entry(id.0).or_default());
        process.turn = turn;
        (id.1, fault.map(|fault| fault as u32)).hash(&mut process.answers);
        state.fault = fault;
        let _ = go.send(());
    }

    /// Forgets the calls of a process that has died, except those that still arrive.
    pub fn forget(&self, slot: u32) {
        self.state().waiting.retain(|id, (call, _)| id.0 != slot || *call == Call::Late);
    }

    /// Whether `fault` strikes the chosen call.
    pub fn strikes(&self, fault: Fault) -> bool {
        self.0.is_some() && self.state().fault.take_if(|chosen| *chosen == fault).is_some()
    }

    pub fn hear<A: Hash>(&self, slot: u32, answer: impl FnOnce() -> A) {
        if self.0.is_some() {
            let answer = answer();
            answer.hash(&mut self.state().processes.entry(slot).or_default().answers);
        }
    }

    /// The calls that wait.
    pub fn waiting(&self) -> Vec<(CallId, Call)> {
        self.state().waiting.iter().map(|(id, (call, _))| (*id, *call)).collect()
    }

    /// What a process was answered.
    pub fn heard(&self, slot: u32) -> Heard {
        self.state().processes.get(&slot).cloned().unwrap_or_default()
    }
}

thread_local! {
    static RESTS: RefCell<Arc<Notify>> = RefCell::default();
    static TIME_MAY_PASS: Cell<bool> = const { Cell::new(false) };
}

/// A runtime whose time passes only in [`let_time_pass`].
pub fn runtime() -> tokio::runtime::Runtime {
    RESTS.take();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).on_thread_park(|| {
        if !TIME_MAY_PASS.take() {
            RESTS.with_borrow(|rests| rests.notify_one());
        }
    });
    builder.build().unwrap()
}

/// Waits until every task waits for a call or for time to pass.
pub async fn at_rest() {
    let rests = RESTS.with_borrow(Arc::clone);
    rests.notified().await;
}

/// Lets the time pass until the next task wakes, and waits until all are at rest again.
pub async fn let_time_pass() {
    TIME_MAY_PASS.set(true);
    at_rest().await;
}
