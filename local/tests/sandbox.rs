//! The sandbox, as the tests of an app use it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::future::ready;
use std::sync::{Arc, Mutex};

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use local::{Local, Mode, Options, SandboxOptions};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const DAY: u64 = 86_400;

struct Sandbox {
    local: Local,
    http: reqwest::Client,
}

impl Sandbox {
    async fn start(options: Options) -> Self {
        let local = Local::start(options).await.unwrap();
        assert!(local.folder().is_none());
        // Each request has a connection of its own, so a lost answer is the fault's and not that of an old connection.
        Self { local, http: reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap() }
    }

    /// A request of alice's with the answer's status and body; `None`: there is no answer.
    async fn try_ask(&self, method: &str, path: &str, body: Value) -> Option<(u16, Value)> {
        let request = self.http.request(method.parse().unwrap(), format!("{}{path}", self.local.url()));
        let request = request.header("x-user-id", "alice").header("idempotency-key", "k1");
        let request = if body.is_null() { request } else { request.body(body.to_string()) };
        let answer = request.send().await.ok()?;
        let (status, id) = (answer.status().as_u16(), answer.headers()["x-request-id"].to_str().unwrap().to_owned());
        let mut body: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        body["request"] = id.into();
        Some((status, body))
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, body) = self.try_ask(method, path, body).await.expect("an answer");
        assert!(status < 300, "{method} {path}: {body}");
        body
    }

    async fn advance(&self, seconds: u64) -> Value {
        self.ask("POST", "/_local/clock", json!({"advance_s": seconds})).await
    }

    async fn deposit(&self) -> Value {
        self.ask("PUT", "/wallets/alice/deposits/d1", json!({"amount": 100_000})).await
    }

    async fn send(&self, more: Value) -> String {
        let mut body = json!({"split": "random", "total_amount": 1_000, "count": 3});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.ask("POST", "/packets", body).await["packet_id"].as_str().unwrap().to_owned()
    }

    /// Everything that can be seen of an evening.
    async fn evening(&self) -> Vec<Value> {
        let mut seen = vec![self.deposit().await];
        let packet = self.send(json!({})).await;
        for user in ["ann", "bob", "cy", "dan"] {
            seen.push(self.ask("POST", &format!("/users/{user}/packets/{packet}/grab"), Value::Null).await);
        }
        seen.push(self.try_ask("GET", "/packets/x", Value::Null).await.unwrap().1);
        self.advance(2 * DAY).await;
        for path in
            [&format!("/packets/{packet}"), &format!("/packets/{packet}/claims"), "/me/movements", "/_local/clock"]
        {
            let mut answer = self.ask("GET", path, Value::Null).await;
            if path.starts_with("/_local") {
                // Its id counts what the machine asked too.
                answer["request"].take();
            }
            seen.push(answer);
        }
        seen.last_mut().unwrap()["packet"] = packet.into();
        seen
    }
}

fn with(seed: Option<u64>, faults: &str) -> Options {
    let faults = (!faults.is_empty()).then(|| faults.parse().unwrap());
    Options { mode: Mode::Sandbox(SandboxOptions { seed, faults }), ..Options::ephemeral() }
}

fn seeded(seed: u64) -> Options {
    with(Some(seed), "")
}

#[tokio::test]
async fn a_seed_makes_the_same_answers_in_another_process_and_after_a_reset() {
    let (one, other) = tokio::join!(Sandbox::start(seeded(42)), Sandbox::start(seeded(42)));
    let without_ids = |seen: Vec<Value>| -> Vec<Value> {
        seen.into_iter()
            .map(|mut answer| {
                answer.as_object_mut().unwrap().remove("request");
                answer
            })
            .collect()
    };
    let (first, same) = tokio::join!(one.evening(), other.evening());
    assert_eq!(first, same);
    let amounts = |seen: &[Value]| seen.iter().filter_map(|answer| answer["amount"].as_u64()).collect::<Vec<_>>();
    assert_eq!(amounts(&first).iter().sum::<u64>(), 1_000);
    // What was there is gone, and comes again as it was.
    one.ask("POST", "/_local/reset", Value::Null).await;
    assert_eq!(one.ask("GET", "/me/wallet", Value::Null).await["balance"], 0);
    one.ask("POST", "/_local/reset", Value::Null).await;
    assert_eq!(one.evening().await, first);
    let third = Sandbox::start(seeded(43)).await.evening().await;
    assert_ne!(amounts(&without_ids(third)), amounts(&first));
}

#[tokio::test]
async fn a_packet_starts_tomorrow_and_expires_once_the_clock_is_moved() {
    for options in [with(None, ""), seeded(1)] {
        let sandbox = Sandbox::start(options).await;
        sandbox.deposit().await;
        let now: jiff::Timestamp =
            sandbox.ask("GET", "/_local/clock", Value::Null).await["now"].as_str().unwrap().parse().unwrap();
        let tomorrow = now + jiff::SignedDuration::from_hours(24);
        let packet = sandbox.send(json!({"starts_at": tomorrow.to_string(), "expires_in_s": 60})).await;
        let grab = format!("/users/bob/packets/{packet}/grab");
        let look = format!("/packets/{packet}");
        assert_eq!(sandbox.ask("POST", &grab, Value::Null).await["outcome"], "not_started");
        assert_eq!(sandbox.ask("GET", &look, Value::Null).await["status"], "scheduled");
        sandbox.advance(DAY).await;
        assert_eq!(sandbox.ask("GET", &look, Value::Null).await["status"], "open");
        let amount = sandbox.ask("POST", &grab, Value::Null).await["amount"].as_u64().unwrap();
        sandbox.advance(60).await;
        let settled = sandbox.ask("GET", &look, Value::Null).await;
        assert_eq!((&settled["status"], &settled["refunded_amount"]), (&"settled".into(), &(1_000 - amount).into()));
        assert_eq!(sandbox.ask("GET", "/me/wallet", Value::Null).await["balance"], 100_000 - amount);
        assert_eq!(
            sandbox.ask("POST", &format!("/users/cy/packets/{packet}/grab"), Value::Null).await["outcome"],
            "expired"
        );
    }
}

/// A receiver of webhooks that refuses each event twice. Returns its URL, and the tries, each with the time of its signature.
async fn receiver() -> (String, Arc<Mutex<Vec<(String, i64)>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/webhooks", listener.local_addr().unwrap());
    let tries = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&tries);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let tries: Arc<Mutex<Vec<(String, i64)>>> = Arc::clone(&kept);
            let service = service_fn(move |request: http::Request<Incoming>| {
                let header = |name: &str| request.headers()[name].to_str().unwrap().to_owned();
                let (id, at) = (header("webhook-id"), header("webhook-timestamp").parse().unwrap());
                let mut tries = tries.lock().unwrap();
                tries.push((id.clone(), at));
                let is_third = tries.iter().filter(|(tried, _)| *tried == id).count() == 3;
                let status = if is_third { 204 } else { 500 };
                ready(http::Response::builder().status(status).body(String::new()))
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service));
        }
    });
    (url, tries)
}

#[tokio::test]
async fn moving_the_clock_delivers_what_has_become_due_and_then_answers() {
    let (url, tries) = receiver().await;
    let options = Options { webhook_url: Some(url), webhook_secret: Some(SECRET.to_owned()), ..seeded(5) };
    let sandbox = Sandbox::start(options).await;
    sandbox.deposit().await;
    let packet = sandbox.send(json!({})).await;
    sandbox.ask("POST", &format!("/users/bob/packets/{packet}/grab"), Value::Null).await;
    let counts = || {
        let of = |what: &str| tries.lock().unwrap().iter().filter(|(id, _)| id.ends_with(what)).count();
        [of("_sent"), of("_claimed_0")]
    };
    // A receiver that failed is asked with one event first, so the other may have to wait longer.
    let mut before = counts();
    sandbox.advance(0).await;
    while before != [3, 3] {
        assert!(counts() > before && counts().iter().zip(before).all(|(now, before)| *now <= before + 1), "{before:?}");
        before = counts();
        sandbox.advance(3_600).await;
    }
    assert_eq!(counts(), [3, 3], "what was taken does not come again");
    let real = jiff::Timestamp::now().as_second();
    for (id, at) in &*tries.lock().unwrap() {
        assert!((real - at).abs() < 60, "{id}: receivers compare the signature's time with their own clock");
    }
    // The packet is gone before it expires.
    sandbox.ask("POST", "/_local/reset", Value::Null).await;
    sandbox.advance(DAY).await;
    assert!(tries.lock().unwrap().iter().all(|(id, _)| !id.ends_with("_settled")));
}

#[tokio::test]
async fn faults_lose_answers_and_refuse_but_what_was_done_counts_once() {
    let sandbox = Sandbox::start(with(Some(3), "lose-answers=0.3,503=0.3")).await;
    let (mut lost, mut refused, mut done) = (0, 0, 0);
    for round in 0..40 {
        loop {
            let path = format!("/wallets/alice/deposits/d{round}");
            match sandbox.try_ask("PUT", &path, json!({"amount": 10})).await {
                None => lost += 1,
                Some((503, problem)) => {
                    assert_eq!(problem["code"], "unavailable");
                    refused += 1;
                }
                Some((status, _)) => {
                    done += u32::from(status == 200);
                    break;
                }
            }
        }
    }
    assert!(lost > 5 && refused > 5, "{lost} {refused}");
    assert!(done > 3, "some were done before their answer was lost");
    let balance = loop {
        if let Some((200, wallet)) = sandbox.try_ask("GET", "/me/wallet", Value::Null).await {
            break wallet["balance"].as_u64();
        }
    };
    assert_eq!(balance, Some(400));
}

#[tokio::test]
async fn only_a_sandbox_has_a_clock_to_move_and_odd_moves_are_refused() {
    let sandbox = Sandbox::start(with(None, "")).await;
    for body in [
        json!(null),
        json!({}),
        json!({"advance_s": -1}),
        json!({"advance_s": 31_622_401}),
        json!({"advance_s": 1, "x": 1}),
    ] {
        let (status, problem) = sandbox.try_ask("POST", "/_local/clock", body.clone()).await.unwrap();
        assert_eq!((status, &problem["code"]), (400, &"invalid-request".into()), "{body}");
    }
    assert_eq!(sandbox.try_ask("DELETE", "/_local/clock", Value::Null).await.unwrap().0, 405);
    assert_eq!(sandbox.http.head(format!("{}/_local/clock", sandbox.local.url())).send().await.unwrap().status(), 200);
    let local = Local::start(Options::ephemeral()).await.unwrap();
    for (method, path) in [
        ("GET", "/_local/clock"),
        ("POST", "/_local/clock"),
        ("POST", "/_local/reset"),
        ("GET", "/_local/faults"),
        ("PUT", "/_local/faults"),
    ] {
        let answer = reqwest::Client::new().request(method.parse().unwrap(), format!("{}{path}", local.url())).send();
        let answer = answer.await.unwrap();
        assert_eq!(answer.status(), 404);
        assert!(answer.text().await.unwrap().contains("`hongbao sandbox`"));
    }
}

#[tokio::test]
async fn faults_come_and_go_for_one_route_or_user() {
    let sandbox = Sandbox::start(with(Some(1), "slow=1ms")).await;
    let first = json!([{"faults": "lose-answers=0,503=0,slow=1ms"}]);
    let rules = async || {
        let answer = sandbox.http.get(format!("{}/_local/faults", sandbox.local.url())).send().await.unwrap();
        serde_json::from_str::<Value>(&answer.text().await.unwrap()).unwrap()
    };
    let set = async |rules: Value| {
        let request = sandbox.http.put(format!("{}/_local/faults", sandbox.local.url())).body(rules.to_string());
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_str::<Value>(&answer.text().await.unwrap()).unwrap())
    };
    assert_eq!(rules().await, first);
    sandbox.deposit().await;
    let packet = sandbox.send(json!({})).await;
    let grab = async |user: &str| {
        let path = format!("/users/{user}/packets/{packet}/grab");
        sandbox.try_ask("POST", &path, Value::Null).await.map(|(status, _)| status)
    };
    let route = "POST /users/{user_id}/packets/{packet_id}/grab";

    let for_bob = json!([{"faults": "lose-answers=0,503=1,slow=0ms", "route": route, "user_id": "bob"}]);
    assert_eq!(set(for_bob.clone()).await, (200, for_bob));
    assert_eq!((grab("bob").await, grab("ann").await), (Some(503), Some(200)));
    let balance = |answer: (u16, Value)| (answer.0, answer.1["balance"].is_number());
    assert_eq!(balance(sandbox.try_ask("GET", "/me/wallet", Value::Null).await.unwrap()), (200, true));

    // The next grab alone, and then the next request of alice's.
    set(json!([{"faults": "lose-answers=1", "route": route, "times": 1}])).await;
    assert_eq!((grab("cy").await, grab("cy").await), (None, Some(200)));
    assert_eq!(rules().await[0]["times"], 0);
    set(json!([{"faults": "503=1", "user_id": "alice", "times": 1}])).await;
    let wallet = async || sandbox.try_ask("GET", "/me/wallet", Value::Null).await.unwrap().0;
    assert_eq!((grab("dan").await, wallet().await, wallet().await), (Some(200), 503, 200));

    for odd in [
        json!(null),
        json!({}),
        json!([{}]),
        json!([{"faults": "503=2"}]),
        json!([{"faults": "503=1", "route": "POST /packets/x/grab"}]),
        json!([{"faults": "503=1", "times": -1}]),
        json!([{"faults": "503=1", "user": "bob"}]),
    ] {
        let (status, problem) = set(odd.clone()).await;
        assert_eq!((status, &problem["code"]), (400, &"invalid-request".into()), "{odd}");
    }
    assert_eq!(sandbox.try_ask("DELETE", "/_local/faults", Value::Null).await.unwrap().0, 405);
    set(json!([])).await;
    assert_eq!(rules().await, json!([]));
    sandbox.ask("POST", "/_local/reset", Value::Null).await;
    assert_eq!(rules().await, first, "a reset brings back those of the start");
}

#[tokio::test]
async fn a_receiver_that_does_not_answer_keeps_the_clock_for_two_seconds_at_most() {
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", mute.local_addr().unwrap());
    let (answering, _tries) = receiver().await;
    for (url, delivered, at_most) in [(answering, true, 60), (url, false, 8)] {
        let options = Options { webhook_url: Some(url), webhook_secret: Some(SECRET.to_owned()), ..seeded(5) };
        let sandbox = Sandbox::start(options).await;
        sandbox.deposit().await;
        sandbox.send(json!({})).await;
        let begun = std::time::Instant::now();
        let answer = sandbox.advance(1).await;
        assert_eq!(answer["delivered"], delivered, "{answer}");
        assert!(begun.elapsed().as_secs() < at_most, "{:?}", begun.elapsed());
    }
}
