use std::sync::Mutex;

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use futures::future::join_all;
use tokio::time::Instant;

use super::*;

/// A table that never reads the last key of a batch, and answers everything else at once.
#[derive(Clone, Debug, Default)]
struct Throttled {
    batches: Arc<Mutex<Vec<Instant>>>,
}

impl HttpConnector for Throttled {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let is_batch = request.headers().get("x-amz-target").is_some_and(|target| target.ends_with("BatchGetItem"));
        let body = if is_batch {
            self.batches.lock().unwrap().push(Instant::now());
            r#"{"UnprocessedKeys": {"t": {"Keys": [{"PK": {"S": "a"}, "SK": {"S": "b"}}]}}}"#
        } else {
            "{}"
        };
        HttpConnectorFuture::ready(Ok(HttpResponse::new(200.try_into().unwrap(), body.into())))
    }
}

impl Throttled {
    fn client(&self) -> Client {
        let connector = SharedHttpConnector::new(self.clone());
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("local"))
            .credentials_provider(Credentials::new("key", "secret", None, None, "none"))
            .http_client(http_client_fn(move |_, _| connector.clone()));
        Client::from_conf(config.build())
    }

    /// The longest pause between two requests for a batch.
    fn longest_pause(&self) -> Duration {
        let batches = self.batches.lock().unwrap();
        batches.windows(2).map(|two| two[1] - two[0]).max().unwrap()
    }
}

fn key(pk: &str) -> Key {
    Key { pk: pk.to_owned(), sk: "b".to_owned() }
}

/// The first of two keys is read at once, so there is progress at first.
#[tokio::test(start_paused = true)]
async fn a_throttled_batch_pauses_shortly_and_ends() {
    let throttled = Throttled::default();
    let table = SdkTable::new(throttled.client(), "t".to_owned());
    let begun = Instant::now();
    let answer = table.batch_get(vec![key("x"), key("a")]).await;
    assert!(matches!(answer, Err(TableError::Unavailable(_))), "{answer:?}");
    assert_eq!(begun.elapsed(), BATCH_TIMEOUT);
    assert_eq!(throttled.longest_pause(), BATCH_PAUSE_MOST);
}

#[tokio::test(start_paused = true)]
async fn others_read_while_batches_pause() {
    let table = SdkTable::new(Throttled::default().client(), "t".to_owned());
    let batches = join_all((0..READS_AT_ONCE).map(|_| table.batch_get(vec![key("a")])));
    let read = async {
        tokio::time::sleep(BATCH_PAUSE_FIRST / 2).await;
        let begun = Instant::now();
        let answer = table.get(key("x")).await;
        (answer, begun.elapsed())
    };
    let (_, (answer, waited)) = tokio::join!(batches, read);
    assert!(matches!(answer, Ok(None)), "{answer:?}");
    assert_eq!(waited, Duration::ZERO);
}
