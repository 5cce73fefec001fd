//! Functions' programs that serve several requests at once, as on Lambda Managed Instances. The runtime interface
//! emulator serves one event at a time, so this module serves the runtime API itself.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::emulator::planted;
use crate::relay::stand_in;

/// Milliseconds since 1970, later than any test run: no request is past its deadline.
const DEADLINE_MS: &str = "4102444800000";

/// A function's program, and the runtime API that it polls for events.
#[derive(Debug)]
pub struct ManagedFunction {
    process: Child,
    api: Arc<RuntimeApi>,
    dir: TempDir,
}

#[derive(Debug)]
struct RuntimeApi {
    invocations: AtomicU64,
    send: mpsc::UnboundedSender<(u64, Bytes)>,
    waiting: Mutex<mpsc::UnboundedReceiver<(u64, Bytes)>>,
    answers: std::sync::Mutex<HashMap<u64, oneshot::Sender<Value>>>,
}

impl ManagedFunction {
    /// Starts `program` with these variables, and those that [`planted`] lets through, with `concurrency` concurrent events.
    pub async fn start(program: &Path, concurrency: u32, variables: &[(&str, &str)]) -> Self {
        let (send, waiting) = mpsc::unbounded_channel();
        let (invocations, answers) = Default::default();
        let api = Arc::new(RuntimeApi { invocations, send, waiting: waiting.into(), answers });
        let served = Arc::clone(&api);
        let address = stand_in(move |request| {
            let api = Arc::clone(&served);
            async move { api.answer(request).await }
        });
        let address = address.await;
        let dir = TempDir::new().unwrap();
        let log = || File::options().append(true).create(true).open(dir.path().join("log")).unwrap();
        let process = Command::new(program)
            .env_clear()
            .envs(planted())
            .envs(variables.iter().copied())
            .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
            .env("AWS_LAMBDA_MAX_CONCURRENCY", concurrency.to_string())
            .envs([
                ("AWS_LAMBDA_FUNCTION_NAME", "function"),
                ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "2048"),
                ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
            ])
            .stdin(Stdio::null())
            .stdout(log())
            .stderr(log())
            .spawn()
            .unwrap();
        Self { process, api, dir }
    }

    /// The function's log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// The function's answer to an event, which may run beside others.
    pub async fn invoke(&self, event: &Value) -> Value {
        let invocation = self.api.invocations.fetch_add(1, Ordering::SeqCst);
        let (answer, answered) = oneshot::channel();
        self.api.answers.lock().unwrap().insert(invocation, answer);
        self.api.send.send((invocation, event.to_string().into())).unwrap();
        answered.await.unwrap()
    }
}

impl Drop for ManagedFunction {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl RuntimeApi {
    /// `GET …/invocation/next` waits for an event; `POST …/invocation/<id>/response` and `…/error` answer it. An extension
    /// registers, and then waits for events that never come.
    async fn answer(&self, request: Request<Bytes>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        match parts.uri.path() {
            "/2020-01-01/extension/register" => {
                let answer = r#"{"functionName": "function", "functionVersion": "1", "handler": "bootstrap"}"#;
                return Response::builder()
                    .header("lambda-extension-identifier", "the-extension")
                    .body(Full::new(answer.into()))
                    .unwrap();
            }
            "/2020-01-01/extension/event/next" => std::future::pending().await,
            _ => {}
        }
        if parts.method == Method::GET {
            return match self.waiting.lock().await.recv().await {
                Some((invocation, event)) => Response::builder()
                    .header("lambda-runtime-aws-request-id", invocation)
                    .header("lambda-runtime-deadline-ms", DEADLINE_MS)
                    .header(
                        "lambda-runtime-invoked-function-arn",
                        "arn:aws:lambda:local:000000000000:function:function",
                    )
                    .body(Full::new(event))
                    .unwrap(),
                None => empty(StatusCode::INTERNAL_SERVER_ERROR),
            };
        }
        let invocation: u64 = parts.uri.path().rsplit('/').nth(1).unwrap().parse().unwrap();
        let answer = self.answers.lock().unwrap().remove(&invocation).expect("one answer for each event");
        let _ = answer.send(serde_json::from_slice(&body).unwrap());
        empty(StatusCode::ACCEPTED)
    }
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
