//! The signatures of tokens (RFC 7515, RFC 8037), by the cryptography that TLS uses too. Here they are only verified.

use std::sync::Once;

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_: &Algorithm, _: &EncodingKey| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// From now on this process verifies tokens with it.
pub fn use_ring() {
    static INSTALLED: Once = Once::new();
    // Nothing else in these programs installs one.
    INSTALLED.call_once(|| {
        let _ = PROVIDER.install_default();
    });
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is jsonwebtoken's")]
fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let public = |by: &'static dyn VerificationAlgorithm| {
        Ok::<_, jsonwebtoken::errors::Error>(Key::Public(UnparsedPublicKey::new(by, key.try_get_as_bytes()?.to_vec())))
    };
    let rsa = |by: &'static RsaParameters| -> Result<Key> {
        match key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                Ok(Key::Rsa(by, RsaPublicKeyComponents { n: n.clone(), e: e.clone() }))
            }
            DecodingKeyKind::SecretOrDer(_) => Err(ErrorKind::UnsupportedAlgorithm.into()),
        }
    };
    let key = match algorithm {
        Algorithm::HS256 => Key::Secret(hmac::Key::new(hmac::HMAC_SHA256, key.try_get_as_bytes()?)),
        Algorithm::EdDSA => public(&ED25519)?,
        Algorithm::ES256 => public(&ECDSA_P256_SHA256_FIXED)?,
        Algorithm::ES384 => public(&ECDSA_P384_SHA384_FIXED)?,
        Algorithm::RS256 => rsa(&RSA_PKCS1_2048_8192_SHA256)?,
        Algorithm::RS384 => rsa(&RSA_PKCS1_2048_8192_SHA384)?,
        Algorithm::RS512 => rsa(&RSA_PKCS1_2048_8192_SHA512)?,
        Algorithm::PS256 => rsa(&RSA_PSS_2048_8192_SHA256)?,
        Algorithm::PS384 => rsa(&RSA_PSS_2048_8192_SHA384)?,
        Algorithm::PS512 => rsa(&RSA_PSS_2048_8192_SHA512)?,
        _ => return Err(ErrorKind::UnsupportedAlgorithm.into()),
    };
    Ok(Box::new(Signature { algorithm: *algorithm, key }))
}

/// What verifies the signatures of one token.
struct Signature {
    algorithm: Algorithm,
    key: Key,
}

enum Key {
    Secret(hmac::Key),
    Public(UnparsedPublicKey<Vec<u8>>),
    Rsa(&'static RsaParameters, RsaPublicKeyComponents<Vec<u8>>),
}

impl Verifier<Vec<u8>> for Signature {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), signature::Error> {
        let verified = match &self.key {
            Key::Secret(key) => hmac::verify(key, message, signature),
            Key::Public(key) => key.verify(message, signature),
            Key::Rsa(by, key) => key.verify(by, message, signature),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Signature {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::crypto::verify;

    use super::*;

    /// RFC 7515, A.2 and A.3: a token and its key for RS256 and for ES256.
    #[test]
    fn the_examples_of_the_standard_are_good_and_nothing_else_is() {
        use_ring();
        let payload = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let modulus = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
        let rsa = DecodingKey::from_rsa_components(modulus, "AQAB").unwrap();
        let of_rsa = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
        let curve = DecodingKey::from_ec_components(
            "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
            "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
        );
        let curve = curve.unwrap();
        let of_curve = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
        for (algorithm, header, key, signature) in [
            (Algorithm::RS256, "eyJhbGciOiJSUzI1NiJ9", &rsa, of_rsa),
            (Algorithm::ES256, "eyJhbGciOiJFUzI1NiJ9", &curve, of_curve),
        ] {
            let signed = format!("{header}.{payload}");
            let is_good =
                |signed: &str, algorithm| verify(signature, signed.as_bytes(), key, algorithm).is_ok_and(|good| good);
            assert!(is_good(&signed, algorithm));
            assert!(!is_good(&format!("{signed}Q"), algorithm));
            for other in [Algorithm::RS384, Algorithm::PS256, Algorithm::ES384, Algorithm::EdDSA, Algorithm::HS256] {
                assert!(!is_good(&signed, other), "{algorithm:?} {other:?}");
            }
        }
    }
}
