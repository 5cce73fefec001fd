//! A command line that travels to the function `operate`, and its answer.

use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::time::Duration;

use ::audit::Progress;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::domain::Signer;
use tokio::time::{Instant, timeout_at};

use crate::options::{Asked, Command, Right};
use crate::{Deployed, Exit, Failed, Outcome, audit, run_in};

/// The longest output that travels as it is. JSON may double it, and Lambda carries 6 MB.
pub const PLAIN_BYTES_MAX: usize = 2_000_000;
/// The longest compressed output, in base64.
const PACKED_BYTES_MAX: usize = 5_800_000;
/// The longest output that a client unpacks: well above a packet of the most slips.
const OUTPUT_BYTES_MAX: u64 = 256 << 20;
/// How long one call audits before its answer says where the next one continues. No network on the way ends a silent connection so
/// soon.
const AUDIT_CALL: Duration = Duration::from_mins(4);

/// What the function `operate` is asked for.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The command and its options, as `hongbao-admin` reads them.
    pub arguments: Vec<String>,
    /// Where an audit continues: the `next` of the last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Progress>,
}

/// The event of the function `operate`.
pub type Event = Value;

/// The request in an event, and who signed it. The event is a call of the function's URL, as Lambda passes it on
/// (payload 2.0), or an invocation with the request alone: Lambda does not tell whose.
fn opened(event: Event) -> Result<(Request, Option<Signer>), String> {
    let unreadable = |error| format!("the event is no request: {error}");
    // IAM has verified it.
    let Some(signer) = event.pointer("/requestContext/authorizer/iam/userArn") else {
        return Ok((serde_json::from_value(event).map_err(unreadable)?, None));
    };
    let by = signer.as_str().and_then(|arn| arn.parse().ok()).ok_or("the signer has no ARN")?;
    let body = event["body"].as_str().unwrap_or_default();
    let is_packed = event["isBase64Encoded"] == true;
    let bytes = if is_packed { STANDARD.decode(body) } else { Ok(body.into()) };
    let bytes = bytes.map_err(|error| format!("the body is not base64: {error}"))?;
    Ok((serde_json::from_slice(&bytes).map_err(unreadable)?, Some(by)))
}

/// The function's answer.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Answer {
    /// The command's exit code.
    pub exit: u8,
    /// What it prints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The same, compressed with gzip and in base64, where it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_gzip: Option<String>,
    /// Why it could not do its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The rest of an audit: `resume` of the next call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Progress>,
}

/// Runs the command of `event` until `deadline` at the latest, if `right` allows it. A repair is in the name of who signed it.
pub async fn operate(deployed: &Deployed, right: Right, event: Event, deadline: Instant) -> Answer {
    let (Request { arguments, resume }, by) = match opened(event) {
        Ok(opened) => opened,
        Err(error) => return Answer::failed(error),
    };
    let program = std::iter::once("hongbao-admin").chain(arguments.iter().map(String::as_str));
    let asked = match Asked::try_parse_from(program) {
        Ok(asked) => asked,
        Err(error) => return Answer::failed(error.to_string()),
    };
    let (asked_right, Asked { json, command }) = (asked.right(), asked);
    let begun = Instant::now();
    // Further arguments of other commands may name users and keys.
    let shown = if asked_right.is_some() { arguments.len() } else { 1 };
    let arguments = arguments.into_iter().take(shown).collect::<Vec<_>>().join(" ");
    let answer = match (asked_right, command) {
        (Some(needed), _) if needed != right => {
            Answer::failed(format!("this function does not {}: {arguments}", needed.name()))
        }
        (None, _) => Answer::failed(format!("run it on your machine, it needs no function: {arguments}")),
        (_, _) if right == Right::Repair && by.is_none() => {
            Answer::failed("a repair must be signed: call the function's URL".to_owned())
        }
        (_, Command::Audit(options)) => {
            let until = deadline.min(begun + AUDIT_CALL);
            match audit::until(until, &deployed.auditor, &options, resume, json).await {
                Ok(ControlFlow::Break(outcome)) => outcome.into(),
                Ok(ControlFlow::Continue(next)) => Answer { next: Some(next), ..Answer::default() },
                Err(error) => error.in_table(&deployed.place).into(),
            }
        }
        (_, _) if resume.is_some() => Answer::failed("only an audit can continue".to_owned()),
        (_, command) => match timeout_at(deadline, run_in(deployed, command, json, by.clone())).await {
            Ok(done) => done.map_or_else(Answer::from, Answer::from),
            Err(_) => Answer::failed("the time of the function is over; what was done stays done".to_owned()),
        },
    };
    let (by, exit) = (by.as_ref().map(tracing::field::display), answer.exit);
    let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let done = if right == Right::Repair { "a repair was run" } else { "a command was run" };
    // The arguments are ids of packets, numbers of slips and the operator's reason; those of a command that clap refused are not logged.
    tracing::info!(by, command = arguments, exit, duration_ms, error = answer.error, "{done}");
    answer
}

impl Answer {
    fn failed(error: String) -> Self {
        Self { exit: Exit::Unfinished as u8, error: Some(error), ..Self::default() }
    }

    /// What the command printed.
    pub fn output(&self) -> Result<Option<String>, Failed> {
        let Some(packed) = &self.output_gzip else { return Ok(self.output.clone()) };
        let bytes = STANDARD.decode(packed).map_err(|_| Failed::Answer("its output is not base64".to_owned()))?;
        let mut text = String::new();
        let unpacked = GzDecoder::new(&*bytes).take(OUTPUT_BYTES_MAX).read_to_string(&mut text);
        unpacked.map_err(|error| Failed::Answer(format!("its output can't be unpacked: {error}")))?;
        Ok(Some(text))
    }
}

impl From<Failed> for Answer {
    fn from(error: Failed) -> Self {
        Self::failed(shared::error_chain(&error))
    }
}

impl From<Outcome> for Answer {
    fn from(Outcome { text, exit }: Outcome) -> Self {
        let exit = exit as u8;
        if text.len() <= PLAIN_BYTES_MAX {
            return Self { exit, output: Some(text), ..Self::default() };
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let packed = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
        match packed.map(|bytes| STANDARD.encode(bytes)) {
            Ok(packed) if packed.len() <= PACKED_BYTES_MAX => {
                Self { exit, output_gzip: Some(packed), ..Self::default() }
            }
            _ => Self::failed(format!("the output has {} bytes, more than Lambda carries even compressed", text.len())),
        }
    }
}
