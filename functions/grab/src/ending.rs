//! The end of a process. Lambda announces it by a signal, but only to environments with an extension. So the process registers as
//! one that wants no events.

use std::time::Duration;

use lambda_runtime_api_client::body::Body;
use lambda_runtime_api_client::{BoxError, Client, build_request};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

/// The extension's name, which must differ from those of other extensions.
const NAME: &str = "hongbao-grab";
/// How long the registration may delay the start.
const REGISTRATION: Duration = Duration::from_secs(1);

/// Calls `work` when the platform ends this process, and then ends it: Lambda leaves it half a second. To be called before the
/// function asks for its first event. If it can't register, the function does without.
pub async fn at_end(work: impl FnOnce() + Send + 'static) {
    let mut terminate = match signal(SignalKind::terminate()) {
        Ok(terminate) => terminate,
        Err(error) => return tracing::warn!(%error, "the end of the process can't be noticed"),
    };
    let registered = timeout(REGISTRATION, register()).await;
    if let Err(error) = registered.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
        tracing::warn!(error, "the end of the process will not be announced");
    }
    tokio::spawn(async move {
        terminate.recv().await;
        work();
        std::process::exit(0);
    });
}

/// Registers an extension without events, and waits for one that never comes: only then has its start ended.
async fn register() -> Result<(), String> {
    let text = |error: BoxError| format!("{error}");
    let client = Client::builder().build().map_err(|error| text(error.into()))?;
    let request = build_request().method("POST").uri("/2020-01-01/extension/register");
    let request = request.header("Lambda-Extension-Name", NAME).header("Content-Type", "application/json");
    let request = request.body(Body::from(r#"{"events": []}"#)).map_err(|error| text(error.into()))?;
    let answer = client.call(request).await.map_err(text)?;
    let id = answer.headers().get("lambda-extension-identifier").cloned();
    let id = id.ok_or_else(|| format!("answered with {}", answer.status()))?;
    let request = build_request().uri("/2020-01-01/extension/event/next").header("Lambda-Extension-Identifier", id);
    let next = client.call(request.body(Body::empty()).map_err(|error| text(error.into()))?);
    tokio::spawn(async move { next.await.map(drop) });
    Ok(())
}
