//! A client with many requests in flight at once, over few connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::SetOnce;

use crate::BoxError;
use crate::heat::{Answer, Heat, Usage, empty, nanos};
use crate::rush::{Got, Rush};

/// A design that such a client can call.
pub trait Grabs: Send + Sync + 'static {
    /// Writes the packets of a rush into Redis.
    fn fill(&self, rush: &Rush) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// One grab.
    fn grab(&self, packet: usize, user: &str) -> impl Future<Output = Result<Got, BoxError>> + Send;

    /// The work that remains after the last answer. It counts into the time of the rush.
    fn finish(&self) -> impl Future<Output = Result<(), BoxError>> + Send {
        async { Ok(()) }
    }
}

/// Runs a design through a rush with `under_way` requests at once, for at most `time`, in an empty Redis.
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

/// The same, without emptying Redis first.
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
    let (elapsed, answers) = run(design, rush, under_way, time).await?;
    // All round trips of these designs are calls of scripts.
    let Usage { cpu_us, calls, .. } = Usage::read(&mut control)?.since(&before);
    Ok(Heat { elapsed, answers, calls, cpu_us })
}

/// Makes the requests of a rush whose packets exist, `under_way` at once, until the last answer or for at most `time`.
pub async fn run<G: Grabs>(
    design: &Arc<G>,
    rush: &Arc<Rush>,
    under_way: usize,
    time: Duration,
) -> Result<(Duration, Vec<Answer>), BoxError> {
    let clients = Arc::new(Clients {
        design: Arc::clone(design),
        rush: Arc::clone(rush),
        next: AtomicUsize::new(0),
        begun: SetOnce::new(),
    });
    // All tasks exist before the time begins, as the threads of the published clients do.
    let answers_each = rush.requests.len() / under_way + 1;
    let start = |_| tokio::spawn(Arc::clone(&clients).client(Vec::with_capacity(answers_each), time));
    let tasks: Vec<_> = (0..under_way).map(start).collect();
    clients.begun.set(Instant::now())?;
    let (mut elapsed, mut answers) = (Duration::ZERO, Vec::with_capacity(rush.requests.len()));
    // The last one first: to wake up for each task that ends would take processor time from the others.
    for task in tasks.into_iter().rev() {
        let (ended, some) = task.await??;
        elapsed = elapsed.max(ended);
        answers.extend(some);
    }
    let finishing = Instant::now();
    design.finish().await?;
    Ok((elapsed + finishing.elapsed(), answers))
}

/// The state that the clients of a rush share.
struct Clients<G> {
    design: Arc<G>,
    rush: Arc<Rush>,
    /// The index of the next request.
    next: AtomicUsize,
    begun: SetOnce<Instant>,
}

impl<G: Grabs> Clients<G> {
    /// Makes one request after the other until none is left or the time is over. Returns the time and the answers.
    async fn client(
        self: Arc<Self>,
        mut answers: Vec<Answer>,
        time: Duration,
    ) -> Result<(Duration, Vec<Answer>), BoxError> {
        let begun = *self.begun.wait().await;
        // The time of an answer is that of the next request: a second clock read would cost more than it is worth.
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
