//! Roles of people on a self-hosted engine, derived from the claims of an identity provider.

use sortie_api::{ErrorCode, OrgId, Role, UserId};
use sortie_store::{
    access::{Actor, Audit},
    people::GivenRole,
};

use super::{IdentityProvider, token::Claims};
use crate::{Parts, Result};

/// Rule that maps the claims of a person to a role.
#[derive(Clone, Debug, Default)]
pub struct RoleRule {
    /// Claim with the groups or roles of a person.
    pub claim: Option<String>,
    /// Values of the claim that grant the role admin.
    pub admin_values: Vec<String>,
    /// Values of the claim that grant the role member.
    pub member_values: Vec<String>,
    /// Role of all other people. `None`: they are refused.
    pub default_role: Option<Role>,
}

impl RoleRule {
    /// Returns the highest role that the claims grant, or `None` if they grant no role.
    fn role(&self, claims: &Claims) -> Option<Role> {
        let values = self.claim.as_deref().map(|name| claims.texts(name));
        let has = |wanted: &[String]| {
            let mut values = values.iter().flatten();
            values.any(|value| wanted.iter().any(|one| one == value))
        };
        if has(&self.admin_values) {
            Some(Role::Admin)
        } else if has(&self.member_values) {
            Some(Role::Member)
        } else {
            self.default_role
        }
    }

    /// Returns the name of the claim if the provider does not send it.
    fn missing(&self, claims: &Claims) -> Option<&str> {
        self.claim.as_deref().filter(|name| !claims.has(name))
    }
}

impl Parts {
    /// Returns the role that a provider grants a person, or `None` on a hosted deployment, where organizations grant roles. A
    /// person without a role is refused, and loses an earlier role.
    pub(super) async fn claimed_role(
        &self,
        settings: &IdentityProvider,
        claims: &Claims,
        (known, actor): (Option<UserId>, &Actor),
    ) -> Result<Option<Role>> {
        let Some(rule) = &settings.roles else {
            return Ok(None);
        };
        if let Some(role) = rule.role(claims) {
            return Ok(Some(role));
        }
        if let Some(claim) = rule.missing(claims) {
            let provider = &settings.name;
            tracing::warn!(
                provider,
                claim,
                "the claim of the roles is missing in the answer of an identity provider"
            );
        }
        if let Some(user) = known {
            self.take_role(user, actor).await?;
        }
        Err(ErrorCode::Forbidden.because(format!(
            "{} does not give you a role here: ask its administrator",
            settings.label
        )))
    }

    /// Creates the change of a person's role. Returns `None` if the role is unchanged, and for the owner.
    pub(super) async fn given(
        &self,
        user: UserId,
        role: Option<Role>,
        actor: &Actor,
    ) -> Result<Option<GivenRole>> {
        let Some(role) = role else {
            return Ok(None);
        };
        let org = self.organization().await?;
        let action = match self.store.membership(org, user).await?.map(|member| member.role) {
            Some(current) if current == role || current == Role::Owner => return Ok(None),
            Some(_) => "member.role",
            None => "member.add",
        };
        let audit = self.own_audit(actor, org, action, user)?;
        Ok(Some(GivenRole { org, role, audit }))
    }

    async fn take_role(&self, user: UserId, actor: &Actor) -> Result<()> {
        let org = self.organization().await?;
        let audit = self.own_audit(actor, org, "member.remove", user)?;
        match self.store.remove_member(org, user, audit).await {
            // The person is not a member, or is the owner: a provider never sets that role.
            Err(sortie_store::Error::NotFound | sortie_store::Error::Conflict(_)) => Ok(()),
            done => Ok(done?),
        }
    }

    /// The organization of a self-hosted engine.
    async fn organization(&self) -> Result<OrgId> {
        let found = self.store.own_organization().await?;
        found.ok_or_else(|| ErrorCode::Unavailable.because("the engine has no organization yet, retry later"))
    }

    /// Creates an entry of the audit log about a person who signs in.
    fn own_audit(&self, actor: &Actor, org: OrgId, action: &'static str, user: UserId) -> Result<Audit> {
        let actor = Actor {
            user: Some(user),
            ..actor.clone()
        };
        self.audit(&actor, org, action, user.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_claim_that_the_provider_does_not_send_is_named() {
        let rule = RoleRule {
            claim: Some("groups".to_owned()),
            ..RoleRule::default()
        };
        let of = |claims: Value| Claims::of_userinfo(claims.to_string().as_bytes(), "s").unwrap();
        let (without, with) = (
            json!({"sub": "s", "roles": []}),
            json!({"sub": "s", "groups": []}),
        );
        assert_eq!(rule.missing(&of(without.clone())), Some("groups"));
        assert_eq!(rule.missing(&of(with)), None);
        assert_eq!(RoleRule::default().missing(&of(without)), None);
    }

    #[test]
    fn a_role_is_the_highest_that_a_value_of_the_claim_makes() {
        let rule = |default_role| RoleRule {
            claim: Some("groups".to_owned()),
            admin_values: vec!["admins".to_owned()],
            member_values: vec!["devs".to_owned(), "ops".to_owned()],
            default_role,
        };
        let given = |groups: Value, default_role| {
            let claims = json!({"sub": "s", "groups": groups, "other": "admins"});
            let claims = Claims::of_userinfo(claims.to_string().as_bytes(), "s").unwrap();
            rule(default_role).role(&claims)
        };
        for (groups, expected) in [
            (json!(["devs", "admins"]), Some(Role::Admin)),
            (json!("admins"), Some(Role::Admin)),
            (json!(["x", "ops"]), Some(Role::Member)),
            (json!(["Admins", "admins "]), None),
            (json!("devs admins"), None),
            (json!([]), None),
            (json!(null), None),
            (json!({"admins": true}), None),
            (json!([["admins"]]), None),
        ] {
            assert_eq!(given(groups.clone(), None), expected, "{groups}");
            let otherwise = expected.unwrap_or(Role::Member);
            assert_eq!(
                given(groups.clone(), Some(Role::Member)),
                Some(otherwise),
                "{groups}"
            );
        }
    }
}
