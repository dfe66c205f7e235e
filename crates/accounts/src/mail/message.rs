//! The mail as it goes over the wire.

use std::time::{Duration, UNIX_EPOCH};

use lettre::{
    Address, Message,
    message::{
        Mailbox, MultiPart, SinglePart,
        header::{HeaderName, HeaderValue},
    },
};
use sortie_api::{MailId, Timestamp};
use url::Host;

use super::{page::Page, server::Sender};

/// Mail for a server: sender, recipient and bytes.
#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) from: Address,
    pub(super) to: Address,
    pub(super) bytes: Vec<u8>,
}

/// Parses an address into a form that every mail server accepts: the domain in its ASCII form, and only ASCII before the `@`.
pub(super) fn address(text: &str) -> Option<Address> {
    let (user, domain) = text.rsplit_once('@')?;
    let domain = match Host::parse(domain).ok()? {
        Host::Domain(domain) => domain,
        Host::Ipv4(_) | Host::Ipv6(_) => return None,
    };
    Address::new(user, domain).ok().filter(|address| {
        let text: &str = address.as_ref();
        text.is_ascii()
            && !text.contains(|at: char| at.is_control() || at.is_whitespace() || matches!(at, '<' | '>'))
    })
}

impl Envelope {
    /// Writes the mail `id`. The bytes are the same each time. Returns `None` if no mail can be sent to the address.
    pub(super) fn new(
        (id, at): (MailId, Timestamp),
        (from, to): (&Sender, &str),
        page: &Page,
        host: &str,
    ) -> Option<Self> {
        let to = address(to)?;
        let seconds = u64::try_from(at.as_micros() / 1_000_000).unwrap_or(0);
        let auto_submitted = HeaderName::new_from_ascii_str("Auto-Submitted");
        let parts = MultiPart::alternative()
            .boundary(id.to_string())
            .singlepart(SinglePart::plain(page.text()))
            .singlepart(SinglePart::html(page.html().into_string()));
        let message = Message::builder()
            .from(from.0.clone())
            .to(Mailbox::new(None, to.clone()))
            .subject(page.subject.as_str())
            .date(UNIX_EPOCH + Duration::from_secs(seconds))
            .message_id(Some(format!("<{id}@{host}>")))
            .raw_header(HeaderValue::new(auto_submitted, "auto-generated".to_owned()))
            .multipart(parts)
            .ok()?;
        Some(Self {
            from: from.0.email.clone(),
            to,
            bytes: message.formatted(),
        })
    }
}

#[cfg(test)]
mod tests {
    use sortie_testkit::list;

    use super::*;

    #[test]
    fn an_address_has_an_ascii_form_or_is_none() {
        for (text, read) in [
            ("ann@example.com", "ann@example.com"),
            ("ann+x@Example.com", "ann+x@example.com"),
            ("ann@bücher.example", "ann@xn--bcher-kva.example"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), read);
        }
        for text in list! {
            "", "ann", "@example.com", "ann@", "ünï@example.com", "ann@[127.0.0.1]", "ann@127.0.0.1",
            "ann@example.com>\r\nRCPT TO:<bob@example.com", "ann@example.com\r\nBcc: bob@example.com",
            "\"ann\r\n\"@example.com", "ann bob@example.com", "\"ann <x>\"@example.com",
            "ann@example.com, bob@example.com",
        } {
            assert_eq!(address(text), None, "{text}");
        }
    }
}
