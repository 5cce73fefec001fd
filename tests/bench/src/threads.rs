//! The published clients: threads, each with one connection and one command in flight.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::RedisResult;

use crate::designs::{Client, Design};
use crate::heat::{Answer, Heat, Usage, empty, nanos};
use crate::rush::Rush;

/// Connections of a published client.
pub const CONNECTIONS: u64 = 20;

/// Runs a design through a rush, for at most `time`.
pub fn heat(design: &dyn Design, redis: &redis::Client, rush: &Rush, time: Duration) -> RedisResult<Heat> {
    let mut control = redis.get_connection()?;
    empty(&mut control)?;
    design.fill(&mut control, rush)?;
    let clients: Vec<Client> =
        (0..CONNECTIONS).map(|n| Ok(Client::new(redis.get_connection()?, n))).collect::<RedisResult<_>>()?;
    let before = Usage::read(&mut control)?;

    let (start, next) = (Barrier::new(clients.len()), AtomicUsize::new(0));
    let results: Vec<RedisResult<Part>> = thread::scope(|scope| {
        let (start, next) = (&start, &next);
        let threads: Vec<_> = clients
            .into_iter()
            .map(|client| scope.spawn(move || work(design, client, rush, time, start, next)))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a client")).collect()
    });
    let Usage { cpu_us, .. } = Usage::read(&mut control)?.since(&before);

    let parts: Vec<Part> = results.into_iter().collect::<RedisResult<_>>()?;
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
        answers.push(Answer { request, got, nanos: nanos(rush, begun, asked, answered) });
        asked = answered;
    }
    Ok(Part { answers, calls: client.calls(), begun, ended: asked })
}
