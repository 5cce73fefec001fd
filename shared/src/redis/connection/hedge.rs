use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::sleep;

/// The first success of `attempts`, or else the last failure; `None` without an attempt. They begin in turn: one begins when
/// the one before it failed, or has been silent for `pause`.
pub(super) async fn first_of<T, E, F>(attempts: impl IntoIterator<Item = F>, pause: Duration) -> Option<Result<T, E>>
where
    F: Future<Output = Result<T, E>>,
{
    let mut attempts = attempts.into_iter();
    let mut running = FuturesUnordered::new();
    running.push(attempts.next()?);
    let mut next = attempts.next();
    loop {
        tokio::select! {
            Some(result) = running.next() => match (result, next.take()) {
                (Err(error), None) if running.is_empty() => return Some(Err(error)),
                (Err(_), None) => {}
                (Err(_), Some(attempt)) => {
                    running.push(attempt);
                    next = attempts.next();
                }
                (success, _) => return Some(success),
            },
            () = sleep(pause), if next.is_some() => {
                running.extend(next.take());
                next = attempts.next();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures::FutureExt;
    use futures::future::{BoxFuture, ready};
    use tokio::time::Instant;

    use super::*;

    const PAUSE: Duration = Duration::from_secs(1);

    fn attempts(of: Vec<BoxFuture<'static, Result<u8, u8>>>) -> impl Future<Output = Option<Result<u8, u8>>> {
        first_of(of, PAUSE)
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_begin_in_turn() {
        let begun = Instant::now();
        assert_eq!(attempts(vec![]).await, None);
        assert_eq!(attempts(vec![ready(Ok(1)).boxed(), ready(Ok(2)).boxed()]).await, Some(Ok(1)));
        assert_eq!(attempts(vec![ready(Err(1)).boxed(), ready(Err(2)).boxed()]).await, Some(Err(2)));
        assert_eq!(attempts(vec![ready(Err(1)).boxed(), ready(Ok(2)).boxed()]).await, Some(Ok(2)));
        assert_eq!(begun.elapsed(), Duration::ZERO, "after a failure the next one begins at once");

        let mute = || pending().boxed();
        assert_eq!(attempts(vec![mute(), mute(), ready(Err(3)).boxed(), ready(Ok(4)).boxed()]).await, Some(Ok(4)));
        assert_eq!(begun.elapsed(), PAUSE * 2);
        let slow = |pauses: u32| async move {
            sleep(PAUSE * pauses / 2).await;
            Err(7)
        };
        assert_eq!(attempts(vec![slow(3).boxed(), ready(Err(1)).boxed()]).await, Some(Err(7)), "it waits for the last");
    }
}
