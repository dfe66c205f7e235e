//! Operations of the operator of a hosted deployment.

use reqwest::Method;
use sortie_api::{
    OrgId, PaymentId, UserId,
    billing::{Balance, LedgerCheck, MoveCredits, Payment, RefundPayment},
    deployment::{Entitlement, GrantLicense, LicenseKey},
    operator::{
        CreateUser, CreatedUser, OperatedOrganization, OperatedOrganizationPage, OperatedUser,
        OperatedUserPage, ResetLink, SuspendOrganization,
    },
};

use super::Client;
use crate::failure::{Failure, Result};

impl Client {
    /// Reads the list of all organizations, page by page.
    pub(crate) async fn operated_organizations(&self) -> Result<Vec<OperatedOrganization>> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = path("v1/operator/organizations", &cursor);
            let page: OperatedOrganizationPage = self.get(&path).await?;
            all.extend(page.items);
            if page.next_cursor.is_empty() {
                return Ok(all);
            }
            cursor = page.next_cursor;
        }
    }

    pub(crate) async fn operated_organization(&self, org: OrgId) -> Result<OperatedOrganization> {
        self.get(&format!("v1/operator/organizations/{org}")).await
    }

    pub(crate) async fn suspend_organization(
        &self,
        org: OrgId,
        request: &SuspendOrganization,
    ) -> Result<OperatedOrganization> {
        self.post(&format!("v1/operator/organizations/{org}/suspend"), Some(request))
            .await
    }

    pub(crate) async fn resume_organization(&self, org: OrgId) -> Result<OperatedOrganization> {
        self.post(&format!("v1/operator/organizations/{org}/resume"), None::<&()>)
            .await
    }

    /// Gives credits to an organization, or corrects them.
    pub(crate) async fn move_credits(&self, org: OrgId, movement: &MoveCredits) -> Result<Balance> {
        self.post(
            &format!("v1/operator/organizations/{org}/credits"),
            Some(movement),
        )
        .await
    }

    /// Refunds a payment, or a part of it.
    pub(crate) async fn refund_payment(
        &self,
        payment: PaymentId,
        request: &RefundPayment,
    ) -> Result<Payment> {
        self.post(&format!("v1/operator/payments/{payment}/refund"), Some(request))
            .await
    }

    pub(crate) async fn operated_credits(&self, org: OrgId) -> Result<Balance> {
        self.get(&format!("v1/operator/organizations/{org}/credits"))
            .await
    }

    /// Checks the ledger of all organizations, page by page.
    pub(crate) async fn check_ledger(&self) -> Result<LedgerCheck> {
        let mut all = LedgerCheck::default();
        loop {
            let path = path("v1/operator/ledger/check", &all.next_cursor);
            let page: LedgerCheck = self.get(&path).await?;
            all.organizations += page.organizations;
            all.runs += page.runs;
            all.differences.extend(page.differences);
            all.next_cursor = page.next_cursor;
            if all.next_cursor.is_empty() {
                return Ok(all);
            }
        }
    }

    /// Reads the list of all people, page by page.
    pub(crate) async fn operated_users(&self) -> Result<Vec<OperatedUser>> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let page: OperatedUserPage = self.get(&path("v1/operator/users", &cursor)).await?;
            all.extend(page.items);
            if page.next_cursor.is_empty() {
                return Ok(all);
            }
            cursor = page.next_cursor;
        }
    }

    /// Finds a person by the id or the email address.
    pub(crate) async fn operated_user(&self, user: &str) -> Result<UserId> {
        if let Ok(id) = user.parse() {
            return Ok(id);
        }
        let query: String = url::form_urlencoded::byte_serialize(user.as_bytes()).collect();
        let page: OperatedUserPage = self.get(&format!("v1/operator/users?email={query}")).await?;
        let found = page.items.first().map(|found| found.id);
        found.ok_or_else(|| Failure::usage("no person has this email address"))
    }

    pub(crate) async fn create_user(&self, request: &CreateUser) -> Result<CreatedUser> {
        self.post("v1/operator/users", Some(request)).await
    }

    pub(crate) async fn disable_user(&self, user: UserId) -> Result<OperatedUser> {
        self.post(&format!("v1/operator/users/{user}/disable"), None::<&()>)
            .await
    }

    pub(crate) async fn enable_user(&self, user: UserId) -> Result<OperatedUser> {
        self.post(&format!("v1/operator/users/{user}/enable"), None::<&()>)
            .await
    }

    pub(crate) async fn unlink_user(&self, user: UserId) -> Result<OperatedUser> {
        let path = format!("v1/operator/users/{user}/identities");
        let request = self.request(Method::DELETE, &path)?;
        self.read(self.send(request).await?).await
    }

    pub(crate) async fn grant_license(&self, org: OrgId, grant: &GrantLicense) -> Result<Entitlement> {
        let path = format!("v1/operator/organizations/{org}/license");
        let request = self.request(Method::PUT, &path)?;
        self.read(self.send(request.json(grant)).await?).await
    }

    pub(crate) async fn license_key(&self) -> Result<LicenseKey> {
        self.get("v1/operator/license-key").await
    }

    pub(crate) async fn reset_link(&self, user: UserId) -> Result<ResetLink> {
        self.post(&format!("v1/operator/users/{user}/reset-link"), None::<&()>)
            .await
    }
}

/// Path of a page of a list.
fn path(list: &str, cursor: &str) -> String {
    if cursor.is_empty() {
        list.to_owned()
    } else {
        format!("{list}?cursor={cursor}")
    }
}
