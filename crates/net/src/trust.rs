//! Certificate authorities: built-in ones, and those of the operator.

use std::{
    collections::HashSet,
    fmt, fs,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
    server::ParsedCertificate,
};
use x509_cert::{Certificate, der::Decode as _};

use crate::Error;

/// Maximum number of characters of a certificate's name that a message repeats.
const TOLD_CHARS: usize = 200;

/// Built-in certificate authorities, parsed once. The platform verifier panics on a machine without a certificate store.
static ROOTS: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned());
    Arc::new(roots)
});

/// Certificates that the operator trusts in addition to the built-in authorities. Cheap to clone.
#[derive(Clone, Default)]
pub struct TrustedCertificates(Option<Arc<Own>>);

struct Own {
    certificates: HashSet<CertificateDer<'static>>,
    roots: Arc<RootCertStore>,
    sources: Vec<PathBuf>,
}

impl TrustedCertificates {
    /// Adds the certificates of a file: any number in PEM, or one in DER. The error is a rule for the file.
    pub fn with_file(&self, path: &Path) -> Result<Self, String> {
        let bytes = fs::read(path).map_err(|error| format!("{}: cannot be read: {error}", path.display()))?;
        let read = certificates(&bytes);
        self.with(path, read).ok_or_else(|| {
            format!(
                "{}: must hold certificates in PEM form (-----BEGIN CERTIFICATE-----)",
                path.display()
            )
        })
    }

    /// Adds the certificates of every file in a folder. Ignores other files, and a missing folder.
    #[must_use]
    pub fn with_folder(&self, path: &Path) -> Self {
        let files = fs::read_dir(path)
            .into_iter()
            .flatten()
            .filter_map(|entry| fs::read(entry.ok()?.path()).ok());
        let read = files.flat_map(|bytes| certificates(&bytes)).collect();
        self.with(path, read).unwrap_or_else(|| self.clone())
    }

    fn with(&self, source: &Path, read: Vec<CertificateDer<'static>>) -> Option<Self> {
        let (mut certificates, mut roots, mut sources) = match &self.0 {
            Some(own) => (
                own.certificates.clone(),
                (*own.roots).clone(),
                own.sources.clone(),
            ),
            None => (HashSet::new(), (**ROOTS).clone(), Vec::new()),
        };
        let mut is_usable = false;
        for certificate in read {
            // A bundle can repeat a certificate, or contain one that is too old for the verifier.
            if certificates.contains(&certificate) {
                is_usable = true;
            } else if roots.add(certificate.clone()).is_ok() {
                is_usable = true;
                certificates.insert(certificate);
            }
        }
        if !is_usable {
            return None;
        }
        sources.push(source.to_owned());
        Some(Self(Some(Arc::new(Own {
            certificates,
            roots: Arc::new(roots),
            sources,
        }))))
    }

    /// Returns the files and folders that were read.
    pub fn sources(&self) -> &[PathBuf] {
        self.0.as_ref().map_or(&[], |own| &own.sources)
    }

    /// Returns the certificates without the built-in ones.
    pub fn certificates(&self) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.0.iter().flat_map(|own| &own.certificates)
    }

    /// Creates the TLS settings of a client, with HTTP/2 if the server supports it.
    pub(crate) fn client_config(&self) -> Result<ClientConfig, Error> {
        let provider = Arc::new(ring::default_provider());
        let failed = |error: rustls::Error| Error::Setup(error.to_string());
        let verifier = Verifier::new(self, &provider)?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

impl PartialEq for TrustedCertificates {
    fn eq(&self, other: &Self) -> bool {
        let of = |trusted: &Self| trusted.0.as_ref().map(|own| own.certificates.clone());
        of(self) == of(other)
    }
}

impl Eq for TrustedCertificates {}

impl fmt::Debug for TrustedCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TrustedCertificates")
            .field(&self.sources())
            .finish()
    }
}

/// Returns the certificates in a file.
fn certificates(bytes: &[u8]) -> Vec<CertificateDer<'static>> {
    // Prefix of DER: a sequence with a length of two bytes.
    if bytes.starts_with(&[0x30, 0x82]) {
        return vec![CertificateDer::from(bytes.to_vec())];
    }
    CertificateDer::pem_slice_iter(bytes)
        .filter_map(Result::ok)
        .collect()
}

/// Reason why the issuer of a certificate is not trusted, with the names that an operator needs to find it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Untrusted {
    /// The authority is unknown.
    #[error(
        "its certificate is not trusted: the authority {0:?} that issued it is not known; add the certificate of this \
         authority to ca_file"
    )]
    Authority(String),
    /// The certificate is self-signed.
    #[error("its certificate is not trusted: it is self-signed ({0:?}); add this certificate to ca_file")]
    SelfSigned(String),
    /// The server presented the certificate of an authority.
    #[error(
        "its certificate is not trusted: it is that of an authority ({0:?}) and not of a server; add this certificate to \
         ca_file, or give the server its own certificate"
    )]
    AuthorityAsServer(String),
}

/// Verifies certificates like the library, accepts certificates that the operator has listed, and names the issuer of an
/// untrusted one.
#[derive(Debug)]
struct Verifier {
    library: Arc<WebPkiServerVerifier>,
    trusted: TrustedCertificates,
}

impl Verifier {
    fn new(trusted: &TrustedCertificates, provider: &Arc<CryptoProvider>) -> Result<Self, Error> {
        let roots = trusted.0.as_ref().map_or(&*ROOTS, |own| &own.roots);
        let library = WebPkiServerVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(provider))
            .build()
            .map_err(|error| Error::Setup(error.to_string()))?;
        Ok(Self {
            library,
            trusted: trusted.clone(),
        })
    }

    fn is_named(&self, certificate: &CertificateDer<'_>) -> bool {
        let own = self.trusted.0.as_ref();
        own.is_some_and(|own| own.certificates.contains(certificate))
    }
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
        let verified =
            self.library
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let Err(error) = verified else {
            return verified;
        };
        // The library checks the validity period first, so these two errors imply that it is valid.
        let is_authority = is_authority_as_server(&error);
        let is_unknown = matches!(
            error,
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)
        );
        if !is_authority && !is_unknown {
            return Err(error);
        }
        if self.is_named(end_entity) {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        let last = intermediates.last().unwrap_or(end_entity);
        let untrusted = match names(last) {
            Some((subject, _)) if is_authority => Untrusted::AuthorityAsServer(subject),
            Some((subject, issuer)) if intermediates.is_empty() && subject == issuer => {
                Untrusted::SelfSigned(subject)
            }
            Some((_, issuer)) => Untrusted::Authority(issuer),
            None => return Err(error),
        };
        Err(CertificateError::Other(OtherError(Arc::new(untrusted))).into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.library.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.library.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.library.supported_verify_schemes()
    }
}

/// Whether a server has presented the certificate of an authority, as `openssl req -x509` creates them.
fn is_authority_as_server(error: &rustls::Error) -> bool {
    // The library does not export its type for this error.
    matches!(error, rustls::Error::InvalidCertificate(CertificateError::Other(other))
        if other.to_string().contains("CaUsedAsEndEntity"))
}

/// Returns the names of the subject and of the issuer, for messages.
fn names(certificate: &CertificateDer<'_>) -> Option<(String, String)> {
    let parsed = Certificate::from_der(certificate).ok()?.tbs_certificate;
    let told = |name: String| {
        let plain = name.chars().filter(|letter| !letter.is_control());
        plain.take(TOLD_CHARS).collect::<String>()
    };
    Some((told(parsed.subject.to_string()), told(parsed.issuer.to_string())))
}
