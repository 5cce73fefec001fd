//! The operator's page on this machine, and the server beside it. It calls the deployment with the operator's own rights, so the page can do
//! what they can, and no more.

mod target;

use std::convert::Infallible;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::header::X_CONTENT_TYPE_OPTIONS;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use lambda_http::Body;
use pages::body::{json_response, read, to_hyper};
use pages::names::{Names, NotOurs};
use pages::{files, http_server, problem};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use shared::http::Code;
use shared::ports::{Entropy, System};
use tokio::net::TcpListener;

use self::target::Target;
use crate::Tool;
use crate::deployment::Failed;
use crate::options::{Console as Options, Deployment};

/// What each request has that is not for a file. Another user of this machine, or a page of another site, does not know it.
const TOKEN: &str = "console-token";
/// Where the deployment's routes are.
const API: &str = "/console/api";

struct Console {
    names: Names,
    /// The hash of the token.
    token: [u8; 32],
    target: Target,
    tool: Tool,
    config: Value,
    requests: AtomicU64,
}

/// Serves the page until the process ends.
pub async fn run(deployment: Deployment, via: Option<String>, options: Options) -> Result<Infallible, Failed> {
    let target = Target::new(&options).await?;
    let has_log = !options.log.is_empty();
    let config = json!({"api": API, "tool": true, "log": has_log, "signs": target.signs(), "who": target.who().await});
    let unusable = |error| Failed::File(options.listen.to_string(), error);
    let listener = TcpListener::bind(options.listen).await.map_err(unusable)?;
    let address = listener.local_addr().map_err(unusable)?;
    let token = BASE64_URL_SAFE_NO_PAD.encode([System.bytes16(), System.bytes16()].concat());
    let Options { queues, log, log_key, .. } = options;
    let console = Console {
        names: Names::new(address, &[]),
        token: Sha256::digest(&token).into(),
        target,
        tool: Tool { deployment, via, queues, currency: None, log, log_key },
        config,
        requests: AtomicU64::new(0),
    };
    let console = Arc::new(console);
    // A fragment is not sent, so it stands in no log.
    let _ = writeln!(std::io::stdout(), "http://{address}/console/#token={token}");
    let answer = move |request| receive(Arc::clone(&console), request);
    http_server::serve(listener, std::future::pending(), answer).await;
    Err(Failed::Refused("the server ended".to_owned()))
}

async fn receive(console: Arc<Console>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let id = format!("console-{}", console.requests.fetch_add(1, Ordering::Relaxed));
    let mut response = match console.names.check(&parts) {
        Err(NotOurs::Host) => {
            let detail = "The console answers only under its own address.";
            problem::own(&id, StatusCode::MISDIRECTED_REQUEST, "misdirected", detail)
        }
        Err(NotOurs::Origin) => {
            problem::of(&id, Code::Forbidden, "The console takes no requests of other sites' pages.")
        }
        Ok(()) => console.answer(&id, parts, body).await,
    };
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(to_hyper(response))
}

impl Console {
    /// Whether a request has the token. How long it takes to compare hashes says nothing about it.
    fn is_tokens(&self, parts: &Parts) -> bool {
        parts.headers.get(TOKEN).map(|token| Sha256::digest(token).into()) == Some(self.token)
    }

    async fn answer(&self, id: &str, parts: Parts, body: Incoming) -> Response<Body> {
        let path = parts.uri.path();
        let is_file = ["/console/", "/assets/", "/client/"].iter().any(|folder| path.starts_with(folder));
        match path {
            "/" | "/console" if files::is_read(&parts) => return problem::moved("/console/"),
            "/console/config.json" if files::is_read(&parts) => {
                let mut config = self.config.clone();
                // Who the operator is concerns no other user of this machine.
                if !self.is_tokens(&parts) {
                    config["who"] = Value::Null;
                }
                return files::config(&config);
            }
            _ if is_file && let Some(file) = files::answer(&parts, path) => return file,
            _ => {}
        }
        if !self.is_tokens(&parts) {
            let detail = "The header Console-Token is not this console's: open the address that it printed.";
            return problem::of(id, Code::Forbidden, detail);
        }
        let route = path.strip_prefix(API).filter(|route| route.starts_with('/')).map(str::to_owned);
        let is_tool = path == "/console/tool" && parts.method == Method::POST;
        if route.is_none() && !is_tool {
            return problem::of(id, Code::RouteNotFound, "The console has no such route.");
        }
        let body = match read(id, body).await {
            Ok(body) => body,
            Err(problem) => return problem,
        };
        match route {
            Some(route) => self.target.ask(id, &parts, &route, body).await,
            None => match self.tool.answer(&body).await {
                Ok(answer) => json_response(&answer),
                Err((code, detail)) => problem::of(id, code, &detail),
            },
        }
    }
}
