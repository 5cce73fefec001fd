//! `DynamoDB` without request tokens.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextMut;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;

/// The text before the token in a request. Inside a JSON string its quotes would be escaped.
const BEFORE_TOKEN: &str = r#","ClientRequestToken":""#;

/// The same client, whose transactions carry no token.
///
/// For each transaction with a token the embedded `DynamoDB` walks through all tokens of the last ten minutes (seen: 4
/// ms after 50,000 transactions, while everything else waits). A benchmark of this engine goes without tokens. They
/// only matter after broken connections, which a benchmark has none of.
#[must_use]
pub fn without_tokens(client: &Client) -> Client {
    Client::from_conf(client.config().to_builder().interceptor(Tokenless).build())
}

#[derive(Debug)]
struct Tokenless;

impl Intercept for Tokenless {
    fn name(&self) -> &'static str {
        "Tokenless"
    }

    fn modify_before_signing(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _runtime_components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let request = context.request_mut();
        let body = request.body().bytes().and_then(|bytes| std::str::from_utf8(bytes).ok());
        // The token comes last, so that the benchmark need not read the whole body.
        if let Some((rest, token)) = body.and_then(|body| body.rsplit_once(BEFORE_TOKEN)) {
            let end = token.split_once('"').map_or(token, |(_, end)| end);
            let text = [rest, end].concat();
            request.headers_mut().insert("content-length", text.len().to_string());
            *request.body_mut() = text.into();
        }
        Ok(())
    }
}
