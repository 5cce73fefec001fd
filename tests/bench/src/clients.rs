//! The clients: as the designs were published, and as this engine calls Redis.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use redis::{Commands, RedisResult};
use tokio::sync::SetOnce;
use tokio::time::sleep_until;

use crate::BoxError;
use crate::designs::{Client, Design};
use crate::rush::{Answer, Got, Heat, Rush, Usage};

/// Connections of a published client.
const CONNECTIONS: u64 = 20;

/// Runs a design through a rush in an empty Redis, for at most `time`. Its clients are threads, each with one connection and one
/// command in flight.
pub fn threads(design: &dyn Design, redis: &redis::Client, rush: &Rush, time: Duration) -> RedisResult<Heat> {
    let mut control = redis.get_connection()?;
    let () = control.flushall()?;
    design.fill(&mut control, rush)?;
    let clients: Vec<Client> =
        (0..CONNECTIONS).map(|n| Ok(Client::new(redis.get_connection()?, n))).collect::<RedisResult<_>>()?;
    let before = Usage::read(&mut control)?;
    let (start, next) = (Barrier::new(clients.len()), AtomicUsize::new(0));
    let parts: Vec<RedisResult<Part>> = thread::scope(|scope| {
        let (start, next) = (&start, &next);
        let threads: Vec<_> = clients
            .into_iter()
            .map(|client| scope.spawn(move || work(design, client, rush, time, start, next)))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a client")).collect()
    });
    let cpu_us = Usage::read(&mut control)?.cpu_us - before.cpu_us;
    let parts: Vec<Part> = parts.into_iter().collect::<RedisResult<_>>()?;
    let begun = parts.iter().map(|part| part.begun).min().expect("clients");
    let ended = parts.iter().map(|part| part.ended).max().expect("clients");
    let calls = parts.iter().map(|part| part.calls).sum();
    let answers = parts.into_iter().flat_map(|part| part.answers).collect();
    Ok(Heat { elapsed: ended - begun, answers, calls, cpu_us })
}

/// The answers and calls of one thread.
struct Part {
    answers: Vec<Answer>,
    calls: u64,
    begun: Instant,
    ended: Instant,
}

fn work(
    design: &dyn Design,
    mut client: Client,
    rush: &Rush,
    time: Duration,
    start: &Barrier,
    next: &AtomicUsize,
) -> RedisResult<Part> {
    let mut answers = Vec::with_capacity(rush.requests.len() / usize::try_from(CONNECTIONS).unwrap_or(1) + 1);
    start.wait();
    let begun = Instant::now();
    let mut asked = begun;
    while asked - begun < time {
        let request = next.fetch_add(1, Ordering::Relaxed);
        let Some(asked_for) = rush.requests.get(request) else { break };
        let got = design.grab(&mut client, asked_for.packet, &rush.users[asked_for.user])?;
        let answered = Instant::now();
        answers.push(Answer { request, got, nanos: rush.nanos(begun, asked, answered) });
        asked = answered;
    }
    Ok(Part { answers, calls: client.calls(), begun, ended: asked })
}

/// A design that a client with many requests in flight can call.
pub trait Grabs: Send + Sync + 'static {
    /// Writes the packets of a rush.
    fn fill(&self, rush: &Rush) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// One grab.
    fn grab(&self, packet: usize, user: &str) -> impl Future<Output = Result<Got, BoxError>> + Send;
}

/// Runs a design through a rush with `in_flight` requests at once, for at most `time`, in an empty Redis.
pub async fn concurrent<G: Grabs>(
    design: &Arc<G>,
    redis: &redis::Client,
    rush: &Arc<Rush>,
    in_flight: usize,
    time: Duration,
) -> Result<Heat, BoxError> {
    let mut control = redis.get_connection()?;
    let () = control.flushall()?;
    design.fill(rush).await?;
    let before = Usage::read(&mut control)?;
    let clients = Arc::new(Clients {
        design: Arc::clone(design),
        rush: Arc::clone(rush),
        next: AtomicUsize::new(0),
        begun: SetOnce::new(),
    });
    // All tasks exist before the time begins, as the threads of the published clients do.
    let answers_each = rush.requests.len() / in_flight + 1;
    let start = |_| tokio::spawn(Arc::clone(&clients).client(Vec::with_capacity(answers_each), time));
    let tasks: Vec<_> = (0..in_flight).map(start).collect();
    clients.begun.set(Instant::now())?;
    let (mut elapsed, mut answers) = (Duration::ZERO, Vec::with_capacity(rush.requests.len()));
    // The last one first: to wake up for each task that ends would take processor time from the others.
    for task in tasks.into_iter().rev() {
        let (ended, some) = task.await??;
        elapsed = elapsed.max(ended);
        answers.extend(some);
    }
    let after = Usage::read(&mut control)?;
    // All round trips of these designs are calls of scripts.
    let (cpu_us, calls) = (after.cpu_us - before.cpu_us, after.calls - before.calls);
    Ok(Heat { elapsed, answers, calls, cpu_us })
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
            if let Some(due) = self.rush.due(begun, request) {
                sleep_until(due.into()).await;
                asked = due;
            }
            let got = self.design.grab(asked_for.packet, &self.rush.users[asked_for.user]).await?;
            let answered = Instant::now();
            answers.push(Answer { request, got, nanos: self.rush.nanos(begun, asked, answered) });
            asked = answered;
        }
        Ok((asked - begun, answers))
    }
}
