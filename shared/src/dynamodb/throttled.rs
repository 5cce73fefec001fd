//! A throttled table for tests: the answers that a real one gives only under load.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc)] // A test that can't prepare its table has failed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// A table that is too busy for keys with `busy` in them when a batch names them, and that has items with nothing in them for keys with
/// `broken`. It has no other items. It answers requests for keys with `slow` after three seconds, and all else at once.
#[derive(Clone, Debug, Default)]
pub struct Throttled {
    batches: Arc<Mutex<Vec<Instant>>>,
}

impl HttpConnector for Throttled {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let is_batch = request.headers().get("x-amz-target").is_some_and(|target| target.ends_with("BatchGetItem"));
        let asked = request.body().bytes().unwrap();
        let names = |word: &str| str::from_utf8(asked).unwrap().contains(word);
        let pause = if names("slow") { Duration::from_secs(3) } else { Duration::ZERO };
        let body = if is_batch {
            self.batches.lock().unwrap().push(Instant::now());
            let asked: Value = serde_json::from_slice(asked).unwrap();
            let asked = asked["RequestItems"]["t"]["Keys"].as_array().unwrap();
            let with = |word: &str| asked.iter().filter(|key| key.to_string().contains(word)).collect::<Vec<_>>();
            let busy = with("busy");
            let left = if busy.is_empty() { json!({}) } else { json!({"t": {"Keys": busy}}) };
            json!({"Responses": {"t": with("broken")}, "UnprocessedKeys": left}).to_string()
        } else if names("broken") {
            r#"{"Item": {}}"#.to_owned()
        } else {
            "{}".to_owned()
        };
        HttpConnectorFuture::new(async move {
            sleep(pause).await;
            Ok(HttpResponse::new(200.try_into().unwrap(), body.into()))
        })
    }
}

impl Throttled {
    /// A client of this table.
    pub fn client(&self) -> Client {
        let connector = SharedHttpConnector::new(self.clone());
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("local"))
            .credentials_provider(Credentials::new("key", "secret", None, None, "none"))
            .http_client(http_client_fn(move |_, _| connector.clone()));
        Client::from_conf(config.build())
    }

    /// The longest pause between two requests for a batch.
    pub fn longest_pause(&self) -> Duration {
        let batches = self.batches.lock().unwrap();
        batches.windows(2).map(|two| two[1] - two[0]).max().unwrap()
    }
}
