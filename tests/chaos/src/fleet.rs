//! The workers of a shard: processes that die again and again, and are restarted at once.

use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use local::options::Ack;
use local::{DevOptions, Local, Options};
use shared::crash::{LAST_WORDS, POINTS};
use shared::redis::test_server::{free_port, poll};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::report::{Group, Tally};
use tests::dice::Dice;

/// Number of answers after which a worker without armed crash points is killed. Answers instead of time keep the chaos
/// the same on idle and busy machines.
const ANSWERS: std::ops::Range<u32> = 0..100;
/// After this time every worker is killed.
const LIFETIME_MOST: Duration = Duration::from_secs(4);
/// How often to check a worker's number of answers.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Crash points that are armed in a worker at once.
const POINTS_ARMED: usize = 6;
/// They are drawn from this many points with the fewest deaths so far.
const POINTS_CONSIDERED: usize = 18;
/// Half of the armed points are passed up to this often before the worker dies there; the others kill at the first
/// pass.
const PASSES_MOST: u32 = 16;
/// Pause before the restart of a worker that could not start.
const PAUSE: Duration = Duration::from_millis(50);
const KILL: i32 = 9;

/// The workers' mode.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// Workers die again and again.
    Chaos,
    /// Workers live.
    Calm,
    /// Workers end.
    Stop,
}

/// The workers of a shard.
#[derive(Debug)]
pub struct Fleet {
    doors: Vec<Arc<Door>>,
    workers: Vec<JoinHandle<io::Result<()>>>,
}

/// The address where a worker listens, in whichever process.
#[derive(Debug)]
pub struct Door {
    /// The worker's URL.
    pub url: String,
    is_open: AtomicBool,
    answers: AtomicU32,
}

impl Door {
    /// Whether a process listened a moment ago, as a load balancer would know.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Counts an answer to a client.
    pub fn answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    fn open(&self) {
        self.answers.store(0, Ordering::Relaxed);
        self.is_open.store(true, Ordering::Relaxed);
    }

    async fn has_answered(&self, limit: u32) {
        while self.answers.load(Ordering::Relaxed) < limit {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// The planned end of a worker.
enum Fate {
    /// No end.
    Live,
    /// It is killed after this many answers, at any line.
    Answers(u32),
    /// It dies at the first of these points that it passes this often.
    Points(Vec<(&'static str, u32)>),
}

struct Slot {
    port: u16,
    door: Arc<Door>,
    stores: Stores,
    dice: Dice,
    tally: Arc<Tally>,
    log: Arc<Mutex<File>>,
    mode: watch::Receiver<Mode>,
}

impl Fleet {
    /// Starts `size` workers over `stores`, which write their logs to `log`.
    pub fn start(
        name: &str,
        size: usize,
        seed: u64,
        stores: &Stores,
        tally: &Arc<Tally>,
        log: &Path,
        mode: &watch::Receiver<Mode>,
    ) -> io::Result<Self> {
        let log = Arc::new(Mutex::new(File::create(log)?));
        let (mut doors, mut workers) = (Vec::new(), Vec::new());
        for number in 0..size {
            let port = free_port();
            let url = format!("http://127.0.0.1:{port}");
            let door = Arc::new(Door { url, is_open: AtomicBool::new(false), answers: AtomicU32::new(0) });
            doors.push(Arc::clone(&door));
            let slot = Slot {
                port,
                door,
                stores: stores.clone(),
                dice: Dice::new(seed, &format!("{name} worker {number}")),
                tally: Arc::clone(tally),
                log: Arc::clone(&log),
                mode: mode.clone(),
            };
            workers.push(tokio::spawn(slot.keep_running()));
        }
        Ok(Self { doors, workers })
    }

    /// The addresses of the workers.
    #[must_use]
    pub fn doors(&self) -> &[Arc<Door>] {
        &self.doors
    }

    /// Waits until all workers listen.
    pub async fn ready(&self) {
        poll("the workers", async || self.doors.iter().all(|door| door.is_open()).then_some(())).await;
    }

    /// Waits until all workers have ended, after [`Mode::Stop`].
    pub async fn ended(self) -> io::Result<()> {
        for worker in self.workers {
            worker.await??;
        }
        Ok(())
    }
}

impl Slot {
    async fn keep_running(mut self) -> io::Result<()> {
        loop {
            let mode = *self.mode.borrow_and_update();
            if mode == Mode::Stop {
                return Ok(());
            }
            let fate = self.fate(mode);
            let mut child = self.spawn(&fate)?;
            // Kept separately, because waiting for a child closes its input first.
            let lifeline = child.stdin.take();
            let words = child.stderr.take().map(|stderr| tokio::spawn(listen(stderr, Arc::clone(&self.log))));
            let killed = self.live(mode, &fate, &mut child).await?;
            let status = child.wait().await?;
            drop(lifeline);
            self.door.is_open.store(false, Ordering::Relaxed);
            let point = match words {
                Some(words) => words.await?,
                None => None,
            };
            self.enter(mode, killed, status, point).await;
        }
    }

    fn fate(&self, mode: Mode) -> Fate {
        if mode != Mode::Chaos {
            Fate::Live
        } else if self.dice.happens(1, 3) {
            Fate::Answers(self.dice.number(ANSWERS))
        } else {
            Fate::Points(self.points())
        }
    }

    /// Waits until the worker dies, or kills it as planned. Returns whether it was killed.
    async fn live(&mut self, mode: Mode, fate: &Fate, child: &mut Child) -> io::Result<bool> {
        let Some(mut stdout) = child.stdout.take() else { return Err(io::Error::other("a worker without output")) };
        let door = &self.door;
        let life = async {
            if stdout.read_u8().await.is_ok() {
                door.open();
            }
            match fate {
                Fate::Live => std::future::pending().await,
                // A worker that has not answered that often by now is killed anyway.
                Fate::Answers(limit) => drop(timeout(LIFETIME_MOST, door.has_answered(*limit)).await),
                Fate::Points(_) => tokio::time::sleep(LIFETIME_MOST).await,
            }
        };
        tokio::select! {
            _ = child.wait() => return Ok(false),
            () = life => {}
            _ = self.mode.wait_for(|next| *next != mode) => {}
        }
        child.start_kill()?;
        Ok(true)
    }

    async fn enter(&self, mode: Mode, killed: bool, status: ExitStatus, point: Option<String>) {
        match point {
            Some(point) => self.tally.count(Group::KillAtPoint, &point),
            // At the start and the end of the chaos all workers are replaced, which does not count.
            None if killed && mode == Mode::Calm => {}
            None if killed && status.signal() == Some(KILL) => self.tally.count(Group::OtherEnd, "killed at any line"),
            None => {
                self.tally.count(Group::OtherEnd, "could not start");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    fn spawn(&self, fate: &Fate) -> io::Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("worker").args(["--port", &self.port.to_string()]).args(self.stores.arguments());
        if let Fate::Points(points) = fate {
            for (point, passes) in points {
                command.args(["--crash", &format!("{point}={passes}")]);
            }
        }
        // The worker ends when this end of its standard input is closed, so no worker outlives the run.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command.spawn()
    }

    /// Some of the points with the fewest deaths so far, each with the number of passes.
    fn points(&self) -> Vec<(&'static str, u32)> {
        let report = self.tally.report();
        let mut points = POINTS.to_vec();
        points.sort_by_key(|point| report.of(Group::KillAtPoint, point));
        points.truncate(POINTS_CONSIDERED);
        let passes = || if self.dice.happens(1, 2) { 1 } else { 1 + self.dice.number(0..PASSES_MOST) };
        (0..POINTS_ARMED).filter_map(|_| self.dice.pick(&points).map(|point| (*point, passes()))).collect()
    }
}

/// Reads a worker's output. Returns the crash point that its last line names.
async fn listen(stderr: tokio::process::ChildStderr, log: Arc<Mutex<File>>) -> Option<String> {
    let mut lines = BufReader::new(stderr).lines();
    let mut point = None;
    while let Ok(Some(line)) = lines.next_line().await {
        match line.strip_prefix(LAST_WORDS) {
            Some(name) => point = Some(name.to_owned()),
            None => {
                // An error of the log file must not end the run.
                let _ = writeln!(log.lock().unwrap_or_else(PoisonError::into_inner), "{line}");
            }
        }
    }
    point
}

/// Log level of the workers.
const LOG_FILTER: &str = "error";

/// The stores of a worker, and its mode.
#[derive(Clone, Debug)]
pub struct Stores {
    /// The address of Redis, or those of a cluster's nodes.
    pub redis_url: String,
    /// Whether Redis is a cluster.
    pub cluster: bool,
    /// The `DynamoDB` endpoint.
    pub dynamodb_url: String,
    /// The acknowledgement mode of its packets.
    pub ack: Ack,
}

/// The command line of a worker.
#[derive(Debug, clap::Args)]
pub struct Worker {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    stores: DevOptions,
    /// The crash point, and the pass at which the worker dies there: `grab.after_claim=3`
    #[arg(long, value_name = "POINT=PASSES", value_parser = crash)]
    crash: Vec<(String, u32)>,
}

impl Stores {
    /// The arguments for a worker's command line.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--redis-url", &self.redis_url, "--dynamodb-url", &self.dynamodb_url];
        arguments.extend(["--ack", self.ack.name(), "--settle-every", "0s"]);
        if self.cluster {
            arguments.push("--redis-cluster");
        }
        arguments.into_iter().map(str::to_owned).collect()
    }
}

impl Worker {
    /// Serves until it dies, or until its parent process is gone.
    pub async fn run(self) -> Result<(), Box<dyn Error>> {
        shared::logs::to_stderr(LOG_FILTER);
        shared::redis::install_crypto_provider();
        for (point, passes) in &self.crash {
            if !shared::crash::arm(point, *passes) {
                return Err(format!("there is no crash point {point}").into());
            }
        }
        let local = Local::start(Options { mode: local::Mode::Dev(self.stores), ..self.options }).await?;
        // The parent reads this line as the sign of readiness. It holds the other end of the input for its lifetime.
        println!("{}", local.url());
        tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
        local.stop().await;
        Ok(())
    }
}

fn crash(text: &str) -> Result<(String, u32), String> {
    let (point, passes) = text.split_once('=').ok_or("expected POINT=PASSES")?;
    let passes = passes.parse().map_err(|_| "PASSES must be a number")?;
    Ok((point.to_owned(), passes))
}
