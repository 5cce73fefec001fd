use lambda_http::{Body, Request};
use serde::de::{DeserializeOwned, Error, Unexpected};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::problem::{Code, FieldError, Problem};
use crate::domain::{OperatorReason, ReasonError};

/// The most bytes of a body with a reason.
const REASON_BYTES_MAX: usize = 16 * 1_024;

const NULL: &str = "null";
/// No `i128` has as many digits.
const DIGITS_MAX: usize = 40;

/// A JSON integer of any size, so that the field with its bounds refuses what is too large. One beyond `i128` counts as its end. As in JSON
/// Schema, `100.0` and `1e2` are integers too: some languages have no others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Int(i128);

impl Int {
    /// The number, if it is in the range.
    pub fn within(self, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
        u64::try_from(self.0).ok().filter(|number| range.contains(number))
    }
}

impl<'de> Deserialize<'de> for Int {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The parser's own numbers end at 64 bits. A longer one would be a float, and a much longer one no JSON at all.
        let text = <&RawValue>::deserialize(deserializer)?.get();
        integer(text).map(Self).ok_or_else(|| {
            let found = if text == NULL { Unexpected::Unit } else { Unexpected::Other("no integer") };
            D::Error::invalid_type(found, &"an integer")
        })
    }
}

/// Reads an integer of a body as a number of this type.
pub fn whole<'de, N: TryFrom<i128>, D: Deserializer<'de>>(deserializer: D) -> Result<N, D::Error> {
    let Int(number) = Int::deserialize(deserializer)?;
    N::try_from(number).map_err(|_| D::Error::custom("is out of range"))
}

/// The integer that a JSON value is, if it is one.
fn integer(json: &str) -> Option<i128> {
    let (number, exponent) = json.split_once(['e', 'E']).unwrap_or((json, "0"));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    // An exponent beyond 64 bits has digits enough: no fraction is that long.
    let beyond = if exponent.starts_with('-') { i64::MIN } else { i64::MAX };
    let places = i64::try_from(whole.len()).ok()?.saturating_add(exponent.parse().unwrap_or(beyond));
    let zeros = usize::try_from(places.checked_sub(i64::try_from(significant.len()).ok()?)?).ok()?;
    let end = if sign.is_empty() { i128::MAX } else { i128::MIN };
    let text = format!("{sign}{significant}{}", "0".repeat(zeros.min(DIGITS_MAX)));
    Some(text.parse().unwrap_or(end))
}

/// Collects what is wrong with fields, so that one answer names all of it.
#[derive(Debug, Default)]
pub struct Fields(Vec<FieldError>);

impl Fields {
    /// `value`, or a note that `field` is at fault.
    pub fn check<V>(&mut self, field: &str, value: Option<V>, reason: impl Into<String>) -> Option<V> {
        if value.is_none() {
            self.0.push(FieldError { field: field.to_owned(), reason: reason.into() });
        }
        value
    }

    /// The text in a field that may be left out, or a note that it is at fault.
    pub fn text(&mut self, field: &str, asked: Option<String>) -> Option<OperatorReason> {
        asked?.parse().map_or_else(|error: ReasonError| self.check(field, None, error.to_string()), Some)
    }

    /// The problem, if any field is at fault.
    pub fn finish(self) -> Result<(), Problem> {
        if self.0.is_empty() { Ok(()) } else { Err(Problem::fields(self.0)) }
    }

    /// What all fields make together, or the problem. Without a field at fault each has a value.
    pub fn complete<V>(self, whole: impl FnOnce() -> Option<V>) -> Result<V, Problem> {
        self.finish()?;
        whole().ok_or_else(|| Problem::new(Code::InvalidRequest, "The request is not valid."))
    }
}

/// The request's body, a JSON object of at most `bytes_max`; `None` if there is none. A body or a field that is `null` counts as left out:
/// many clients write every field of their type.
pub fn parse_body<B: DeserializeOwned>(request: &Request, bytes_max: usize) -> Result<Option<B>, Problem> {
    let bytes: &[u8] = match request.body() {
        Body::Text(text) => text.as_bytes(),
        Body::Binary(bytes) => bytes,
        _ => &[],
    };
    if bytes.len() > bytes_max {
        return Err(Problem::new(Code::PayloadTooLarge, format!("The body can have at most {bytes_max} bytes.")));
    }
    match bytes.trim_ascii() {
        [] => return Ok(None),
        null if null == NULL.as_bytes() => return Ok(None),
        // A derived `Deserialize` would take an array for an object.
        [b'{', ..] => {}
        _ => return Err(not_an_object()),
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let body = serde_path_to_error::deserialize(&mut json).map_err(|error| problem(&error))?;
    json.end().map_err(|_| not_an_object())?;
    Ok(Some(body))
}

/// The request's body, which must be there.
pub fn required_body<B: DeserializeOwned>(request: &Request, bytes_max: usize) -> Result<B, Problem> {
    parse_body(request, bytes_max)?.ok_or_else(not_an_object)
}

/// The operator's reason in the body of a request, whose only field it is.
pub fn reason(request: &Request) -> Result<OperatorReason, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ReasonBody {
        reason: String,
    }
    let body: ReasonBody = required_body(request, REASON_BYTES_MAX)?;
    body.reason.parse().map_err(|error: ReasonError| Problem::field("reason", error.to_string()))
}

fn not_an_object() -> Problem {
    Problem::new(Code::InvalidRequest, "The body must be a JSON object.")
}

/// Says in our own words what is wrong. The parser's text would show our types, or repeat a passphrase.
fn problem(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let text = error.inner().to_string();
    // A client chooses the keys in it.
    let place = || error.path().to_string().chars().take(64).collect::<String>();
    if text.starts_with("unknown field") {
        return Problem::field(place(), "is not known");
    }
    for (prefix, reason) in [("missing field", "is required"), ("duplicate field", "is given twice")] {
        if text.starts_with(prefix) {
            let field = text.split('`').nth(1).unwrap_or_default();
            let is_nested = error.path().iter().next().is_some();
            return Problem::field(if is_nested { format!("{}.{field}", place()) } else { field.to_owned() }, reason);
        }
    }
    match error.inner().classify() {
        serde_json::error::Category::Data
            if text.starts_with("invalid type: null") && error.path().iter().count() == 1 =>
        {
            Problem::field(place(), "is required")
        }
        serde_json::error::Category::Data => Problem::field(place(), "has the wrong type"),
        // A number of a field that takes none. For the parser it is no JSON if even a float can't hold it.
        _ if text.starts_with("number out of range") => Problem::field(place(), "has the wrong type"),
        _ => not_an_object(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        amount: Int,
        note: Option<String>,
        inner: Option<Inner>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        key: String,
    }

    fn parse(body: impl Into<Body>) -> Result<Option<Sample>, Problem> {
        parse_body(&Request::new(body.into()), 4_096)
    }

    fn fault(body: &str) -> (Code, String) {
        let problem = parse(body).unwrap_err();
        let fields = problem.errors.iter().map(|error| format!("{} {}", error.field, error.reason));
        (problem.code, fields.collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn an_object_reads() {
        let sample = Sample { amount: Int(5), note: Some("恭喜".to_owned()), inner: None };
        assert_eq!(parse(r#" {"note": "恭喜", "amount": 5} "#).unwrap(), Some(sample));
        for left_out in [r#"{"amount":5}"#, r#"{"amount":5,"note":null}"#, r#"{"note": null , "amount": 5}"#] {
            assert_eq!(
                parse(left_out).unwrap(),
                Some(Sample { amount: Int(5), note: None, inner: None }),
                "{left_out}"
            );
        }
        assert_eq!(parse("").unwrap(), None);
        assert_eq!(parse(" \n").unwrap(), None);
        assert_eq!(parse(" null\n").unwrap(), None);
    }

    #[test]
    fn fields_at_fault_are_named() {
        for (body, expected) in [
            ("{}", "amount is required"),
            (r#"{"amount":1,"x":[[]]}"#, "x is not known"),
            (r#"{"amount":1,"amount":1}"#, "amount is given twice"),
            (r#"{"amount":1,"inner":{}}"#, "inner.key is required"),
            (r#"{"amount":1,"inner":{"key":"k","x":1}}"#, "inner.x is not known"),
            (r#"{"amount":1,"inner":{"key":"k","key":"k"}}"#, "inner.key is given twice"),
            (r#"{"amount":1,"inner":{"key":1}}"#, "inner.key has the wrong type"),
            (r#"{"amount":1.5}"#, "amount has the wrong type"),
            (r#"{"amount":1e-2}"#, "amount has the wrong type"),
            (r#"{"amount":"1"}"#, "amount has the wrong type"),
            (r#"{"amount":null}"#, "amount is required"),
            (r#"{"amount":null,"x":null}"#, "amount is required"),
            (r#"{"amount":1,"x":null}"#, "x is not known"),
            (r#"{"amount":[null]}"#, "amount has the wrong type"),
            (r#"{"amount":"null"}"#, "amount has the wrong type"),
            (r#"{"amount":1,"note":null,"note":"x"}"#, "note is given twice"),
            (r#"{"amount":1,"note":[null]}"#, "note has the wrong type"),
            (r#"{"amount":true}"#, "amount has the wrong type"),
            (r#"{"amount":[1]}"#, "amount has the wrong type"),
            (r#"{"amount":1,"note":7}"#, "note has the wrong type"),
        ] {
            assert_eq!(fault(body), (Code::InvalidRequest, expected.to_owned()), "{body}");
        }
    }

    #[test]
    fn what_is_no_json_object_is_said_to_be_none() {
        let deep = format!(r#"{{"amount":{}"#, "[".repeat(4_000));
        let hostile = [
            "[5, \"x\"]",
            "5",
            "null null",
            "NULL",
            "\"{\"",
            "{",
            "{\"amount\":1}}",
            "{\"amount\":1} {}",
            "{\"amount\":01}",
            "{\"note\":\"\\ud800\",\"amount\":1}",
            "{\"amount\":1,}",
            "{\u{0}}",
            "{'amount':1}",
            &deep,
        ];
        for body in hostile {
            let problem = parse(body).unwrap_err();
            assert_eq!(problem.code, Code::InvalidRequest, "{body}");
            assert!(!problem.detail.contains("struct"), "{}", problem.detail);
        }
        assert_eq!(parse(vec![b'{', 0xff, b'}']).unwrap_err().code, Code::InvalidRequest);
        assert_eq!(parse(" ".repeat(4_097)).unwrap_err().code, Code::PayloadTooLarge);
    }

    #[test]
    fn a_number_of_any_length_is_its_fields_matter() {
        for length in [19, 20, 39, 40, 4_000] {
            let digits = "9".repeat(length);
            let long = parse(format!(r#"{{"amount":{digits}}}"#)).unwrap().unwrap();
            assert!(long.amount.within(0..=u64::MAX).is_some() == (length == 19), "{length} digits");
            let negative = parse(format!(r#"{{"amount": -{digits} }}"#)).unwrap().unwrap();
            assert_eq!(negative.amount.within(0..=u64::MAX), None);
            let fault = fault(&format!(r#"{{"amount":1,"note":{digits}}}"#));
            assert_eq!(fault, (Code::InvalidRequest, "note has the wrong type".to_owned()), "{length} digits");
        }
    }

    #[test]
    fn an_integer_has_no_fraction_however_it_is_written() {
        for (text, number) in [
            ("0", 0),
            ("-0", 0),
            ("0.000", 0),
            ("0e-7", 0),
            ("0e99999999999999999999", 0),
            ("100", 100),
            ("100.0", 100),
            ("1e2", 100),
            ("1E+2", 100),
            ("0.001e5", 100),
            ("10000e-2", 100),
            ("12.50e1", 125),
            ("-1.0", -1),
            ("170141183460469231731687303715884105727", i128::MAX),
            ("1e38", 10_i128.pow(38)),
            ("1e39", i128::MAX),
            ("-1e39", i128::MIN),
            ("1e99999999999999999999", i128::MAX),
        ] {
            assert_eq!(integer(text), Some(number), "{text}");
        }
        for text in
            ["0.5", "100.5", "1.25e1", "1e-1", "-1e-400", "1e-99999999999999999999", "null", "true", "\"1\"", "[1]"]
        {
            assert_eq!(integer(text), None, "{text}");
        }
        let long = format!("1{}", "0".repeat(4_000));
        assert_eq!(integer(&format!("{long}e-4000")), Some(1));
        assert_eq!(integer(&format!("0.{}1e4001", "0".repeat(4_000))), Some(1));
    }

    #[test]
    fn an_integer_is_within_its_range() {
        assert_eq!(Int(5).within(1..=5), Some(5));
        assert_eq!(Int(6).within(1..=5), None);
        assert_eq!(Int(-1).within(0..=5), None);
        assert_eq!(Int(i128::from(u64::MAX) + 1).within(0..=u64::MAX), None);
    }
}
