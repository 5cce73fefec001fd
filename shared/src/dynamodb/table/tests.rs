use futures::future::join_all;
use tokio::time::Instant;

use super::*;
use crate::dynamodb::throttled::Throttled;

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
