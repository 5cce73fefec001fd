//! dynoxide behind HTTP, for programs only. Its own server answers pages of every site.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use dynoxide::{Database, DynoxideError};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use pages::http_server;
use pages::names::Names;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;

/// The largest body that `DynamoDB` takes.
const BODY_BYTES_MAX: usize = 16 << 20;
const TARGET: &str = "x-amz-target";
/// Those of the table and those of its stream.
const TARGET_PREFIXES: [&str; 2] = ["DynamoDB_20120810.", "DynamoDBStreams_20120810."];
const JSON: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.0");

/// Serves the database until `stop`, and then finishes the open requests.
pub async fn serve(listener: TcpListener, database: Database, stop: impl Future<Output = ()>) -> io::Result<()> {
    let names = Arc::new(Names::of_program(listener.local_addr()?));
    let answer = move |request| {
        let (database, names) = (database.clone(), Arc::clone(&names));
        async move { Ok::<_, Infallible>(answer(&database, &names, request).await) }
    };
    http_server::serve(listener, stop, answer).await;
    Ok(())
}

async fn answer(database: &Database, names: &Names, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    if names.check_program(&parts).is_err() {
        let refused = DynoxideError::AccessDeniedException("the database of a local stack is for programs".to_owned());
        return response(StatusCode::FORBIDDEN, refused.to_json());
    }
    let target = parts.headers.get(TARGET).and_then(|target| target.to_str().ok()).unwrap_or_default();
    let operation = TARGET_PREFIXES.iter().find_map(|prefix| target.strip_prefix(prefix)).unwrap_or_default();
    let done = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => run(database, operation, &body.to_bytes()),
        Err(error) => Err(DynoxideError::ValidationException(error.to_string())),
    };
    match done {
        Ok(body) => response(StatusCode::OK, body),
        Err(error) => {
            let status = StatusCode::from_u16(error.status_code()).unwrap_or(StatusCode::BAD_REQUEST);
            response(status, error.to_json())
        }
    }
}

fn response(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// What the stack, its tools and the tests ask for.
fn run(database: &Database, operation: &str, body: &[u8]) -> Result<String, DynoxideError> {
    match operation {
        "BatchGetItem" => done(body, |asked| database.batch_get_item(asked)),
        "BatchWriteItem" => done(body, |asked| database.batch_write_item(asked)),
        "CreateTable" => done(body, |asked| database.create_table(asked)),
        "DeleteItem" => done(body, |asked| database.delete_item(asked)),
        "DeleteTable" => done(body, |asked| database.delete_table(asked)),
        "DescribeStream" => done(body, |asked| database.describe_stream(asked)),
        "DescribeTable" => done(body, |asked| database.describe_table(asked)),
        "GetItem" => done(body, |asked| database.get_item(asked)),
        "GetRecords" => done(body, |asked| database.get_records(asked)),
        "GetShardIterator" => done(body, |asked| database.get_shard_iterator(asked)),
        "ListTables" => done(body, |asked| database.list_tables(asked)),
        "PutItem" => done(body, |asked| database.put_item(asked)),
        "Query" => done(body, |asked| database.query(asked)),
        "Scan" => done(body, |asked| database.scan(asked)),
        "TransactWriteItems" => done(body, |asked| database.transact_write_items(asked)),
        "UpdateItem" => done(body, |asked| database.update_item(asked)),
        "UpdateTable" => done(body, |asked| database.update_table(asked)),
        _ => Err(DynoxideError::UnsupportedCapability(operation.to_owned())),
    }
}

fn done<A: DeserializeOwned, R: Serialize>(
    body: &[u8],
    operation: impl FnOnce(A) -> Result<R, DynoxideError>,
) -> Result<String, DynoxideError> {
    let asked = serde_json::from_slice(body);
    let answer = operation(asked.map_err(|error| DynoxideError::ValidationException(error.to_string()))?)?;
    serde_json::to_string(&answer).map_err(|error| DynoxideError::InternalServerError(error.to_string()))
}
