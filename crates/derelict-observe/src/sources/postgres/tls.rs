//! Encryption to the server, in the words of libpq: what each `sslmode` asks for and what it checks.
//! Whether the server offers any is found out by the client while it connects.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How much encryption is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SslMode {
    /// None.
    Disable,
    /// If the server offers it; its certificate is not checked.
    Prefer,
    /// Always. The certificate is checked only if root certificates are named, and its name never.
    Require,
    /// Always, with a certificate signed by one of the named root certificates, whatever its name.
    VerifyCa,
    /// Always, with a certificate that is signed by a root certificate and made out to the host.
    VerifyFull,
}

/// A word that is no mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("sslmode `{0}` is none of disable, prefer, require, verify-ca, verify-full")]
pub struct UnknownSslMode(String);

impl SslMode {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Disable, Self::Prefer, Self::Require, Self::VerifyCa, Self::VerifyFull];

    /// Its name, as libpq has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }

    /// What the client has to insist on; what is checked besides is the connector's.
    pub(super) fn of_client(self) -> tokio_postgres::config::SslMode {
        match self {
            Self::Disable => tokio_postgres::config::SslMode::Disable,
            Self::Prefer => tokio_postgres::config::SslMode::Prefer,
            Self::Require | Self::VerifyCa | Self::VerifyFull => tokio_postgres::config::SslMode::Require,
        }
    }
}

impl std::str::FromStr for SslMode {
    type Err = UnknownSslMode;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|mode| mode.name() == name).ok_or_else(|| UnknownSslMode(name.to_owned()))
    }
}

/// Why nothing can be checked.
#[derive(Debug, thiserror::Error)]
pub(super) enum TlsError {
    #[error("sslmode verify-ca needs sslrootcert: the system's root certificates sign everybody's")]
    NobodyToTrust,
    #[error("cannot read the root certificates in {}: {source}", derelict_core::ids::escaped(.file))]
    Unreadable { file: PathBuf, source: rustls::pki_types::pem::Error },
    #[error("there is no root certificate in {}", derelict_core::ids::escaped(.0))]
    Empty(PathBuf),
    #[error("the system has no root certificates; name some by sslrootcert")]
    NoneOfTheSystem,
    #[error("cannot set up encryption: {0}")]
    Setup(String),
}

/// What is checked of the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checked {
    Nothing,
    Signature,
    SignatureAndName,
}

/// The client's side of the encryption.
pub(super) fn connector(mode: SslMode, roots: Option<&Path>) -> Result<MakeRustlsConnect, TlsError> {
    let checked = match (mode, roots) {
        (SslMode::Disable | SslMode::Prefer, _) | (SslMode::Require, None) => Checked::Nothing,
        (SslMode::Require | SslMode::VerifyCa, Some(_)) => Checked::Signature,
        (SslMode::VerifyCa, None) => return Err(TlsError::NobodyToTrust),
        (SslMode::VerifyFull, _) => Checked::SignatureAndName,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let setup = |error: &dyn std::fmt::Display| TlsError::Setup(error.to_string());
    let inner = match checked {
        Checked::Nothing => None,
        Checked::Signature | Checked::SignatureAndName => {
            let store = Arc::new(store(roots)?);
            let built = WebPkiServerVerifier::builder_with_provider(store, Arc::clone(&provider)).build();
            Some(built.map_err(|error| setup(&error))?)
        }
    };
    let verifier = Verifier { inner, checked, provider: Arc::clone(&provider) };
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| setup(&error))?.dangerous();
    Ok(MakeRustlsConnect::new(builder.with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()))
}

fn store(roots: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    match roots {
        Some(file) => {
            let unreadable = |source| TlsError::Unreadable { file: file.to_owned(), source };
            for certificate in CertificateDer::pem_file_iter(file).map_err(unreadable)? {
                let added = store.add(certificate.map_err(unreadable)?);
                added.map_err(|error| TlsError::Setup(error.to_string()))?;
            }
            if store.is_empty() { Err(TlsError::Empty(file.to_owned())) } else { Ok(store) }
        }
        None => {
            // One that does not parse verifies nothing, and the others are none the worse for it.
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if store.is_empty() { Err(TlsError::NoneOfTheSystem) } else { Ok(store) }
        }
    }
}

/// Checks as much of a certificate as the mode asks for. The handshake's own signatures are always
/// checked: without that not even the key would be the one of the certificate.
#[derive(Debug)]
struct Verifier {
    inner: Option<Arc<WebPkiServerVerifier>>,
    checked: Checked,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        let answer = inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match (self.checked, &answer) {
            // The name is looked at only after the signatures were found good.
            (Checked::Signature, Err(rustls::Error::InvalidCertificate(error))) if is_about_the_name(error) => {
                Ok(ServerCertVerified::assertion())
            }
            (Checked::Nothing | Checked::Signature | Checked::SignatureAndName, _) => answer,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn is_about_the_name(error: &CertificateError) -> bool {
    matches!(error, CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_known_by_its_name() {
        for mode in SslMode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
        }
        assert_eq!("Require".parse::<SslMode>(), Err(UnknownSslMode("Require".into())));
    }

    #[test]
    fn root_certificates_that_cannot_be_read_are_named() {
        let error = |mode, roots: Option<&str>| match connector(mode, roots.map(Path::new)) {
            Ok(_) => panic!("it was set up"),
            Err(error) => error.to_string(),
        };
        assert!(
            error(SslMode::VerifyFull, Some("/nowhere/ca.pem")).starts_with("cannot read the root certificates in")
        );
        assert_eq!(error(SslMode::Require, Some("/dev/null")), "there is no root certificate in /dev/null");
        assert!(error(SslMode::VerifyCa, None).starts_with("sslmode verify-ca needs sslrootcert"));
        assert!(connector(SslMode::Require, None).is_ok());
    }
}
