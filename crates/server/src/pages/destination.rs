//! The page that a person continues with after the sign-in, as the pages of the sign-in name it.

use maud::{Markup, html};
use sortie_accounts::AuthorizationRefusal;
use sortie_store::people::Invited;

use super::{consent, errors::PageResult, forms::Visit, invitation};
use crate::org::OrgApp;

/// Page that a sign-in leads to.
#[derive(Debug)]
pub(super) enum Destination {
    /// An open invitation.
    Invitation(Box<Invited>),
    /// The consent for an application.
    Application {
        /// Name that the application calls itself by, in quotation marks.
        name: String,
        /// Host that the application sends the person back to.
        host: String,
    },
    /// Any other page.
    Page,
}

impl Destination {
    /// Reads the way back of a sign-in. An invitation or a request that is not valid leads to its page, which reports that.
    pub(super) async fn of(app: &OrgApp, visit: &Visit, back: &str) -> PageResult<Self> {
        if let Some(token) = invitation::token_of(back) {
            let invited = app.accounts.find_invitation(token).await?;
            return Ok(invited.map_or(Self::Page, |invited| Self::Invitation(Box::new(invited))));
        }
        let Some(query) = consent::query_of(back) else {
            return Ok(Self::Page);
        };
        match app.accounts.authorization(query, &visit.network()).await {
            Ok(asked) => Ok(Self::Application {
                name: consent::shown_name(&asked),
                host: asked.redirect_host()?,
            }),
            Err(AuthorizationRefusal::Page(_) | AuthorizationRefusal::Redirect(_)) => Ok(Self::Page),
            Err(AuthorizationRefusal::Other(error)) => Err(error.into()),
        }
    }

    /// Address that is invited, or empty.
    pub(super) fn email(&self) -> &str {
        match self {
            Self::Invitation(invited) => &invited.invitation.email,
            Self::Application { .. } | Self::Page => "",
        }
    }

    /// Returns true if the person comes from an invitation.
    pub(super) const fn is_invitation(&self) -> bool {
        matches!(self, Self::Invitation(_))
    }

    /// Sentence that names the page.
    pub(super) fn sentence(&self) -> Markup {
        match self {
            Self::Invitation(invited) => html! {
                p.sub { "To join " b { (invited.organization) } ", to which " b { (invited.invitation.email) } " is invited." }
            },
            Self::Application { name, host } => html! {
                p.sub { "To continue to " b { (name) } " at " b.mono { (host) } "." }
            },
            Self::Page => html! {},
        }
    }
}
