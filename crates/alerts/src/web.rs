//! HTTP requests: an alert to a webhook, and the ping that says that all is well.
//!
//! The certificate of an https server must be one that the system trusts. Redirections are not followed: the operator
//! names the address at which requests arrive.

use anyhow::{Result, anyhow, bail};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use ureq::http::{StatusCode, Uri};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Error};

/// How long a server may take to answer.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Sends `body` as JSON to `url` by POST.
///
/// # Errors
/// No connection, no answer in time, or an answer with a status other than 2xx. The sentence names the host.
pub fn post(url: &str, body: &impl Serialize, within: Duration) -> Result<()> {
    let body = serde_json::to_vec(body)?;
    let request = agent(within)
        .post(url)
        .header("content-type", "application/json");
    judge(
        url,
        within,
        request.send(&body[..]).map(|answer| answer.status()),
    )
}

/// Asks for `url` by GET; the answer's body is not read.
///
/// # Errors
/// As [`post`].
pub fn get(url: &str, within: Duration) -> Result<()> {
    let answer = agent(within).get(url).call();
    judge(url, within, answer.map(|answer| answer.status()))
}

/// Checks that `text` is an address of a web server.
///
/// # Errors
/// What to write instead, as the rest of a sentence.
pub fn check_url(text: &str) -> Result<(), String> {
    let uri: Option<Uri> = text.parse().ok();
    let scheme = uri.as_ref().and_then(Uri::scheme_str);
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    match matches!(scheme, Some("http" | "https")) && !host.is_empty() {
        true => Ok(()),
        false => Err("give an address like \"https://alerts.example.com/hook\"".to_owned()),
    }
}

/// Whether an address has a user's name or password in it.
#[must_use]
pub fn has_password(url: &str) -> bool {
    let uri: Option<Uri> = url.parse().ok();
    let authority = uri.as_ref().and_then(Uri::authority);
    authority.is_some_and(|authority| authority.as_str().contains('@'))
}

/// What may be shown of an address: scheme, host and port. Its path is often a secret of its own.
#[must_use]
pub fn shown(url: &str) -> String {
    let uri: Uri = url.parse().unwrap_or_default();
    let (scheme, host) = (
        uri.scheme_str().unwrap_or("http"),
        uri.host().unwrap_or("?"),
    );
    match uri.port_u16() {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    }
}

fn agent(within: Duration) -> Agent {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(provider)
        .build();
    let config = Agent::config_builder()
        .timeout_global(Some(within))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("fullstripe/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls)
        .build();
    Agent::new_with_config(config)
}

fn judge(url: &str, within: Duration, answer: Result<StatusCode, Error>) -> Result<()> {
    let host = shown(url);
    match answer {
        Ok(status) if status.is_success() => Ok(()),
        Ok(status) => bail!("{host} answered with HTTP status {status}"),
        Err(Error::Timeout(_)) => bail!("{host} did not answer within {} s", within.as_secs()),
        Err(Error::HostNotFound) => bail!("the host of {host} is not known"),
        // Errors of these kinds contain the address.
        Err(Error::BadUri(_) | Error::Http(_)) => {
            bail!("{host} is not used: its address is malformed")
        }
        Err(Error::Io(error)) => {
            let error = words::without_error_number(&error.to_string());
            Err(anyhow!("cannot reach {host}: {error}"))
        }
        Err(error) => bail!("cannot reach {host}: {error}"),
    }
}
