//! The credentials that a function uses for `DynamoDB`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// A container's credentials endpoint on loopback: its URL, and the number of its requests.
async fn container() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/credentials", listener.local_addr().unwrap());
    let asked = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&asked);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await.unwrap());
            }
            counted.fetch_add(1, Ordering::SeqCst);
            let credentials = json!({
                "AccessKeyId": "id", "SecretAccessKey": "key", "Token": "token", "Expiration": "2100-01-01T00:00:00Z",
            })
            .to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{credentials}", credentials.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (url, asked)
}

#[tokio::test]
async fn a_function_without_credentials_in_its_variables_gets_them_from_its_container() {
    let (stores, (url, asked)) = (Stores::start().await, container().await);
    let no_variables = [("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", "")];
    let [key, secret] = no_variables;
    let function = stores.function("wallet", &[key, secret, ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &url)]).await;
    function.answer(&sample("wallet", "")).await.expect(201);
    let first = asked.load(Ordering::SeqCst);
    function.answer(&sample("wallet", "")).await.expect(200);
    // If an answer is late, the first call asks again.
    assert_eq!(asked.load(Ordering::SeqCst), first, "credentials are fetched once until they expire");

    let function = stores.function("wallet", &no_variables).await;
    let answer = function.invoke(sample("wallet", "").to_string().as_bytes()).await;
    assert_eq!(answer["statusCode"], 503, "without credentials the ledger is unreachable: {answer}");
}
