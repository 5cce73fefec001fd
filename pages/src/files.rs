//! The files of both pages, the users' and the console. They are compiled into the program, so one file is enough.
//!
//! For the users' page this replaces S3 and `CloudFront`. Only files are answered here; all other paths belong to the API.

use std::collections::HashMap;
use std::io::Write;
use std::sync::OnceLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, REFERRER_POLICY,
    VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use lambda_http::Body;
use rust_embed::{EmbeddedFile, RustEmbed};
use serde::Serialize;
use sha2::{Digest, Sha256};
use shared::http::names_tag;

/// The pages' content security policy: it allows only their own files and the API.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// The page as a link to a packet shows it, with a title and a picture for chats.
const PACKET: &str = "packet.html";
/// What the page is called, and its icons, where a user installs it.
const MANIFEST: &str = "manifest.webmanifest";
const COVERS: &str = "assets/covers/";
/// The folder of the console, whose pages and modules have names of their own.
const CONSOLE: &str = "console/";
const CONTENT_TYPES: [(&str, &str); 6] = [
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("webmanifest", "application/manifest+json"),
];
/// For a file whose name changes with its content.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
/// For a file that changes under the same name: a browser must validate its copy at each use.
const VALIDATED: &str = "no-cache";

#[derive(RustEmbed)]
#[folder = "../web"]
struct Page;

/// The page's modules import the client from `/client/`.
#[derive(RustEmbed)]
#[folder = "../clients/js"]
#[prefix = "client/"]
struct Client;

/// A file of the page, ready to be sent.
struct Ready {
    content_type: &'static str,
    tag: String,
    plain: Vec<u8>,
    /// The compressed body, if it is shorter.
    gzip: Option<Vec<u8>>,
}

/// The answer to a request for a file of the pages; `None` for other requests.
#[must_use]
pub fn answer(parts: &Parts, raw_path: &str) -> Option<Response<Body>> {
    if !is_read(parts) {
        return None;
    }
    let ready = ready();
    let (name, caching) = file_name(raw_path, &ready.version)?;
    let file = ready.files.get(name)?;
    let takes_gzip = parts.headers.get_all(ACCEPT_ENCODING).iter().any(names_gzip);
    let (bytes, suffix) = match &file.gzip {
        Some(gzip) if takes_gzip => (gzip, "-gzip"),
        _ => (&file.plain, ""),
    };
    let tag = format!("\"{}{suffix}\"", file.tag);
    let is_known = names_tag(&parts.headers, &tag);
    let mut response = Response::new(if is_known { Body::Empty } else { Body::Binary(bytes.clone()) });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    // A script or a style has the policy of the document that loads it.
    if is_document(file.content_type) {
        protect(headers);
    } else {
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if !suffix.is_empty() {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    // A copy that is kept for ever is never validated.
    if caching == VALIDATED
        && let Ok(tag) = HeaderValue::from_str(&tag)
    {
        headers.insert(ETAG, tag);
    }
    Some(response)
}

/// Whether a request asks for a file or its head.
#[must_use]
pub fn is_read(parts: &Parts) -> bool {
    parts.method == Method::GET || parts.method == Method::HEAD
}

/// The page's file for a path, and how long a browser may keep it. Documents and types in the folder are not served. The HTML
/// and the manifest name files in a folder whose name is the version of all files together. The console's HTML does not: it comes from this
/// machine.
fn file_name<'a>(raw_path: &'a str, version: &str) -> Option<(&'a str, &'static str)> {
    let path = raw_path.strip_prefix('/')?;
    let is_part = |path: &str| path.starts_with("assets/") || path.starts_with("client/");
    match path {
        "" => Some(("index.html", VALIDATED)),
        MANIFEST => Some((MANIFEST, VALIDATED)),
        CONSOLE => Some(("console/index.html", VALIDATED)),
        path if is_part(path) || path.starts_with(CONSOLE) => Some((path, VALIDATED)),
        path => match path.split_once('/')? {
            ("p", id) if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                Some((PACKET, VALIDATED))
            }
            (folder, part) if folder == version && is_part(part) => Some((part, FOR_EVER)),
            _ => None,
        },
    }
}

fn names_gzip(value: &HeaderValue) -> bool {
    let codings = value.to_str().unwrap_or_default().split(',').map(str::trim);
    codings.filter_map(|coding| coding.split(';').next()).any(|name| name.eq_ignore_ascii_case("gzip"))
}

/// Whether a browser shows such a file by itself, with scripts of its own.
fn is_document(content_type: &str) -> bool {
    content_type.starts_with("text/html") || content_type == "image/svg+xml"
}

fn protect(headers: &mut HeaderMap) {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=(), payment=()"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// The settings of a page, which are never kept.
pub fn config(settings: &impl Serialize) -> Response<Body> {
    // Settings always have a JSON form.
    let mut response = Response::new(Body::Text(serde_json::to_string(settings).unwrap_or_default()));
    let headers = response.headers_mut();
    protect(headers);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The names of the covers: each is a file.
#[must_use]
pub fn covers() -> Vec<String> {
    let mut covers: Vec<_> =
        Page::iter().filter_map(|name| Some(name.strip_prefix(COVERS)?.strip_suffix(".js")?.to_owned())).collect();
    covers.sort_by_key(|name| (name != "plain", name.clone()));
    covers
}

/// All files of the page.
struct AllFiles {
    /// The version of all files together.
    version: String,
    files: HashMap<String, Ready>,
}

/// All files of the page by name, prepared once.
fn ready() -> &'static AllFiles {
    static READY: OnceLock<AllFiles> = OnceLock::new();
    READY.get_or_init(|| {
        let page = Page::iter().map(|name| (Page::get(&name), name));
        let client = Client::iter().map(|name| (Client::get(&name), name));
        let mut found: Vec<_> = page.chain(client).filter_map(|(file, name)| Some((name, file?))).collect();
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut all = Sha256::new();
        for (name, file) in &found {
            all.update(name.as_bytes());
            all.update(file.metadata.sha256_hash());
        }
        let version = format!("v-{}", hex::encode(&all.finalize()[..8]));
        let files = found.iter().filter_map(|(name, file)| Some((name.to_string(), prepare(name, file, &version)?)));
        AllFiles { files: files.collect(), version }
    })
}

fn prepare(name: &str, file: &EmbeddedFile, version: &str) -> Option<Ready> {
    let (_, extension) = name.rsplit_once('.')?;
    let (_, content_type) = CONTENT_TYPES.into_iter().find(|(known, _)| *known == extension)?;
    let names_versions = matches!(extension, "html" | "webmanifest") && !name.starts_with(CONSOLE);
    let plain = if names_versions { versioned(&file.data, version)? } else { file.data.to_vec() };
    let gzip = compressed(&plain).filter(|gzip| gzip.len() < plain.len());
    Some(Ready { content_type, tag: hex::encode(&Sha256::digest(&plain)[..16]), plain, gzip })
}

/// The HTML or the manifest, with its files in the folder of this version.
fn versioned(html: &[u8], version: &str) -> Option<Vec<u8>> {
    let mut html = std::str::from_utf8(html).ok()?.to_owned();
    for folder in ["assets/", "client/"] {
        for start in ["\"", "\"../"] {
            html = html.replace(&format!("{start}{folder}"), &format!("{start}{version}/{folder}"));
        }
    }
    Some(html.into_bytes())
}

fn compressed(plain: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).ok()?;
    encoder.finish().ok()
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http::header::IF_NONE_MATCH;

    use super::*;

    fn get(path: &str, headers: &[(HeaderName, &str)]) -> Option<Response<Body>> {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        answer(&parts, path)
    }

    #[test]
    fn every_file_that_the_page_names_is_served_for_ever_under_the_policy() {
        for (path, up) in [("/", ""), ("/p/01JZZZZZZZZZZZZZZZZZZZZZZZ", "../")] {
            let page = get(path, &[]).unwrap();
            assert_eq!(page.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
            assert_eq!(
                (&page.headers()[CACHE_CONTROL], &page.headers()[CONTENT_SECURITY_POLICY]),
                (&VALIDATED.parse().unwrap(), &POLICY.parse().unwrap())
            );
            let html = std::str::from_utf8(page.body()).unwrap().to_owned();
            let folder = format!("{up}{}/", ready().version);
            let named: Vec<_> = html.split('"').filter_map(|text| text.strip_prefix(&folder)).collect();
            assert!(named.len() > 5, "{named:?}");
            for name in named {
                let file = get(&format!("/{}/{name}", ready().version), &[]).unwrap_or_else(|| panic!("{name}"));
                assert_eq!(file.status(), StatusCode::OK);
                let policy = file.headers().get(CONTENT_SECURITY_POLICY).map(|policy| policy.to_str().unwrap());
                assert_eq!(
                    policy,
                    (std::path::Path::new(name).extension() == Some("svg".as_ref())).then_some(POLICY),
                    "{name}"
                );
                assert_eq!(file.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
                assert!(file.headers()[CACHE_CONTROL].to_str().unwrap().contains("immutable"));
                assert!(!file.body().is_empty(), "{name}");
            }
            assert!(!html.contains("<style") && !html.contains("style="), "the policy allows none");
            assert!(!html.contains(&format!("\"{up}assets/")), "every file is in the folder of the version");
        }
    }

    #[test]
    fn the_manifest_names_icons_that_are_served() {
        let manifest = get("/manifest.webmanifest", &[]).unwrap();
        assert_eq!(manifest.headers()[CONTENT_TYPE], "application/manifest+json");
        let manifest: serde_json::Value = serde_json::from_slice(manifest.body()).unwrap();
        let icons = manifest["icons"].as_array().unwrap();
        assert!(!icons.is_empty());
        for icon in icons {
            let name = icon["src"].as_str().unwrap();
            assert!(name.starts_with(&ready().version), "{name}");
            assert_eq!(get(&format!("/{name}"), &[]).unwrap().headers()[CONTENT_TYPE], "image/png");
        }
    }

    #[test]
    fn other_paths_are_left_to_the_api() {
        let others = "/console /console/none.js /console/../index.html /index.html /packet.html /assets /assets/ /assets/none.js /assets/../Cargo.toml /assets/vendor/qr.LICENSE \
            /client/package.json /client/api.d.ts /config.json/ /packets /packets/x /me/wallet /p /p/ /p/a/b /p/.. \
            /v-0000000000000000/assets/app.js";
        for path in others.split_whitespace() {
            assert!(get(path, &[]).is_none(), "{path}");
        }
        let (parts, ()) = Request::post("/").body(()).unwrap().into_parts();
        assert!(answer(&parts, "/").is_none());
    }

    #[test]
    fn a_valid_copy_is_not_sent_again() {
        for encoding in ["gzip, br", "identity"] {
            let first = get("/assets/app.js", &[(ACCEPT_ENCODING, encoding)]).unwrap();
            let tag = first.headers()[ETAG].to_str().unwrap().to_owned();
            assert_eq!(first.headers().contains_key(CONTENT_ENCODING), encoding.contains("gzip"));
            let again = get("/assets/app.js", &[(ACCEPT_ENCODING, encoding), (IF_NONE_MATCH, &tag)]).unwrap();
            assert_eq!((again.status(), again.body().is_empty()), (StatusCode::NOT_MODIFIED, true));
            assert_eq!(again.headers()[ETAG], tag.as_str());
            let other = get("/assets/app.js", &[(ACCEPT_ENCODING, encoding), (IF_NONE_MATCH, "\"x\"")]).unwrap();
            assert_eq!(other.status(), StatusCode::OK);
        }
    }

    #[test]
    fn the_console_has_the_same_policy_and_a_folder_of_its_own() {
        let page = get("/console/", &[]).unwrap();
        assert_eq!(page.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
        assert_eq!(
            (&page.headers()[CACHE_CONTROL], &page.headers()[CONTENT_SECURITY_POLICY]),
            (&VALIDATED.parse().unwrap(), &POLICY.parse().unwrap())
        );
        let html = std::str::from_utf8(page.body()).unwrap();
        assert!(!html.contains("<style") && !html.contains("style=") && !html.contains(&ready().version), "{html}");
        let named =
            html.split([' ', '\n']).filter_map(|word| word.strip_prefix("href=\"").or(word.strip_prefix("src=\"")));
        let named: Vec<_> =
            named.filter_map(|rest| rest.split('"').next()).filter(|name| !name.starts_with('#')).collect();
        assert!(!named.is_empty());
        for name in named {
            let path = name.strip_prefix("../").map_or(format!("/console/{name}"), |name| format!("/{name}"));
            let file = get(&path, &[]).unwrap_or_else(|| panic!("{name}"));
            assert_eq!((file.status(), &file.headers()[CACHE_CONTROL]), (StatusCode::OK, &VALIDATED.parse().unwrap()));
        }
    }
}
