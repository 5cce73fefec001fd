//! The keys of operators of `hongbao serve`. On AWS IAM has them.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use shared::domain::OPERATOR_KEY;
use shared::ledger::{Ledger, OperatorKey, hash_of_key};
use shared::ports::{Clock, Entropy, System};

use crate::any_table::AnyTable;
use crate::deployment::{Failed, Table};
use crate::options::{KeyCommand, NewKey};
use crate::text;
use crate::{Exit, Outcome};

/// Runs a command on keys.
pub async fn run(table: &Table, command: KeyCommand, json: bool) -> Result<Outcome, Failed> {
    let ledger = table.ledger();
    match command {
        KeyCommand::Add(new) => add(&ledger, new, json).await,
        KeyCommand::List => list(&ledger, json).await,
        KeyCommand::Revoke { name } => revoke(&ledger, &name, json).await,
    }
}

/// Makes a key, and shows it: nobody can read it again.
async fn add(ledger: &Ledger<AnyTable>, NewKey { name, rights }: NewKey, json: bool) -> Result<Outcome, Failed> {
    if !good(ledger, &name).await?.is_empty() {
        return Err(Failed::Refused(format!("there is a key {name}: revoke it first, or choose another name")));
    }
    let random = [System.bytes16(), System.bytes16()].concat();
    let key = format!("{OPERATOR_KEY}{}", BASE64_URL_SAFE_NO_PAD.encode(random));
    let signer = name.parse().map_err(|error| Failed::Refused(format!("the name must be {error}")))?;
    let known = OperatorKey { name: signer, rights, created_at: System.now(), revoked_at: None };
    if !ledger.add_operator_key(&hash_of_key(&key), &known).await? {
        return Err(Failed::Refused("the key exists".to_owned()));
    }
    let words = || format!("{key}\n\nIt is shown this once. Send it as `Authorization: Bearer {OPERATOR_KEY}…`.");
    Ok(Outcome::new(json, &json!({"name": name, "key": key, "rights": known.rights}), words, Exit::Good))
}

async fn list(ledger: &Ledger<AnyTable>, json: bool) -> Result<Outcome, Failed> {
    let shown = |(_, key): (String, OperatorKey)| {
        let rights: Vec<Value> = key.rights.iter().map(|right| json!(right)).collect();
        let rights: Vec<&str> = rights.iter().filter_map(Value::as_str).collect();
        json!({
            "name": key.name, "rights": rights.join(","), "created_at": key.created_at.to_string(),
            "revoked_at": key.revoked_at.map(|at| at.to_string()),
        })
    };
    let rows: Vec<Value> = ledger.operator_keys().await?.into_iter().map(shown).collect();
    let words = || {
        if rows.is_empty() {
            "there is no key".to_owned()
        } else {
            text::table(&rows, "name rights created_at revoked_at")
        }
    };
    Ok(Outcome::new(json, &rows, words, Exit::Good))
}

async fn revoke(ledger: &Ledger<AnyTable>, name: &str, json: bool) -> Result<Outcome, Failed> {
    let (hashes, at) = (good(ledger, name).await?, System.now());
    if hashes.is_empty() {
        return Err(Failed::Refused(format!("there is no key {name}")));
    }
    for hash in hashes {
        ledger.revoke_operator_key(&hash, at).await?;
    }
    let words = || format!("the key {name} counts no more");
    Ok(Outcome::new(json, &json!({"name": name, "revoked_at": at.to_string()}), words, Exit::Good))
}

/// The hashes of the keys with this name that count: one, unless two were made at once.
async fn good(ledger: &Ledger<AnyTable>, name: &str) -> Result<Vec<String>, Failed> {
    let is_good = |key: &OperatorKey| key.name.to_string() == name && key.revoked_at.is_none();
    let keys = ledger.operator_keys().await?.into_iter();
    Ok(keys.filter(|(_, key)| is_good(key)).map(|(hash, _)| hash).collect())
}
