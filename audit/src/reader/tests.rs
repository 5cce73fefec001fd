use shared::dynamodb::throttled::Throttled;
use tokio::time::Instant;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_throttled_batch_pauses_shortly_and_ends_after_two_minutes() {
    let throttled = Throttled::default();
    let reader = Reader::new(throttled.client(), "t".to_owned());
    let begun = Instant::now();
    let keys = ["x", "busy"].map(|pk| Key { pk: pk.to_owned(), sk: "b".to_owned() });
    let answer = <dyn Source>::batch(&reader, keys.to_vec()).await;
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(begun.elapsed(), BATCH_TIMEOUT);
    assert_eq!(throttled.longest_pause(), BACKOFF_MOST);
}
