//! A data folder that was damaged between two runs.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
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
async fn what_is_committed_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path()).await;
    assert!(std::fs::metadata(folder.path().join(LOG)).unwrap().len() > 0, "the last deposits are in the log only");
    let stack = Stack::start(&mut on(folder.path()));
    assert_eq!(balance(&stack).await, 300);
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

/// A database with these statements instead of the ledger.
fn database(folder: &Path, statements: &str) {
    let database = rusqlite::Connection::open(folder.join(LEDGER)).unwrap();
    database.execute_batch(statements).unwrap();
}

#[tokio::test]
async fn a_ledger_of_another_program_or_of_a_newer_version_is_refused_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut stack = Stack::start(&mut on(folder.path()));
    deposit(&stack, "d1").await;
    stop(&mut stack);
    let newer = changed(folder.path(), |folder| {
        database(folder, "UPDATE _config SET value = '1000' WHERE key = 'schema_version'");
    });
    let foreign = tempfile::tempdir().unwrap();
    database(foreign.path(), "CREATE TABLE note (text)");
    for (folder, expected) in [(newer, "newer"), (foreign, "is the database of another program")] {
        let before = std::fs::read(folder.path().join(LEDGER)).unwrap();
        let error = refusal(folder.path());
        assert!(error.contains(expected), "{error}");
        assert!(std::fs::read(folder.path().join(LEDGER)).unwrap() == before, "{expected}: the ledger was changed");
    }
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
