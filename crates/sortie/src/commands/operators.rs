//! `sortie organizations` and `sortie users`: commands of the operator of a hosted deployment.

use sortie_api::{
    OrgId, UserId,
    operator::{CreateUser, CreatedUser, OperatedOrganization, OperatedUser, ResetLink, SuspendOrganization},
};

use super::Context;
use crate::{
    args::{InstallationArgs, OperatorArgs, OrganizationsCommand, UserArgs, UsersCommand},
    client::{Client, ClientKey, KeySource, Listed, delete, get, post, post_json},
    config::Environment,
    connect::is_this_machine,
    data_dir::{DataDir, NodeKey},
    failure::{Exit, Failure, Result},
    named_engine::{NamedEngine, URL_FLAG},
    render::{Cell, Field, Look, Record, maybe, maybe_time, some, time},
    terminal,
};

const ORGANIZATIONS: &str = "v1/operator/organizations";
const USERS: &str = "v1/operator/users";

/// Variable with the address of the organization API.
const ORG_URL: &str = "SORTIE_ORG_URL";

/// Variable with the operator's key.
const OPERATOR_KEY: &str = "SORTIE_OPERATOR_KEY";

impl Record for OperatedOrganization {
    const COLUMNS: &'static [Field<Self>] = &[
        ("ORGANIZATION", |organization| some(organization.id)),
        ("MEMBERS", |organization| some(organization.members)),
    ];
    const MORE: &'static [Field<Self>] = &[
        ("STORED", |organization| some(organization.stored_bytes)),
        ("OWNER", |organization| {
            maybe(organization.owner.as_ref().map(|owner| &owner.email))
        }),
        ("SUSPENDED", suspension),
        ("NAME", |organization| some(&organization.name)),
    ];
    const CUT: &'static [&'static str] = &["OWNER", "SUSPENDED", "NAME"];
}

fn suspension(organization: &OperatedOrganization) -> Option<Cell> {
    let at = organization.suspended_at?;
    some(match (organization.deleted_at, &organization.suspension_reason) {
        (Some(deleted), _) => format!("deleted {deleted}"),
        (None, Some(reason)) => format!("{at} ({reason})"),
        (None, None) => at.to_string(),
    })
}

impl Record for OperatedUser {
    const COLUMNS: &'static [Field<Self>] = &[
        ("USER", |user| some(user.id)),
        ("CREATED", |user| time(user.created_at)),
        ("VERIFIED", |user| {
            some(if user.email_verified { "yes" } else { "no" })
        }),
    ];
    const MORE: &'static [Field<Self>] = &[
        ("DISABLED", |user| maybe_time(user.disabled_at)),
        ("EMAIL", |user| some(&user.email)),
        ("NAME", |user| some(&user.name)),
    ];
    const CUT: &'static [&'static str] = &["EMAIL", "NAME"];
}

impl Record for ResetLink {
    fn text(&self, _: &Look) -> String {
        format!("{}\n", self.url)
    }

    fn note(&self) -> Option<String> {
        Some(format!(
            "the link works once, until {}; it is shown this once",
            self.expires_at
        ))
    }
}

pub(super) async fn organizations(context: &Context, command: OrganizationsCommand) -> Result<Exit> {
    let path = |organization: OrgId, rest: &str| format!("{ORGANIZATIONS}/{organization}{rest}");
    match command {
        OrganizationsCommand::List(operator) => {
            context
                .pages::<OperatedOrganization>(&operator, ORGANIZATIONS, &[], None)
                .await
        }
        OrganizationsCommand::Show {
            organization,
            operator,
        } => {
            context
                .one::<OperatedOrganization>(&operator, get(path(organization, "")))
                .await
        }
        OrganizationsCommand::Suspend {
            organization,
            reason,
            cancel,
            operator,
        } => {
            let request = SuspendOrganization { reason, cancel };
            let suspend = post_json(path(organization, "/suspend"), &request);
            let note = |_: &OperatedOrganization| format!("{organization} is suspended");
            context.done(&operator, suspend, note).await
        }
        OrganizationsCommand::Resume {
            organization,
            operator,
        } => {
            let note = |_: &OperatedOrganization| format!("{organization} is not suspended any more");
            context
                .done(&operator, post(path(organization, "/resume")), note)
                .await
        }
    }
}

pub(super) async fn users(context: &Context, command: UsersCommand) -> Result<Exit> {
    match command {
        UsersCommand::List(operator) => context.pages::<OperatedUser>(&operator, USERS, &[], None).await,
        UsersCommand::Create {
            email,
            name,
            operator,
        } => {
            let request = CreateUser { email, name };
            let created: CreatedUser = context.ask(&operator, post_json(USERS, &request)).await?;
            operator.render.answer(&created, |created| {
                terminal::note(&format!("created {}", created.user.id));
                operator.render.one(&created.reset_link).map(drop)
            })
        }
        UsersCommand::Disable(args) => {
            let user = user(context, &args).await?;
            let note = |_: &OperatedUser| format!("{user} cannot sign in any more");
            let disable = post(format!("{USERS}/{user}/disable"));
            context.done(&args.operator, disable, note).await
        }
        UsersCommand::Enable(args) => {
            let user = user(context, &args).await?;
            let note = |_: &OperatedUser| format!("{user} can sign in again");
            let enable = post(format!("{USERS}/{user}/enable"));
            context.done(&args.operator, enable, note).await
        }
        UsersCommand::Unlink(args) => {
            let user = user(context, &args).await?;
            let note = |_: &OperatedUser| format!("{user} has no identity at a provider any more");
            let unlink = delete(format!("{USERS}/{user}/identities"));
            context.done(&args.operator, unlink, note).await
        }
        UsersCommand::ResetLink(args) => {
            let user = user(context, &args).await?;
            let reset = post(format!("{USERS}/{user}/reset-link"));
            context.one::<ResetLink>(&args.operator, reset).await
        }
    }
}

/// Finds a person by the id or the email address.
async fn user(context: &Context, args: &UserArgs) -> Result<UserId> {
    if let Ok(id) = args.user.parse() {
        return Ok(id);
    }
    let filter = [("email".into(), args.user.clone())];
    let find = async |client: &Client| client.pages(USERS, &filter, None).await;
    let found: Listed<OperatedUser> = context.call(&args.operator, find).await?;
    let user = found.items.first().map(|user| user.id);
    user.ok_or_else(|| Failure::usage("no person has this email address"))
}

/// A client with the operator's key, for the named node or else for that of the data folder.
pub(super) fn client(context: &Context, args: &OperatorArgs) -> Result<Client> {
    let told = match told_deployment(args.org_url.as_deref(), &context.environment) {
        Some((url, from)) => Some((url.to_owned(), from)),
        None => own_deployment(context)?,
    };
    let (url, from) = told.ok_or_else(no_deployment)?;
    client_at(context, &url, from)
}

/// The failure of a command that finds no hosted node.
pub(super) fn no_deployment() -> Failure {
    Failure::unavailable("no hosted node runs in the data folder: name one by --org-url or SORTIE_ORG_URL")
}

/// The organization API for a command on all nodes, and the flag or variable that named it. `None` if the command goes
/// to an engine.
pub(super) fn deployment(
    context: &Context,
    args: &InstallationArgs,
) -> Result<Option<(String, &'static str)>> {
    let environment = &context.environment;
    let told = told_deployment(args.org_url.as_deref(), environment);
    let is_flag = |named: &NamedEngine| named.from == URL_FLAG;
    let told = told.filter(|_| !context.named_engine().is_some_and(is_flag));
    if let Some((url, from)) = told {
        Ok(Some((url.to_owned(), from)))
    } else if context.named_engine().is_some() {
        Ok(None)
    } else {
        own_deployment(context)
    }
}

/// The organization API that a flag or a variable names, and its source.
fn told_deployment<'a>(
    org_url: Option<&'a str>,
    environment: &'a Environment,
) -> Option<(&'a str, &'static str)> {
    org_url
        .map(|url| (url, "--org-url"))
        .or_else(|| environment.get(ORG_URL).map(|url| (url, ORG_URL)))
}

/// The organization API of the node that runs in the data folder.
fn own_deployment(context: &Context) -> Result<Option<(String, &'static str)>> {
    let running = DataDir::new(&context.data_dir()?).running_engine()?;
    Ok(running
        .and_then(|engine| engine.org_url)
        .map(|url| (url, "the data folder")))
}

/// A client of the organization API at this address, with the operator's key.
pub(super) fn client_at(context: &Context, url: &str, from: &str) -> Result<Client> {
    let Some(key) = operator_key(context, url)? else {
        let file = DataDir::new(&context.data_dir()?).key_file(NodeKey::Operator);
        let rule = format!(
            "no operator key: set {OPERATOR_KEY} to the key that the first start of the deployment has written to its data \
             folder (there is no {})",
            file.display()
        );
        return Err(Failure::new(Exit::Denied, rule));
    };
    Ok(Client::new(url, from, Some(key))?.for_operator())
}

/// The operator's key for the deployment at this address. The key of the data folder is used only on this machine.
pub(super) fn operator_key(context: &Context, url: &str) -> Result<Option<ClientKey>> {
    if let Some(key) = context.environment.get(OPERATOR_KEY) {
        return Ok(Some(ClientKey::new(key, KeySource::Variable(OPERATOR_KEY))));
    }
    if !is_this_machine(url) {
        return Ok(None);
    }
    DataDir::new(&context.data_dir()?).api_key(NodeKey::Operator)
}
