//! The body of a send: its shape, and its limits.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use lambda_http::Request;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use shared::domain::{Amount, Labels, Limits, MAX_MOVEMENT, Passphrase, Split, UserId, WinLimit, is_plain};
use shared::http::{Fields, Int, Problem, required_body};
use shared::service::NewPacket;

const BODY_BYTES_MAX: usize = 128 * 1_024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SendBody {
    split: String,
    total_amount: Int,
    count: Int,
    greeting: Option<String>,
    starts_at: Option<String>,
    expires_in_s: Option<Int>,
    passphrase: Option<String>,
    recipients: Option<Vec<String>>,
    eligibility: Option<String>,
    cover: Option<String>,
    reference: Option<String>,
    metadata: Option<Texts>,
    limit: Option<LimitBody>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitBody {
    key: String,
    wins: Option<Int>,
    amount: Option<Int>,
}

/// The texts of an object in their order; `None` for a `null`. A key that is there twice is there twice.
struct Texts(Vec<(String, Option<String>)>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Texts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Texts, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = object.next_entry()? {
                    texts.push(text);
                }
                Ok(Texts(texts))
            }
        }

        deserializer.deserialize_map(Reader)
    }
}

/// The packet of a request's body, or the body's errors.
pub fn new_packet(request: &Request, sender: UserId, limits: &Limits) -> Result<NewPacket, Problem> {
    within_limits(sender, required_body(request, BODY_BYTES_MAX)?, limits)
}

/// The packet, or all errors.
fn within_limits(sender: UserId, body: SendBody, limits: &Limits) -> Result<NewPacket, Problem> {
    let mut fields = Fields::default();
    let split = match &*body.split {
        "random" => Some(Split::Random),
        "equal" => Some(Split::Equal),
        _ => None,
    };
    let split = fields.check("split", split, "must be random or equal");
    let count = body.count.within(1..=limits.count_max.into()).and_then(|count| u32::try_from(count).ok());
    let count = fields.check("count", count, format!("must be an integer from 1 to {}", limits.count_max));
    // The limits of the total depend on the count.
    let total = count.and_then(|count| {
        let most = limits.slip_amount_max.checked_mul(count.into())?.minor_units();
        let total = body.total_amount.within(count.into()..=most).map(Amount::new);
        fields.check("total_amount", total, format!("must be an integer from {count} to {most} for {count} slips"))
    });
    let greeting = body.greeting.unwrap_or_default();
    let most = Limits::GREETING_CHARS_MAX;
    let greeting = Some(greeting).filter(|text| is_shown(text, most));
    let reason = format!("must be at most {most} characters, {SHOWN}");
    let greeting = fields.check("greeting", greeting, reason);
    let starts_at = match body.starts_at {
        None => Some(None),
        Some(text) => {
            fields.check("starts_at", text.parse().ok().map(Some), "must be a time like 2027-01-01T00:00:00.000Z")
        }
    };
    let expires_in = match body.expires_in_s {
        None => Some(Limits::EXPIRY_DEFAULT),
        Some(seconds) => {
            let most = Limits::EXPIRY_MAX.as_secs();
            let expiry = seconds.within(1..=most).map(Duration::from_secs);
            fields.check("expires_in_s", expiry, format!("must be an integer from 1 to {most}"))
        }
    };
    let passphrase = match body.passphrase {
        None => Some(None),
        Some(text) => passphrase(&text, &mut fields).map(Some),
    };
    let recipients = match body.recipients {
        None => Some(None),
        Some(users) => recipients(&users, &mut fields).map(Some),
    };
    let wants_ticket = match body.eligibility.as_deref() {
        None => Some(false),
        Some("ticket") => Some(true),
        Some(_) => fields.check("eligibility", None, "must be ticket"),
    };
    let limit = match body.limit {
        None => Some(None),
        Some(limit) => win_limit(limit, &mut fields).map(Some),
    };
    if let (Some(Split::Equal), Some(total), Some(count), Some(Some(limit))) = (split, total, count, &limit) {
        let slip = total.minor_units() / u64::from(count);
        let is_won = limit.amount.is_none_or(|most| most.minor_units() >= slip);
        fields.check("limit.amount", is_won.then_some(()), format!("must be at least a slip, {slip}"));
    }
    let labels = labels(body.cover.as_deref(), body.reference.as_deref(), body.metadata, &mut fields);
    fields.complete(|| {
        Some(NewPacket {
            sender,
            split: split?,
            total: total?,
            count: count?,
            greeting: greeting?,
            starts_at: starts_at?,
            expires_in: expires_in?,
            passphrase: passphrase?,
            recipients: recipients?,
            wants_ticket: wants_ticket?,
            limit: limit?,
            labels,
        })
    })
}

const SHOWN: &str = "without control or invisible characters";

/// Whether a text may be shown to others, and is not too long.
fn is_shown(text: &str, chars_max: usize) -> bool {
    text.chars().count() <= chars_max && is_plain(text)
}

/// The passphrase, normalised. Its limits are those of the normalised form.
fn passphrase(text: &str, fields: &mut Fields) -> Option<Passphrase> {
    let most = Limits::PASSPHRASE_CHARS_MAX;
    let passphrase = Passphrase::new(text);
    let good = (1..=most).contains(&passphrase.as_str().chars().count()) && !text.chars().any(char::is_control);
    let reason = format!("must be 1 to {most} characters after normalisation, without control characters");
    fields.check("passphrase", Some(passphrase).filter(|_| good), reason)
}

/// The limit. A number that is `null` counts as left out, but one of them is needed.
fn win_limit(LimitBody { key, wins, amount }: LimitBody, fields: &mut Fields) -> Option<WinLimit> {
    let key = label("limit.key", &key, fields);
    let (wins_max, amount_max) = (WinLimit::WINS_MAX, MAX_MOVEMENT.minor_units());
    let is_one_there = (wins.is_some() || amount.is_some()).then_some(());
    let is_one_there = fields.check("limit", is_one_there, "must have wins, amount, or both");
    let wins = wins.map(|wins| {
        let wins = wins.within(1..=wins_max.into()).and_then(|wins| u32::try_from(wins).ok());
        fields.check("limit.wins", wins, format!("must be an integer from 1 to {wins_max}"))
    });
    let amount = amount.map(|amount| {
        let amount = amount.within(1..=amount_max).map(Amount::new);
        fields.check("limit.amount", amount, format!("must be an integer from 1 to {amount_max}"))
    });
    is_one_there?;
    Some(WinLimit {
        key: key?,
        wins: wins.map_or(Some(None), |wins| wins.map(Some))?,
        amount: amount.map_or(Some(None), |amount| amount.map(Some))?,
    })
}

fn recipients(users: &[String], fields: &mut Fields) -> Option<BTreeSet<UserId>> {
    let most = Limits::RECIPIENTS_MAX;
    let good_number = (1..=most).contains(&users.len()).then_some(());
    fields.check("recipients", good_number, format!("must be 1 to {most} user ids"))?;
    let mut distinct = BTreeSet::new();
    for (i, user) in users.iter().enumerate() {
        let field = format!("recipients[{i}]");
        let user: UserId = fields.check(&field, user.parse().ok(), "is not a user id")?;
        fields.check(&field, distinct.insert(user).then_some(()), "is a duplicate")?;
    }
    Some(distinct)
}

/// The labels. Errors go to `fields`.
fn labels(cover: Option<&str>, reference: Option<&str>, metadata: Option<Texts>, fields: &mut Fields) -> Labels {
    let cover = cover.and_then(|text| label("cover", text, fields));
    let reference = reference.and_then(|text| label("reference", text, fields));
    let metadata = metadata.and_then(|texts| pairs(texts, fields));
    Labels { cover, reference, metadata }
}

fn label<V: FromStr<Err: Display>>(field: &str, text: &str, fields: &mut Fields) -> Option<V> {
    text.parse().map_or_else(|error: V::Err| fields.check(field, None, format!("{error}")), Some)
}

/// The pairs. A key whose value is `null` counts as left out, as a field does; the limits hold for it all the same.
fn pairs(Texts(texts): Texts, fields: &mut Fields) -> Option<BTreeMap<String, String>> {
    let most = Labels::METADATA_KEYS_MAX;
    fields.check("metadata", (texts.len() <= most).then_some(()), format!("must have at most {most} keys"))?;
    let mut pairs = BTreeMap::new();
    for (key, value) in texts {
        let most = Labels::METADATA_KEY_CHARS_MAX;
        let good_key = (!key.is_empty() && is_shown(&key, most)).then_some(());
        fields.check("metadata", good_key, format!("must have keys of 1 to {most} characters, {SHOWN}"))?;
        let field = format!("metadata.{key}");
        let most = Labels::METADATA_VALUE_CHARS_MAX;
        let good_value = value.as_ref().is_none_or(|value| is_shown(value, most)).then_some(());
        fields.check(&field, good_value, format!("must be at most {most} characters, {SHOWN}"))?;
        fields.check(&field, pairs.insert(key, value).is_none().then_some(()), "is given twice")?;
    }
    Some(pairs.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
}
