//! The notify function on AWS Lambda: wiring only.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use lambda_runtime::{Error, LambdaEvent, run_concurrent, service_fn};
use notify::{Queue, QueueError, Queued, Receiver, Secrets, Webhook};
use shared::config::Config;
use shared::dynamodb::SdkTable;
use shared::events::batch::Batch;
use shared::ledger::Ledger;
use shared::ports::{Clock, System};
use shared::secret::Secret;
use shared::wiring;

/// How long a call to the queue or to Secrets Manager may take, with its retries.
const CALL_MAX: Duration = Duration::from_secs(5);

/// The queues behind the AWS SDK.
struct Sqs {
    client: aws_sdk_sqs::Client,
    url: String,
    dead_letters: String,
}

impl Queue for Sqs {
    async fn hide(&self, queued: &Queued, pause: Duration) -> Result<(), QueueError> {
        // Not a moment too early.
        let seconds = i32::try_from(pause.as_millis().div_ceil(1000)).unwrap_or(i32::MAX);
        let asked = self.client.change_message_visibility().queue_url(&self.url).receipt_handle(&queued.receipt_handle);
        asked.visibility_timeout(seconds).send().await.map(drop).map_err(Into::into)
    }

    async fn set_aside(&self, queued: &Queued) -> Result<(), QueueError> {
        let asked = self.client.send_message().queue_url(&self.dead_letters).message_body(&queued.body);
        asked.send().await.map(drop).map_err(Into::into)
    }
}

fn main() -> Result<(), Error> {
    shared::run(serve())
}

async fn serve() -> Result<(), Error> {
    let Config { webhooks, table, .. } = Config::for_webhooks(|name| std::env::var(name).ok())?;
    let bounds = TimeoutConfig::builder().operation_timeout(CALL_MAX).build();
    let aws = wiring::environment_for_secrets();
    let secrets = Secret::stored(&aws, webhooks.secret, |text| Secrets::parse(text).map_err(|error| error.to_string()));
    let aws = wiring::environment_for("AWS_ENDPOINT_URL_SQS");
    let sqs = aws_sdk_sqs::config::Builder::from(&aws).timeout_config(bounds).retry_config(RetryConfig::standard());
    let sqs = Sqs {
        client: aws_sdk_sqs::Client::from_conf(sqs.build()),
        url: webhooks.queue,
        dead_letters: webhooks.dead_letters,
    };
    let dynamodb = wiring::dynamodb(&wiring::environment());
    let ledger = Ledger::new(SdkTable::new(dynamodb, table.clone()), Arc::new(System));
    let receiver = Receiver::new(&webhooks.url, webhooks.addresses, false)?;
    let webhook = Webhook::new(receiver, secrets);
    let shared = Arc::new((webhook, ledger, sqs, table));
    run_concurrent(service_fn(move |event: LambdaEvent<Batch<Queued>>| {
        let shared = Arc::clone(&shared);
        async move {
            let (webhook, ledger, sqs, table) = &*shared;
            let handled = notify::handle(webhook, ledger, sqs, event.payload, &System).await;
            if let Some(metric) = handled.metric(table, System.now()) {
                writeln!(std::io::stdout(), "{metric}")?;
            }
            Ok::<_, Error>(handled.answer)
        }
    }))
    .await
}
