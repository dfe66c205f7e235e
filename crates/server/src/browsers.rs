//! Browsers at a listener: their session cookie, the pages that may use it, and the console.

use std::{net::IpAddr, path::PathBuf};

use hmac::Mac as _;
use http::{HeaderMap, Method, Request, Uri};
use sortie_api::Refusal;
use sortie_base::hex;
use sortie_engine::Engine;

use crate::{
    console::Console,
    kit::{OwnOrigin, SameSite, SessionCookie, Transport, TrustedProxies},
};

/// Files of the console.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ConsoleFiles {
    /// The console is disabled.
    Disabled,
    /// Files of the binary.
    #[default]
    BuiltIn,
    /// Files of a folder, which are read for each request.
    Folder(PathBuf),
}

impl ConsoleFiles {
    fn console(&self) -> Option<Console> {
        match self {
            Self::Disabled => None,
            Self::BuiltIn => Some(Console::new(None)),
            Self::Folder(folder) => Some(Console::new(Some(folder.clone()))),
        }
    }
}

/// Rules for the browsers at a listener.
#[derive(Debug)]
pub(crate) struct Browsers {
    /// Cookie of their sessions.
    pub(crate) cookie: SessionCookie,
    own: OwnOrigin,
    /// Transport of the configured address.
    transport: Transport,
    /// Proxies that report https. `None` if the configured address decides.
    proxies: Option<TrustedProxies>,
    /// The console; absent if it is disabled.
    pub(crate) console: Option<Console>,
}

impl Browsers {
    /// Creates the rules of the organization listener at `org_url`.
    pub(crate) fn of_organizations(org_url: &str, files: &ConsoleFiles) -> Self {
        Self {
            cookie: SessionCookie::of_organizations(),
            own: OwnOrigin::fixed(org_url.to_owned()),
            transport: Transport::of(org_url),
            proxies: None,
            console: files.console(),
        }
    }

    /// Creates the rules of the listener of a self-hosted engine. `base_url` is the address that clients use, if it is configured.
    pub(crate) fn of_engine(
        engine: &Engine,
        base_url: Option<&str>,
        proxies: &TrustedProxies,
        files: &ConsoleFiles,
    ) -> Self {
        let installation = engine.installation_key(b"console cookie").finalize().into_bytes();
        let installation = hex(installation.first_chunk::<4>().unwrap_or(&[0; 4]));
        let console = files.console();
        // After a sign-in at an identity provider, the browser opens the console, which needs no cookie, or else a page with the
        // person's name, which the other site has led to.
        let same_site = match console {
            Some(_) => SameSite::Strict,
            None => SameSite::Lax,
        };
        Self {
            cookie: SessionCookie::of_engine(&installation, same_site),
            own: OwnOrigin::of_host(base_url.and_then(origin)),
            transport: base_url.map_or(Transport::Plain, Transport::of),
            proxies: Some(proxies.clone()),
            console,
        }
    }

    /// Returns the transport of a request that `peer` has sent.
    pub(crate) fn transport(&self, peer: IpAddr, headers: &HeaderMap) -> Transport {
        let proxies = self.proxies.as_ref();
        if proxies.is_some_and(|proxies| proxies.is_https(peer, headers)) {
            Transport::Https
        } else {
            self.transport
        }
    }

    /// Checks a request that uses the cookie, or that is to set it.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let target = (request.method(), request.uri().path());
        self.own
            .check(target, request.headers(), transport_of(request.extensions()))
    }

    /// Checks a sign-in, which sets the cookie.
    pub(crate) fn check_sign_in(
        &self,
        path: &str,
        headers: &HeaderMap,
        transport: Transport,
    ) -> Result<(), Refusal> {
        self.own.check((&Method::POST, path), headers, transport)
    }

    /// Returns true if a request with these headers comes from a page of this server (`Origin`).
    pub(crate) fn is_own(&self, headers: &HeaderMap, transport: Transport) -> bool {
        self.own.is_own(headers, transport)
    }
}

/// Returns the transport that the gate has noted on a request.
pub(crate) fn transport_of(extensions: &http::Extensions) -> Transport {
    extensions.get().copied().unwrap_or(Transport::Plain)
}

/// Origin of an address, as browsers write it.
fn origin(url: &str) -> Option<String> {
    let url: Uri = url.parse().ok()?;
    Some(format!("{}://{}", url.scheme_str()?, url.authority()?))
}
