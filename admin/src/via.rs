//! Sends a command line to a stack's function `operate`, through Lambda's API.

use std::ffi::OsString;
use std::io::Write;
use std::time::Duration;

use aws_sdk_lambda::config::StalledStreamProtectionConfig;
use aws_sdk_lambda::config::timeout::TimeoutConfig;
use aws_sdk_lambda::primitives::Blob;
use shared::domain::Signer;

use crate::deployment::{Failed, aws_config};
use crate::options::{Asked, Right};
use crate::remote::{Answer, Request};

/// A function's answer takes its whole time-out at most, which is 15 minutes.
const ATTEMPT_MAX: Duration = Duration::from_mins(16);
/// The alias that deployments move. Without it Lambda would run the newest code.
const ALIAS: &str = "live";
/// The most calls of one audit: a week of them.
const CALLS_MAX: usize = 2_500;

/// Runs the command that was asked for by the function of `stack` that has the right to, and returns its output and exit code. `arguments` is this program's
/// own command line.
pub async fn run(
    stack: &str,
    asked: &Asked,
    arguments: impl Iterator<Item = OsString>,
) -> Result<(String, u8), Failed> {
    let right = asked.right().ok_or_else(|| {
        Failed::Refused("this command runs here, not in the stack's network: leave out --via".to_owned())
    })?;
    let aws = aws_config().await;
    let mut request = Request { arguments: to_send(arguments)?, resume: None };
    let config = aws_sdk_lambda::config::Builder::from(&aws)
        .timeout_config(TimeoutConfig::builder().operation_attempt_timeout(ATTEMPT_MAX).build())
        // The function is silent until it answers.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    let lambda = aws_sdk_lambda::Client::from_conf(config.build());
    let function = format!("{stack}-operate-{}", right.name());
    // Lambda tells a function who called its URL, but not who invoked it.
    let url = if right == Right::Repair { Some(url_of(&lambda, &function).await?) } else { None };
    for _ in 0..CALLS_MAX {
        let answer = call(&lambda, &function, url.as_deref(), &request).await?;
        if let Some(error) = &answer.error {
            return Err(Failed::Function(function, format!("exit code {}: {error}", answer.exit)));
        }
        if answer.next.is_none() {
            let output = answer.output()?;
            let missing = || Failed::Answer(format!("exit code {}, and nothing else", answer.exit));
            return Ok((output.ok_or_else(missing)?, answer.exit));
        }
        let _ = writeln!(std::io::stderr(), "the audit continues");
        request.resume = answer.next;
    }
    Err(Failed::Answer("the audit has no end".to_owned()))
}

async fn url_of(lambda: &aws_sdk_lambda::Client, function: &str) -> Result<String, Failed> {
    let asked = lambda.get_function_url_config().function_name(function).qualifier(ALIAS).send().await;
    let found = asked.map_err(|error| Failed::Aws("Lambda did not tell the function's URL", Box::new(error)))?;
    Ok(found.function_url)
}

/// Invokes the function, or calls its `url`: that takes the same request, signed for the same service.
async fn call(
    lambda: &aws_sdk_lambda::Client,
    function: &str,
    url: Option<&str>,
    request: &Request,
) -> Result<Answer, Failed> {
    let event = serde_json::to_vec(request).map_err(|error| Failed::Answer(error.to_string()))?;
    let invocation = lambda.invoke().function_name(function).qualifier(ALIAS).payload(Blob::new(event));
    let mut invocation = invocation.customize();
    if let Some(url) = url.map(str::to_owned) {
        invocation = invocation.map_request(move |mut request| request.set_uri(url.as_str()).map(|()| request));
    }
    let called = invocation.send().await;
    let answer = called.map_err(|error| Failed::Aws("Lambda did not run the function", Box::new(error)))?;
    let payload = answer.payload.map(Blob::into_inner).unwrap_or_default();
    match answer.function_error {
        Some(kind) => {
            Err(Failed::Function(function.to_owned(), format!("{kind}: {}", String::from_utf8_lossy(&payload))))
        }
        None => serde_json::from_slice(&payload).map_err(|error| Failed::Answer(error.to_string())),
    }
}

/// The command line for the function: without the program's name and without `--via`.
fn to_send(arguments: impl Iterator<Item = OsString>) -> Result<Vec<String>, Failed> {
    let mut rest = Vec::new();
    let mut arguments = arguments.skip(1);
    while let Some(argument) = arguments.next() {
        let argument =
            argument.into_string().map_err(|_| Failed::Refused("the command line must be UTF-8".to_owned()))?;
        if argument == "--via" {
            arguments.next();
        } else if !argument.starts_with("--via=") {
            rest.push(argument);
        }
    }
    Ok(rest)
}

/// Who the environment's credentials are.
pub async fn caller() -> Result<Signer, Failed> {
    caller_of(&aws_config().await).await
}

/// Who the credentials of this configuration are.
pub async fn caller_of(aws: &::aws_config::SdkConfig) -> Result<Signer, Failed> {
    let asked = aws_sdk_sts::Client::new(aws).get_caller_identity().send().await;
    let identity = asked.map_err(|error| Failed::Aws("AWS did not name the caller", Box::new(error)))?;
    let arn = identity.arn.and_then(|arn| arn.parse().ok());
    arn.ok_or_else(|| Failed::Answer("the caller has no ARN".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_except_the_stack_is_sent() {
        let sent = |line: &str| to_send(line.split(' ').map(OsString::from)).ok();
        let expected = Some(["packet", "p", "--json"].map(str::to_owned).to_vec());
        for line in ["x --via s packet p --json", "x packet --via=s p --json", "x packet p --json --via s"] {
            assert_eq!(sent(line), expected, "{line}");
        }
    }
}
