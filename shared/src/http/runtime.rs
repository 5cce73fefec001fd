use std::convert::Infallible;

use lambda_http::request::LambdaRequest;
use lambda_http::tower::ServiceExt;
use lambda_http::{Adapter, Body, Error, LambdaEvent, Request, Response, Service};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// What a query of an address can't have. A client can send it raw all the same, and `lambda_http` would panic.
const NOT_IN_A_QUERY: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>');

/// Answers the requests that Lambda's runtime has for this process, as `lambda_http::run_concurrent` does.
pub async fn run<S>(handler: S) -> Result<(), Error>
where
    S: Service<Request, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    lambda_runtime::run_concurrent(Adapter::from(handler).map_request(with_address)).await
}

/// The same event, with a query that is part of an address and says the same.
fn with_address(mut event: LambdaEvent<LambdaRequest>) -> LambdaEvent<LambdaRequest> {
    if let LambdaRequest::ApiGatewayV2(request) = &mut event.payload
        && let Some(query) = &mut request.raw_query_string
    {
        *query = utf8_percent_encode(query, NOT_IN_A_QUERY).to_string();
    }
    event
}
