//! How many instructions a grab takes through the edge, in one thread and over stores in memory, held against recorded bounds.
//!
//! Valgrind counts them, so that no other load on the machine, clock rate or cache changes the result. What a run takes before its
//! first grab falls out: each figure is the difference of two runs, one with twice the grabs of the other. It counts the engine
//! and the edge, and the stores in memory too, which stand in for clients and servers; `make bench` measures those.
//!
//! ```text
//! instructions                       measures all cases, and fails if one is beyond its bound
//! instructions record                measures all cases, and records them as the bounds
//! instructions run CASE GRABS        makes so many grabs: what is counted
//! ```

mod bounds;
mod callgrind;
mod cases;

use std::path::Path;
use std::process::ExitCode;

use bounds::{Bounds, Verdict};
use cases::Case;

/// Whatever can go wrong.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Grabs of the shorter of two runs.
const GRABS: usize = 200;
/// Grabs that every run is set up for.
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

/// The argument of a run that does more than is needed.
const PLANTED: &str = "planted";

fn run(case: &str, grabs: &str, planted: bool) -> Result<ExitCode, BoxError> {
    let case = Case::ALL.into_iter().find(|known| known.name() == case).ok_or("no such case")?;
    // One thread, and time that moves only when nothing else is left to do: the same run every time.
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
    println!("instructions a grab ({}; {} % more is too many):", bounds::build(), bounds.tolerance_percent);
    for case in Case::ALL {
        let measured = measure(case, false)?;
        let verdict = bounds.judge(case.name(), measured);
        println!("  {:<8} {measured:>8}  {verdict}", case.name());
        if matches!(verdict, Verdict::TooMany { .. }) {
            code = ExitCode::FAILURE;
        }
    }
    // A check that can't fail would be none: one more parse of the event must be noticed.
    let planted = bounds.judge(Case::Loser.name(), measure(Case::Loser, true)?);
    println!("  a loser whose event is parsed twice: {planted}");
    if matches!(planted, Verdict::Within { .. } | Verdict::Fewer { .. }) {
        println!("that went unnoticed: the bound is too wide");
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
