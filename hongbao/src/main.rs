//! The program `hongbao`, with a subcommand for each way to run the engine. It runs until it is stopped.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod serve;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use local::{DevOptions, Local, Mode, Options, SandboxOptions};
use rustix::fs::Mode as Permissions;
use rustix::process::{Pid, Resource, Rlimit, getppid, getrlimit, setrlimit, umask};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::interval;

/// The log filter without `RUST_LOG`. The embedded `DynamoDB` would warn of every failed condition, which is most of
/// them in a rush, and normal.
const LOG_FILTER: &str = "warn,local=info,dynoxide=error";
/// How often an end of the parent is looked for.
const PARENT_EVERY: Duration = Duration::from_millis(200);
/// A connection is an open file, and a rush soon reaches the usual limit of 1,024.
const OPEN_FILES: u64 = 65_536;

/// A rush allocates and frees memory on several threads at once, and so does the embedded `DynamoDB`; glibc's allocator
/// is slower at this. The functions keep theirs: `docs/PERFORMANCE.md` has the figures.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A red-packet engine.
#[derive(Debug, Parser)]
#[command(version)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the whole system on this machine: the functions, Redis and `DynamoDB` behind one address
    Dev {
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        stores: DevOptions,
    },
    /// Serve users on this machine, beside Redis or Valkey and `PostgreSQL`: docs/SELF-HOST.md
    Serve(Box<serve::ServeOptions>),
    /// Run a sandbox for tests: the hot store runs inside the program, nothing is kept, and `/_local/clock`, `/_local/faults` and
    /// `/_local/reset` are served
    Sandbox {
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        sandbox: SandboxOptions,
    },
}

fn main() -> ExitCode {
    let parent = getppid();
    let command = Program::parse().command;
    // The ledger has what only the operator may read, and so have Redis' files and the log.
    umask(Permissions::RWXG | Permissions::RWXO);
    raise_open_files();
    shared::redis::install_crypto_provider();
    let ended = tokio::runtime::Runtime::new().map_err(Into::into).and_then(|runtime| match command {
        Command::Dev { options, stores } => {
            runtime.block_on(run(Options { mode: Mode::Dev(stores), ..options }, parent))
        }
        Command::Sandbox { options, sandbox } => {
            runtime.block_on(run(Options { mode: Mode::Sandbox(sandbox), ..options }, parent))
        }
        Command::Serve(options) => runtime.block_on(serve::run(*options)),
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options, parent: Option<Pid>) -> anyhow::Result<()> {
    local::request_log::start(LOG_FILTER);
    // This comes first, so that a signal during the start leaves nothing behind.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let sandbox = options.sandbox_notice();
    let exits_with_parent = options.exit_with_parent;
    let local = tokio::select! {
        started = Local::start(options) => started?,
        () = either(&mut terminate, &mut interrupt) => return Ok(()),
    };
    if let Some(folder) = local.folder()
        && let Err(error) = local::request_log::write_in(folder)
    {
        tracing::warn!(error = shared::error_chain(&error), "requests are not logged");
    }
    let reached = tokio::select! {
        reached = local.reach_redis() => Some(reached),
        () = either(&mut terminate, &mut interrupt) => None,
    };
    if !matches!(reached, Some(Ok(()))) {
        local.stop().await;
        return reached.unwrap_or(Ok(()));
    }
    // The parent may have closed the output.
    let _ = writeln!(std::io::stdout(), "{}", welcome(&local, sandbox.as_deref()));
    let failure = tokio::select! {
        failure = local.failed() => Some(failure),
        () = orphaned(parent), if exits_with_parent => None,
        () = either(&mut terminate, &mut interrupt) => None,
    };
    local.stop().await;
    failure.map_or(Ok(()), |failure| Err(anyhow::Error::msg(failure)))
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

/// Waits until the system has given the process another parent, because its own is gone.
async fn orphaned(parent: Option<Pid>) {
    let mut looks = interval(PARENT_EVERY);
    while getppid() == parent {
        looks.tick().await;
    }
}

/// Keeps the limit where it can't be raised.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(OPEN_FILES, |maximum| maximum.min(OPEN_FILES));
    if limit.current.is_some_and(|current| current < wanted) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum });
    }
}

fn welcome(local: &Local, sandbox: Option<&str>) -> String {
    let url = local.url();
    let stores = local.own_stores();
    let stores = stores.iter().map(|(name, address)| format!("  {name} runs at {address}"));
    let stores: Vec<String> = sandbox.map(|notice| format!("  {notice}")).into_iter().chain(stores).collect();
    let stores = stores.join("\n");
    format!(
        r#"hongbao is ready at {url}
{stores}

A page for people is at the same address, and a rush to look at: {url}/#/rush

Money for alice (the operator's route):

  curl -X PUT "{url}/wallets/alice/deposits/$(date +%s)" -d '{{"amount": 100000}}'

Send 100 yuan in 10 random slips, grab one, look:

  PACKET=$(curl -s {url}/packets -H 'X-User-Id: alice' -H "Idempotency-Key: $(date +%s)" -d '{{"split": "random", "total_amount": 10000, "count": 10}}' | sed 's/.*"packet_id":"\([^"]*\)".*/\1/'); echo "$PACKET"
  curl -X POST "{url}/packets/$PACKET/grab" -H 'X-User-Id: bob'
  curl "{url}/packets/$PACKET" -H 'X-User-Id: alice'
"#
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_valid() {
        Program::command().debug_assert();
    }

    #[test]
    fn contradictions_are_refused() {
        for (arguments, is_valid) in [
            ("dev --redis-cluster --redis-url redis://x --dynamodb-url http://x --data-dir x", true),
            ("sandbox --seed 1 --faults 503=1", true),
            ("", false),
            ("--port 1", false),
            ("dev --ephemeral --data-dir x", false),
            ("dev --jwks x --issuer y --audience a,b", true),
            ("dev --jwks x --issuer y", false),
            ("dev --issuer y", false),
            ("serve --database-url x", false),
            ("dev --redis-cluster", false),
            ("dev --webhook-url http://h", false),
            ("dev --webhook-secret whsec_x", false),
            ("dev --seed 1", false),
            ("dev --faults 503=1", false),
            ("sandbox --ephemeral", false),
            ("sandbox --data-dir x", false),
            ("sandbox --redis-url redis://x", false),
            ("sandbox --dynamodb-url http://x", false),
        ] {
            let parsed = Program::try_parse_from(std::iter::once("hongbao").chain(arguments.split_whitespace()));
            assert_eq!(parsed.is_ok(), is_valid, "{arguments}");
        }
    }
}
