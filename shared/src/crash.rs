//! Crash points: places where a test can let the process die, before and after each effect that the outside world sees.
//!
//! Without the feature `crash-points` a place compiles to nothing. With it a place that was armed kills its process by
//! a real `SIGKILL`: nothing is flushed, closed or dropped. A build of the whole workspace has the feature, so the tests' programs have
//! these places; a build of one program, as it is deployed, has none.

/// Marks a place where the process may die: one of `POINTS`, by name.
macro_rules! crash_point {
    ($name:literal) => {
        #[cfg(feature = "crash-points")]
        $crate::crash::reach(const { $crate::crash::place($name) });
    };
}

#[cfg(feature = "crash-points")]
pub use armed::{LAST_WORDS, POINTS, VARIABLE, arm};
#[cfg(feature = "crash-points")]
pub(crate) use armed::{place, reach};

#[cfg(feature = "crash-points")]
mod armed {
    use std::io::Write;
    use std::sync::Once;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    /// All places, by the step they belong to.
    pub const POINTS: [&str; 42] = [
        "send.before_ledger",
        "send.after_ledger",
        "send.after_load",
        "ledger.before_transaction",
        "ledger.after_transaction",
        "grab.before_script",
        "grab.after_script",
        "grab.before_claim",
        "grab.after_claim",
        "grab.after_reconcile",
        "grab.before_repair",
        "grab.after_repair",
        "grab.in_doubt",
        "load.before_lease",
        "load.after_lease",
        "load.after_decisions",
        "load.after_load",
        "load.after_release",
        "repair.before_reconcile",
        "repair.after_reconcile",
        "repair.after_decisions",
        "repair.after_all",
        "settle.after_pending",
        "settle.after_outbox",
        "settle.after_decisions",
        "settle.before_claim",
        "settle.after_claim",
        "settle.before_reconcile",
        "settle.after_reconcile",
        "refund.after_drain",
        "refund.before_chunk",
        "refund.after_chunk",
        "mark_settled.before",
        "mark_settled.after",
        "mark_settled.after_reconcile_part",
        "mark_settled.after_reconcile",
        "refund.before_close",
        "close.before_ledger",
        "close.after_ledger",
        "close.before_part",
        "close.before_load",
        "close.after_parts",
    ];

    /// What a process that dies at a place writes to its standard error, before the place's name.
    pub const LAST_WORDS: &str = "crash point reached: ";

    /// The variable that arms one place of a program: `grab.after_claim=3`.
    pub const VARIABLE: &str = "HONGBAO_CRASH_POINT";

    /// How many more times each place is passed until the process dies there; 0: the place is not armed.
    static PASSES: [AtomicU32; POINTS.len()] = [const { AtomicU32::new(0) }; POINTS.len()];

    /// Lets the process die when it comes to the place `name` for the `passes`th time. Returns whether there is one.
    pub fn arm(name: &str, passes: u32) -> bool {
        let place = POINTS.iter().position(|point| *point == name);
        place.map(|place| PASSES[place].store(passes, Ordering::Relaxed)).is_some()
    }

    /// The index of `name` in [`POINTS`]. The compiler computes it, so that a place without an entry does not build.
    pub(crate) const fn place(name: &str) -> usize {
        let mut place = 0;
        while place < POINTS.len() {
            if equal(POINTS[place].as_bytes(), name.as_bytes()) {
                return place;
            }
            place += 1;
        }
        unreachable!()
    }

    const fn equal(one: &[u8], other: &[u8]) -> bool {
        let mut i = 0;
        while i < one.len() && i < other.len() && one[i] == other[i] {
            i += 1;
        }
        i == one.len() && i == other.len()
    }

    fn arm_by_variable() {
        let Ok(wanted) = std::env::var(VARIABLE) else { return };
        let (name, passes) = wanted.split_once('=').unwrap_or((&wanted, "1"));
        if !passes.parse().is_ok_and(|passes| arm(name, passes)) {
            die(&format!("none; {VARIABLE} names no place: {wanted}"));
        }
    }

    pub(crate) fn reach(place: usize) {
        static TOLD: Once = Once::new();
        TOLD.call_once(arm_by_variable);
        let passes = &PASSES[place];
        if passes.load(Ordering::Relaxed) > 0 && passes.fetch_sub(1, Ordering::Relaxed) == 1 {
            die(POINTS[place]);
        }
    }

    fn die(name: &str) {
        // This is for the process that watches. If nobody reads it, this process dies all the same.
        let _ = writeln!(std::io::stderr(), "{LAST_WORDS}{name}");
        let _ = kill_process(getpid(), Signal::KILL);
        // The signal is on its way: no other line runs on this thread.
        loop {
            std::thread::park();
        }
    }
}
