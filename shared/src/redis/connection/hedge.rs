use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::sleep;

/// The first success of `attempts`, or else the last failure; `None` without an attempt. They begin in turn: one begins when
/// the one before it failed, or has been silent for `pause`.
pub(super) async fn first_of<T, E, F>(attempts: Vec<F>, pause: Duration) -> Option<Result<T, E>>
where
    F: Future<Output = Result<T, E>>,
{
    let mut waiting = attempts.into_iter();
    let mut begun: FuturesUnordered<F> = waiting.next().into_iter().collect();
    let mut last = None;
    while !begun.is_empty() {
        tokio::select! {
            Some(result) = begun.next() => match result {
                Ok(value) => return Some(Ok(value)),
                failed => last = Some(failed),
            },
            () = sleep(pause), if waiting.len() > 0 => {}
        }
        begun.extend(waiting.next());
    }
    last
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const PAUSE: Duration = Duration::from_secs(1);

    /// What attempts lead to, and when. Of each: how many half pauses it takes, and its result.
    async fn led_to(attempts: &[(u32, Result<u8, u8>)]) -> (Option<Result<u8, u8>>, Duration) {
        let begun = Instant::now();
        let attempt = |(halves, result)| async move {
            sleep(PAUSE / 2 * halves).await;
            result
        };
        let result = first_of(attempts.iter().copied().map(attempt).collect(), PAUSE).await;
        (result, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_begin_in_turn() {
        for (attempts, result, pauses) in [
            (&[][..], None, 0),
            (&[(0, Ok(1)), (0, Ok(2))], Some(Ok(1)), 0),
            (&[(0, Err(1)), (0, Err(2))], Some(Err(2)), 0),
            // After a failure the next one begins at once.
            (&[(0, Err(1)), (0, Ok(2))], Some(Ok(2)), 0),
            (&[(99, Ok(1)), (99, Ok(2)), (0, Err(3)), (0, Ok(4))], Some(Ok(4)), 2),
        ] {
            assert_eq!(led_to(attempts).await, (result, PAUSE * pauses));
        }
        assert_eq!(led_to(&[(3, Err(7)), (0, Err(1))]).await.0, Some(Err(7)), "it waits for the last");
    }
}
