//! The operator's policies in the template, read as IAM would.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

/// The policy of a right.
pub fn policy(right: &str) -> &'static str {
    let template = include_str!("../../../template.yaml");
    let capital = right[..1].to_uppercase();
    let (_, policy) = template.split_once(&format!("  Operator{capital}{}Policy:\n", &right[1..])).unwrap();
    policy.split("\n\n").next().unwrap()
}

/// Whether a policy of the template allows a route. Its resources end with a method and a path, in which `*` is any text.
pub fn allows(policy: &str, method: &str, path: &str) -> bool {
    let resources = policy.lines().filter_map(|line| line.split_once("${Api}/$default/"));
    resources.map(|(_, resource)| resource.split_once('/').unwrap()).any(|(allowed, pattern)| {
        let (asked, mut rest) = (path.trim_start_matches('/'), path.trim_start_matches('/'));
        let parts: Vec<&str> = pattern.split('*').collect();
        allowed == method
            && rest.starts_with(parts[0])
            && (asked.ends_with(parts[parts.len() - 1]))
            && parts.iter().all(|part| match rest.find(part) {
                Some(at) => {
                    rest = &rest[at + part.len()..];
                    true
                }
                None => false,
            })
            && (parts.len() > 1 || asked == pattern)
    })
}
