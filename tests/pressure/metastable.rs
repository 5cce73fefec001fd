//! Whether an overload outlives its cause. Clients that retry could keep a service busy that would be well without them.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use client::{Caller, Client, GrabResult, SendRequest, Split, Transport};
use futures::stream::{self, StreamExt};
use http::{Request, Response};
use hyper::body::Bytes;
use tests::chart::{self, Axis, Color, Line, OURS, THEIRS};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::stack::Stack;

/// Every user gets a slip: so many winners no run has.
const PACKETS: usize = 20;
const SLIPS: u32 = 100_000;
/// Requests in flight while the capacity is measured.
const CLOSED_LOOP: usize = 64;
const WARM_UP: Duration = Duration::from_secs(3);
const CAPACITY_WITHIN: Duration = Duration::from_secs(10);
/// The load before and after the overload, in percent of the capacity.
const NORMAL: u64 = 95;
const BEFORE_S: u64 = 5;
const AFTER_S: u64 = 20;
/// The goal: this soon after the overload...
const WITHIN_S: usize = 5;
/// ...this much of the capacity is served again, in percent.
const SERVED: u64 = 90;
const TICK: Duration = Duration::from_millis(10);
/// The most requests that this process has in flight. Each needs a connection, and so a file. Another request fails at once, as
/// one that finds no free port.
const UNDER_WAY_MAX: usize = 8_192;
/// A client's time-out of one try.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub struct Options {
    /// The overload, as a multiple of the measured capacity
    #[arg(long, default_value_t = 10)]
    times: u64,
    /// The duration of the overload, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The folder for the curve and its chart
    #[arg(long, value_name = "FOLDER", default_value = "target/pressure")]
    out: PathBuf,
}

/// What happened in one second.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    /// Users that arrived.
    users: u64,
    /// Requests that were sent, retries too.
    tries: u64,
    /// Users who got their slip: the goodput.
    served: u64,
    /// Requests that were answered 429 or 503.
    refused: u64,
    /// Requests without an answer: not sent for want of a connection, or timed out.
    unanswered: u64,
    /// Users who gave up.
    gave_up: u64,
}

/// The seconds since a moment.
struct Curve {
    begun: Instant,
    seconds: Mutex<Vec<Second>>,
}

impl Curve {
    fn new() -> Arc<Self> {
        Arc::new(Self { begun: Instant::now(), seconds: Mutex::default() })
    }

    /// Counts something that happens now.
    fn count(&self, what: impl FnOnce(&mut Second)) {
        let second = usize::try_from(self.begun.elapsed().as_secs()).unwrap();
        let mut seconds = self.seconds.lock().unwrap();
        if seconds.len() <= second {
            seconds.resize(second + 1, Second::default());
        }
        what(&mut seconds[second]);
    }

    /// The first `count` seconds.
    fn first(&self, count: usize) -> Vec<Second> {
        let mut seconds = self.seconds.lock().unwrap().clone();
        seconds.resize(count, Second::default());
        seconds
    }
}

/// Counts the tries of the clients that use it.
#[derive(Clone)]
struct Counted {
    http: reqwest::Client,
    curve: Arc<Curve>,
    room: Arc<Semaphore>,
}

impl Transport for Counted {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Box<dyn StdError + Send + Sync>> {
        let Ok(_place) = self.room.try_acquire() else {
            self.curve.count(|second| second.unanswered += 1);
            return Err("too many requests of this process are in flight".into());
        };
        self.curve.count(|second| second.tries += 1);
        let answer = self.http.exchange(request).await;
        match &answer {
            Ok(response) if matches!(response.status().as_u16(), 429 | 503) => {
                self.curve.count(|second| second.refused += 1);
            }
            Ok(_) => {}
            Err(_) => self.curve.count(|second| second.unanswered += 1),
        }
        answer
    }
}

/// Users who come one after another, each for a slip.
struct Users {
    client: Client<Counted>,
    curve: Arc<Curve>,
    packets: Arc<Vec<String>>,
    next: Arc<AtomicU64>,
}

impl Users {
    /// The same users, counted from now on in another curve.
    fn anew(&self, http: &reqwest::Client, url: &str) -> Arc<Self> {
        let (packets, next) = (Arc::clone(&self.packets), Arc::clone(&self.next));
        Arc::new(Self::of(http, url, packets, next))
    }

    fn of(http: &reqwest::Client, url: &str, packets: Arc<Vec<String>>, next: Arc<AtomicU64>) -> Self {
        let curve = Curve::new();
        let room = Arc::new(Semaphore::new(UNDER_WAY_MAX));
        let counted = Counted { http: http.clone(), curve: Arc::clone(&curve), room };
        // With the retries that the client has by default.
        Self { client: Client::new(counted, url, Caller::Nobody), curve, packets, next }
    }

    /// A new user grabs, with retries.
    async fn grab(&self) {
        let user = self.next.fetch_add(1, Ordering::Relaxed);
        let packet = &self.packets[usize::try_from(user).unwrap() % self.packets.len()];
        self.curve.count(|second| second.users += 1);
        match self.client.by(Caller::Local(format!("u{user}"))).grab(packet, None).await {
            Ok(GrabResult::Grabbed { .. }) => self.curve.count(|second| second.served += 1),
            Ok(other) => panic!("a slip is left for everybody: {other:?}"),
            Err(error) if error.code() == Some(client::ProblemCode::Internal) => panic!("{error}"),
            Err(_) => self.curve.count(|second| second.gave_up += 1),
        }
    }

    /// Users who are served in a second with [`CLOSED_LOOP`] requests in flight.
    async fn closed_loop(&self, time: Duration) -> u64 {
        let (begun, first) = (Instant::now(), self.curve.served());
        let turns = stream::repeat(()).take_while(|()| std::future::ready(begun.elapsed() < time));
        turns.for_each_concurrent(CLOSED_LOOP, |()| self.grab()).await;
        (self.curve.served() - first) * 1_000 / u64::try_from(begun.elapsed().as_millis()).unwrap()
    }

    /// Users come at a rate, however many still wait.
    async fn arrive(self: &Arc<Self>, per_second: u64, time: Duration, waiting: &mut JoinSet<()>) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let (begun, mut came) = (Instant::now(), 0);
        while begun.elapsed() < time {
            tick.tick().await;
            let due = per_second * u64::try_from(begun.elapsed().as_millis()).unwrap() / 1_000;
            for _ in came..due {
                let users = Arc::clone(self);
                waiting.spawn(async move { users.grab().await });
            }
            came = due;
            while let Some(ended) = waiting.try_join_next() {
                ended.unwrap();
            }
        }
    }
}

impl Curve {
    fn served(&self) -> u64 {
        self.seconds.lock().unwrap().iter().map(|second| second.served).sum()
    }
}

/// Returns whether the goal is reached.
pub async fn run(options: &Options) -> bool {
    let stack = Stack::start();
    let http = reqwest::Client::builder().timeout(ANSWER_WITHIN).build().unwrap();
    let packets = send_packets(&http, &stack.url).await;
    let users = Users::of(&http, &stack.url, Arc::new(packets), Arc::default());
    users.closed_loop(WARM_UP).await;
    let capacity = users.closed_loop(CAPACITY_WITHIN).await;
    println!("capacity with {CLOSED_LOOP} requests in flight: {capacity} grabs/s");

    let users = users.anew(&http, &stack.url);
    let (normal, overload) = (capacity * NORMAL / 100, capacity * options.times);
    let mut waiting = JoinSet::new();
    users.arrive(normal, Duration::from_secs(BEFORE_S), &mut waiting).await;
    users.arrive(overload, Duration::from_secs(options.seconds), &mut waiting).await;
    users.arrive(normal, Duration::from_secs(AFTER_S), &mut waiting).await;
    let seconds = usize::try_from(BEFORE_S + options.seconds + AFTER_S).unwrap();
    let curve = users.curve.first(seconds);
    let memory = stack.resident_mb();
    waiting.join_all().await;
    let capacity_after = users.closed_loop(CAPACITY_WITHIN).await;

    let over = usize::try_from(BEFORE_S + options.seconds).unwrap();
    print!("{}", table(&curve, over));
    write(&options.out, &curve, capacity, BEFORE_S as f64..over as f64);
    println!("capacity afterwards: {capacity_after} grabs/s; the stack takes {memory} MB");
    judge(&curve, over, capacity)
}

/// Sends packets to grab from.
async fn send_packets(http: &reqwest::Client, url: &str) -> Vec<String> {
    let operator = Client::new(http.clone(), url, Caller::Nobody);
    operator.deposit("sender", "d", u64::from(SLIPS) * PACKETS as u64).await.unwrap();
    let sender = operator.by(Caller::Local("sender".to_owned()));
    let packet = SendRequest::new(Split::Equal, SLIPS.into(), SLIPS);
    let mut ids = Vec::new();
    for key in 0..PACKETS {
        ids.push(sender.send(&key.to_string(), &packet).await.unwrap().packet.packet_id);
    }
    ids
}

/// The overload as a sum, and each second around its end.
fn table(curve: &[Second], over: usize) -> String {
    let mut text = String::new();
    let begun = usize::try_from(BEFORE_S).unwrap();
    let sum = |count: fn(&Second) -> u64| curve[begun..over].iter().map(count).sum::<u64>() / (over - begun) as u64;
    let mean = Second {
        users: sum(|second| second.users),
        tries: sum(|second| second.tries),
        served: sum(|second| second.served),
        refused: sum(|second| second.refused),
        unanswered: sum(|second| second.unanswered),
        gave_up: sum(|second| second.gave_up),
    };
    let mut row = |what: &str, second: &Second| {
        let Second { users, tries, served, refused, unanswered, gave_up } = second;
        let _ =
            writeln!(text, "{what:>18} {users:>8} {tries:>8} {served:>8} {refused:>8} {unanswered:>10} {gave_up:>8}");
    };
    row("a second overload", &mean);
    for (second, counts) in curve.iter().enumerate().skip(over.saturating_sub(2)) {
        row(&format!("{:+}", second.cast_signed() - over.cast_signed()), counts);
    }
    format!(
        "{:>18} {:>8} {:>8} {:>8} {:>8} {:>10} {:>8}\n{text}",
        "second", "users", "tries", "served", "refused", "unanswered", "gave up"
    )
}

/// Writes the curve as CSV and as a chart.
fn write(out: &Path, curve: &[Second], capacity: u64, overload: std::ops::Range<f64>) {
    std::fs::create_dir_all(out).unwrap();
    let mut csv = "second,users,tries,served,refused,unanswered,gave_up\n".to_owned();
    for (number, second) in curve.iter().enumerate() {
        let Second { users, tries, served, refused, unanswered, gave_up } = second;
        let _ = writeln!(csv, "{number},{users},{tries},{served},{refused},{unanswered},{gave_up}");
    }
    std::fs::write(out.join("metastable.csv"), csv).unwrap();

    let percent = |served: u64| served as f64 * 100.0 / capacity as f64;
    let points: Vec<(f64, f64)> =
        curve.iter().enumerate().map(|(second, counts)| (second as f64 + 0.5, percent(counts.served))).collect();
    let highest = points.iter().map(|(_, percent)| *percent).fold(120.0, f64::max) * 1.05;
    let end = curve.len() as f64;
    let goal = SERVED as f64;
    let lines = [
        Line { name: "served".to_owned(), color: OURS.to_rgba(), width: 2, points },
        Line {
            name: format!("{SERVED} % of the capacity"),
            color: THEIRS.to_rgba(),
            width: 1,
            points: vec![(0.0, goal), (end, goal)],
        },
    ];
    let x = Axis { title: "seconds; shaded: the overload", range: 0.0..end, label: &|second| format!("{second:.0}") };
    let y = Axis { title: "", range: 0.0..highest, label: &|percent| format!("{percent:.0} %") };
    let file = out.join("metastable.svg");
    chart::lines(&file, "Grabs served, in percent of the capacity", x, y, Some((overload.start, overload.end)), &lines)
        .unwrap();
    println!("the curve is in {}", file.display());
}

/// Prints when the goal was reached: from the first second on that served enough, and after which the mean stayed there.
fn judge(curve: &[Second], over: usize, capacity: u64) -> bool {
    let after: Vec<u64> = curve[over..].iter().map(|second| second.served).collect();
    let is_enough = |served: u64, seconds: usize| served * 100 >= capacity * SERVED * seconds as u64;
    let recovered = (0..after.len())
        .find(|&second| is_enough(after[second], 1) && is_enough(after[second..].iter().sum(), after.len() - second));
    match recovered {
        Some(second) => println!("{SERVED} % of the capacity was served again from second {} on", second + 1),
        None => println!("{SERVED} % of the capacity was not served again within {AFTER_S} s"),
    }
    let reached = recovered.is_some_and(|second| second < WITHIN_S);
    println!("goal, within {WITHIN_S} s: {}", if reached { "reached" } else { "missed" });
    reached
}
