//! The keys of tickets behind Secrets Manager's protocol: a rotation refuses nobody.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use client::tickets::{Scope, Ticket, TicketKey};
use tests::relay::stand_in;

use super::publish::aws_answer;
use super::*;
use crate::contract::api::{TICKET_KEY, text};

const NEXT: &str = r#"{"kty":"oct","kid":"2027-2","k":"_____________________________________________w"}"#;

fn key_set(keys: &[&str]) -> String {
    format!(r#"{{"keys": [{}]}}"#, keys.join(","))
}

#[tokio::test]
async fn a_new_key_is_known_within_seconds_and_the_old_one_meanwhile() {
    let secret = Arc::new(Mutex::new(key_set(&[TICKET_KEY])));
    let known = Arc::clone(&secret);
    let address = stand_in(move |request| {
        assert_eq!(request.headers()["x-amz-target"], "secretsmanager.GetSecretValue");
        let answer = json!({"SecretString": *known.lock().unwrap()});
        async move { aws_answer(200, &answer) }
    });
    let url = format!("http://{}", address.await);
    let variables = [("TICKET_SECRET", "tickets"), ("AWS_ENDPOINT_URL_SECRETS_MANAGER", &*url)];
    let stores = Stores::start().await;
    let (wallet, send, grab) = futures::join!(
        stores.function("wallet", &[]),
        stores.function("send", &variables),
        stores.function("grab", &variables),
    );
    wallet.answer(&sample("wallet", "")).await.expect(201);
    let mut sending = sample("send", "");
    sending["body"] = r#"{"split":"equal","total_amount":20000,"count":20000,"eligibility":"ticket"}"#.into();
    let packet = text(&send.answer(&sending).await.expect(201)["packet_id"]);

    let (old, new) = (TicketKey::from_jwk(TICKET_KEY).unwrap(), TicketKey::from_jwk(NEXT).unwrap());
    let mut users = 0;
    let mut ask = async |key: &TicketKey| {
        users += 1;
        let user = format!("user-{users}");
        let mut event = grab_of(&packet, &user);
        event["headers"]["grab-ticket"] = key.sign(&Ticket::new(&user, Scope::Packet(&packet))).unwrap().into();
        grab.answer(&event).await
    };
    assert_eq!(ask(&old).await.expect(200)["outcome"], "grabbed");
    ask(&new).await.refused(403, "ticket-invalid");
    *secret.lock().unwrap() = key_set(&[TICKET_KEY, NEXT]);
    poll("the new key", async || {
        assert_eq!(ask(&old).await.expect(200)["outcome"], "grabbed");
        let answer = ask(&new).await;
        let is_known = answer.status == 200;
        if !is_known {
            answer.refused(403, "ticket-invalid");
        }
        is_known.then_some(())
    })
    .await;
    let mut ahead = grab_of(&packet, "user-ahead");
    let (ticket, now) = (Ticket::new("user-ahead", Scope::Packet(&packet)), SystemTime::now());
    ahead["headers"]["grab-ticket"] = old.sign_at(&ticket, now + Duration::from_mins(1)).unwrap().into();
    grab.answer(&ahead).await.refused(403, "ticket-invalid");
    let log = grab.log();
    for cause in ["it is no JWS that names one of the keys", "s ahead of the clock here"] {
        assert!(log.contains(cause), "{cause}: {log}");
    }
    assert!(!log.contains("PYbn25y"), "no log shows a key");
}
