//! What the gateway makes of a request, without sockets.

mod event {
    use std::time::SystemTime;

    use http::{HeaderValue, Method};
    use lambda_http::aws_lambda_events::apigw::ApiGatewayV2httpRequestContext;
    use lambda_http::request::RequestContext;
    use lambda_http::{Body, Request, RequestExt};
    use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
    use proptest::prelude::*;

    use crate::gateway::event::{
        Origin, TARGET_BYTES_MAX, USER_HEADER, UriTooLong, believed, event, raw_path, request,
    };
    use crate::gateway::routes;

    fn convert(asked: http::Request<&[u8]>) -> Result<Request, UriTooLong> {
        let (parts, body) = asked.into_parts();
        let raw_path = raw_path(&parts)?;
        let matched = routes::find(parts.method.as_str(), &raw_path);
        let origin =
            Origin { server: ([127, 0, 0, 1], 3000).into(), base_path: "", request_id: "r1", believes_users: true };
        let authorizer = believed(&raw_path, &parts.headers);
        Ok(request(event(parts, &raw_path, matched, body, origin, authorizer), "r1"))
    }

    fn get(target: &str) -> http::request::Builder {
        http::Request::builder().uri(target)
    }

    fn context(request: &Request) -> ApiGatewayV2httpRequestContext {
        let Some(RequestContext::ApiGatewayV2(context)) = request.request_context_ref() else { panic!("no context") };
        context.clone()
    }

    fn sub(request: &Request) -> Option<String> {
        context(request).authorizer?.jwt?.claims.get("sub").cloned()
    }

    #[test]
    fn a_request_is_passed_on_as_api_gateway_does() {
        let request = http::Request::builder()
            .method(Method::POST)
            .uri("/packets/01J/grab?a=1&a=2")
            .header("x-user-id", "alice")
            .header("idempotency-key", "k1")
            .header("accept", "a")
            .header("accept", "b")
            .body(&b"{}"[..])
            .unwrap();
        let request = convert(request).unwrap();
        assert_eq!(request.method(), Method::POST);
        assert_eq!(request.uri(), "http://127.0.0.1:3000/packets/01J/grab?a=1&a=2");
        assert_eq!(request.raw_http_path(), "/packets/01J/grab");
        assert_eq!(request.query_string_parameters().all("a").unwrap(), ["1", "2"]);
        assert_eq!(request.headers()["idempotency-key"], "k1");
        assert_eq!(request.headers()["accept"], "a,b");
        assert_eq!(request.headers().get(USER_HEADER), None);
        assert!(matches!(request.body(), Body::Text(text) if text == "{}"));
        assert_eq!(request.lambda_context().request_id, "r1");
        assert!(request.lambda_context().deadline() > SystemTime::now());
        assert_eq!(sub(&request).as_deref(), Some("alice"));
        let context = context(&request);
        assert_eq!(context.route_key.as_deref(), Some("POST /packets/{packet_id}/grab"));
        assert_eq!(context.request_id.as_deref(), Some("r1"));
    }

    #[test]
    fn the_path_is_decoded_and_never_panics() {
        for (target, raw_path, key) in [
            ("/", "/", "$default"),
            ("*", "/*", "$default"),
            ("//", "//", "$default"),
            ("//evil.example/packets", "//evil.example/packets", "$default"),
            ("http://evil.example:99/me/wallet", "/me/wallet", "GET /me/wallet"),
            ("http://evil.example", "/", "$default"),
            ("evil.example:443", "/", "$default"),
            ("/packets/a%2Fclaims", "/packets/a/claims", "GET /packets/{packet_id}/claims"),
            ("/packets/%0a%0D%09%00", "/packets/\n\r\t\0", "GET /packets/{packet_id}"),
            ("/packets/%ff%fe", "/packets/\u{fffd}\u{fffd}", "GET /packets/{packet_id}"),
            ("/packets/%E7%BA%A2", "/packets/红", "GET /packets/{packet_id}"),
            ("/packets/红", "/packets/红", "GET /packets/{packet_id}"),
            ("/packets/a%3Fb%23c%25d", "/packets/a?b#c%d", "GET /packets/{packet_id}"),
            ("/packets/%", "/packets/%", "GET /packets/{packet_id}"),
            ("/packets/%zz%4", "/packets/%zz%4", "GET /packets/{packet_id}"),
            ("/packets/..", "/packets/..", "GET /packets/{packet_id}"),
            ("/packets/../me/wallet", "/packets/../me/wallet", "$default"),
            ("/packets/%5c%22%7B%7D%7C%5e%60%3C%3E%20+", "/packets/\\\"{}|^`<> +", "GET /packets/{packet_id}"),
            ("/packets/@:80", "/packets/@:80", "GET /packets/{packet_id}"),
        ] {
            let request = convert(get(target).body(&b""[..]).unwrap()).unwrap();
            assert_eq!(request.raw_http_path(), raw_path, "{target}");
            assert_eq!(context(&request).route_key.as_deref(), Some(key), "{target}");
            assert_eq!(request.uri().authority().unwrap(), "127.0.0.1:3000", "{target}");
        }
    }

    #[test]
    fn a_client_cannot_set_the_gateways_headers() {
        for (name, value) in [
            ("host", &b"a b"[..]),
            ("host", b"evil.example/"),
            ("host", b"\xff"),
            ("x-forwarded-proto", b"a b"),
            ("x-forwarded-proto", b"javascript"),
        ] {
            let request = convert(get("/packets/a").header(name, value).body(&b""[..]).unwrap()).unwrap();
            assert_eq!(request.uri(), "http://127.0.0.1:3000/packets/a", "{name}");
            assert_eq!(request.headers()["host"], "127.0.0.1:3000");
        }
    }

    #[test]
    fn the_header_is_the_subject_of_a_token() {
        for (values, expected) in [
            (&[&b"alice"[..]][..], Some("alice")),
            (&["红".as_bytes()], Some("红")),
            (&[b"%61/b"], Some("%61/b")),
            (&[b""], Some("")),
            (&[b"\xff"], Some("\u{fffd}")),
            (&[], None),
            (&[b"alice", b"alice"], None),
        ] {
            let request = values.iter().fold(get("/me/wallet"), |request, value| request.header(USER_HEADER, *value));
            let request = convert(request.body(&b""[..]).unwrap()).unwrap();
            assert_eq!((request.headers().get(USER_HEADER), sub(&request).as_deref()), (None, expected));
            let tokens = request.headers().get("authorization").map(HeaderValue::as_bytes);
            assert_eq!(tokens, (values.len() > 1).then_some(&b"alice,alice"[..]));
        }
    }

    #[test]
    fn the_operators_routes_are_signed_and_have_no_user() {
        for path in ["/wallets/alice/nothing", "/wallets%2Falice", "/users/alice/packets", "/operator/packets"] {
            let request = convert(get(path).header(USER_HEADER, "mallory").body(&b""[..]).unwrap()).unwrap();
            let authorizer = context(&request).authorizer.unwrap();
            assert!(authorizer.iam.is_some() && authorizer.jwt.is_none(), "{path}");
        }
    }

    #[test]
    fn a_body_that_is_not_text_arrives_as_bytes() {
        let body = |body| convert(get("/").body(body).unwrap()).unwrap().into_body();
        assert!(matches!(body(b"\xff\x00"), Body::Binary(bytes) if bytes == b"\xff\x00"));
        assert!(matches!(body(b"\0"), Body::Text(text) if text == "\0"));
        assert!(matches!(body(b""), Body::Empty));
    }

    #[test]
    fn a_path_that_is_too_long_for_an_address_is_refused() {
        let target = format!("/{}", "a".repeat(TARGET_BYTES_MAX));
        assert_eq!(convert(get(&target).body(&b""[..]).unwrap()).unwrap_err(), UriTooLong);
        // Each byte becomes a replacement character, which takes nine bytes in an encoded path.
        let target = format!("/{}", "%ff".repeat(TARGET_BYTES_MAX / 3 - 1));
        convert(get(&target).body(&b""[..]).unwrap()).unwrap();
    }

    proptest! {
        #[test]
        fn no_target_makes_it_panic(
            path in prop::collection::vec(any::<u8>(), 0..40),
            query in "[ -~]{0,20}",
            user: Vec<u8>,
            body: Vec<u8>,
        ) {
            let encoded = percent_encode(&path, NON_ALPHANUMERIC);
            let raw: String = path.iter().map(|&byte| char::from(byte)).collect();
            for target in [format!("/{encoded}?{query}"), format!("/{raw}?{query}"), raw] {
                if let Ok(request) = get(&target).header(USER_HEADER, &user[..]).body(&body[..]) {
                    prop_assert!(convert(request).is_ok());
                }
            }
        }
    }
}

mod routes {
    use shared::http::ROUTES;

    use crate::gateway::routes::{DEFAULT_KEY, find};

    #[test]
    fn each_route_is_found() {
        for route in ROUTES {
            let path = route.path.replace(['{', '}'], "");
            let found = find(route.method, &path);
            assert_eq!((found.key, found.function), (format!("{} {}", route.method, route.path), route.function));
            assert_eq!(found.user_id.is_empty(), !route.path.contains("{user_id}"));
            if route.method == "GET" {
                let head = find("HEAD", &path);
                assert_eq!((head.key, head.function), (format!("HEAD {}", route.path), route.function));
            }
        }
    }

    #[test]
    fn other_requests_have_the_default_route() {
        let others = "GET /, GET , GET /packets, GET /packets/, GET /packets//claims, GET /packets/1/, GET //packets/1, \
            DELETE /packets/1, HEAD /packets, HEAD /packets/1/grab, get /packets/1, PUT /wallets/u/deposits/a/b, GET /me";
        for (method, path) in others.split(", ").map(|other| other.split_once(' ').unwrap()) {
            assert_eq!(find(method, path).key, DEFAULT_KEY, "{method} {path}");
        }
    }
}
