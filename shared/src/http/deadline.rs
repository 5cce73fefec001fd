use std::time::{Duration, SystemTime};

use futures::FutureExt;
use lambda_http::{Context, Request, RequestExt};
use tokio::time::timeout;

use super::answer::Answer;
use super::problem::Problem;
use super::request::trace_id;
use crate::service::{Failure, traced};
use crate::timeouts;

/// Answers a request before its deadline: with what `work` finds, or else with 503. What other requests share, as a load or a
/// claim's transaction, goes on. What it commits names the request's trace.
///
/// # Errors
/// Those of `work`, and `unavailable` at the deadline.
pub fn before_deadline(
    request: &Request,
    work: impl Future<Output = Result<Answer, Problem>>,
) -> impl Future<Output = Result<Answer, Problem>> {
    let late = || Err(Problem::from(Failure::unavailable("the request's deadline was reached")));
    let work = traced(trace_id(request), work);
    timeout(time_left(request, SystemTime::now()), work).map(move |result| result.unwrap_or_else(|_| late()))
}

/// How long the request may take from `now` on. The local stack calls the handlers without Lambda's context.
fn time_left(request: &Request, now: SystemTime) -> Duration {
    let function = request.lambda_context_ref().map(Context::deadline);
    let left = function.map(|end| end.duration_since(now).unwrap_or_default().saturating_sub(timeouts::ANSWER));
    left.unwrap_or(timeouts::REQUEST).min(timeouts::REQUEST)
}

#[cfg(test)]
mod tests {
    use lambda_http::Body;
    use tokio::time::Instant;

    use super::*;
    use crate::http::{Code, respond};

    fn ending(left: Duration) -> Request {
        let end = SystemTime::now() + left;
        let mut context = Context::default();
        context.deadline = u64::try_from(end.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis()).unwrap();
        Request::new(Body::Empty).with_lambda_context(context)
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_takes_too_long_is_answered_503_in_time() {
        let local = Request::new(Body::Empty);
        for (request, most) in [
            (local, timeouts::REQUEST),
            (ending(Duration::from_secs(15)), timeouts::REQUEST),
            (ending(Duration::from_secs(3)), Duration::from_millis(2_500)),
            (ending(Duration::ZERO), Duration::ZERO),
        ] {
            let begun = Instant::now();
            let result = before_deadline(&request, std::future::pending()).await;
            let took = begun.elapsed();
            assert!(took <= most + Duration::from_millis(1), "{took:?} of {most:?}");
            assert_eq!(result.as_ref().unwrap_err().code, Code::Unavailable);
            assert_eq!(respond(&request, result, took).headers()["retry-after"], "1");
        }
    }

    #[tokio::test]
    async fn an_answer_in_time_is_given() {
        let answer = before_deadline(&ending(Duration::from_secs(15)), async { Answer::ok(&1) }).await;
        assert!(answer.is_ok());
    }
}
