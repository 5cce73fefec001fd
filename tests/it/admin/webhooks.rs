//! `hongbao-admin webhooks replay`, over a stand-in for the API of SQS as far as the command calls it.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::*;

const ARN: &str = "arn:aws:sqs:local:123456789012";

/// What it was asked, each with the queue's URL or ARN.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// A queue that is moved: `tasks` are the answers to how far that is, one after another.
struct Sqs {
    url: String,
    asked: Asked,
}

impl Sqs {
    async fn start(tasks: &[Value]) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked, tasks) = (Asked::default(), Arc::new(Mutex::new(tasks.iter().rev().cloned().collect::<Vec<_>>())));
        let seen = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (seen, tasks) = (Arc::clone(&seen), Arc::clone(&tasks));
                let service = service_fn(move |request: http::Request<Incoming>| {
                    let (seen, tasks) = (Arc::clone(&seen), Arc::clone(&tasks));
                    async move {
                        let action = request.headers()["x-amz-target"].to_str().unwrap().to_owned();
                        let action = action.strip_prefix("AmazonSQS.").unwrap().to_owned();
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        let body: Value = serde_json::from_slice(&body).unwrap();
                        let queue =
                            body["QueueUrl"].as_str().and_then(|url| url.rsplit('/').next()).unwrap_or_default();
                        let arn = format!("{ARN}:{queue}");
                        seen.lock().unwrap().push((action.clone(), body));
                        Ok::<_, Infallible>(answer(&action, &arn, || tasks.lock().unwrap().pop().unwrap()))
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
            }
        });
        Self { url, asked }
    }

    async fn replay(&self, arguments: &[&str]) -> Said {
        let [queue, dead] = ["events", "dead"].map(|name| format!("{}/123456789012/{name}", self.url));
        let variables = [
            ("AWS_ENDPOINT_URL_SQS", &*self.url),
            ("AWS_REGION", "local"),
            ("AWS_ACCESS_KEY_ID", "local"),
            ("AWS_SECRET_ACCESS_KEY", "local"),
        ];
        let mut command = Command::new(built("hongbao-admin"));
        command.args(["webhooks", "replay", "--queue", &queue, "--dead-letters", &dead]).args(arguments);
        run(command.env_clear().envs(variables)).await
    }

    fn actions(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(action, _)| action.clone()).collect()
    }
}

fn answer(action: &str, arn: &str, task: impl FnOnce() -> Value) -> http::Response<Full<Bytes>> {
    let answer = match action {
        "GetQueueAttributes" => json!({"Attributes": {"QueueArn": arn}}),
        "StartMessageMoveTask" => json!({"TaskHandle": "t"}),
        "ListMessageMoveTasks" => json!({"Results": [task()]}),
        other => panic!("the command calls {other}"),
    };
    http::Response::new(Full::new(answer.to_string().into()))
}

#[tokio::test]
async fn a_replay_waits_until_all_dead_letters_are_moved() {
    let task = |status: &str, moved: u32| json!({"Status": status, "ApproximateNumberOfMessagesMoved": moved});
    let sqs = Sqs::start(&[task("RUNNING", 2), task("COMPLETED", 7)]).await;
    let said = sqs.replay(&[]).await.with(0);
    assert_eq!((&*said.line("status"), &*said.line("count")), ("status COMPLETED", "count 7"));
    let list = "ListMessageMoveTasks";
    let describe = "GetQueueAttributes";
    assert_eq!(sqs.actions(), [describe, describe, "StartMessageMoveTask", list, list]);
    let asked = sqs.asked.lock().unwrap();
    assert!(asked[0].1["QueueUrl"].as_str().unwrap().ends_with("/123456789012/dead"), "{asked:?}");
    // SQS does not know where messages came from that the function put there.
    let [dead, events] = ["dead", "events"].map(|name| json!(format!("{ARN}:{name}")));
    assert_eq!((&asked[2].1["SourceArn"], &asked[2].1["DestinationArn"]), (&dead, &events));
    assert_eq!((&asked[3].1["SourceArn"], &asked[3].1["MaxResults"]), (&dead, &json!(1)));
}

#[tokio::test]
async fn a_move_that_fails_is_no_replay() {
    let failed = json!({"Status": "FAILED", "ApproximateNumberOfMessagesMoved": 3, "FailureReason": "CouldNotDetermineMessageSource"});
    let sqs = Sqs::start(&[failed]).await;
    let json = sqs.replay(&["--json"]).await.with(1).json();
    assert_eq!(json, json!({"status": "FAILED", "count": 3, "failure": "CouldNotDetermineMessageSource"}));
}

#[tokio::test]
async fn a_replay_says_why_sqs_does_not_answer() {
    let said = Sqs { url: "http://127.0.0.1:1".to_owned(), asked: Asked::default() }.replay(&[]).await.with(2);
    assert!(said.errors.starts_with("error: SQS did not describe the queue"), "{said:?}");
}
