//! A command line that travels to the function `operate`, and its answer.

use std::io::{Read, Write};
use std::time::Duration;

use ::audit::Progress;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use shared::domain::Signer;
use tokio::time::{Instant, timeout_at};

use crate::options::{Asked, Command, Right};
use crate::{Deployed, Exit, Failed, Outcome, audit, run_in};

/// The longest output that travels as it is. JSON may double it, and Lambda carries 6 MB.
const PLAIN_BYTES_MAX: usize = 2_000_000;
/// The longest compressed output, in base64.
const PACKED_BYTES_MAX: usize = 5_800_000;
/// The longest output that a client unpacks: well above a packet of the most slips.
const OUTPUT_BYTES_MAX: u64 = 256 << 20;
/// How long one call audits before its answer says where the next one continues. No network on the way ends a silent connection so
/// soon.
const AUDIT_CALL: Duration = Duration::from_mins(4);

/// The event of the function `operate`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The command and its options, as `hongbao-admin` reads them.
    pub arguments: Vec<String>,
    /// The caller, who a repair is logged for. The function believes it: Lambda does not tell who invoked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Signer>,
    /// Where an audit continues: the `next` of the last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Progress>,
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

/// Runs the command of `request` until `deadline` at the latest, if `right` allows it.
pub async fn operate(deployed: &Deployed, right: Right, request: Request, deadline: Instant) -> Answer {
    let Request { arguments, by, resume } = request;
    let program = std::iter::once("hongbao-admin").chain(arguments.iter().map(String::as_str));
    let Asked { json, command } = match Asked::try_parse_from(program) {
        Ok(asked) => asked,
        Err(error) => return Answer::failed(error.to_string()),
    };
    let begun = Instant::now();
    let name = command.name();
    let answer = match (command.right(), command) {
        (Some(needed), _) if needed != right => Answer::failed(format!("this function does not {needed}: {name}")),
        (None, _) => Answer::failed(format!("{name} needs no function: run it on your machine")),
        (_, _) if right == Right::Repair && by.is_none() => {
            Answer::failed("a repair needs the caller, `by`".to_owned())
        }
        (_, Command::Audit(options)) => {
            let until = deadline.min(begun + AUDIT_CALL);
            audit::until(until, deployed, &options, resume, json).await.map_or_else(Answer::from, |done| match done {
                audit::Done::Finished(outcome) => outcome.into(),
                audit::Done::Interrupted(next) => Answer { next: Some(next), ..Answer::default() },
            })
        }
        (_, _) if resume.is_some() => Answer::failed("only an audit can continue".to_owned()),
        (_, command) => match timeout_at(deadline, run_in(deployed, command, json, by.clone())).await {
            Ok(done) => done.map_or_else(Answer::from, Answer::from),
            Err(_) => Answer::failed("the time of the function is over; what was done stays done".to_owned()),
        },
    };
    let (by, exit) = (by.as_ref().map(tracing::field::display), answer.exit);
    let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    // The arguments are ids of packets and numbers of slips; those of a command that clap refused are not logged.
    let arguments = arguments.join(" ");
    tracing::info!(by, command = arguments, exit, duration_ms, error = answer.error, "{}", right.done());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Answer {
        let answer = Answer::from(Outcome { text: text.to_owned(), exit: Exit::Wrong });
        let wire = serde_json::to_string(&answer).unwrap();
        assert!(wire.len() < 6_000_000, "Lambda's limit");
        serde_json::from_str(&wire).unwrap()
    }

    #[test]
    fn an_output_arrives_as_it_was_or_not_at_all() {
        let quotes = "\"\n".repeat(PLAIN_BYTES_MAX / 2);
        // As the lines of a packet of 100,000 slips.
        let long = (0..100_000).fold(String::new(), |text, slip| text + &format!("{slip:<6} -  undecided  free\n"));
        for text in ["", "all is well", &quotes, &long] {
            let answer = answer(text);
            assert_eq!((answer.exit, answer.output().unwrap().as_deref()), (1, Some(text)));
        }
        assert!(answer(&quotes).output.is_some() && answer(&long).output_gzip.is_some());

        let mut state = 7_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b' ' + u8::try_from(state >> 24).unwrap() % 90)
        };
        let refused = answer(&std::iter::repeat_with(&mut noise).take(8_000_000).collect::<String>());
        assert_eq!((refused.exit, refused.output().unwrap()), (2, None));
        assert!(refused.error.unwrap().contains("8000000 bytes"));
    }
}
