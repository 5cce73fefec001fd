//! Runs commands of `hongbao-admin` where the stores are. A stack has this function twice: one that reads, and one that repairs.

use std::time::Duration;

use admin::{Answer, Deployed, Event, Right};
use shared::config::Config;
use tokio::time::Instant;

/// How long before the function's timeout a command ends, so that its answer arrives.
const MARGIN: Duration = Duration::from_secs(10);

/// The right of the function with this configuration.
pub const fn right(config: &Config) -> Right {
    if config.operate_repairs { Right::Repair } else { Right::Read }
}

/// Answers an event. `left` is the time until the function's timeout.
pub async fn handle(deployed: &Deployed, right: Right, event: Event, left: Duration) -> Answer {
    admin::operate(deployed, right, event, Instant::now() + left.saturating_sub(MARGIN)).await
}
