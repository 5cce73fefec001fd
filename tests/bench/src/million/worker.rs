//! A process that makes its share of the requests. This program starts itself for that: it reads a [`Job`] from standard input,
//! says that it is ready, waits for the word to go, and writes what came of it.

use std::io::{BufRead, BufReader, Write as _, stdin, stdout};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use shared::domain::{PacketId, Timestamp, UserId};
use shared::memory::MemoryTable;
use shared::redis::RedisStore;
use shared::service::{Failure, GrabOutcome, GrabSlip};
use tokio::runtime::{Builder, Runtime};

use super::shares::Owned;
use super::{Mode, process};
use crate::BoxError;

/// The argument that makes this program a worker.
pub const ARGUMENT: &str = "--worker";

/// Requests in flight in a process that collects them.
const UNDER_WAY: u32 = 1_000;
/// How often a client asks again after a 503. Machines that run tests may stall for seconds.
const TRIES_MAX: u32 = 20;

const READY: &str = "ready";
const GO: &str = "go";

/// The requests of a worker.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Job {
    /// How it serves them.
    pub mode: Mode,
    /// The URLs of the cluster.
    pub urls: String,
    /// The slips of the packet.
    pub slips: u32,
    /// When the packet was sent, in milliseconds since 1970.
    pub sent_at: u64,
    /// The number of its first user.
    pub first: u32,
    /// From one of its users to the next.
    pub step: u32,
    /// The users of all workers.
    pub users: u32,
}

/// What came of a job.
#[derive(Debug, Deserialize, Serialize)]
pub struct Done {
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// From the first request to the last winner's answer.
    pub last_win: Duration,
    /// Microseconds of processor time of the process in between.
    pub cpu_us: u64,
    /// Each winner's slip and number.
    pub won: Vec<Owned>,
    /// Losers.
    pub lost: u64,
    /// Nanoseconds until each winner's answer.
    pub won_nanos: Vec<u64>,
    /// The same of the losers.
    pub lost_nanos: Vec<u64>,
}

/// A request's user, slip and latency.
struct Answered {
    user: u32,
    slip: Option<u32>,
    at: Instant,
    nanos: u64,
}

impl Job {
    /// As the functions and the local stack run: a process that serves one request at a time has one thread.
    fn runtime(&self) -> Result<Runtime, BoxError> {
        Ok(match self.mode {
            Mode::Collected => crate::runtime(std::thread::available_parallelism()?.get())?,
            Mode::OneUser => Builder::new_current_thread().enable_all().build()?,
        })
    }

    const fn under_way(&self) -> u32 {
        match self.mode {
            Mode::Collected => UNDER_WAY,
            Mode::OneUser => 1,
        }
    }
}

/// Does the job that standard input has.
pub fn main() -> Result<(), BoxError> {
    let mut input = stdin().lines();
    let job: Job = serde_json::from_str(&input.next().ok_or("no job")??)?;
    let runtime = job.runtime()?;
    let (grab, packet) = runtime.block_on(process::start(&job.urls, job.slips, Timestamp::from_ms(job.sent_at)))?;
    let grab = Arc::new(match job.mode {
        Mode::Collected => grab.running_on(),
        Mode::OneUser => grab,
    });
    println!("{READY}");
    if input.next().transpose()?.as_deref() != Some(GO) {
        return Err("the program that started this one is gone".into());
    }
    let done = runtime.block_on(rush(grab, packet, job))?;
    serde_json::to_writer(stdout().lock(), &done)?;
    println!();
    Ok(())
}

async fn rush(grab: Arc<GrabSlip<MemoryTable, RedisStore>>, packet: PacketId, job: Job) -> Result<Done, BoxError> {
    let next = Arc::new(AtomicU32::new(0));
    let (before, begun) = (cpu_us(), Instant::now());
    let clients = (0..job.under_way()).map(|_| {
        let (grab, next, job) = (Arc::clone(&grab), Arc::clone(&next), job.clone());
        async move { tokio::spawn(client(grab, packet, job, next)).await? }
    });
    let answers: Vec<Answered> = try_join_all(clients).await?.into_iter().flatten().collect();
    let cpu_us = cpu_us() - before;

    let since_begun = |answers: &mut dyn Iterator<Item = &Answered>| {
        answers.map(|answer| answer.at - begun).max().unwrap_or_default()
    };
    let has_won = |answer: &&Answered| answer.slip.is_some();
    let nanos = |won: bool| answers.iter().filter(|answer| has_won(answer) == won).map(|answer| answer.nanos).collect();
    let won: Vec<Owned> = answers.iter().filter_map(|answer| Some((answer.slip?, answer.user))).collect();
    Ok(Done {
        elapsed: since_begun(&mut answers.iter()),
        last_win: since_begun(&mut answers.iter().filter(has_won)),
        cpu_us,
        lost: (answers.len() - won.len()) as u64,
        won,
        won_nanos: nanos(true),
        lost_nanos: nanos(false),
    })
}

/// Makes one request after the other until none is left.
async fn client(
    grab: Arc<GrabSlip<MemoryTable, RedisStore>>,
    packet: PacketId,
    job: Job,
    next: Arc<AtomicU32>,
) -> Result<Vec<Answered>, BoxError> {
    let mut answers = Vec::new();
    loop {
        let user = job.first + job.step * next.fetch_add(1, Ordering::Relaxed);
        if user >= job.users {
            return Ok(answers);
        }
        let asked = Instant::now();
        let slip = ask(&grab, packet, user).await?;
        let at = Instant::now();
        answers.push(Answered { user, slip, at, nanos: u64::try_from((at - asked).as_nanos())? });
    }
}

/// A user's slip. It asks again when a client would, after a 503.
async fn ask(grab: &GrabSlip<MemoryTable, RedisStore>, packet: PacketId, user: u32) -> Result<Option<u32>, BoxError> {
    let user: UserId = super::user(user).parse()?;
    let mut tries = 0;
    loop {
        match grab.grab(packet, &user, None).await {
            Ok(GrabOutcome::Grabbed { claim, .. }) => return Ok(Some(claim.slip)),
            Ok(GrabOutcome::SoldOut) => return Ok(None),
            Err(Failure::Unavailable(_)) if tries < TRIES_MAX => tries += 1,
            other => return Err(format!("a grab ended with {other:?}").into()),
        }
    }
}

/// Microseconds of processor time of this process.
fn cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec * 1_000_000 + time.tv_nsec / 1_000).unwrap_or_default()
}

/// A worker, from the side of the program that started it. The process ends with this.
pub struct Worker {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts a worker and gives it a job.
    pub fn start(job: &Job) -> Result<Self, BoxError> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("a worker without pipes".into());
        };
        let mut worker = Self { process, input, output: BufReader::new(output) };
        writeln!(worker.input, "{}", serde_json::to_string(job)?)?;
        Ok(worker)
    }

    /// Waits until it can begin.
    pub fn ready(&mut self) -> Result<(), BoxError> {
        let said = self.line()?;
        if said.trim() == READY { Ok(()) } else { Err(format!("a worker said {said:?}").into()) }
    }

    /// Lets it begin.
    pub fn go(&mut self) -> Result<(), BoxError> {
        Ok(writeln!(self.input, "{GO}")?)
    }

    /// Waits for what came of its job.
    pub fn done(&mut self) -> Result<Done, BoxError> {
        let line = self.line()?;
        Ok(serde_json::from_str(&line).map_err(|error| format!("a worker failed ({error}): {line:?}"))?)
    }

    fn line(&mut self) -> Result<String, BoxError> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
