//! Instructions of a grab from the event's JSON to the answer's, in one thread over stores in memory, compared with recorded
//! bounds.
//!
//! Valgrind counts them, so that other load, clock rate and caches do not change the result. Each figure is the difference of two
//! runs, one with twice the grabs of the other, so that the set-up does not count. The stores in memory do count. They stand in
//! for clients and servers, which `make bench` measures.
//!
//! ```text
//! instructions                       measures all cases, and fails if one is beyond its bound
//! instructions record                measures all cases, and records them as the bounds
//! instructions run CASE GRABS        makes this many grabs; Valgrind counts this run
//! ```

mod bounds;
mod callgrind;
mod cases;

use std::path::Path;
use std::process::ExitCode;

use bounds::{Bounds, Verdict};
use cases::Case;

/// Any error.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Grabs of the shorter of two runs.
const GRABS: usize = 200;
/// The grabs that every run prepares.
const GRABS_MOST: usize = 2 * GRABS;
const BOUNDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/bounds.json");

fn main() -> Result<ExitCode, BoxError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => check(),
        ["record"] => record(),
        ["run", case, grabs] => run(case, grabs, false),
        ["run", case, grabs, PLANTED] => run(case, grabs, true),
        _ => Err("instructions [record | run CASE GRABS]".into()),
    }
}

/// The argument of a run that deliberately does more than it needs.
const PLANTED: &str = "planted";

fn run(case: &str, grabs: &str, planted: bool) -> Result<ExitCode, BoxError> {
    let case = Case::ALL.into_iter().find(|known| known.name() == case).ok_or("no such case")?;
    // One thread, and time that moves only when no task can run: the same run every time.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(cases::run(case, grabs.parse()?, planted))?;
    Ok(ExitCode::SUCCESS)
}

/// Instructions of one grab.
fn measure(case: Case, planted: bool) -> Result<u64, BoxError> {
    let count = |grabs: usize| {
        let (name, grabs) = (format!("{}-{grabs}", case.name()), grabs.to_string());
        let arguments = ["run", case.name(), &grabs].into_iter().chain(planted.then_some(PLANTED));
        callgrind::instructions(&name, arguments)
    };
    let (once, twice) = std::thread::scope(|scope| {
        let once = scope.spawn(|| count(GRABS));
        let twice = count(2 * GRABS);
        (once.join(), twice)
    });
    let once = once.map_err(|_| "counting panicked")??;
    Ok(twice?.checked_sub(once).ok_or("twice the grabs took fewer instructions")? / GRABS as u64)
}

fn check() -> Result<ExitCode, BoxError> {
    let bounds = Bounds::read(Path::new(BOUNDS))?;
    let mut code = ExitCode::SUCCESS;
    println!("instructions per grab ({}; {} % more is too many):", bounds::build(), bounds.tolerance_percent);
    for case in Case::ALL {
        let measured = measure(case, false)?;
        let verdict = bounds.judge(case.name(), measured);
        println!("  {:<8} {measured:>8}  {verdict}", case.name());
        if matches!(verdict, Verdict::TooMany { .. }) {
            code = ExitCode::FAILURE;
        }
    }
    // A bound that is too wide finds nothing: one more parse of the event must exceed it.
    let planted = bounds.judge(Case::Loser.name(), measure(Case::Loser, true)?);
    println!("  a loser whose event is parsed twice: {planted}");
    if matches!(planted, Verdict::Within { .. } | Verdict::Fewer { .. }) {
        println!("the second parse is within the bound: the bound is too wide");
        code = ExitCode::FAILURE;
    }
    println!("where they go: callgrind_annotate --inclusive=yes {}/winner-{GRABS_MOST}.out", callgrind::FOLDER);
    Ok(code)
}

fn record() -> Result<ExitCode, BoxError> {
    let mut bounds = Bounds::read(Path::new(BOUNDS))?;
    for case in Case::ALL {
        let measured = measure(case, false)?;
        println!("{:<8} {measured:>8}", case.name());
        bounds.record(case.name(), measured);
    }
    bounds.write(Path::new(BOUNDS))?;
    Ok(ExitCode::SUCCESS)
}
