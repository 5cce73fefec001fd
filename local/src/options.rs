//! The command line.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use jiff::SignedDuration;

use crate::gateway::names::allowed_host;
use crate::gateway::sign_in::SignInOptions;
use crate::sandbox::Faults;

/// What each subcommand takes, and what only one of them does.
#[derive(Clone, Debug, Parser)]
pub struct Options {
    /// The port to serve on; 0 takes any free one
    #[arg(long, default_value_t = 3000)]
    pub port: u16,

    /// The address to listen on; any caller is the operator, so use another only inside a container
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub listen: IpAddr,

    /// End when the process ends that started this one, however it ends: for the programs of tests
    #[arg(long)]
    pub exit_with_parent: bool,

    /// Serve everything below this path, such as `/hongbao`
    #[arg(long, value_name = "PATH")]
    pub base_path: Option<String>,

    /// Also answer under this host, with any port: the name of a container, `.` and the end of names, or localhost. Repeat it for more
    #[arg(long, value_name = "NAME", value_parser = allowed_host)]
    pub allow_host: Vec<String>,

    /// The table; it is created if absent
    #[arg(long, value_name = "NAME", default_value = "hongbao")]
    pub table: String,

    /// How often to persist claims and refund what has expired, such as 5s or 1m; 0s means never
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub settle_every: Duration,

    /// When a winner is answered
    #[arg(long, value_enum, default_value_t = Ack::Ledger)]
    pub ack: Ack,

    /// The keys that sign tickets, as a JWK Set: one, or an old and a new one
    #[arg(long, value_name = "KEYS")]
    pub ticket_key: Option<String>,

    /// Let users ask for withdrawals
    #[arg(long)]
    pub user_withdrawals: bool,

    /// Deliver each event to this URL, such as `http://127.0.0.1:8080/webhooks`
    #[arg(long, value_name = "URL", requires = "webhook_secret")]
    pub webhook_url: Option<String>,

    /// The secret that signs webhooks, whsec_ and the base64 of at least 24 bytes; several, separated by commas, each sign
    #[arg(long, value_name = "SECRET", requires = "webhook_url")]
    pub webhook_secret: Option<String>,

    /// Users have tokens, which are verified; without this the header `X-User-Id` names the caller
    #[command(flatten)]
    pub sign_in: SignInOptions,

    /// What only its subcommand takes
    #[arg(skip = Mode::Dev(DevOptions::ephemeral()))]
    pub mode: Mode,
}

/// The subcommand, with what no other takes.
#[derive(Clone, Debug)]
pub enum Mode {
    /// Stores that are started, or given.
    Dev(DevOptions),
    /// For tests: a hot store inside the program, and nothing is kept.
    Sandbox(SandboxOptions),
}

/// Where the stores are.
#[derive(Clone, Debug, clap::Args)]
pub struct DevOptions {
    /// The data folder; a second start on the same folder finds all data again
    #[arg(long, value_name = "FOLDER", default_value = ".local")]
    pub data_dir: PathBuf,

    /// Keep nothing: `DynamoDB` in memory, Redis without a file
    #[arg(long, conflicts_with = "data_dir")]
    pub ephemeral: bool,

    /// Use this Redis or Valkey server instead of starting one
    #[arg(long, value_name = "URL")]
    pub redis_url: Option<String>,

    /// The given server is a node of a cluster
    #[arg(long, requires = "redis_url")]
    pub redis_cluster: bool,

    /// Use this `DynamoDB` endpoint instead of the embedded one
    #[arg(long, value_name = "URL")]
    pub dynamodb_url: Option<String>,
}

/// How a sandbox behaves.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SandboxOptions {
    /// Make ids, amounts and answers the same each time; the clock then goes on only with requests, and settle runs only on request
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// Let requests go wrong: shares of lost answers and of 503, and a pause, such as `lose-answers=0.1,503=0.1,slow=200ms`
    #[arg(long, value_name = "FAULTS")]
    pub faults: Option<Faults>,
}

/// The acknowledgement mode.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Ack {
    /// After the ledger's commit
    Ledger,
    /// After the hold in Redis; settle persists it
    Redis,
}

impl Ack {
    /// The value of `GRAB_ACK` for this mode.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ledger => "ledger",
            Self::Redis => "redis",
        }
    }
}

impl Options {
    /// The defaults of tests: any free port, nothing kept, and settle only on request.
    #[must_use]
    pub fn ephemeral() -> Self {
        Self::parse_from(["hongbao", "--port=0", "--settle-every=0s"])
    }

    /// What a person must know of the sandbox, if it is one.
    #[must_use]
    pub fn sandbox_notice(&self) -> Option<String> {
        let Mode::Sandbox(SandboxOptions { seed, faults }) = self.mode else { return None };
        let seed = seed.map(|seed| format!("; seed {seed}")).unwrap_or_default();
        let faults = faults.map(|faults| format!("; faults {faults}")).unwrap_or_default();
        let notice = "It is a sandbox, for tests only: it keeps nothing, and its hot store runs inside this program";
        Some(format!("{notice}{seed}{faults}"))
    }
}

impl DevOptions {
    /// Stores that are started and keep nothing.
    #[must_use]
    pub const fn ephemeral() -> Self {
        Self { data_dir: PathBuf::new(), ephemeral: true, redis_url: None, redis_cluster: false, dynamodb_url: None }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration: SignedDuration = text.parse().map_err(|_| "expected a time such as 5s, 500ms or 1m".to_owned())?;
    Duration::try_from(duration).map_err(|_| "a time can't be negative".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(std::iter::once("hongbao").chain(arguments.split_whitespace()))
    }

    #[test]
    fn times_have_a_unit_and_zero_is_never() {
        assert_eq!(parse("--settle-every 0s").unwrap().settle_every, Duration::ZERO);
        assert_eq!(parse("--settle-every 1m30s").unwrap().settle_every, Duration::from_secs(90));
        for bad in ["5", "-5s", "soon", "5s5"] {
            assert!(parse(&format!("--settle-every={bad}")).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_allowed_host_is_a_name() {
        assert_eq!(
            parse("--allow-host hongbao --allow-host .svc.example").unwrap().allow_host,
            ["hongbao", ".svc.example"]
        );
        for bad in ["", ".", "x:80", "http://x", "*", "a..b", "evil,com"] {
            assert!(parse(&format!("--allow-host={bad}")).is_err(), "{bad}");
        }
    }
}
