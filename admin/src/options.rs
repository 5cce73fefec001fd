//! The command line.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use jiff::SignedDuration;
use jiff::civil::Date;
use shared::domain::{DayZone, MovementKind, PacketId, Timestamp};

/// Audits, inspects and repairs a deployment. Options that are not given come from the functions' environment
/// variables.
#[derive(Debug, Parser)]
#[command(name = "hongbao-admin", version)]
#[expect(missing_docs, reason = "clap would print them")]
pub struct Options {
    #[command(flatten)]
    pub deployment: Deployment,

    /// Run the command inside the private network of this stack, by its functions `operate`, with the region and credentials of the
    /// environment
    #[arg(long, global = true, value_name = "STACK")]
    pub via: Option<String>,

    #[command(flatten)]
    pub asked: Asked,
}

/// A command, wherever it runs.
#[derive(Debug, Parser)]
#[command(name = "hongbao-admin", disable_help_subcommand = true)]
pub struct Asked {
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Asked {
    /// The right that the command needs in a stack; `None`: it works on files or on queues, not in a stack's network.
    #[must_use]
    pub const fn right(&self) -> Option<Right> {
        self.command.right()
    }
}

/// The stores' addresses.
#[derive(Args, Debug)]
pub struct Deployment {
    /// The ledger's table
    #[arg(long, global = true, value_name = "NAME", env = "TABLE_NAME", default_value = "hongbao")]
    pub table: String,

    /// The `DynamoDB` endpoint; without it AWS, with the region and credentials of the environment
    #[arg(long, global = true, value_name = "URL", env = "AWS_ENDPOINT_URL_DYNAMODB")]
    pub dynamodb_url: Option<String>,

    /// The Redis or Valkey server; the audit needs none
    #[arg(long, global = true, value_name = "URL", env = "REDIS_URL", hide_env_values = true)]
    pub redis_url: Option<String>,

    /// The server is a node of a cluster
    #[arg(long, global = true, env = "REDIS_CLUSTER", value_parser = clap::builder::BoolishValueParser::new())]
    pub redis_cluster: bool,
}

/// What the caller of a function `operate` may do. Each right has a function of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Right {
    /// Only look.
    Read,
    /// Change what the stores say.
    Repair,
}

impl Right {
    /// The function of this right in a stack.
    #[must_use]
    pub fn function(self, stack: &str) -> String {
        format!("{stack}-operate-{self}")
    }

    /// What the log says about a command.
    pub(crate) const fn done(self) -> &'static str {
        match self {
            Self::Read => "a command was run",
            Self::Repair => "a repair was run",
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Repair => "repair",
        })
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check the ledger; exits with 1 if anything is wrong, with 2 if it could not finish
    Audit(Audit),
    /// Show a packet: its terms, its slips, and where Redis differs from the ledger
    Packet {
        /// Its id
        id: PacketId,
    },
    /// List the holds that settle could not persist, with the reasons
    Parked,
    /// Try parked holds again; exits with 1 if one stays parked
    Replay(Replay),
    /// Compute a packet's amounts again from its seed, offline; exits with 1 if they differ from the committed or paid
    /// amounts, with 2 if that can't be decided
    Verify(Verify),
    /// Write a day's movements as entries of double-entry bookkeeping, with opening and closing sums; exits with 1 if
    /// something contradicts itself
    Journal(Journal),
    /// Compare a day's journal with a file of the bank's or the app's transfers; exits with 1 if they differ
    Reconcile(Reconcile),
    /// Reconcile Redis with all decisions of a packet
    Rebuild {
        /// Its id
        id: PacketId,
    },
    /// Simulate a rush: what its users see, which limit binds, what lifts it, and the cost. It calls nothing. Exits with 1 if users
    /// would give up
    Plan(Plan),
    /// Show the state of the receiver of webhooks; exits with 1 if it is disabled or failing, or if there are dead letters
    Webhooks(Webhooks),
}

#[derive(Args, Debug)]
pub struct Webhooks {
    #[command(flatten)]
    pub queues: Queues,

    #[command(subcommand)]
    pub command: Option<WebhooksCommand>,
}

/// The queues of webhooks.
#[derive(Args, Debug)]
pub struct Queues {
    /// The URL of the queue of events: the stack's output `WebhooksUrl`
    #[arg(long, global = true, value_name = "URL", env = "WEBHOOK_QUEUE")]
    pub queue: Option<String>,

    /// The URL of the queue of dead letters: the stack's output `WebhookDeadLettersUrl`
    #[arg(long, global = true, value_name = "URL", env = "WEBHOOK_DEAD_LETTERS")]
    pub dead_letters: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum WebhooksCommand {
    /// Call the receiver again, which has said that it is gone
    Enable,
    /// Deliver events again, which are made from the ledger: some by their ids, or all of a time
    Deliver(Deliver),
    /// Deliver the dead letters again: SQS moves them back into the queue
    Replay,
}

#[derive(Args, Debug)]
pub struct Deliver {
    /// The webhooks' ids, such as `evt_38FS4S83HF3Y07WMYNH727QYT0_claimed_7`
    #[arg(value_name = "WEBHOOK-ID", required_unless_present = "from", conflicts_with = "from")]
    pub ids: Vec<String>,

    /// Events that happened at this time or later, such as 2026-11-20T13:30:00Z
    #[arg(long, value_name = "TIME", value_parser = time, requires = "to")]
    pub from: Option<Timestamp>,

    /// Events that happened before this time
    #[arg(long, value_name = "TIME", value_parser = time, requires = "from")]
    pub to: Option<Timestamp>,
}

impl Command {
    /// The right that it needs in a stack; `None`: it works on files or on queues, not in a stack's network.
    #[must_use]
    pub const fn right(&self) -> Option<Right> {
        match self {
            Self::Audit(_) | Self::Packet { .. } | Self::Parked => Some(Right::Read),
            Self::Replay(_) | Self::Rebuild { .. } => Some(Right::Repair),
            Self::Verify(_) | Self::Journal(_) | Self::Reconcile(_) | Self::Plan(_) | Self::Webhooks(_) => None,
        }
    }

    /// Its name on the command line.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Audit(_) => "audit",
            Self::Packet { .. } => "packet",
            Self::Parked => "parked",
            Self::Replay(_) => "replay",
            Self::Verify(_) => "verify",
            Self::Journal(_) => "journal",
            Self::Reconcile(_) => "reconcile",
            Self::Rebuild { .. } => "rebuild",
            Self::Plan(_) => "plan",
            Self::Webhooks(_) => "webhooks",
        }
    }
}

#[derive(Args, Debug)]
pub struct Audit {
    /// Audit everything; this is the default
    #[arg(long, conflicts_with = "since")]
    pub full: bool,

    /// Audit only changes within this time, such as 24h or 90m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub since: Option<Duration>,

    /// Number of segments of the table that are read at once, 1 to 256
    #[arg(long, value_name = "NUMBER", default_value_t = 8)]
    pub segments: u32,
}

#[derive(Args, Debug)]
pub struct Verify {
    /// The answer to GET /packets/{id}, with all its claims in a field `claims`; `-` reads the standard input
    pub file: PathBuf,
}

#[derive(Args, Debug)]
pub struct Replay {
    /// The packet
    #[arg(required_unless_present = "all")]
    pub packet: Option<PacketId>,

    /// Its slips; by default all that are parked
    pub slips: Vec<u32>,

    /// The parked holds of all packets
    #[arg(long, conflicts_with_all = ["packet", "slips"])]
    pub all: bool,
}

#[derive(Args, Debug)]
pub struct Journal {
    /// The day, such as 2026-11-23
    #[arg(long)]
    pub day: Date,

    /// The deployment's time zone of days
    #[arg(long, env = "DAY_ZONE", default_value = DayZone::DEFAULT, value_parser = zone)]
    pub day_zone: DayZone,

    /// Read an export of the table instead of the table: the folder with its `manifest-summary.json`
    #[arg(long, value_name = "FOLDER")]
    pub export: Option<PathBuf>,

    /// The folder to write, which must not exist; by default `journal-` and the day
    #[arg(long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,

    /// The journal of the day before: this one begins where that one ends, and must open with what it closed with
    #[arg(long, value_name = "FOLDER")]
    pub previous: Option<PathBuf>,

    /// Also accept a day that is not over, whose journal will grow
    #[arg(long)]
    pub unfinished: bool,

    /// The deployment's currency
    #[arg(long, env = "CURRENCY", default_value = "CNY")]
    pub currency: String,

    /// Number of segments of the table that are read at once, 1 to 256
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub segments: u32,
}

#[derive(Args, Debug)]
pub struct Reconcile {
    /// The folder that `journal` wrote
    pub journal: PathBuf,

    /// The transfers: CSV with the columns id, kind, user, amount (minor units), currency and time
    pub transfers: PathBuf,

    /// The kinds of movements that the transfers contain
    #[arg(long, value_delimiter = ',', default_value = "deposit,withdrawal", value_parser = kind)]
    pub kinds: Vec<MovementKind>,

    /// Also write all differences to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Plan {
    /// Users, each of whom grabs once
    #[arg(long, value_name = "NUMBER", required_unless_present_any = ["sizing", "inputs"])]
    pub users: Option<u32>,

    /// The time within which they come, such as 10s
    #[arg(long, value_name = "TIME", value_parser = duration, required_unless_present_any = ["sizing", "inputs"])]
    pub within: Option<Duration>,

    /// Slips of the packet
    #[arg(long, value_name = "NUMBER", required_unless_present_any = ["sizing", "inputs"])]
    pub slips: Option<u32>,

    /// Set a parameter of the template, a quota or an assumption, such as `GrabRate=20000`. Repeat it for more
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,

    /// The seed of arrivals and pauses
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// List what can be set, with each value's source
    #[arg(long, conflicts_with = "sizing")]
    pub inputs: bool,

    /// Print the sizing table of docs/PERFORMANCE.md
    #[arg(long)]
    pub sizing: bool,
}

fn zone(text: &str) -> Result<DayZone, String> {
    text.parse().map_err(|()| "expected a time zone of the IANA, such as Asia/Shanghai".to_owned())
}

fn kind(text: &str) -> Result<MovementKind, String> {
    MovementKind::named(text).ok_or_else(|| "expected deposit, withdrawal, sent, claim or refund".to_owned())
}

fn time(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|()| "expected a time such as 2026-11-20T13:30:00Z".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration: SignedDuration = text.parse().map_err(|_| "expected a time such as 24h or 90m".to_owned())?;
    Duration::try_from(duration).map_err(|_| "a time can't be negative".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(arguments: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(std::iter::once("hongbao-admin").chain(arguments.split_whitespace()))
    }

    #[test]
    fn the_definition_is_valid() {
        Options::command().debug_assert();
    }

    #[test]
    fn contradictions_and_missing_arguments_are_refused() {
        for good in [
            "audit",
            "audit --since 24h --json",
            "--table t audit --full",
            "replay --all",
            "parked",
            "verify -",
            "verify p.json --json",
            "journal --day 2026-11-23",
            "journal --day 2026-11-23 --day-zone America/Sao_Paulo",
            "journal --day 2026-11-23 --export export --output out --previous before --unfinished",
            "reconcile journal-2026-11-23 transfers.csv",
            "reconcile journal-2026-11-23 transfers.csv --kinds claim,refund --output differences.jsonl",
            "--via hongbao-prod parked",
            "plan --users 1000000 --within 10s --slips 100000 --set GrabRate=20000 --set tries=1 --seed 2 --json",
            "plan --sizing",
            "plan --inputs --set GrabRate=1",
            "webhooks",
            "webhooks --queue https://sqs.example/events --dead-letters https://sqs.example/dead --json",
            "webhooks replay --queue https://sqs.example/events --dead-letters https://sqs.example/dead --json",
            "webhooks enable",
            "webhooks deliver evt_38FS4S83HF3Y07WMYNH727QYT0_sent evt_38FS4S83HF3Y07WMYNH727QYT0_claimed_7",
            "webhooks deliver --from 2026-11-20T13:30:00Z --to 2026-11-21T00:00:00+08:00",
            "packet 38FS4S83HF3Y07WMYNH727QYT0 --json --via hongbao-prod",
        ] {
            parse(good).unwrap_or_else(|error| panic!("{good}: {error}"));
        }
        let id = "38FS4S83HF3Y07WMYNH727QYT0";
        parse(&format!("replay {id} 1 2")).unwrap();
        for bad in [
            "",
            "audit --full --since 1h",
            "audit --since -1h",
            "audit --since soon",
            "replay",
            "webhooks deliver",
            "webhooks deliver --from 2026-11-20T13:30:00Z",
            "webhooks deliver --to 2026-11-20T13:30:00Z",
            "webhooks deliver --from yesterday --to 2026-11-20T13:30:00Z",
            "webhooks deliver evt_1 --from 2026-11-20T13:30:00Z --to 2026-11-20T13:30:00Z",
            "plan",
            "plan --users 1 --within 10s",
            "plan --users 1 --within -1s --slips 1",
            "plan --sizing --inputs",
            "packet x",
            "verify",
            "verify a.json b.json",
            "journal",
            "journal --day 2026-02-30",
            "journal --day 2026-11-23 --day-zone CST",
            "journal --day 2026-11-23 --segments 0",
            "reconcile journal-2026-11-23",
            "reconcile journal-2026-11-23 transfers.csv --kinds gift",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse(&format!("replay --all {id}")).is_err());
    }
}
