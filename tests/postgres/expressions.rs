//! The expressions that the ledger and the tests write, read back into the ledger's own writes.

use std::collections::HashMap;

use serde_dynamo::AttributeValue;
use serde_json::Value;
use shared::ports::{Bound, Expect, Item, Key, Write};

/// A text for as long as the program runs, as the names of attributes are in the ledger. There are few.
pub fn interned(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

/// The write of one of a transaction's items.
pub fn write(asked: &Value) -> Write {
    if let Some(put) = asked.get("Put") {
        assert_eq!(put["ConditionExpression"], "attribute_not_exists(#pk)");
        let mut attributes: HashMap<String, AttributeValue> = serde_json::from_value(put["Item"].clone()).unwrap();
        let mut text = |name| match attributes.remove(name) {
            Some(AttributeValue::S(text)) => text,
            other => panic!("{name} is {other:?}"),
        };
        let key = Key { pk: text("PK"), sk: text("SK") };
        return Write::PutNew { key, item: attributes.into() };
    }
    let update = Update(&asked["Update"]);
    let key = crate::api::key_of(&update.0["Key"]);
    let expression = update.0["UpdateExpression"].as_str().unwrap();
    if let Some(terms) = expression.strip_prefix("ADD ") {
        let (bounds, absent) = update.bounds();
        return Write::Add { key, deltas: terms.split(", ").map(|term| update.delta(term)).collect(), bounds, absent };
    }
    let (set, remove) = update.sets_and_removes(expression);
    Write::Change { key, expect: update.expectation(), set, remove: Vec::leak(remove) }
}

struct Update<'a>(&'a Value);

impl Update<'_> {
    /// The attribute that a placeholder stands for, or that is named as it is.
    fn name(&self, placeholder: &str) -> &'static str {
        interned(self.0["ExpressionAttributeNames"][placeholder].as_str().unwrap_or(placeholder))
    }

    fn value(&self, placeholder: &str) -> AttributeValue {
        serde_json::from_value(self.0["ExpressionAttributeValues"][placeholder].clone()).unwrap()
    }

    fn number<N: std::str::FromStr>(&self, placeholder: &str) -> N {
        let AttributeValue::N(digits) = self.value(placeholder) else { panic!("{placeholder} is no number") };
        digits.parse().ok().unwrap()
    }

    fn delta(&self, term: &str) -> (&'static str, i64) {
        let (name, value) = term.split_once(' ').unwrap();
        (self.name(name), self.number(value))
    }

    fn condition(&self) -> &str {
        self.0["ConditionExpression"].as_str().unwrap_or_default()
    }

    fn bounds(&self) -> (Vec<Bound>, Option<&'static str>) {
        let (mut bounds, mut absent) = (Vec::new(), None);
        for term in self.condition().split(" AND ").filter(|term| !term.is_empty()) {
            let at_most = term.strip_prefix('(').and_then(|term| term.strip_suffix(')'));
            if let Some((_, term)) = at_most.and_then(|term| term.split_once(" OR ")) {
                let (name, most) = term.split_once(" <= ").unwrap();
                bounds.push(Bound::AtMost(self.name(name), self.number(most)));
            } else if let Some((name, least)) = term.split_once(" >= ") {
                bounds.push(Bound::AtLeast(self.name(name), self.number(least)));
            } else {
                let name = term.strip_prefix("attribute_not_exists(").and_then(|term| term.strip_suffix(')'));
                absent = Some(self.name(name.unwrap()));
            }
        }
        (bounds, absent)
    }

    fn expectation(&self) -> Expect {
        let condition = self.condition();
        if condition.is_empty() {
            return Expect::Nothing;
        }
        if let Some((name, value)) = condition.split_once(" = ") {
            let AttributeValue::S(text) = self.value(value) else { panic!("{condition}") };
            return Expect::Is(self.name(name), interned(&text));
        }
        let name = condition.strip_prefix("attribute_exists(").and_then(|term| term.strip_suffix(')'));
        Expect::Has(self.name(name.unwrap()))
    }

    fn sets_and_removes(&self, expression: &str) -> (Item, Vec<&'static str>) {
        let (sets, removes) = match (expression.strip_prefix("SET "), expression.strip_prefix("REMOVE ")) {
            (Some(sets), _) => sets.split_once(" REMOVE ").unwrap_or((sets, "")),
            (None, removes) => ("", removes.unwrap()),
        };
        let list = |text: &str| text.split(", ").filter(|one| !one.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        let set = list(sets).into_iter().map(|term| {
            let (name, value) = term.split_once(" = ").unwrap();
            (self.name(name).to_owned(), self.value(value))
        });
        (set.collect::<HashMap<_, _>>().into(), list(removes).iter().map(|name| self.name(name)).collect())
    }
}
