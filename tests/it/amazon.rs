//! `scripts/dynamodb-local.py`, and the databases that tests get of its server.

use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Output};

use local::dynamodb::{DynamoDb, SERVER_VARIABLE};
use shared::dynamodb::create_table;
use shared::wiring::dynamodb_at;

use crate::repository;

/// The path of the interpreter itself: the one on the PATH may be a script that looks for it there.
fn python() -> String {
    let output = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn beside_a_server(arguments: &[&str], path: Option<&str>) -> Output {
    let mut command = Command::new(python());
    command.arg(repository("scripts/dynamodb-local.py")).args(arguments);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command.output().unwrap()
}

#[test]
fn without_java_one_line_says_what_is_missing() {
    let output = beside_a_server(&["true"], Some("/nowhere"));
    assert_eq!(output.status.code(), Some(1));
    let said = "dynamodb-local: Java or Amazon's program is missing: run scripts/install-tools.sh dynamodb-local\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), said);
}

/// Whether these tests run beside a server. The others of this file have nothing to test without one.
fn is_beside_a_server() -> bool {
    std::env::var_os(SERVER_VARIABLE).is_some()
}

#[test]
fn a_server_lives_as_long_as_its_command() {
    if !is_beside_a_server() {
        return;
    }
    let script =
        format!("echo ${SERVER_VARIABLE}; curl --silent --output /dev/null ${SERVER_VARIABLE} && echo answers; exit 7");
    let output = beside_a_server(&["sh", "-c", &script], None);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(7), "the command's own status: {said}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.get(1), Some(&"answers"), "{said}");
    let port: u16 = lines[0].strip_prefix("http://127.0.0.1:").unwrap().parse().unwrap();
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err(), "it has ended");
}

#[tokio::test]
async fn each_test_has_a_database_of_its_own() {
    let (one, other) = (DynamoDb::start(None).await.unwrap(), DynamoDb::start(None).await.unwrap());
    assert_eq!(one.is_embedded(), !is_beside_a_server());
    create_table(&dynamodb_at(&one.url()), "hongbao").await.unwrap();
    for (database, count) in [(&one, 1), (&other, 0)] {
        let tables = dynamodb_at(&database.url()).list_tables().send().await.unwrap();
        assert_eq!(tables.table_names().len(), count);
    }
    one.stop().await;
    other.stop().await;
}
