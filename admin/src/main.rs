//! The operator's tool, `hongbao-admin`. The commands are in the library; this is the program around them.
//!
//! Exits with 0 if all is well, with 1 if something is wrong, and with 2 if it could not do its work.

use std::io::Write;
use std::process::ExitCode;

use admin::{Exit, Options};
use clap::Parser;

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    // Commands print their results. Warnings of libraries appear only on request.
    shared::logs::to_stderr("off");
    shared::redis::install_crypto_provider();
    match run(options).await {
        Ok((text, exit)) => match writeln!(std::io::stdout(), "{}", admin::for_terminal(&text)) {
            Ok(()) => exit.into(),
            Err(_) => failed(),
        },
        Err(error) => {
            let error = admin::for_terminal(&shared::error_chain(&error));
            let _ = writeln!(std::io::stderr(), "error: {error}");
            failed()
        }
    }
}

async fn run(Options { deployment, via, asked }: Options) -> Result<(String, u8), admin::Failed> {
    #[cfg(feature = "console")]
    if let Some(options) = asked.console() {
        match admin::serve_console(deployment, via, options).await? {}
    }
    admin::run_as_caller(&deployment, via.as_deref(), asked, std::env::args_os()).await
}

fn failed() -> ExitCode {
    (Exit::Unfinished as u8).into()
}
