//! Whom TLS trusts. It is read once, and all connections share it: a handshake that reads the system's certificates takes
//! milliseconds more.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::error::RedisConfigError;

/// How the text of a certificate begins.
const PEM: &str = "-----BEGIN CERTIFICATE-----";
/// The authorities of <https://www.amazontrust.com/repository/>: Amazon Root CA 1 to 4, and Starfield Services Root CA - G2.
const AMAZON: &str = include_str!("amazon.pem");

/// The certificate authorities that TLS trusts.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Authorities {
    /// The system's.
    #[default]
    System,
    /// Amazon's, which sign the certificates of `ElastiCache`.
    Amazon,
    /// Those of this text (PEM).
    Pem(String),
    /// Those in this file (PEM).
    File(PathBuf),
}

impl From<String> for Authorities {
    /// Reads `system`, `amazon`, a text in PEM, or else the path of a file.
    fn from(text: String) -> Self {
        match &*text {
            "system" => Self::System,
            "amazon" => Self::Amazon,
            pem if pem.contains(PEM) => Self::Pem(text),
            _ => Self::File(text.into()),
        }
    }
}

impl Authorities {
    /// Reads the certificates, except the system's.
    pub fn check(&self) -> Result<(), RedisConfigError> {
        self.certificates().map(drop)
    }

    /// The certificates; `None`: the system's.
    fn certificates(&self) -> Result<Option<RootCertStore>, RedisConfigError> {
        match self {
            Self::System => Ok(None),
            Self::Amazon => parsed(AMAZON.as_bytes()).map(Some),
            Self::Pem(text) => parsed(text.as_bytes()).map(Some),
            Self::File(path) => {
                let read = std::fs::read(path);
                let bytes = read.map_err(|source| RedisConfigError::CaFile { path: path.clone(), source })?;
                parsed(&bytes).map(Some)
            }
        }
    }
}

fn parsed(pem: &[u8]) -> Result<RootCertStore, RedisConfigError> {
    let invalid = |source| RedisConfigError::Authorities { source };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| invalid(io::Error::other(error)))?;
        roots.add(certificate).map_err(|error| invalid(io::Error::other(error)))?;
    }
    if roots.is_empty() { Err(invalid(io::Error::other("there is no certificate"))) } else { Ok(roots) }
}

/// The TLS of all connections of a process.
pub(super) struct Tls {
    /// `None`: the system's, read when the first connection needs them.
    roots: Option<RootCertStore>,
    config: OnceLock<Arc<ClientConfig>>,
}

impl Tls {
    pub(super) fn new(authorities: &Authorities) -> Result<Self, RedisConfigError> {
        Ok(Self { roots: authorities.certificates()?, config: OnceLock::new() })
    }

    /// It also remembers sessions, so that a second handshake with a server is cheaper for both sides.
    pub(super) fn config(&self) -> io::Result<Arc<ClientConfig>> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        let roots = self.roots.clone().map_or_else(systems, Ok)?;
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::clone(self.config.get_or_init(|| Arc::new(config))))
    }
}

/// The system's certificates, except those that can't be understood.
fn systems() -> io::Result<RootCertStore> {
    let mut found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    match found.errors.pop() {
        Some(error) if roots.is_empty() => Err(io::Error::other(error)),
        _ => Ok(roots),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_named_or_given_as_text_or_file() {
        assert_eq!(Authorities::from("system".to_owned()), Authorities::System);
        assert_eq!(Authorities::from("amazon".to_owned()), Authorities::Amazon);
        assert_eq!(Authorities::from(AMAZON.to_owned()), Authorities::Pem(AMAZON.to_owned()));
        assert_eq!(Authorities::from("/a/ca.pem".to_owned()), Authorities::File("/a/ca.pem".into()));
        for (authorities, count) in [(Authorities::Amazon, 5), (Authorities::Pem(AMAZON.to_owned()), 5)] {
            assert_eq!(authorities.certificates().unwrap().unwrap().len(), count);
        }
    }

    #[test]
    fn a_text_without_a_certificate_is_refused() {
        for text in ["", "no certificate", &AMAZON.replace("MII", "MIJ"), &AMAZON[..600]] {
            let refused = Authorities::Pem(text.to_owned()).certificates();
            assert!(matches!(refused, Err(RedisConfigError::Authorities { .. })), "{text}");
        }
    }

    #[test]
    fn the_certificates_are_read_once() {
        for authorities in [Authorities::System, Authorities::Amazon] {
            let tls = Tls::new(&authorities).unwrap();
            assert!(Arc::ptr_eq(&tls.config().unwrap(), &tls.config().unwrap()), "{authorities:?}");
        }
    }
}
