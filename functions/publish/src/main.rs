//! The publish function on AWS Lambda: wiring only.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use lambda_runtime::{Error, LambdaEvent, run_concurrent, service_fn};
use publish::{Bus, Publisher, Sqs, Target};
use serde_json::Value;
use shared::config::Config;
use shared::events::batch::Batch;
use shared::wiring;

/// How long a call to the queue or to the bus may take, with its retries. [`publish::put`] makes up to three of them.
const CALL_MAX: Duration = Duration::from_secs(5);

fn main() -> Result<(), Error> {
    shared::run(serve())
}

async fn serve() -> Result<(), Error> {
    let Config { policy, event_target, event_dead_letters, .. } = Config::for_events(|name| std::env::var(name).ok())?;
    let (bounds, retries) = (TimeoutConfig::builder().operation_timeout(CALL_MAX).build(), RetryConfig::standard());
    let aws = wiring::environment_for("AWS_ENDPOINT_URL_SQS");
    let sqs = aws_sdk_sqs::config::Builder::from(&aws).timeout_config(bounds.clone()).retry_config(retries.clone());
    let sqs = aws_sdk_sqs::Client::from_conf(sqs.build());
    let queue = |url: String| Arc::new(Sqs { client: sqs.clone(), url }) as Arc<dyn Target>;
    let aws = wiring::environment_for("AWS_ENDPOINT_URL_EVENTBRIDGE");
    let bus = aws_sdk_eventbridge::config::Builder::from(&aws).timeout_config(bounds).retry_config(retries);
    let client = aws_sdk_eventbridge::Client::from_conf(bus.build());
    let is_bus = event_target.starts_with("arn:");
    let publisher = Arc::new(Publisher {
        currency: policy.currency,
        target: if is_bus { Arc::new(Bus { client, arn: event_target }) } else { queue(event_target) },
        aside: Some(queue(event_dead_letters)),
    });
    run_concurrent(service_fn(move |event: LambdaEvent<Batch<Value>>| {
        let publisher = Arc::clone(&publisher);
        async move { Ok::<_, Error>(publish::handle(&publisher, &event.payload).await) }
    }))
    .await
}
