//! `hongbao serve`: the program itself beside a real Redis and a real `PostgreSQL`, with keys that the real `hongbao-admin` makes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http_body_util::Full;
use postgres_ledger::Database;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use rustix::process::Signal;
use serde_json::{Value, json};
use shared::redis::Authorities;
use shared::redis::test_server::{TestServer, poll};
use tempfile::TempDir;
use tests::postgres::Postgres;
use tests::relay::stand_in;
use tests::serving::{Place, SIGNS, said, token, tokens, unsigned};
use tests::walkthrough::{Shell, blocks, console, walk_in};

use crate::programs::built;
use crate::repository;
use crate::webhooks::Receiver;

#[tokio::test]
async fn users_have_tokens_and_operators_have_keys() {
    let place = Place::new().await;
    let serving = place.serve();
    let (money, read) = (place.key("ann", "money"), place.key("bookkeeper", "read"));

    // The header of a local stack means nothing here, and neither does a key on a user's route.
    for request in [serving.get("/me/wallet"), serving.get("/me/wallet").bearer_auth(&money)] {
        said(request.header("x-user-id", "alice").send().await.unwrap(), 401).await;
    }
    let bad = [
        json!({"exp": 1}),
        json!({"nbf": 4_000_000_000_u64}),
        json!({"iss": "https://other.example"}),
        json!({"aud": "other"}),
        json!({"aud": null}),
    ];
    for claims in bad {
        let asked = serving.get("/me/wallet").bearer_auth(token("alice", &claims));
        said(asked.send().await.unwrap(), 401).await;
    }
    let mut forged = tokens("alice");
    forged.truncate(forged.len() - 4);
    said(serving.get("/me/wallet").bearer_auth(forged + "AAAA").send().await.unwrap(), 401).await;
    let twice = serving.get("/me/wallet").bearer_auth(tokens("alice")).bearer_auth(tokens("bob"));
    said(twice.send().await.unwrap(), 400).await;
    said(serving.get("/me/wallet").bearer_auth(tokens("alice")).send().await.unwrap(), 200).await;

    // A key does what its rights say, and movements have its name.
    said(serving.fund(&read, "alice", 1_000).await, 403).await;
    said(serving.fund(&tokens("alice"), "alice", 1_000).await, 401).await;
    said(serving.fund("hb_unknown", "alice", 1_000).await, 401).await;
    said(serving.fund(&money, "alice", 1_000).await, 201).await;
    said(serving.get("/wallets/alice").bearer_auth(&money).send().await.unwrap(), 403).await;
    said(serving.get("/operator/nothing").bearer_auth(&money).send().await.unwrap(), 404).await;
    let movements = serving.get("/wallets/alice/movements").bearer_auth(&read).send().await.unwrap();
    assert_eq!(said(movements, 200).await["movements"][0]["by"], "ann");

    // Somebody who guesses must wait. An operator with a good key need not.
    let mut guesses = Vec::new();
    for guess in 0..25 {
        let asked = serving.get("/wallets/alice").bearer_auth(format!("hb_{guess}")).send().await.unwrap();
        guesses.push(asked.status().as_u16());
    }
    assert_eq!((guesses[0], guesses[24]), (401, 429), "{guesses:?}");
    said(serving.get("/wallets/alice").bearer_auth(&read).send().await.unwrap(), 200).await;

    // A key that is revoked counts no more, at once. Its name is free again.
    assert!(place.admin(&["key", "revoke", "bookkeeper"]).status.success());
    said(serving.get("/wallets/alice").bearer_auth(&read).send().await.unwrap(), 401).await;
    assert!(!place.admin(&["key", "revoke", "bookkeeper"]).status.success());
    assert!(!place.admin(&["key", "add", "ann", "--rights", "read"]).status.success());
    place.key("bookkeeper", "read");
    let list: Value = serde_json::from_slice(&place.admin(&["key", "list", "--json"]).stdout).unwrap();
    let names: Vec<&str> = list.as_array().unwrap().iter().map(|key| key["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ann", "bookkeeper", "bookkeeper"]);
    assert!(list[1]["revoked_at"].is_string() && list[2]["revoked_at"].is_null(), "{list}");
    assert!(!list.to_string().contains(&money));
}

#[tokio::test]
async fn a_packet_goes_its_way_beside_two_processes_of_which_one_is_killed() {
    let receiver = Receiver::start().await;
    let place = Place::new().await.telling(&receiver.url);
    let (first, second) = (place.serve(), place.serve());
    let key = place.key("shop", "money,read");
    said(first.fund(&key, "alice", 1_000).await, 201).await;
    let body = json!({"split": "equal", "total_amount": 1_000, "count": 10, "expires_in_s": 60});
    let packet = first.packet("alice", "k1", &body).await;
    for user in 0..4 {
        let grabbed = said(first.grab(&format!("u{user}"), &packet).await, 200).await;
        assert_eq!(grabbed["outcome"], "grabbed");
    }
    // It dies with what it had begun, and with all leases.
    first.signal(Signal::KILL);
    for user in 4..6 {
        let grabbed = said(second.grab(&format!("u{user}"), &packet).await, 200).await;
        assert_eq!(grabbed["outcome"], "grabbed");
    }
    let close = second.post(&format!("/operator/packets/{packet}/close")).bearer_auth(&key);
    said(close.json(&json!({"reason": "a test"})).send().await.unwrap(), 200).await;
    // The sent, six claims, the close, the end and its refund.
    let events = receiver.wait(10).await;
    assert_eq!(events["SlipClaimed"].len(), 6);
    assert_eq!(events["PacketRefunded"][0]["refunded_amount"], 400);
    assert_eq!(second.balance(&key, "alice").await, 400);
    poll("an empty queue", async || {
        let left = place
            .postgres
            .psql("SELECT (SELECT count(*) FROM hongbao.changes) + (SELECT count(*) FROM hongbao.webhooks)");
        (left.trim() == "0").then_some(())
    })
    .await;
    let audit = place.admin(&["audit"]);
    assert!(audit.status.success(), "{audit:?}");

    let metrics = second.get("/metrics").send().await.unwrap().text().await.unwrap();
    for line in [
        "hongbao_grabs_total{outcome=\"grabbed\"} 2",
        "hongbao_requests_total{function=\"grab\",status=\"200\"} 2",
        "hongbao_refunded_packets_total 1",
        "hongbao_audit_imbalances 0",
        "hongbao_claim_latency_seconds_count 2",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn it_says_when_it_is_ready_and_ends_after_a_signal() {
    let mut place = Place::new().await;
    place.variables.push(("TRUSTED_PROXIES", "127.0.0.1".to_owned()));
    let mut serving = place.serve();
    said(serving.get("/healthz").send().await.unwrap(), 200).await;
    said(serving.get("/readyz").send().await.unwrap(), 200).await;
    // No stranger reads figures.
    said(serving.get("/metrics").send().await.unwrap(), 200).await;
    said(serving.get("/metrics").header("x-forwarded-for", "192.0.2.1").send().await.unwrap(), 404).await;
    // A stranger's body is not waited for, so it is not kept either.
    let mut stranger = TcpStream::connect(serving.url.trim_start_matches("http://")).unwrap();
    stranger.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stranger.write_all(b"POST /packets HTTP/1.1\r\nhost: x\r\ncontent-length: 2000000\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    stranger.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 401");
    for path in ["/", "/_local/settle", "/_local/health"] {
        said(serving.get(path).send().await.unwrap(), 404).await;
    }
    place.postgres.kill();
    let ready = said(serving.get("/readyz").send().await.unwrap(), 503).await;
    assert_eq!((&ready["redis"], &ready["database"]), (&json!(true), &json!(false)));
    place.postgres.restart();
    poll("ready again", async || serving.get("/readyz").send().await.ok().filter(|answer| answer.status() == 200))
        .await;
    serving.signal(Signal::TERM);
    // A proxy sees it in time.
    poll("not ready", async || serving.get("/readyz").send().await.ok().filter(|answer| answer.status() == 503)).await;
    assert!(serving.child.wait().unwrap().success());
}

#[tokio::test]
async fn what_is_not_safe_does_not_start() {
    let refuses = |place: &Place, said: &str| {
        let ended = place.command().output().unwrap();
        let errors = String::from_utf8(ended.stderr).unwrap();
        assert!(!ended.status.success() && errors.contains(said), "{said}: {errors}");
    };
    let mut place = Place::with(Postgres::start(&["fsync=off"]), TestServer::start(&[]).await);
    refuses(&place, "fsync is off");
    place.postgres = Postgres::start(&[]);
    place.variables[1].1 = place.postgres.url();
    place.variables.push(("GRAB_ACK", "redis".to_owned()));
    refuses(&place, "appendonly must be yes");
    place.redis =
        TestServer::start(&["--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "yes"])
            .await;
    place.variables[2].1 = place.redis.url();
    refuses(&place, "no-appendfsync-on-rewrite must be no");
    place.variables.pop();
    place.redis = TestServer::start(&["--maxmemory-policy", "allkeys-lru"]).await;
    place.variables[2].1 = place.redis.url();
    refuses(&place, "noeviction");
    place.redis = TestServer::start(&[]).await;
    place.variables[2].1 = place.redis.url();
    let file = place.folder.path().join("jwks.json");
    for keys in [json!({}), json!({"keys": []}), json!({"keys": [{"kty": "oct", "k": "c2hvcnQ"}]})] {
        std::fs::write(&file, keys.to_string()).unwrap();
        refuses(&place, "keys of tokens");
    }
    place.variables[3].1 = "http://issuer.example/keys?k=secret".to_owned();
    refuses(&place, "by https");
    place.variables.remove(3);
    refuses(&place, "--jwks");
}

/// A key pair of an issuer, and its public half in a JWK Set.
fn pair(id: &str) -> (EcdsaKeyPair, Value) {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap();
    // An uncompressed point: 4, x, y.
    let [x, y] = [1..33, 33..65].map(|part| BASE64_URL_SAFE_NO_PAD.encode(&pair.public_key().as_ref()[part]));
    let key = json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": id, "x": x, "y": y});
    (pair, json!({"keys": [{"kty": "unheard-of"}, key]}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_issuer_may_change_its_keys() {
    let (old, new) = (pair("old"), pair("new"));
    let published = Arc::new(Mutex::new(old.1.clone()));
    let shown = Arc::clone(&published);
    let issuer = stand_in(move |_| {
        let keys = shown.lock().unwrap().to_string();
        async { hyper::Response::new(Full::from(keys)) }
    });
    let mut place = Place::new().await;
    place.variables[3].1 = format!("http://{}/keys", issuer.await);
    let serving = place.serve();
    let asked = async |pair: &EcdsaKeyPair, id: &str| {
        let signed = unsigned(&json!({"alg": "ES256", "kid": id}), "alice", &json!({}));
        let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        let token = format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature));
        serving.get("/me/wallet").bearer_auth(token).send().await.unwrap().status().as_u16()
    };
    assert_eq!((asked(&old.0, "old").await, asked(&new.0, "new").await, asked(&new.0, "old").await), (200, 401, 401));
    // A secret that everybody can read is no key: the set as a whole does not count.
    let secret = json!({"kty": "oct", "kid": "1", "k": BASE64_URL_SAFE_NO_PAD.encode(SIGNS)});
    *published.lock().unwrap() = json!({"keys": [secret]});
    assert_eq!(asked(&old.0, "old").await, 200);
    *published.lock().unwrap() = new.1;
    poll("the new key", async || (asked(&new.0, "new").await == 200).then_some(())).await;
    assert_eq!(asked(&old.0, "old").await, 401);
    let secret = serving.get("/me/wallet").bearer_auth(tokens("alice")).send().await.unwrap();
    assert_eq!(secret.status(), 401);
}

#[test]
fn the_check_of_a_table_passes_on_postgresql() {
    let postgres = Postgres::start(&[]);
    let url = postgres.url();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        shared::redis::install_crypto_provider();
        Database::new(&url, &Authorities::System).unwrap().migrate().await.unwrap();
    });
    let checked =
        Command::new(built("hongbao-admin")).arg("ledger-check").env_clear().env("DATABASE_URL", url).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

/// The commands of docs/SELF-HOST.md after the installation, with its file of variables.
#[tokio::test]
async fn the_page_about_ones_own_server_works() {
    let page = std::fs::read_to_string(repository("docs/SELF-HOST.md")).unwrap();
    let mut place = Place::new().await;
    let file = blocks(&page).into_iter().find(|block| block.language == "ini").unwrap();
    for line in file.lines {
        let (name, value) = line.split_once('=').unwrap();
        if !place.variables.iter().any(|(known, _)| *known == name) {
            place.variables.push((String::leak(name.to_owned()), value.to_owned()));
        }
    }
    let serving = place.serve();
    let programs = built("hongbao").parent().unwrap().to_str().unwrap().to_owned();
    let path = format!("{programs}:{}:{}", tests::postgres::programs().display(), std::env::var("PATH").unwrap());
    let restored = place.postgres.url().replace("/postgres", "/restored");
    place.postgres.psql("CREATE DATABASE restored");
    let folder = place.folder.path().to_str().unwrap();
    let mut variables: Vec<(&str, &str)> = place.variables.iter().map(|(name, value)| (*name, &**value)).collect();
    variables.extend([("HONGBAO", &*serving.url), ("PATH", &path), ("RESTORED_URL", &restored)]);
    let mut shell = Shell::start(&variables);
    shell.run(&format!("cd {folder}"));
    let steps = console(&page);
    assert!(steps.len() >= 11, "only {} commands", steps.len());
    walk_in(&mut shell, &steps);
}

/// What the files of deploy/ set, the program or its configuration knows.
#[test]
fn the_files_to_run_it_name_variables_that_exist() {
    let help = Command::new(built("hongbao")).args(["serve", "--help"]).output().unwrap();
    let known = String::from_utf8(help.stdout).unwrap() + include_str!("../../shared/src/config.rs");
    let page = std::fs::read_to_string(repository("docs/SELF-HOST.md")).unwrap();
    let file = blocks(&page).into_iter().find(|block| block.language == "ini").unwrap().lines.join("\n");
    let example = std::fs::read_to_string(repository("deploy/example.env")).unwrap();
    let (example, _) = example.split_once("# For deploy/compose.yaml only.").unwrap();
    let compose = std::fs::read_to_string(repository("deploy/compose.yaml")).unwrap();
    let (_, compose) = compose.split_once("\n  environment:\n").unwrap();
    let compose = compose.split("  # For keys").next().unwrap().replace(": ", "=");
    let all = [&*file, example, &compose].join("\n");
    let names: Vec<&str> =
        all.lines().filter_map(|line| Some(line.trim().trim_start_matches('#').split_once('=')?.0)).collect();
    assert!(names.len() >= 12, "{names:?}");
    for name in names {
        assert!(known.contains(name), "{name}");
    }
}

/// A user of a homeserver.
struct Member {
    homeserver: String,
    token: String,
}

impl Member {
    async fn ask(&self, method: reqwest::Method, path: &str, body: &Value) -> Value {
        let asked = reqwest::Client::new().request(method, format!("{}/_matrix/client/v3{path}", self.homeserver));
        said(asked.bearer_auth(&self.token).json(body).send().await.unwrap(), 200).await
    }

    /// Sends an event to a room, and returns its id.
    async fn send(&self, room: &str, kind: &str, content: &Value) -> String {
        let path = format!("/rooms/{room}/send/{kind}/{:x}", rand::random::<u64>());
        let sent = self.ask(reqwest::Method::PUT, &path, content).await;
        sent["event_id"].as_str().unwrap().to_owned()
    }

    async fn say(&self, room: &str, text: &str) -> String {
        self.send(room, "m.room.message", &json!({"msgtype": "m.text", "body": text})).await
    }

    async fn react(&self, room: &str, event: &str) {
        let content = json!({"m.relates_to": {"rel_type": "m.annotation", "event_id": event, "key": "🧧"}});
        self.send(room, "m.reaction", &content).await;
    }

    /// The bot's messages in a room that have this text, the newest first.
    async fn notices(&self, room: &str, text: &str) -> Vec<Value> {
        let found =
            self.ask(reqwest::Method::GET, &format!("/rooms/{room}/messages?dir=b&limit=200"), &json!({})).await;
        let of_bot = |event: &&Value| {
            event["sender"] == "@bot:localhost"
                && event["content"]["body"].as_str().is_some_and(|body| body.contains(text))
        };
        found["chunk"].as_array().unwrap().iter().filter(of_bot).cloned().collect()
    }

    /// Waits for such a message.
    async fn notice(&self, room: &str, text: &str) -> Value {
        poll(text, async || self.notices(room, text).await.into_iter().next()).await
    }
}

/// A process that is killed when it is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a homeserver with its data in a folder. Returns its address too.
async fn synapse(folder: &Path) -> (String, Killed) {
    let tools = repository(".tools/matrix/bin");
    let port = shared::redis::test_server::free_port();
    let homeserver = format!("http://127.0.0.1:{port}");
    let path = |name: &str| folder.join(name).display().to_string();
    let generated = Command::new(tools.join("python"))
        .args([
            "-m",
            "synapse.app.homeserver",
            "--generate-config",
            "--server-name",
            "localhost",
            "--report-stats",
            "no",
        ])
        .args(["--config-path", &path("homeserver.yaml"), "--data-directory", &path("data")])
        // Its log goes where this runs.
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(generated.status.success(), "{generated:?}");
    // JSON is YAML. A test's users are faster than people.
    let quick = json!({"per_second": 1000, "burst_count": 1000});
    let own = json!({
        "listeners": [{"port": port, "bind_addresses": ["127.0.0.1"], "type": "http", "resources": [{"names": ["client"]}]}],
        "registration_shared_secret": "only here", "trusted_key_servers": [],
        "rc_message": quick, "rc_registration": quick, "rc_joins": {"local": quick}, "rc_invites": {"per_room": quick, "per_user": quick},
        "rc_login": {"address": quick, "account": quick, "failed_attempts": quick},
    });
    std::fs::write(path("own.yaml"), own.to_string()).unwrap();
    let synapse = Command::new(tools.join("python"))
        .args([
            "-m",
            "synapse.app.homeserver",
            "--config-path",
            &path("homeserver.yaml"),
            "--config-path",
            &path("own.yaml"),
        ])
        .current_dir(folder)
        .stderr(Stdio::null())
        .spawn();
    let synapse = Killed(synapse.unwrap());
    poll("Synapse", async || reqwest::get(format!("{homeserver}/_matrix/client/versions")).await.ok()).await;
    (homeserver, synapse)
}

/// `examples/matrix_bot.py` in a room of a real homeserver, Synapse.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make test-clients installs Synapse and runs it"]
async fn a_bot_sends_packets_in_a_room_of_matrix() {
    let place = Place::new().await;
    let serving = place.serve();
    let key = place.key("matrix", "users,money,read");
    let folder = TempDir::new().unwrap();
    let (homeserver, _synapse) = synapse(folder.path()).await;
    let tools = repository(".tools/matrix/bin");
    let mut members = Vec::new();
    for name in ["bot", "alice", "bob", "carol"] {
        let made = Command::new(tools.join("register_new_matrix_user"))
            .args(["--user", name, "--password", name, "--no-admin", "--shared-secret", "only here", &homeserver])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let login =
            json!({"type": "m.login.password", "identifier": {"type": "m.id.user", "user": name}, "password": name});
        let signed = reqwest::Client::new().post(format!("{homeserver}/_matrix/client/v3/login")).json(&login);
        let signed = said(signed.send().await.unwrap(), 200).await;
        let token = signed["access_token"].as_str().unwrap().to_owned();
        members.push(Member { homeserver: homeserver.clone(), token });
    }
    let [bot, alice, bob, carol] = &members[..] else { panic!("four") };
    let start = || {
        let bot = Command::new("python3")
            .arg(repository("examples/matrix_bot.py"))
            .arg("--topup")
            .envs([
                ("HONGBAO_URL", &serving.url),
                ("HONGBAO_KEY", &key),
                ("MATRIX_URL", &homeserver),
                ("MATRIX_TOKEN", &bot.token),
            ])
            .spawn();
        Killed(bot.unwrap())
    };
    let running = start();
    let guests = json!({"invite": ["@bot:localhost", "@bob:localhost", "@carol:localhost"]});
    let room = alice.ask(reqwest::Method::POST, "/createRoom", &guests).await["room_id"].as_str().unwrap().to_owned();
    for member in [bob, carol] {
        member.ask(reqwest::Method::POST, &format!("/rooms/{room}/join"), &json!({})).await;
    }
    poll("the bot in the room", async || {
        let joined = alice.ask(reqwest::Method::GET, &format!("/rooms/{room}/joined_members"), &json!({})).await;
        joined["joined"].get("@bot:localhost").cloned()
    })
    .await;
    alice.say(&room, "!topup 100").await;
    alice.notice(&room, "有 100.00 元").await;
    // It dies, reads the same again, and sends nothing twice.
    alice.say(&room, "!hongbao 10.00 2 恭喜 发财").await;
    let shown = alice.notice(&room, "恭喜 发财").await;
    drop(running);
    bob.react(&room, shown["event_id"].as_str().unwrap()).await;
    let _running = start();
    bob.notice(&room, "@bob:localhost 抢到").await;
    alice.react(&room, shown["event_id"].as_str().unwrap()).await;
    alice.notice(&room, "@alice:localhost 抢到").await;
    carol.react(&room, shown["event_id"].as_str().unwrap()).await;
    carol.notice(&room, "@carol:localhost 手慢了").await;
    carol.say(&room, "!hongbao 1.00 1").await;
    carol.notice(&room, "@carol:localhost：").await;
    assert_eq!(alice.notices(&room, "恭喜 发财").await.len(), 1);
    let mut sum = 0;
    for user in ["@alice:localhost", "@bob:localhost", "@carol:localhost"] {
        sum += serving.balance(&key, user).await.as_u64().unwrap();
    }
    assert_eq!(sum, 10_000);
    let packets = serving.get("/users/@alice:localhost/packets").bearer_auth(&key).send().await.unwrap();
    assert_eq!(said(packets, 200).await["packets"].as_array().unwrap().len(), 1);
}
