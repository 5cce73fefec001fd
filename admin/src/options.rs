//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use jiff::SignedDuration;
use jiff::civil::Date;
use shared::domain::{DayZone, LimitKey, MovementKind, OperatorReason, PacketId, Reference, Timestamp, UserId};

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
    /// What the command `console` is asked for, if it is that.
    #[must_use]
    pub fn console(&self) -> Option<Console> {
        if let Command::Console(options) = &self.command { Some(options.clone()) } else { None }
    }

    /// The right that the command needs in a stack; `None`: it works on files or on queues, not in a stack's network.
    #[must_use]
    pub const fn right(&self) -> Option<Right> {
        match self.command {
            Command::Audit(_) | Command::Packet { .. } | Command::Parked | Command::Backlog => Some(Right::Read),
            Command::Replay(_) | Command::Rebuild { .. } => Some(Right::Repair),
            _ => None,
        }
    }

    /// Whether the ledger tells that the command ran: a repair or an erasure.
    #[must_use]
    pub const fn is_deed(&self) -> bool {
        matches!(
            self.command,
            Command::Replay(_) | Command::Rebuild { .. } | Command::Person { command: PersonCommand::Erase { .. } }
        )
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

    /// The `PostgreSQL` database of `hongbao serve`, which has the ledger instead
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "DATABASE_URL",
        hide_env_values = true,
        conflicts_with = "dynamodb_url"
    )]
    pub database_url: Option<String>,

    /// The Redis or Valkey server; the audit needs none
    #[arg(long, global = true, value_name = "URL", env = "REDIS_URL", hide_env_values = true)]
    pub redis_url: Option<String>,

    /// The server is a node of a cluster
    #[arg(long, global = true, env = "REDIS_CLUSTER", value_parser = clap::builder::BoolishValueParser::new())]
    pub redis_cluster: bool,
}

impl Deployment {
    /// Whether the ledger is on AWS. There each caller has a name.
    #[must_use]
    pub const fn is_on_aws(&self) -> bool {
        self.dynamodb_url.is_none() && self.database_url.is_none()
    }
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
    /// What it allows, as in the names of the functions: a stack's is `<stack>-operate-<name>`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Repair => "repair",
        }
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
    /// Say what waits for settle: holds, and packets that are due; and for how long the oldest withdrawal has been pending
    Backlog,
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
    /// Tell what a user asked, what they were answered and why, what moved, and which events tell it. It can be of a time, of a packet or of
    /// one request; exits with 1 if there is nothing
    Story(Story),
    /// List each time that the operator paused sending or let it go on, the newest first; exits with 1 while it is paused
    Sending,
    /// Make, list and revoke the keys of operators of `hongbao serve`
    Key {
        #[command(subcommand)]
        command: KeyCommand,
    },
    /// Export a person's data, or empty what they wrote
    Person {
        #[command(subcommand)]
        command: PersonCommand,
    },
    /// Find the user whom the logs call by a name; exits with 1 if nobody is
    Who(Who),
    /// Write the file of all claims of a sender's packets that belong together
    Report(Report),
    /// Reconcile Redis with all decisions of a packet
    Rebuild {
        /// Its id
        id: PacketId,

        /// Why, which the ledger then tells
        #[arg(long, value_name = "TEXT")]
        reason: Option<OperatorReason>,
    },
    /// Serve the operator's page on this machine. It calls the deployment with your own rights: those of a key or of AWS credentials
    Console(Console),
    /// Simulate a rush: what its users see, which limit binds, what lifts it, and the cost. It calls nothing. Exits with 1 if users
    /// would give up
    Plan(Plan),
    /// Show the state of the receiver of webhooks; exits with 1 if it is disabled or failing, or if there are dead letters
    Webhooks(Webhooks),
    /// Try whether the table keeps what the ledger needs, on items of its own, which stay there. Exits with 1 if a rule breaks, with 2
    /// if the table does not answer
    LedgerCheck,
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key and print it, this once
    Add(NewKey),
    /// List all keys, also those that count no more
    List,
    /// Let a key count no more, from now on
    Revoke {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum PersonCommand {
    /// Write all that names them, as JSON and as CSV
    Export {
        /// Their id
        user: UserId,

        /// The folder to write, which must not exist; by default `person-` and the id
        #[arg(long, value_name = "FOLDER")]
        output: Option<PathBuf>,
    },
    /// Empty the greetings, covers, metadata and notes that they wrote, for good. Ids and money stay. It refuses while a packet of theirs is not
    /// settled or a withdrawal is pending, and can be repeated
    Erase {
        /// Their id
        user: UserId,

        /// Why, which the ledger then tells
        #[arg(long, value_name = "TEXT")]
        reason: Option<OperatorReason>,
    },
}

#[derive(Args, Debug)]
pub struct NewKey {
    /// Whose it is: what movements then say in `by`
    #[arg(value_parser = key_name)]
    pub name: String,

    /// What it may do, separated by commas: read, money, payout, users, webhooks
    #[arg(long, value_delimiter = ',', required = true)]
    pub rights: Vec<shared::domain::Right>,
}

#[derive(Args, Debug)]
pub struct Webhooks {
    #[command(flatten)]
    pub queues: Queues,

    #[command(subcommand)]
    pub command: Option<WebhooksCommand>,
}

/// The queues of webhooks.
#[derive(Args, Clone, Debug, Default)]
pub struct Queues {
    /// The URL of the queue of events: the stack's output `WebhooksUrl`
    #[arg(long, global = true, value_name = "URL", env = "WEBHOOK_QUEUE")]
    pub queue: Option<String>,

    /// The URL of the queue of dead letters: the stack's output `WebhookDeadLettersUrl`
    #[arg(long, global = true, value_name = "URL", env = "WEBHOOK_DEAD_LETTERS")]
    pub dead_letters: Option<String>,

    /// Where they are, if neither on AWS nor where the environment says
    #[arg(skip)]
    pub endpoint: Option<String>,
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

    /// The deployment's currency, which events of withdrawals need
    #[arg(long, env = "CURRENCY")]
    pub currency: Option<String>,
}

/// Where the page is served, and whose rights it has.
#[derive(Args, Clone, Debug)]
pub struct Console {
    /// The deployment: the stack's output `ApiUrl`, or the address of `hongbao serve` or `hongbao dev`
    #[arg(long, value_name = "URL")]
    pub url: http::Uri,

    /// The address of the page, which must be one of this machine for itself; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3080", value_parser = loopback)]
    pub listen: SocketAddr,

    /// Your key of `hongbao serve`; better name it in the environment, where other users of the machine do not see it
    #[arg(long, value_name = "KEY", env = "HONGBAO_KEY", hide_env_values = true)]
    pub key: Option<String>,

    /// Sign for AWS in this region. It is needed where neither the URL nor the environment names it, and for a tunnel: requests to this
    /// machine are not signed otherwise
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,

    #[command(flatten)]
    pub queues: Queues,

    /// The functions' log, for the command `story`: a file or a folder. Repeat it for more
    #[arg(long, value_name = "FILE", env = "LOG_FOLDER")]
    pub log: Vec<PathBuf>,

    /// The key under which the log names users
    #[arg(long, value_name = "KEY", env = "LOG_KEY", hide_env_values = true)]
    pub log_key: Option<String>,
}

#[derive(Args, Debug)]
pub struct Audit {
    /// Audit only changes within this time, such as 24h or 90m; without it everything
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub since: Option<Duration>,
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

    /// Why, which the ledger then tells
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<OperatorReason>,
}

#[derive(Args, Debug)]
pub struct Story {
    /// The user's id
    #[arg(long, required_unless_present_any = ["packet", "request"])]
    pub user: Option<UserId>,

    /// Only what concerns this packet
    #[arg(long, value_name = "ID")]
    pub packet: Option<PacketId>,

    /// Only this request, by its `X-Request-Id`, or the requests of this trace, as the log has it
    #[arg(long, value_name = "ID")]
    pub request: Option<String>,

    /// Only requests that were refused or failed
    #[arg(long)]
    pub refused: bool,

    /// What happened at this time or later, such as 2026-11-20T13:30:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub from: Option<Timestamp>,

    /// What happened before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub to: Option<Timestamp>,

    /// The functions' log: JSON lines, perhaps behind a time, or a folder of such files. Repeat it for more
    #[arg(long, value_name = "FILE", env = "LOG_FOLDER")]
    pub log: Vec<PathBuf>,

    /// The key under which the log names users
    #[arg(long, value_name = "KEY", env = "LOG_KEY", hide_env_values = true)]
    pub log_key: Option<String>,
}

#[derive(Args, Debug)]
pub struct Report {
    /// Who sent the packets
    #[arg(long, value_name = "USER")]
    pub sender: UserId,

    /// Their reference
    #[arg(long, required_unless_present = "limit_key")]
    pub reference: Option<Reference>,

    /// The key of their limit
    #[arg(long, value_name = "KEY")]
    pub limit_key: Option<LimitKey>,

    /// The deployment's time zone of days, for the column `local_time`
    #[arg(long, env = "DAY_ZONE", default_value = DayZone::DEFAULT, value_parser = zone)]
    pub day_zone: DayZone,

    /// The file to write, by default `claims-<reference>.csv` or `claims-<reference>-provisional.csv`
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Who {
    /// The field `user` of a line
    pub name: String,

    /// The key under which the log names users
    #[arg(long, value_name = "KEY", env = "LOG_KEY", hide_env_values = true)]
    pub log_key: String,

    /// A file with users' ids, one a line; without it all users of the ledger
    #[arg(long, value_name = "FILE")]
    pub ids: Option<PathBuf>,
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

    /// Plan an evening of so many rounds: each has these users, and a packet of its own
    #[arg(long, value_name = "NUMBER", requires = "every")]
    pub rounds: Option<u32>,

    /// The time from the beginning of a round to that of the next, such as 10m
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "rounds")]
    pub every: Option<Duration>,

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

/// A name that no ARN can be mistaken for.
fn key_name(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'@');
    let is_good = (1..=64).contains(&text.len()) && text.bytes().all(is_plain);
    if is_good { Ok(text.to_owned()) } else { Err("expected 1 to 64 letters, digits, or . - _ @".to_owned()) }
}

/// Each user of the page acts with the operator's rights.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: Option<SocketAddr> = text.parse().ok().filter(|address: &SocketAddr| address.ip().is_loopback());
    address.ok_or_else(|| "expected an address and port of this machine only, such as 127.0.0.1:3080".to_owned())
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
