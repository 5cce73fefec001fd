//! The commands that a page of operators may run.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::domain::OperatorReason;
use shared::http::Code;
use tokio::time::timeout;

use crate::Exit;
use crate::options::{Asked, Command, Deployment, Queues, WebhooksCommand};

/// How long a command may take.
const WITHIN: Duration = Duration::from_mins(5);
/// What AWS, `PostgreSQL` and Redis say to those who may not do something.
const DENIALS: [&str; 3] = ["AccessDenied", "permission denied", "NOPERM"];

/// What a page asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    command: Vec<String>,
    reason: Option<OperatorReason>,
}

/// Where the commands run, and what the page does not choose.
#[derive(Debug)]
pub struct Tool {
    /// The stores.
    pub deployment: Deployment,
    /// The stack whose functions run the commands that have a right.
    pub via: Option<String>,
    /// The queues of webhooks.
    pub queues: Queues,
    /// The deployment's currency, for events of withdrawals.
    pub currency: Option<String>,
    /// The functions' log.
    pub log: Vec<PathBuf>,
    /// The key under which it names users.
    pub log_key: Option<String>,
}

impl Tool {
    /// Runs the command of a request's body. Returns the answer's body, or the code and the detail of a problem.
    pub async fn answer(&self, body: &[u8]) -> Result<Value, (Code, String)> {
        let invalid = |detail| (Code::InvalidRequest, detail);
        let order = serde_json::from_slice(body);
        let order = order.map_err(|error| invalid(format!("The body must be {{command, reason}}: {error}.")))?;
        let (asked, arguments) = self.read(order).map_err(invalid)?;
        let via = self.via.as_deref().filter(|_| asked.right().is_some());
        let arguments = arguments.into_iter().map(Into::into);
        let unfinished = |why: String| json!({"exit": Exit::Unfinished as u8, "output": why});
        match timeout(WITHIN, crate::run_as_caller(&self.deployment, via, asked, arguments)).await {
            Ok(Ok((text, exit))) => {
                Ok(json!({"exit": exit, "output": serde_json::from_str(&text).unwrap_or(Value::String(text))}))
            }
            Ok(Err(failed)) => {
                let why = shared::error_chain(&failed);
                let is_denied = DENIALS.iter().any(|denial| why.contains(denial));
                if is_denied { Err((Code::Forbidden, why)) } else { Ok(unfinished(why)) }
            }
            Err(_) => Ok(unfinished(format!("the command takes more than {WITHIN:?}: run it in a shell"))),
        }
    }

    /// The command, if a page may run it, and its command line.
    fn read(&self, Order { command, reason }: Order) -> Result<(Asked, Vec<String>), String> {
        let reason = reason.map(|reason| format!("--reason={}", reason.as_str()));
        let program = std::iter::once("hongbao-admin".to_owned());
        let arguments: Vec<String> = program.chain(command).chain(reason).collect();
        let mut asked = Asked::try_parse_from(&arguments).map_err(|error| error.to_string())?;
        let may = match &mut asked.command {
            Command::Packet { .. } | Command::Parked | Command::Backlog | Command::Sending => true,
            // All of a table takes too long, and money.
            Command::Audit(audit) => audit.since.is_some(),
            Command::Replay(replay) => !replay.all && needs(replay.reason.as_ref())?,
            Command::Rebuild { reason, .. } => needs(reason.as_ref())?,
            Command::Story(story) => {
                // A page names no files.
                story.log.clone_from(&self.log);
                story.log_key.clone_from(&self.log_key);
                true
            }
            Command::Webhooks(webhooks) => {
                webhooks.queues = self.queues.clone();
                match &mut webhooks.command {
                    None | Some(WebhooksCommand::Replay) => true,
                    Some(WebhooksCommand::Deliver(deliver)) => {
                        deliver.currency = deliver.currency.take().or_else(|| self.currency.clone());
                        deliver.from.is_none()
                    }
                    Some(WebhooksCommand::Enable) => false,
                }
            }
            _ => false,
        };
        if may { Ok((asked, arguments)) } else { Err("The page does not run this command: use a shell.".to_owned()) }
    }
}

/// A repair needs a reason.
fn needs(reason: Option<&OperatorReason>) -> Result<bool, String> {
    reason.map(|_| true).ok_or_else(|| "A repair needs a reason.".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool() -> Tool {
        let deployment = Deployment {
            table: "t".to_owned(),
            dynamodb_url: None,
            database_url: None,
            redis_url: None,
            redis_cluster: false,
        };
        let log = vec![PathBuf::from("own.log")];
        let queues = Queues { queue: Some("own".to_owned()), ..Queues::default() };
        Tool { deployment, via: None, queues, currency: Some("CNY".to_owned()), log, log_key: Some("k".to_owned()) }
    }

    fn read(line: &str, reason: Option<&str>) -> Result<(Asked, Vec<String>), String> {
        let command = line.split(' ').map(str::to_owned).collect();
        tool().read(Order { command, reason: reason.map(|reason| reason.parse().unwrap()) })
    }

    const PACKET: &str = "38FS4S83HF3Y07WMYNH727QYT0";

    #[test]
    fn a_page_runs_only_what_is_listed() {
        let runs = "audit --since 24h --json|packet P|parked --json|backlog --json|story --user alice --packet P --json|sending|webhooks|\
            webhooks replay|webhooks deliver evt_1 evt_2";
        for line in runs.split('|') {
            assert!(read(&line.trim().replace('P', PACKET), None).is_ok(), "{line}");
        }
        let others = "audit|verify -|journal --day 2026-11-23|reconcile a b|key list|who x --log-key k|replay --all|\
            report --sender a --reference b|plan --sizing|webhooks enable|ledger-check|\
            webhooks deliver --from 2026-11-20T13:30:00Z --to 2026-11-21T13:30:00Z|packet P --table other|packet P --via s|\
            packet P --database-url postgres://x|help||--help|packet";
        for line in others.split('|') {
            let line = line.trim().replace('P', PACKET);
            assert!(read(&line, None).is_err() && read(&line, Some("why")).is_err(), "{line}");
        }
    }

    #[test]
    fn a_repair_needs_a_reason_which_is_no_option() {
        for line in ["replay P", "replay P 1 2", "rebuild P"] {
            let line = line.replace('P', PACKET);
            assert_eq!(read(&line, None).unwrap_err(), "A repair needs a reason.");
            let (_, arguments) = read(&line, Some("--all")).unwrap();
            assert_eq!(arguments.last().unwrap(), "--reason=--all");
        }
        assert!(read("parked", Some("why")).is_err());
    }

    #[test]
    fn a_page_chooses_no_files_and_no_queues() {
        let (asked, _) = read("story --user alice --log /etc/passwd --log-key other", None).unwrap();
        let Command::Story(story) = asked.command else { panic!("{asked:?}") };
        assert_eq!((story.log, story.log_key.as_deref()), (vec![PathBuf::from("own.log")], Some("k")));
        let (asked, _) = read("webhooks deliver evt_1 --queue https://evil.example", None).unwrap();
        let Command::Webhooks(webhooks) = asked.command else { panic!("{asked:?}") };
        assert_eq!(webhooks.queues.queue.as_deref(), Some("own"));
    }
}
