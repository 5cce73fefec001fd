//! A client with many requests under way at once, over few connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::SetOnce;

use crate::BoxError;
use crate::heat::{Answer, Heat, Usage, empty, nanos};
use crate::rush::{Got, Rush};

/// A design behind such a client.
pub trait Grabs: Send + Sync + 'static {
    /// Puts the packets of a rush into Redis.
    fn fill(&self, rush: &Rush) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// One grab.
    fn grab(&self, packet: usize, user: &str) -> impl Future<Output = Result<Got, BoxError>> + Send;

    /// What is left to do once all are answered; it counts into the time of the rush.
    fn finish(&self) -> impl Future<Output = Result<(), BoxError>> + Send {
        async { Ok(()) }
    }
}

/// Lets a design meet a rush with so many requests under way, for at most `time`, in an empty Redis.
pub async fn heat<G: Grabs>(
    design: &Arc<G>,
    redis: &redis::Client,
    rush: &Arc<Rush>,
    under_way: usize,
    time: Duration,
) -> Result<Heat, BoxError> {
    empty(&mut redis.get_connection()?)?;
    one_more(design, redis, rush, under_way, time).await
}

/// The same, beside whatever is in Redis.
pub async fn one_more<G: Grabs>(
    design: &Arc<G>,
    redis: &redis::Client,
    rush: &Arc<Rush>,
    under_way: usize,
    time: Duration,
) -> Result<Heat, BoxError> {
    let mut control = redis.get_connection()?;
    design.fill(rush).await?;
    let before = Usage::read(&mut control)?;
    let (elapsed, answers) = fly(design, rush, under_way, time).await?;
    // All round trips of these designs are calls of scripts.
    let (cpu_us, calls) = Usage::read(&mut control)?.since(&before);
    Ok(Heat { elapsed, answers, calls, cpu_us })
}

/// The requests of a rush whose packets are there, so many under way at once, until the last answer or for at most `time`.
pub async fn fly<G: Grabs>(
    design: &Arc<G>,
    rush: &Arc<Rush>,
    under_way: usize,
    time: Duration,
) -> Result<(Duration, Vec<Answer>), BoxError> {
    let flight = Arc::new(Flight {
        design: Arc::clone(design),
        rush: Arc::clone(rush),
        next: AtomicUsize::new(0),
        begun: SetOnce::new(),
    });
    // All of them are there before the time begins, as the threads of the published clients are.
    let answers_each = rush.requests.len() / under_way + 1;
    let start = |_| tokio::spawn(Arc::clone(&flight).client(Vec::with_capacity(answers_each), time));
    let tasks: Vec<_> = (0..under_way).map(start).collect();
    flight.begun.set(Instant::now())?;
    let (mut elapsed, mut answers) = (Duration::ZERO, Vec::with_capacity(rush.requests.len()));
    // The last one first: whoever waits for each as it ends takes the processor from the others.
    for task in tasks.into_iter().rev() {
        let (ended, some) = task.await??;
        elapsed = elapsed.max(ended);
        answers.extend(some);
    }
    let finishing = Instant::now();
    design.finish().await?;
    Ok((elapsed + finishing.elapsed(), answers))
}

/// What all who make requests of a rush share.
struct Flight<G> {
    design: Arc<G>,
    rush: Arc<Rush>,
    /// The next request.
    next: AtomicUsize,
    begun: SetOnce<Instant>,
}

impl<G: Grabs> Flight<G> {
    /// Makes one request after the other, from the beginning until there is none left or the time is over, and adds to the `answers`.
    async fn client(
        self: Arc<Self>,
        mut answers: Vec<Answer>,
        time: Duration,
    ) -> Result<(Duration, Vec<Answer>), BoxError> {
        let begun = *self.begun.wait().await;
        // The next is asked for once one is answered: a clock read in between would cost more than it tells.
        let mut asked = Instant::now();
        while asked - begun < time {
            let request = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(asked_for) = self.rush.requests.get(request) else { break };
            let got = self.design.grab(asked_for.packet, &self.rush.users[asked_for.user]).await?;
            let answered = Instant::now();
            answers.push(Answer { request, got, nanos: nanos(&self.rush, begun, asked, answered) });
            asked = answered;
        }
        Ok((asked - begun, answers))
    }
}
