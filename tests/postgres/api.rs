//! The requests of `DynamoDB`'s protocol.

use std::collections::HashMap;
use std::sync::Mutex;

use audit::{Only, Range, Since, Source as _};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::AUTHORIZATION;
use hyper::{Request, Response, StatusCode};
use postgres_ledger::{Database, PostgresReader, PostgresTable};
use serde_json::{Map, Value, json};
use shared::ports::{Key, Query, Reason, Table as _, TableError, TransactError, Write};
use shared::redis::Authorities;

use crate::expressions::{self, interned};

/// An answer, or an error: its code and a message.
type Answer = Result<Value, (&'static str, String)>;

/// The tables.
pub struct Api {
    url: String,
    database: Database,
    tables: Mutex<HashMap<String, Table>>,
}

#[derive(Clone)]
struct Table {
    ledger: PostgresTable,
    reader: PostgresReader,
    /// As it was asked for.
    description: Value,
}

impl Api {
    pub fn new(url: &str) -> Self {
        let database = Database::new(url, &Authorities::System).unwrap();
        Self { url: url.to_owned(), database, tables: Mutex::default() }
    }

    pub async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let operation = text("x-amz-target").rsplit('.').next().unwrap_or_default().to_owned();
        let signed = text(AUTHORIZATION.as_str());
        let key = signed.split_once("Credential=").and_then(|(_, rest)| rest.split('/').next()).unwrap_or("none");
        let asked: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
        let (status, body) = match self.run(key, &operation, asked).await {
            Ok(answer) => (StatusCode::OK, answer),
            Err((code, message)) if code == "InternalServerError" => {
                (StatusCode::INTERNAL_SERVER_ERROR, json!({"__type": code, "message": message}))
            }
            Err(("TransactionCanceledException", reasons)) => {
                let reasons: Value = serde_json::from_str(&reasons).unwrap();
                let codes: Vec<&str> =
                    reasons.as_array().unwrap().iter().map(|one| one["Code"].as_str().unwrap()).collect();
                let message = format!(
                    "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]",
                    codes.join(", ")
                );
                let of = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException";
                (StatusCode::BAD_REQUEST, json!({"__type": of, "Message": message, "CancellationReasons": reasons}))
            }
            Err((code, message)) => (
                StatusCode::BAD_REQUEST,
                json!({"__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": message}),
            ),
        };
        let mut response = Response::new(Full::from(body.to_string()));
        *response.status_mut() = status;
        response.headers_mut().insert("content-type", "application/x-amz-json-1.0".parse().unwrap());
        response
    }

    async fn run(&self, key: &str, operation: &str, asked: Value) -> Answer {
        if let "BatchGetItem" | "BatchWriteItem" = operation {
            let (name, asked) = asked["RequestItems"].as_object().unwrap().iter().next().unwrap();
            let table = self.table(key, name)?;
            return if operation == "BatchGetItem" {
                let keys = asked["Keys"].as_array().unwrap().iter().map(key_of).collect();
                let found = table.ledger.batch_get(keys).await.map_err(failed)?.items;
                Ok(json!({"Responses": {name: found}, "UnprocessedKeys": {}}))
            } else {
                for put in asked.as_array().unwrap() {
                    self.put(key, name, &put["PutRequest"]["Item"]);
                }
                Ok(json!({"UnprocessedItems": {}}))
            };
        }
        if operation == "TransactWriteItems" {
            return self.transact(key, &asked).await;
        }
        let name = asked["TableName"].as_str().unwrap_or_default();
        match operation {
            "CreateTable" => self.create(key, name, asked.clone()).await,
            "DescribeTable" => Ok(json!({"Table": self.table(key, name)?.description})),
            "DeleteTable" => {
                let table = self.table(key, name)?;
                self.tables.lock().unwrap().remove(&schema(key, name));
                self.psql(&format!("DROP SCHEMA \"{}\" CASCADE", schema(key, name)));
                Ok(json!({"TableDescription": table.description}))
            }
            "ListTables" => {
                let of = format!("{key}/");
                let tables = self.tables.lock().unwrap();
                let names: Vec<&str> = tables.keys().filter_map(|name| name.strip_prefix(&of)).collect();
                Ok(json!({"TableNames": names}))
            }
            "GetItem" => {
                let found = self.table(key, name)?.ledger.get(key_of(&asked["Key"])).await.map_err(failed)?;
                Ok(found.map_or_else(|| json!({}), |item| json!({"Item": item})))
            }
            "Query" => query(&self.table(key, name)?, &asked).await,
            "Scan" => scan(&self.table(key, name)?, &asked).await,
            "PutItem" => {
                self.table(key, name)?;
                self.put(key, name, &asked["Item"]);
                Ok(json!({}))
            }
            "UpdateItem" => {
                let write = expressions::write(&json!({"Update": asked}));
                self.table(key, name)?
                    .ledger
                    .transact(&[write], "")
                    .await
                    .map_err(|error| ("ValidationException", error.to_string()))?;
                Ok(json!({}))
            }
            "DeleteItem" => {
                let Key { pk, sk } = key_of(&asked["Key"]);
                let schema = schema(key, name);
                self.psql(&format!(
                    "DELETE FROM \"{schema}\".items WHERE pk = {} AND sk = {}",
                    quoted(&pk),
                    quoted(&sk)
                ));
                Ok(json!({}))
            }
            _ => Err(("ValidationException", format!("{operation} is not of the ledger, the audit or a test"))),
        }
    }

    fn table(&self, key: &str, name: &str) -> Result<Table, (&'static str, String)> {
        let found = self.tables.lock().unwrap().get(&schema(key, name)).cloned();
        found.ok_or_else(|| ("ResourceNotFoundException", format!("there is no table {name}")))
    }

    async fn create(&self, key: &str, name: &str, mut asked: Value) -> Answer {
        let schema = schema(key, name);
        if self.tables.lock().unwrap().contains_key(&schema) {
            return Err(("ResourceInUseException", format!("there is a table {name}")));
        }
        let database = self.database.in_schema(&schema);
        database.migrate().await.unwrap();
        let description = asked.as_object_mut().unwrap();
        description.insert("TableStatus".to_owned(), "ACTIVE".into());
        let mode = description.remove("BillingMode");
        description.insert("BillingModeSummary".to_owned(), json!({"BillingMode": mode}));
        let (ledger, reader) = (PostgresTable::new(database.clone()), PostgresReader::new(database));
        let table = Table { ledger, reader, description: asked };
        let described = json!({"TableDescription": table.description});
        self.tables.lock().unwrap().insert(schema, table);
        Ok(described)
    }

    async fn transact(&self, key: &str, asked: &Value) -> Answer {
        let all = asked["TransactItems"].as_array().unwrap();
        let first = all
            .first()
            .and_then(|one| one.as_object()?.values().next())
            .ok_or(("ValidationException", String::new()))?;
        let table = self.table(key, first["TableName"].as_str().unwrap())?;
        let writes: Vec<Write> = all.iter().map(expressions::write).collect();
        match table.ledger.transact(&writes, "").await {
            Ok(()) => Ok(json!({})),
            Err(TransactError::Cancelled(reasons)) => {
                let reasons: Vec<Value> = reasons.into_iter().map(reason).collect();
                Err(("TransactionCanceledException", Value::from(reasons).to_string()))
            }
            Err(TransactError::TokenSpent(_)) => panic!("PostgreSQL has no tokens"),
            Err(TransactError::Failed(error)) => Err(failed(error)),
        }
    }

    /// Puts an item in the place of another, as only tests do.
    fn put(&self, key: &str, name: &str, item: &Value) {
        let Key { pk, sk } = key_of(item);
        let mut attributes: Map<String, Value> = item.as_object().unwrap().clone();
        attributes.retain(|name, _| name != "PK" && name != "SK");
        let (schema, item) = (schema(key, name), quoted(&Value::from(attributes).to_string()));
        self.psql(&format!(
            "INSERT INTO \"{schema}\".items (pk, sk, item) VALUES ({}, {}, {item})
             ON CONFLICT (pk, sk) DO UPDATE SET item = excluded.item",
            quoted(&pk),
            quoted(&sk)
        ));
    }

    fn psql(&self, statement: &str) {
        tests::postgres::psql(&self.url, statement);
    }
}

/// The schema of a table, which only one access key has.
fn schema(key: &str, name: &str) -> String {
    format!("{key}/{name}")
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

pub fn key_of(item: &Value) -> Key {
    let text = |name: &str| item[name]["S"].as_str().unwrap().to_owned();
    Key { pk: text("PK"), sk: text("SK") }
}

#[allow(clippy::needless_pass_by_value)] // For `map_err`.
fn failed(error: TableError) -> (&'static str, String) {
    let code = match error {
        TableError::Refused(_) => "ValidationException",
        TableError::Overloaded(_) => "ThrottlingException",
        TableError::Unavailable(_) | TableError::Pending(_) => "InternalServerError",
    };
    (code, error.chain())
}

fn reason(reason: Reason) -> Value {
    match reason {
        Reason::None => json!({"Code": "None"}),
        Reason::ConditionFailed(None) => json!({"Code": "ConditionalCheckFailed"}),
        Reason::ConditionFailed(Some(item)) => json!({"Code": "ConditionalCheckFailed", "Item": item}),
        Reason::Busy(_) => json!({"Code": "TransactionConflict"}),
    }
}

async fn query(table: &Table, asked: &Value) -> Answer {
    let values = &asked["ExpressionAttributeValues"];
    let limit = asked["Limit"].as_u64().map(|limit| u32::try_from(limit).unwrap());
    let start = asked.get("ExclusiveStartKey").filter(|key| !key.is_null());
    let number = |value: &Value| value["N"].as_str().unwrap().parse::<u64>().unwrap();
    let found = if asked["IndexName"].is_string() {
        let after = start.map(|start| (key_of(start), number(&start["due_at"])));
        let shard = u32::try_from(number(&values[":shard"])).unwrap();
        table.ledger.due(shard, number(&values[":until"]), after, limit.unwrap()).await
    } else {
        let query = Query {
            pk: values[":pk"]["S"].as_str().unwrap().to_owned(),
            sk_prefix: interned(values[":sk"]["S"].as_str().unwrap_or_default()),
            after: start.map(|start| key_of(start).sk),
            descending: asked["ScanIndexForward"] == false,
            limit,
        };
        table.ledger.query(query).await
    };
    let found = found.map_err(failed)?;
    let is_cut = limit.is_some_and(|limit| found.len() >= limit as usize);
    let last = found.last().filter(|_| is_cut).map(|last| {
        let names = ["PK", "SK", "due_shard", "due_at"];
        let names = names.into_iter().take(if asked["IndexName"].is_string() { 4 } else { 2 });
        names.map(|name| (name.to_owned(), json!(last.get(name)))).collect::<Map<_, _>>()
    });
    let mut answer = json!({"Items": found, "Count": found.len(), "ScannedCount": found.len()});
    if let Some(last) = last {
        answer["LastEvaluatedKey"] = last.into();
    }
    Ok(answer)
}

async fn scan(table: &Table, asked: &Value) -> Answer {
    let values = &asked["ExpressionAttributeValues"];
    let number = |name: &str| values[name]["N"].as_str().unwrap().parse::<u64>().unwrap();
    let only = match (asked["ProjectionExpression"].is_string(), asked["FilterExpression"].is_string()) {
        (false, _) => Only::Whole,
        (true, false) => Only::Keys(None),
        (true, true) => Only::Keys(Some(Since { written_ms: number(":written"), expired_ms: number(":expired") })),
    };
    let whole = |name: &str, default: i64| i32::try_from(asked[name].as_i64().unwrap_or(default)).unwrap();
    let range = Range::Segment { index: whole("Segment", 0), of: whole("TotalSegments", 1), only };
    let after = asked.get("ExclusiveStartKey").filter(|key| !key.is_null()).map(key_of);
    let page = table.reader.scan(&range, after.as_ref()).await;
    let page = page.map_err(|error| ("InternalServerError", error.to_string()))?;
    let mut answer = json!({"Items": page.items, "Count": page.items.len(), "ScannedCount": page.items.len()});
    if let Some(Key { pk, sk }) = page.next {
        answer["LastEvaluatedKey"] = json!({"PK": {"S": pk}, "SK": {"S": sk}});
    }
    Ok(answer)
}
