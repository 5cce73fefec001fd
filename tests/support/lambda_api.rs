//! A stand-in for Lambda's API and for STS, as far as `hongbao-admin` calls them. Functions run under their emulators.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HOST};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::json;

use crate::emulator::Function;
use crate::relay::stand_in;

/// The most bytes of a synchronous answer.
const ANSWER_BYTES_MAX: usize = 6 * 1_024 * 1_024;

/// The two APIs behind one address.
pub struct LambdaApi {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// A deployed function.
pub struct Deployment {
    /// Its name.
    pub name: String,
    /// What answers its first call, its second, and so on; the last one also all later ones.
    pub answers: Vec<Function>,
}

struct Shared {
    deployments: Vec<(Deployment, AtomicUsize)>,
    /// Access key ids and functions that they may not invoke.
    denied: Vec<(&'static str, String)>,
    called: Mutex<Vec<String>>,
}

impl LambdaApi {
    /// Serves these functions, but not to these access keys.
    pub async fn start(deployments: Vec<Deployment>, denied: Vec<(&'static str, String)>) -> Self {
        let deployments = deployments.into_iter().map(|deployment| (deployment, AtomicUsize::new(0))).collect();
        let shared = Arc::new(Shared { deployments, denied, called: Mutex::default() });
        let served = Arc::clone(&shared);
        let address = stand_in(move |request| {
            let shared = Arc::clone(&served);
            async move { shared.answer(request).await }
        });
        let address = address.await;
        Self { address, shared }
    }

    /// Both endpoints.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The functions that were invoked, in order.
    pub fn called(&self) -> Vec<String> {
        self.shared.called.lock().unwrap().clone()
    }

    /// The first program of a function.
    pub fn function(&self, name: &str) -> &Function {
        &self.shared.deployments.iter().find(|(deployment, _)| deployment.name == name).unwrap().0.answers[0]
    }
}

/// The principal with this access key.
pub fn arn(key: &str) -> String {
    format!("arn:aws:iam::123456789012:user/{key}")
}

impl Shared {
    async fn answer(&self, request: Request<Bytes>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        // AWS4-HMAC-SHA256 Credential=<key>/<day>/<region>/<service>/aws4_request, …
        let signature = parts.headers[AUTHORIZATION].to_str().unwrap();
        let scope: Vec<&str> = signature.split_once('=').unwrap().1.split(',').next().unwrap().split('/').collect();
        let (key, service) = (scope[0], scope[3]);
        let mut paths = ["/2015-03-31/functions/", "/2021-10-31/functions/", "/called-by-url/"].into_iter();
        let Some(name) = paths.find_map(|prefix| parts.uri.path().strip_prefix(prefix)) else {
            assert_eq!(service, "sts");
            assert!(body.starts_with(b"Action=GetCallerIdentity&"), "{body:?}");
            return answered(StatusCode::OK, None, identity(key).into_bytes());
        };
        assert_eq!(service, "lambda");
        let (name, of) = name.split_once('/').unwrap();
        let is_qualified = parts.uri.query() == Some("Qualifier=live") || of.is_empty();
        assert!(is_qualified, "{name}: the alias that a rollback moves");
        if self.denied.iter().any(|(denied, function)| *denied == key && function == name) {
            let message = json!({"Message": format!("{} is not authorized", arn(key))});
            let error = ("x-amzn-errortype", "AccessDeniedException");
            return answered(StatusCode::FORBIDDEN, Some(error), message.to_string().into_bytes());
        }
        let Some((deployment, calls)) = self.deployments.iter().find(|(deployment, _)| deployment.name == name) else {
            let message = json!({"Type": "User", "Message": format!("Function not found: {name}")});
            let error = ("x-amzn-errortype", "ResourceNotFoundException");
            return answered(StatusCode::NOT_FOUND, Some(error), message.to_string().into_bytes());
        };
        let event = match of {
            "url" => {
                let url = format!("http://{}/called-by-url/{name}/", parts.headers[HOST].to_str().unwrap());
                let found =
                    json!({"FunctionUrl": url, "FunctionArn": name, "AuthType": "AWS_IAM", "CreationTime": "t"});
                return answered(StatusCode::OK, None, found.to_string().into_bytes());
            }
            "invocations" => body,
            _ => called_by_url(key, &body).into(),
        };
        self.called.lock().unwrap().push(name.to_owned());
        let call = calls.fetch_add(1, Ordering::SeqCst).min(deployment.answers.len() - 1);
        let answer = deployment.answers[call].invoke(&event).await;
        let error = answer.get("errorType").map(|_| ("x-amz-function-error", "Unhandled"));
        let answer = answer.to_string().into_bytes();
        assert!(answer.len() <= ANSWER_BYTES_MAX, "Lambda would not carry {} bytes", answer.len());
        answered(StatusCode::OK, error, answer)
    }
}

/// The event of a call of a function's URL (payload 2.0), as far as functions read it. Lambda passes on binary bodies in base64.
fn called_by_url(key: &str, body: &[u8]) -> String {
    let iam = json!({"accountId": "123456789012", "userArn": arn(key), "userId": key});
    let context = json!({"authorizer": {"iam": iam}, "http": {"method": "POST", "path": "/"}, "stage": "$default"});
    let body = STANDARD.encode(body);
    json!({"version": "2.0", "rawPath": "/", "requestContext": context, "body": body, "isBase64Encoded": true})
        .to_string()
}

fn identity(key: &str) -> String {
    format!(
        "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><GetCallerIdentityResult>\
         <Arn>{}</Arn><UserId>{key}</UserId><Account>123456789012</Account></GetCallerIdentityResult>\
         <ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></GetCallerIdentityResponse>",
        arn(key)
    )
}

fn answered(status: StatusCode, header: Option<(&'static str, &'static str)>, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(status);
    if let Some((name, value)) = header {
        response = response.header(name, value);
    }
    response.body(Full::new(body.into())).unwrap()
}
