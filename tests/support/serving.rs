//! `hongbao serve` as processes of their own, beside real stores, with keys that the real `hongbao-admin` makes.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::{RequestBuilder, Response};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sha2::Sha256;
use shared::redis::test_server::TestServer;
use tempfile::TempDir;

use crate::postgres::Postgres;

/// Secrets that sign webhooks.
pub const WEBHOOK_SECRETS: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw,whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// A secret of 32 bytes that signs users' tokens.
pub const SIGNS: &[u8; 32] = b"0123456789abcdef0123456789abcdef";

/// The two stores, and what all processes beside them are given.
pub struct Place {
    /// The ledger.
    pub postgres: Postgres,
    /// The hot store.
    pub redis: TestServer,
    /// Where the issuer's keys are.
    pub folder: TempDir,
    /// The variables of each process.
    pub variables: Vec<(&'static str, String)>,
}

/// A running process. Dropped, it is killed.
pub struct Serving {
    /// The process.
    pub child: Child,
    /// Its address.
    pub url: String,
    http: reqwest::Client,
}

/// A program of the workspace, from the same build as this one.
fn program(name: &str) -> std::path::PathBuf {
    let this = std::env::current_exe().unwrap();
    let folder = this.parent().unwrap();
    let folder = if folder.ends_with("deps") { folder.parent().unwrap() } else { folder };
    folder.join(name)
}

impl Place {
    /// Both stores, empty.
    pub async fn new() -> Self {
        Self::with(Postgres::start(&[]), TestServer::start(&[]).await)
    }

    /// These stores.
    pub fn with(postgres: Postgres, redis: TestServer) -> Self {
        let folder = TempDir::new().unwrap();
        let keys = json!({"keys": [{"kty": "oct", "kid": "1", "k": BASE64_URL_SAFE_NO_PAD.encode(SIGNS)}]});
        std::fs::write(folder.path().join("jwks.json"), keys.to_string()).unwrap();
        let variables = vec![
            ("LISTEN", "127.0.0.1:0".to_owned()),
            ("DATABASE_URL", postgres.url()),
            ("REDIS_URL", redis.url()),
            ("JWKS", folder.path().join("jwks.json").display().to_string()),
            ("JWT_ISSUER", "https://issuer.example".to_owned()),
            ("JWT_AUDIENCE", "app".to_owned()),
            ("SETTLE_GRACE_MS", "250".to_owned()),
        ];
        Self { postgres, redis, folder, variables }
    }

    /// With webhooks to a receiver.
    #[must_use]
    pub fn telling(mut self, receiver: &str) -> Self {
        self.variables.push(("WEBHOOK_URL", receiver.to_owned()));
        self.variables.push(("WEBHOOK_SECRET", WEBHOOK_SECRETS.to_owned()));
        self.variables.push(("WEBHOOK_ADDRESSES", "any".to_owned()));
        self
    }

    /// The program, not started yet.
    pub fn command(&self) -> Command {
        let mut command = Command::new(program("hongbao"));
        command.arg("serve").envs(self.variables.clone()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a process, and waits until it serves.
    pub fn serve(&self) -> Serving {
        self.serve_at("127.0.0.1:0")
    }

    /// The same at an address.
    pub fn serve_at(&self, address: &str) -> Serving {
        let mut child = self.command().env("LISTEN", address).stderr(Stdio::inherit()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let url = loop {
            let line = lines.next().expect("it serves");
            let line: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("each line is JSON: {line}"));
            if line["fields"]["message"] == "serving" {
                break format!("http://{}", line["fields"]["address"].as_str().unwrap());
            }
        };
        std::thread::spawn(move || {
            lines.filter(|line| line.contains("\"ERROR\"")).for_each(|line| eprintln!("{line}"));
        });
        Serving { child, url, http: reqwest::Client::new() }
    }

    /// `hongbao-admin` with these stores.
    pub fn admin(&self, arguments: &[&str]) -> Output {
        let stores = self.variables.iter().filter(|(name, _)| ["DATABASE_URL", "REDIS_URL"].contains(name)).cloned();
        Command::new(program("hongbao-admin")).args(arguments).env_clear().envs(stores).output().unwrap()
    }

    /// A new key of an operator.
    pub fn key(&self, name: &str, rights: &str) -> String {
        let made = self.admin(&["key", "add", name, "--rights", rights, "--json"]);
        assert!(made.status.success(), "{made:?}");
        let made: Value = serde_json::from_slice(&made.stdout).unwrap();
        made["key"].as_str().unwrap().to_owned()
    }
}

/// What is signed of a token of the issuer.
pub fn unsigned(header: &Value, user: &str, with: &Value) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut claims = json!({"iss": "https://issuer.example", "aud": "app", "sub": user, "exp": now + 600});
    claims.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", part(header), part(&claims))
}

/// A token of the issuer, whose claims are changed by `with`.
pub fn token(user: &str, with: &Value) -> String {
    let signed = unsigned(&json!({"alg": "HS256", "kid": "1"}), user, with);
    let signature = <Hmac<Sha256> as KeyInit>::new_from_slice(SIGNS).unwrap().chain_update(&signed).finalize();
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature.into_bytes()))
}

/// A good token of a user.
pub fn tokens(user: &str) -> String {
    token(user, &json!({}))
}

impl Serving {
    /// A request.
    pub fn get(&self, path: &str) -> RequestBuilder {
        self.http.get(format!("{}{path}", self.url))
    }

    /// A request.
    pub fn post(&self, path: &str) -> RequestBuilder {
        self.http.post(format!("{}{path}", self.url))
    }

    /// A request.
    pub fn put(&self, path: &str) -> RequestBuilder {
        self.http.put(format!("{}{path}", self.url))
    }

    /// Money for a user, in the name of a key.
    pub async fn fund(&self, key: &str, user: &str, amount: u64) -> Response {
        let deposit = self.put(&format!("/wallets/{user}/deposits/d{amount}")).bearer_auth(key);
        deposit.json(&json!({"amount": amount})).send().await.unwrap()
    }

    /// A packet of this user.
    pub async fn packet(&self, user: &str, id: &str, body: &Value) -> String {
        let sent = self.post("/packets").bearer_auth(tokens(user)).header("idempotency-key", id).json(body);
        let sent = said(sent.send().await.unwrap(), 201).await;
        sent["packet_id"].as_str().unwrap().to_owned()
    }

    /// A grab of a user with a token.
    pub async fn grab(&self, user: &str, packet: &str) -> Response {
        self.post(&format!("/packets/{packet}/grab")).bearer_auth(tokens(user)).send().await.unwrap()
    }

    /// A user's balance.
    pub async fn balance(&self, key: &str, user: &str) -> Value {
        let wallet = self.get(&format!("/wallets/{user}")).bearer_auth(key).send().await.unwrap();
        said(wallet, 200).await["balance"].clone()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().try_into().unwrap()).unwrap(), signal).unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The body of an answer with this status.
pub async fn said(answer: Response, status: u16) -> Value {
    let (found, text) = (answer.status(), answer.text().await.unwrap());
    assert_eq!(found, status, "{text}");
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}
