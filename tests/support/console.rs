//! `hongbao-admin console` as a process of its own.

use std::path::Path;
use std::process::Stdio;

use http::Method;
use reqwest::RequestBuilder;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::api_gateway::{ApiGateway, Principal, REGION};
use crate::lambda_api::LambdaApi;

/// A running console. Dropped, it is killed.
pub struct Console {
    _child: Child,
    /// Its own address, such as `http://127.0.0.1:3080`.
    pub url: String,
    /// The token in the address that it printed.
    pub token: String,
    http: reqwest::Client,
}

impl Console {
    /// Starts `program` in front of `deployment`, with these variables alone and more arguments, and waits until it serves.
    pub async fn start<'a>(
        program: &Path,
        deployment: &str,
        variables: impl IntoIterator<Item = (&'a str, String)>,
        arguments: &[&str],
    ) -> Self {
        let mut command = Command::new(program);
        command.args(["console", "--listen", "127.0.0.1:0", "--url", deployment]).args(arguments);
        command.env_clear().envs(variables).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let line = BufReader::new(child.stdout.take().unwrap()).lines().next_line().await.unwrap();
        let line = line.expect("it prints its address");
        let (url, token) = line.split_once("/console/#token=").expect("the address has the token");
        Self { _child: child, url: url.to_owned(), token: token.to_owned(), http: reqwest::Client::new() }
    }

    /// Starts `program` in front of a gateway with the credentials of a principal, whose name AWS knows.
    pub async fn signed(
        program: &Path,
        gateway: &ApiGateway,
        aws: &LambdaApi,
        principal: Principal,
        variables: impl IntoIterator<Item = (&str, String)>,
        arguments: &[&str],
    ) -> Self {
        let credentials = [
            ("AWS_ACCESS_KEY_ID", principal.key.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", principal.secret.to_owned()),
            ("AWS_SESSION_TOKEN", "a session".to_owned()),
            ("AWS_ENDPOINT_URL_LAMBDA", aws.url()),
            ("AWS_ENDPOINT_URL_STS", aws.url()),
            ("AWS_REGION", REGION.to_owned()),
        ];
        let arguments = [&["--region", REGION], arguments].concat();
        Self::start(program, &gateway.url(), credentials.into_iter().chain(variables), &arguments).await
    }

    /// A request without the token.
    pub fn plain(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    /// A request of the page.
    pub fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        self.plain(method, path).header("console-token", &self.token)
    }

    /// A request of the page for a route of the deployment.
    pub fn api(&self, method: Method, route: &str) -> RequestBuilder {
        self.ask(method, &format!("/console/api{route}"))
    }

    /// A command.
    pub fn tool(&self, body: &serde_json::Value) -> RequestBuilder {
        self.ask(Method::POST, "/console/tool").json(body)
    }
}
