//! The functions behind an Application Load Balancer: its events, with the users' tokens in them.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::*;

const OF_BALANCER: [(&str, &str); 4] = [
    ("ENTRANCE", "alb"),
    ("JWT_ISSUER", "https://issuer.example/"),
    ("JWT_AUDIENCE", "hongbao-app,other"),
    ("CORS_ORIGINS", "https://app.example"),
];
const GROUP: &str = "arn:aws:elasticloadbalancing:ap-east-1:123456789012:targetgroup/hongbao-prod-v/0123456789abcdef";

/// The token of a user, as an issuer makes it.
fn token(user: &str, audience: &str) -> String {
    let claims =
        json!({"iss": "https://issuer.example/", "exp": 4_000_000_000_u64, "sub": user, "client_id": audience});
    let parts = [json!({"alg": "RS256"}).to_string(), claims.to_string(), "signature".to_owned()];
    format!("Bearer {}", parts.map(|part| BASE64_URL_SAFE_NO_PAD.encode(part)).join("."))
}

/// The event of a request, with lists of values (Elastic Load Balancing's documentation, "Multi-value headers").
fn event(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Value {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut event = json!({
        "requestContext": {"elb": {"targetGroupArn": GROUP}},
        "httpMethod": method, "path": path, "multiValueQueryStringParameters": {},
        "multiValueHeaders": {
            "host": ["api.example"], "content-type": ["application/json"], "x-forwarded-proto": ["https"],
            "x-forwarded-for": ["203.0.113.7"], "x-amzn-trace-id": ["Root=1-6b0055d8-5c1f7a3e2d4b6a8091c3e5f7"],
        },
        "body": body, "isBase64Encoded": false,
    });
    let mut add = |into: &str, name: &str, value: &str| {
        let values = event[into].as_object_mut().unwrap().entry(name).or_insert_with(|| json!([]));
        values.as_array_mut().unwrap().push(value.into());
    };
    for (name, value) in headers {
        add("multiValueHeaders", name, value);
    }
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        add("multiValueQueryStringParameters", name, value);
    }
    event
}

/// The HTTP answer that a load balancer makes of the function's answer.
async fn answer(function: &Function, event: &Value) -> Answer {
    let response = function.invoke(event.to_string().as_bytes()).await;
    let status = response["statusCode"].as_u64().unwrap_or_else(|| panic!("not an HTTP answer: {response}"));
    assert!(response["statusDescription"].as_str().unwrap().starts_with(&status.to_string()), "{response}");
    assert_eq!(response["isBase64Encoded"], false, "{response}");
    let headers = response["multiValueHeaders"].as_object().unwrap().iter().flat_map(|(name, values)| {
        let name: HeaderName = name.parse().unwrap();
        let values = values.as_array().unwrap().clone();
        values.into_iter().map(move |value| (name.clone(), HeaderValue::from_str(value.as_str().unwrap()).unwrap()))
    });
    let method = event["httpMethod"].as_str().unwrap().to_owned();
    let body = if method == "HEAD" { "" } else { response["body"].as_str().unwrap_or_default() };
    let answer = Answer {
        target: event["path"].as_str().unwrap().to_owned(),
        status: status.try_into().unwrap(),
        headers: headers.collect::<HeaderMap>(),
        bytes: body.as_bytes().to_vec(),
        method,
    };
    if answer.method != "OPTIONS" {
        SPEC.check(&answer);
    }
    answer
}

#[tokio::test]
async fn a_load_balancers_events_are_answered_by_the_contract() {
    let stores = Stores::start().await;
    let (wallet, send, grab, view) = futures::join!(
        stores.function("wallet", &[]),
        stores.function("send", &OF_BALANCER),
        stores.function("grab", &OF_BALANCER),
        stores.function("view", &OF_BALANCER),
    );
    wallet.answer(&sample("wallet", "")).await.expect(201);
    let (alice, bob) = (token("alice", "hongbao-app"), token("bob", "other"));

    let sample_body = text(&sample("send", "")["body"]);
    let sending = event("POST", "/packets", &[("authorization", &alice), ("idempotency-key", "k")], &sample_body);
    let packet = answer(&send, &sending).await.expect(201);
    let again = answer(&send, &sending).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (200, Some("true")));
    let id = packet["packet_id"].as_str().unwrap();
    let path = format!("/packets/{id}");

    // A form is what curl sends by default; a load balancer encodes it.
    let mut grabbing = event("POST", &format!("{path}/grab"), &[("authorization", &bob)], "");
    grabbing["body"] = "e30=".into();
    grabbing["isBase64Encoded"] = true.into();
    let grabbed = answer(&grab, &grabbing).await;
    assert_eq!(grabbed.expect(200)["outcome"], "grabbed");
    // The id under which Lambda and the log know the request.
    let request_id = grabbed.header("x-request-id").unwrap();
    assert_eq!(request_id.len(), 36, "{request_id}");
    assert!(grab.log().contains(request_id));

    let ask = async |method: &str, path: &str, headers: &[(&str, &str)]| {
        answer(&view, &event(method, path, &[&[("authorization", &*bob)], headers].concat(), "")).await
    };
    let looked = ask("GET", &path, &[]).await;
    assert_eq!(looked.expect(200)["mine"]["amount"], grabbed.expect(200)["amount"]);
    let tag = looked.header("etag").unwrap();
    assert_eq!(ask("GET", &path, &[("if-none-match", tag)]).await.status, 304);
    assert_eq!(ask("HEAD", &path, &[]).await.header("etag"), Some(tag));
    let encoded = id.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat();
    assert_eq!(ask("GET", &format!("/packets/{encoded}"), &[]).await.expect(200)["packet_id"], id);
    let claims = format!("{path}/claims");
    assert_eq!(ask("GET", &format!("{claims}?order=%6eewest&limit=1"), &[]).await.status, 200);
    ask("GET", &format!("{claims}?limit=1&limit=2"), &[]).await.refused(400, "invalid-request");
    // An encoded separator stays in its value.
    let fields = ask("GET", &format!("{claims}?order=newest%26limit%3D1"), &[]).await.refused(400, "invalid-request");
    assert_eq!(fields, ["order"]);
    ask("GET", &format!("{claims}?limit=<\"%3c%22"), &[]).await.refused(400, "invalid-request");
    ask("GET", "/me/nothing", &[]).await.refused(404, "route-not-found");
    ask("DELETE", "/me/wallet", &[]).await.refused(405, "method-not-allowed");
    ask("GET", "/wallets/alice", &[]).await.refused(404, "route-not-found");
    ask("GET", "/users/alice/packets", &[]).await.refused(401, "unauthenticated");

    // The same functions answer API Gateway too.
    assert_eq!(view.answer(&sample("view", id)).await.expect(200)["packet_id"], id);
}

#[test]
fn a_load_balancer_needs_an_issuer_and_an_audience() {
    for name in ["send", "grab", "view"] {
        let given = [("TABLE_NAME", "t"), ("REDIS_URL", "redis://r"), ("ENTRANCE", "alb")];
        let (output, said) = ends(name, &given);
        assert!(!output.status.success(), "{name}");
        assert!(said.contains("JWT_ISSUER is required; JWT_AUDIENCE is required"), "{said}");
        let (_, said) = ends(name, &[&given[..2], &[("ENTRANCE", "nlb")]].concat());
        assert!(said.contains("ENTRANCE must be api or alb"), "{said}");
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
