//! Rules of `web`: valid domains, and no search on a node without a search provider.

use std::sync::Arc;

use sortie_api::{Refusal, limits, request::Web};
use sortie_net::Policy;

use crate::kit::{rules::broken, web::NodeWeb};

pub(super) fn check(wanted: Option<&Web>, node: &NodeWeb) -> Result<(), Refusal> {
    let Some(Web::Restricted(restriction)) = wanted else {
        return Ok(());
    };
    let allow = restriction.allow.as_deref().unwrap_or_default();
    if allow.len() > limits::WEB_DOMAINS {
        return Err(broken(
            "web.allow",
            format!("must have at most {} entries", limits::WEB_DOMAINS),
        ));
    }
    for (at, domain) in allow.iter().enumerate() {
        Policy::new(Arc::clone(&node.network), Some(std::slice::from_ref(domain)))
            .map_err(|error| broken(format_args!("web.allow[{at}]"), error))?;
    }
    if restriction.search == Some(true) && !node.tools.has_search() {
        return Err(broken(
            "web.search",
            "no search service is configured on this engine; leave it out to go without",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sortie_api::request::WebRestriction;
    use sortie_testkit::list;

    use super::*;
    use crate::kit::options::Options;

    fn refusal(allow: &[&str], search: Option<bool>) -> Option<String> {
        let node = NodeWeb::new(&Options::default()).unwrap();
        let restriction = WebRestriction {
            allow: Some(allow.iter().map(|domain| (*domain).to_owned()).collect()),
            search,
        };
        let refused = check(Some(&Web::Restricted(restriction)), &node);
        refused.err().map(|error| error.to_string())
    }

    #[test]
    fn only_domains_are_taken_and_the_wrong_one_is_named() {
        assert_eq!(refusal(&["example.com", "münchen.de"], None), None);
        for wrong in list! {
            "https://example.com", "example.com/a", "*.example.com", "", "a..b", "user@example.com",
        } {
            let text = refusal(&["example.com", wrong], None).unwrap_or_default();
            assert!(text.starts_with("web.allow[1]: "), "{wrong}: {text}");
        }
        let many = vec!["example.com"; limits::WEB_DOMAINS + 1];
        assert_eq!(
            refusal(&many, None).as_deref(),
            Some("web.allow: must have at most 100 entries")
        );
    }

    #[test]
    fn a_search_that_is_not_there_is_refused_only_when_it_is_asked_for() {
        assert_eq!(refusal(&[], None), None);
        assert_eq!(refusal(&[], Some(false)), None);
        assert!(refusal(&[], Some(true)).is_some_and(|text| text.starts_with("web.search: ")));
    }
}
