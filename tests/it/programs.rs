//! The programs that cargo built together with these tests.

use std::path::PathBuf;

/// A program of the workspace, from the same build.
pub fn built(name: &str) -> PathBuf {
    // target/debug/deps/it-… → target/debug
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().and_then(|deps| deps.parent()).unwrap().join(name);
    assert!(program.is_file(), "{} is missing: run `cargo build --workspace --bins` first", program.display());
    program
}
