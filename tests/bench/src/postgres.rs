//! What `PostgreSQL` can do by itself: the rows of claims, written with plain statements.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use postgres_ledger::Database;
use tokio_postgres::{Client, NoTls, Statement};

use crate::BoxError;
use crate::rush::{Answer, Got, Heat, Request, Rush};

/// Statements in flight, and claims of each: as many as the engine's table has. Its statement takes three transactions of ten claims.
const CONNECTIONS: usize = 4;
const CLAIMS: usize = 30;
/// Two new rows for each claim, and the user's wallet.
const STATEMENT: &str = r#"
    WITH made AS (
        INSERT INTO bare.items (pk, sk, item) SELECT * FROM unnest($1::text[], $2::text[], $3::text[]::jsonb[])
    )
    INSERT INTO bare.items AS old (pk, sk, item)
    SELECT pk, 'WALLET', '{"balance": {"N": "100"}, "claim_amount": {"N": "100"}, "claim_count": {"N": "1"}}'
    FROM unnest($4::text[]) AS users (pk)
    ON CONFLICT (pk, sk) DO UPDATE SET item = old.item || jsonb_build_object(
        'balance', jsonb_build_object('N', ((old.item -> 'balance' ->> 'N')::numeric + 100)::text),
        'claim_amount', jsonb_build_object('N', ((old.item -> 'claim_amount' ->> 'N')::numeric + 100)::text),
        'claim_count', jsonb_build_object('N', ((old.item -> 'claim_count' ->> 'N')::numeric + 1)::text)
    )"#;

/// Connections, and a table of their own like that of the ledger.
pub struct BareSql {
    connections: Vec<(Client, Statement)>,
    heats: AtomicUsize,
}

impl BareSql {
    /// Connects to a server, and makes the table in a database of it.
    pub async fn new(url: &str, database: &Database) -> Result<Self, BoxError> {
        database.in_schema("bare").migrate().await?;
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(connection);
            let statement = client.prepare(STATEMENT).await?;
            connections.push((client, statement));
        }
        Ok(Self { connections, heats: AtomicUsize::new(0) })
    }

    /// Runs through a rush, for at most `time`.
    pub async fn claims(&self, rush: &Rush, time: Duration) -> Result<Heat, BoxError> {
        let (heat, next, begun) = (self.heats.fetch_add(1, Ordering::Relaxed), AtomicUsize::new(0), Instant::now());
        let all = self.connections.iter().map(async |(client, statement)| {
            let mut answers = Vec::new();
            while begun.elapsed() < time {
                let first = next.fetch_add(CLAIMS, Ordering::Relaxed);
                let requests = first..rush.requests.len().min(first + CLAIMS);
                if requests.is_empty() {
                    break;
                }
                let asked = Instant::now();
                let (mut pks, mut sks, mut items, mut users) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
                for request in requests.clone() {
                    let Request { packet, user } = rush.requests[request];
                    let (slip, user) = (request / rush.packets, &rush.users[user]);
                    let id = format!("{heat:022}{packet:04}");
                    let of_slip = format!(
                        r#""slip": {{"N": "{slip}"}}, "amount": {{"N": "100"}}, "at": {{"N": "1795900000000"}}"#
                    );
                    pks.push(format!("SLIPS#{id}#{}", slip / 64));
                    sks.push(format!("{slip:06}"));
                    items.push(format!(r#"{{{of_slip}, "user_id": {{"S": "{user}"}}}}"#));
                    pks.push(format!("USER#{user}"));
                    sks.push(format!("CLAIM#{id}"));
                    items.push(format!(
                        r#"{{{of_slip}, "packet_id": {{"S": "{id}"}}, "sender_id": {{"S": "sender"}}, "greeting": {{"S": ""}}}}"#
                    ));
                    users.push(format!("USER#{user}"));
                }
                client.execute(statement, &[&pks, &sks, &items, &users]).await?;
                let nanos = rush.nanos(begun, asked, Instant::now());
                answers.extend(requests.map(|request| Answer {
                    request,
                    got: Got::Slip((request / rush.packets) as u64),
                    nanos,
                }));
            }
            Ok::<_, BoxError>(answers)
        });
        let answers = try_join_all(all).await?.concat();
        Ok(Heat { elapsed: begun.elapsed(), answers, calls: 0, cpu_us: 0 })
    }
}
