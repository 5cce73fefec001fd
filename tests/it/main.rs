//! Tests with a real Redis server, a `DynamoDB` API, and the functions' own programs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod admin;
mod audit;
mod console;
mod contract;
mod documents;
mod evening;
#[cfg(target_os = "linux")] // The emulator runs only there.
mod functions;
mod growth;
mod journal;
mod memory_table;
mod postgres;
mod pressure;
mod repair;
mod rust_client;
mod scripts;
mod send;
mod serve;
mod settle;
mod template;
mod webhooks;

/// A file of the repository.
fn repository(path: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

mod programs {
    /// A program of the workspace, from the same build.
    pub fn built(name: &str) -> std::path::PathBuf {
        // target/debug/deps/it-… → target/debug
        let tests = std::env::current_exe().unwrap();
        let program = tests.parent().and_then(|deps| deps.parent()).unwrap().join(name);
        assert!(program.is_file(), "{} is missing: run `cargo build --workspace --bins` first", program.display());
        program
    }
}
