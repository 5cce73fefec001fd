//! A data folder that was damaged between two runs, or is lost during one.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Stack, on, refused};

const LEDGER: &str = "dynamodb.sqlite";
const LOG: &str = "dynamodb.sqlite-wal";

type Change = fn(&Path);

async fn deposit(stack: &Stack, id: &str) -> Value {
    stack.http("PUT", &format!("/wallets/alice/deposits/{id}"), json!({"amount": 100})).await
}

async fn balance(stack: &Stack) -> Value {
    stack.http("GET", "/wallets/alice", Value::Null).await["balance"].clone()
}

fn stop(stack: &mut Stack) {
    stack.signal(Signal::TERM);
    assert_eq!(stack.wait().code(), Some(0));
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-R").arg(from.join(".")).arg(to).status().unwrap();
    assert!(status.success());
}

/// A copy of `folder`, changed.
fn changed(folder: &Path, change: impl FnOnce(&Path)) -> TempDir {
    let other = tempfile::tempdir().unwrap();
    copy(folder, other.path());
    change(other.path());
    other
}

/// The one line of a start that is refused.
fn refusal(folder: &Path) -> String {
    let error = refused(on(folder));
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.starts_with("error: "), "{error}");
    error
}

/// A folder whose stack was killed after three deposits, the last ones in the log only.
async fn killed(folder: &Path) {
    let mut stack = Stack::start(&mut on(folder));
    for id in ["d1", "d2", "d3"] {
        deposit(&stack, id).await;
    }
    stack.child.kill().unwrap();
    stack.wait();
    stack.all_gone();
}

fn cut(file: &Path, length: impl FnOnce(u64) -> u64) {
    let file = File::options().write(true).open(file).unwrap();
    file.set_len(length(file.metadata().unwrap().len())).unwrap();
}

#[tokio::test]
async fn a_cut_log_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path()).await;
    let changes: [(&str, Change); 6] = [
        ("its last byte", |log| cut(log, |length| length - 1)),
        ("its last page", |log| cut(log, |length| length - 4_096)),
        ("half", |log| cut(log, |length| length / 2)),
        ("everything after its header", |log| cut(log, |_| 32)),
        ("all of it", |log| cut(log, |_| 0)),
        ("the file", |log| std::fs::remove_file(log).unwrap()),
    ];
    for (what, change) in changes {
        let other = changed(folder.path(), |folder| change(&folder.join(LOG)));
        let before = std::fs::read(other.path().join(LEDGER)).unwrap();
        let error = refusal(other.path());
        assert!(std::fs::read(other.path().join(LEDGER)).unwrap() == before, "{what}: the ledger was changed");
        assert!(
            error.contains("is older than the last answer, because its write-ahead log is cut or missing"),
            "{what}: {error}"
        );
        // A second start says the same: the first has not accepted anything.
        assert_eq!(refusal(other.path()), error, "{what}");
    }
    let other = changed(folder.path(), |_| {});
    let stack = Stack::start(&mut on(other.path()));
    assert_eq!(balance(&stack).await, 300, "an untouched log is complete");
}

#[tokio::test]
async fn a_log_that_began_anew_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let salt = || {
        let mark = std::fs::read_to_string(folder.path().join("ledger.mark")).unwrap();
        mark.split_once(' ').unwrap().0.to_owned()
    };
    let mut stack = Stack::start(&mut on(folder.path()));
    deposit(&stack, "d0").await;
    let (first, mut deposits) = (salt(), 1);
    // SQLite begins its log anew after about a thousand pages.
    while salt() == first {
        assert!(deposits < 1_000);
        deposit(&stack, &format!("d{deposits}")).await;
        deposits += 1;
    }
    stack.child.kill().unwrap();
    stack.wait();
    stack.all_gone();
    let stack = Stack::start(&mut on(folder.path()));
    assert_eq!(balance(&stack).await, deposits * 100);
}

#[tokio::test]
async fn a_damaged_or_missing_ledger_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let mut stack = Stack::start(&mut on(folder.path()));
    deposit(&stack, "d1").await;
    stop(&mut stack);
    let changes: [(Change, &str); 6] = [
        (|ledger| cut(ledger, |length| length / 2), "is damaged ("),
        (|ledger| cut(ledger, |length| length - 4_096), "is damaged ("),
        (
            |ledger| {
                let file = File::options().write(true).open(ledger).unwrap();
                let middle = file.metadata().unwrap().len() / 2 / 4_096 * 4_096;
                file.write_all_at(&[0xa5; 4_096], middle).unwrap();
            },
            "is damaged (",
        ),
        (
            |ledger| File::options().write(true).open(ledger).unwrap().write_all_at(&[0; 100], 0).unwrap(),
            "is damaged (",
        ),
        (|ledger| cut(ledger, |_| 0), "is missing or empty"),
        (|ledger| std::fs::remove_file(ledger).unwrap(), "is missing or empty"),
    ];
    for (number, (change, expected)) in changes.into_iter().enumerate() {
        let other = changed(folder.path(), |folder| change(&folder.join(LEDGER)));
        let error = refusal(other.path());
        assert!(error.contains(expected), "{number}: {error}");
    }
    // Only Redis' data are left.
    let other = tempfile::tempdir().unwrap();
    std::fs::create_dir(other.path().join("redis")).unwrap();
    copy(&folder.path().join("redis"), &other.path().join("redis"));
    assert!(refusal(other.path()).contains("is missing or empty"));

    let stack = Stack::start(&mut on(folder.path()));
    assert_eq!(balance(&stack).await, 100);
}

#[tokio::test]
async fn an_older_ledger_can_be_accepted() {
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path()).await;
    std::fs::remove_file(folder.path().join(LOG)).unwrap();
    let error = refusal(folder.path());
    // As the line says.
    let (mark, redis) = (folder.path().join("ledger.mark"), folder.path().join("redis"));
    assert!(error.contains(&format!("remove {} and {}", mark.display(), redis.display())), "{error}");
    std::fs::remove_file(mark).unwrap();
    std::fs::remove_dir_all(redis).unwrap();
    let stack = Stack::start(&mut on(folder.path()));
    deposit(&stack, "d1").await;
    assert_eq!(balance(&stack).await, 100, "the ledger knew of no deposit");
}

/// Starts that fail and ends that are cut off leave files behind that look like damage.
#[tokio::test]
async fn a_sound_ledger_is_never_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut expected = 0;
    for (round, killed_after_ms) in [0, 1, 2, 4, 8, 16, 32, 64].into_iter().enumerate() {
        let mut stack = Stack::start(&mut on(folder.path()));
        for number in 0..30 {
            deposit(&stack, &format!("d{round}-{number}")).await;
            expected += 100;
        }
        assert_eq!(balance(&stack).await, expected);
        if round % 2 == 0 {
            // The kill meets the end at different steps.
            stack.signal(Signal::TERM);
            std::thread::sleep(Duration::from_millis(killed_after_ms));
        }
        let _ = stack.child.kill();
        stack.wait();
        stack.all_gone();
        let mut without_redis = on(folder.path());
        without_redis.env("HONGBAO_REDIS_SERVER", "/nonexistent/redis-server");
        assert!(refused(without_redis).starts_with("error: no redis-server or valkey-server was found"));
    }
    // Redis may forget everything: the ledger has it.
    std::fs::remove_dir_all(folder.path().join("redis")).unwrap();
    let stack = Stack::start(&mut on(folder.path()));
    assert_eq!(balance(&stack).await, expected);
}

/// Starts a stack whose messages can be read.
fn heard(mut command: Command) -> Stack {
    Stack::start(command.stderr(Stdio::piped()))
}

/// Waits until the program has ended by itself, and returns its last line.
fn failure(stack: &mut Stack) -> String {
    assert_eq!(stack.wait().code(), Some(1));
    let mut text = String::new();
    stack.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text.lines().last().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_folder_that_is_removed_or_moved_ends_the_program_and_nothing_more_is_promised() {
    for moved in [false, true] {
        let outer = tempfile::tempdir().unwrap();
        let (folder, elsewhere) = (outer.path().join("data"), outer.path().join("elsewhere"));
        let mut stack = heard(on(&folder));
        deposit(&stack, "d1").await;
        if moved {
            std::fs::rename(&folder, &elsewhere).unwrap();
        } else {
            std::fs::remove_file(folder.join(LEDGER)).unwrap();
        }
        let request = reqwest::Client::new().put(format!("http://{}/wallets/alice/deposits/d2", stack.http));
        // The program may be gone already.
        if let Ok(answer) = request.body(r#"{"amount":1}"#).send().await {
            assert_eq!(answer.status(), 503);
            assert_eq!(answer.json::<Value>().await.unwrap()["code"], "unavailable");
        }
        let line = failure(&mut stack);
        assert!(line.starts_with("error: ") && line.contains("was removed or replaced while the stack ran"), "{line}");
    }
}

#[test]
fn an_idle_program_ends_when_its_folder_is_removed() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("data");
    let mut stack = heard(on(&folder));
    std::fs::remove_dir_all(&folder).unwrap();
    let line = failure(&mut stack);
    assert!(line.contains("was removed or replaced while the stack ran"), "{line}");
}
