//! `sortie organizations` and `sortie users`: commands of the operator of a hosted deployment.

use sortie_api::operator::{CreateUser, OperatedOrganization, OperatedUser, ResetLink, SuspendOrganization};

use super::{Context, print_json, table};
use crate::{
    args::{InstallationArgs, OperatorArgs, OrganizationsCommand, UserArgs, UsersCommand},
    client::Client,
    config::Environment,
    connect::{is_this_machine, named_engine},
    data_dir::{DataDir, NodeKey},
    failure::{Exit, Failure, Result},
    terminal,
};

/// Variable with the address of the organization API.
const ORG_URL: &str = "SORTIE_ORG_URL";

/// Variable with the operator's key.
const OPERATOR_KEY: &str = "SORTIE_OPERATOR_KEY";

pub(super) async fn organizations(context: &Context, command: OrganizationsCommand) -> Result<Exit> {
    match command {
        OrganizationsCommand::List(operator) => {
            let found = client(context, &operator)?.operated_organizations().await?;
            if operator.json {
                return print_json(&found);
            }
            print_organizations(&found)
        }
        OrganizationsCommand::Show {
            organization,
            operator,
        } => {
            let client = client(context, &operator)?;
            let found = client.operated_organization(organization).await?;
            if operator.json {
                return print_json(&found);
            }
            print_organizations(&[found])
        }
        OrganizationsCommand::Suspend {
            organization,
            reason,
            cancel,
            operator,
        } => {
            let client = client(context, &operator)?;
            let request = SuspendOrganization { reason, cancel };
            let suspended = client.suspend_organization(organization, &request).await?;
            if operator.json {
                return print_json(&suspended);
            }
            terminal::note(&format!("{organization} is suspended"));
            Ok(Exit::Success)
        }
        OrganizationsCommand::Resume {
            organization,
            operator,
        } => {
            let client = client(context, &operator)?;
            let resumed = client.resume_organization(organization).await?;
            if operator.json {
                return print_json(&resumed);
            }
            terminal::note(&format!("{organization} is not suspended any more"));
            Ok(Exit::Success)
        }
    }
}

pub(super) async fn users(context: &Context, command: UsersCommand) -> Result<Exit> {
    match command {
        UsersCommand::List(operator) => {
            let found = client(context, &operator)?.operated_users().await?;
            if operator.json {
                return print_json(&found);
            }
            print_users(&found)
        }
        UsersCommand::Create {
            email,
            name,
            operator,
        } => {
            let client = client(context, &operator)?;
            let created = client.create_user(&CreateUser { email, name }).await?;
            if operator.json {
                return print_json(&created);
            }
            terminal::note(&format!("created {}", created.user.id));
            print_link(&created.reset_link)
        }
        UsersCommand::Disable(args) => {
            let (client, user) = person(context, &args).await?;
            let disabled = client.disable_user(user).await?;
            if args.operator.json {
                return print_json(&disabled);
            }
            terminal::note(&format!("{user} cannot sign in any more"));
            Ok(Exit::Success)
        }
        UsersCommand::Enable(args) => {
            let (client, user) = person(context, &args).await?;
            let enabled = client.enable_user(user).await?;
            if args.operator.json {
                return print_json(&enabled);
            }
            terminal::note(&format!("{user} can sign in again"));
            Ok(Exit::Success)
        }
        UsersCommand::Unlink(args) => {
            let (client, user) = person(context, &args).await?;
            let unlinked = client.unlink_user(user).await?;
            if args.operator.json {
                return print_json(&unlinked);
            }
            terminal::note(&format!("{user} has no identity at a provider any more"));
            Ok(Exit::Success)
        }
        UsersCommand::ResetLink(args) => {
            let (client, user) = person(context, &args).await?;
            let link = client.reset_link(user).await?;
            if args.operator.json {
                return print_json(&link);
            }
            print_link(&link)
        }
    }
}

/// A client with the operator's key, of the named node or else of that of the data folder.
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

/// The organization API that a command on all nodes goes to, and where it was told. None where it goes to an engine.
pub(super) fn deployment(
    context: &Context,
    args: &InstallationArgs,
) -> Result<Option<(String, &'static str)>> {
    let environment = &context.environment;
    let told = told_deployment(args.org_url.as_deref(), environment);
    let told = told.filter(|_| args.engine.url.is_none());
    if let Some((url, from)) = told {
        Ok(Some((url.to_owned(), from)))
    } else if named_engine(&args.engine, environment).is_some() {
        Ok(None)
    } else {
        own_deployment(context)
    }
}

/// The organization API that a command is told to talk to, and where it was told.
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
        .map(|url| (url, "engine.json")))
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
    Client::new(url, from, Some(key))
}

/// The operator's key for the deployment at this address. The key of the data folder does not leave the machine.
pub(super) fn operator_key(context: &Context, url: &str) -> Result<Option<String>> {
    if let Some(key) = context.environment.get(OPERATOR_KEY) {
        return Ok(Some(key.to_owned()));
    }
    if !is_this_machine(url) {
        return Ok(None);
    }
    DataDir::new(&context.data_dir()?).key(NodeKey::Operator)
}

async fn person(context: &Context, args: &UserArgs) -> Result<(Client, sortie_api::UserId)> {
    let client = client(context, &args.operator)?;
    let user = client.operated_user(&args.user).await?;
    Ok((client, user))
}

/// Prints the address of a page to standard output, and its end beside it.
fn print_link(link: &ResetLink) -> Result<Exit> {
    terminal::print_line(&link.url)?;
    terminal::note(&format!(
        "the link works once, until {}; it is shown this once",
        link.expires_at
    ));
    Ok(Exit::Success)
}

fn print_organizations(organizations: &[OperatedOrganization]) -> Result<Exit> {
    let mut rows = table::new(["ORGANIZATION", "MEMBERS", "STORED", "OWNER", "SUSPENDED", "NAME"]);
    for organization in organizations {
        let owner = organization.owner.as_ref();
        let suspended = organization.suspended_at.map_or_else(
            || "-".to_owned(),
            |at| match (organization.deleted_at, &organization.suspension_reason) {
                (Some(deleted), _) => format!("deleted {deleted}"),
                (None, Some(reason)) => format!("{at} ({})", terminal::harmless(reason)),
                (None, None) => at.to_string(),
            },
        );
        rows.add_row([
            organization.id.to_string(),
            organization.members.to_string(),
            organization.stored_bytes.to_string(),
            owner.map_or_else(
                || "-".to_owned(),
                |owner| terminal::harmless(&owner.email).into_owned(),
            ),
            suspended,
            terminal::harmless(&organization.name).into_owned(),
        ]);
    }
    terminal::print(&table::text(&rows))?;
    Ok(Exit::Success)
}

fn print_users(users: &[OperatedUser]) -> Result<Exit> {
    let mut rows = table::new(["USER", "CREATED", "VERIFIED", "DISABLED", "EMAIL", "NAME"]);
    for user in users {
        rows.add_row([
            user.id.to_string(),
            user.created_at.to_string(),
            if user.email_verified { "yes" } else { "no" }.to_owned(),
            user.disabled_at
                .map_or_else(|| "-".to_owned(), |at| at.to_string()),
            terminal::harmless(&user.email).into_owned(),
            terminal::harmless(&user.name).into_owned(),
        ]);
    }
    terminal::print(&table::text(&rows))?;
    Ok(Exit::Success)
}
