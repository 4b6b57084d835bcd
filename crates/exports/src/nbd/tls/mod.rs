//! TLS for clients that come over TCP: who has no certificate of the operator's authority gets nothing.
//!
//! The ports of the shards speak plain NBD, on sockets that their rings read and write without copying. So TLS is a relay
//! in front of them: each connection has a thread, which holds the client's socket and one end of a pair of sockets; the
//! other end is a connection of a port like any other. In the order in which a connection meets them:
//!
//! - [`acceptor`]: accepts, counts, and starts the thread of each connection.
//! - [`opening`]: the beginning of the NBD handshake, in plain text: the client must ask for TLS.
//! - `rustls` then has the client prove its identity. Only now a port hears of the connection.
//! - [`relay`]: decrypts and encrypts until one side ends.
//!
//! The kernel could do TLS on the client's socket (kTLS), so that a port would serve it directly. But that needs a module
//! that many kernels lack, a client may change keys at any time, which the socket's reader would have to answer, and the
//! ring could not send without copying either. Encrypting costs more than what the relay adds: two copies within a cache.

mod acceptor;
mod opening;
mod relay;

pub(super) use acceptor::TlsListener;

use anyhow::{Context, Result, bail};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The certificates of the authority that clients' certificates must come from.
const AUTHORITY: &str = "ca-cert.pem";
/// The server's own certificate, followed by those between it and its authority.
const CERTIFICATE: &str = "server-cert.pem";
/// The key of the server's certificate.
const KEY: &str = "server-key.pem";

/// The configuration that the files in `folder` give: those that qemu-nbd and nbdkit read, too.
///
/// # Errors
/// A file is missing, has no certificate or key, or does not fit the others; or others than root and this user may read the
/// key.
pub(super) fn configuration(folder: &Path) -> Result<Arc<ServerConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut authority = RootCertStore::empty();
    let place = folder.join(AUTHORITY);
    for certificate in certificates(&place)? {
        let added = authority.add(certificate);
        added.with_context(|| format!("{} has no usable certificate", place.display()))?;
    }
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(authority), provider.clone())
            .build()
            .with_context(|| format!("{} cannot be used", place.display()))?;
    let chain = certificates(&folder.join(CERTIFICATE))?;
    let key = key(&folder.join(KEY))?;
    let mut configuration = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("TLS cannot be set up")?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)
        .with_context(|| {
            format!(
                "{CERTIFICATE} and {KEY} in {} cannot be used",
                folder.display()
            )
        })?;
    // Every connection proves its identity anew.
    configuration.session_storage = Arc::new(NoServerSessionStorage {});
    configuration.send_tls13_tickets = 0;
    Ok(Arc::new(configuration))
}

fn certificates(place: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let shown = place.display();
    let read =
        CertificateDer::pem_file_iter(place).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found: Vec<_> = read.with_context(|| format!("cannot read the certificate {shown}"))?;
    if found.is_empty() {
        bail!(
            "{shown} has no certificate; put one there that begins with -----BEGIN CERTIFICATE-----"
        );
    }
    Ok(found)
}

fn key(place: &PathBuf) -> Result<PrivateKeyDer<'static>> {
    let shown = place.display();
    let what = || format!("cannot read the key {shown}");
    // Of the file that is read, not of one that the name may lead to later.
    let file = File::open(place).with_context(what)?;
    let facts = file.metadata().with_context(what)?;
    let user = rustix::process::geteuid().as_raw();
    if facts.mode() & 0o077 != 0 || (facts.uid() != user && facts.uid() != 0) {
        bail!("{shown} may be read by others; give it to root or to yourself, with mode 0600");
    }
    PrivateKeyDer::from_pem_reader(file).with_context(what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn refusal(folder: &Path) -> String {
        format!("{:#}", configuration(folder).unwrap_err())
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        assert!(refusal(folder.path()).contains("/ca-cert.pem: "));
        std::fs::write(place(AUTHORITY), "no certificate").unwrap();
        assert!(refusal(folder.path()).contains("/ca-cert.pem has no certificate; put"));
        let begun = "-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n";
        std::fs::write(place(AUTHORITY), begun).unwrap();
        assert!(refusal(folder.path()).contains("cannot read the certificate "));
    }

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join(KEY);
        std::fs::write(&place, "no key").unwrap();
        for (mode, wanted) in [
            (0o644, "may be read by others"),
            (0o640, "may be read by others"),
            (0o600, "cannot read the key "),
            (0o400, "cannot read the key "),
        ] {
            std::fs::set_permissions(&place, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = format!("{:#}", key(&place).unwrap_err());
            assert!(error.contains(wanted), "{mode:o}: {error}");
        }
    }
}
