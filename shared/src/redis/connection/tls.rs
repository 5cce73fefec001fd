use std::io;
use std::path::PathBuf;
use std::sync::Arc;

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
        if *self == Self::System { Ok(()) } else { self.roots().map(drop) }
    }

    fn roots(&self) -> Result<RootCertStore, RedisConfigError> {
        let pem = match self {
            Self::System => return systems(),
            Self::Amazon => AMAZON.into(),
            Self::Pem(text) => text.clone().into_bytes(),
            Self::File(path) => {
                std::fs::read(path).map_err(|source| RedisConfigError::CaFile { path: path.clone(), source })?
            }
        };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            roots.add(certificate.map_err(invalid)?).map_err(invalid)?;
        }
        if roots.is_empty() { Err(invalid(io::Error::other("there is no certificate"))) } else { Ok(roots) }
    }

    /// TLS that trusts them. It remembers sessions, so that a second handshake with a server is cheaper for both sides. Make it once
    /// for all connections: to read the system's certificates takes milliseconds.
    ///
    /// # Errors
    /// If the certificates can't be read.
    pub fn tls(&self) -> io::Result<Arc<ClientConfig>> {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(self.roots().map_err(io::Error::other)?)
            .with_no_client_auth();
        Ok(Arc::new(config))
    }
}

fn invalid(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> RedisConfigError {
    RedisConfigError::Authorities { source: io::Error::other(source) }
}

/// The system's certificates, except those that can't be understood.
fn systems() -> Result<RootCertStore, RedisConfigError> {
    let mut found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    match found.errors.pop() {
        Some(error) if roots.is_empty() => Err(invalid(error)),
        _ => Ok(roots),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_named_or_given_as_text_or_file() {
        for (text, authorities) in [
            ("system", Authorities::System),
            ("amazon", Authorities::Amazon),
            (AMAZON, Authorities::Pem(AMAZON.to_owned())),
            ("/a/ca.pem", Authorities::File("/a/ca.pem".into())),
        ] {
            assert_eq!(Authorities::from(text.to_owned()), authorities);
        }
        assert_eq!(Authorities::Amazon.roots().unwrap().len(), 5);
        for text in ["", "no certificate", &AMAZON.replace("MII", "MIJ"), &AMAZON[..600]] {
            let refused = Authorities::Pem(text.to_owned()).check();
            assert!(matches!(refused, Err(RedisConfigError::Authorities { .. })), "{text}");
        }
    }
}
