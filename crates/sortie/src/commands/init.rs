//! `sortie init`: asks for a model provider and its key, checks them, and writes the configuration.
//!
//! The key goes to a private file in the user's settings folder, and the configuration only names that file. A
//! configuration in a project can therefore be committed.

use std::{
    io::{IsTerminal as _, stdin},
    path::{Path, PathBuf},
};

use sortie_engine::model_catalog;
use sortie_models::{KnownProvider, Settings, probe};
use toml::{Table, Value};

use super::{Context, models::is_offline};
use crate::{
    config::{Config, user_file},
    data_dir::replace_private,
    failure::{Exit, Failure, Result},
    prompt, terminal,
    user_folders::{self, no_home, save_private},
};

/// Maximum length of a key.
const KEY_BYTES: usize = 4096;

/// Number of models of a server that are listed as choices.
const LISTED: usize = 20;

/// Address of Ollama on this machine.
const OLLAMA: &str = "http://127.0.0.1:11434/v1";

/// Name of a server that speaks the protocol of OpenAI.
const SERVER: &str = "local";

/// First line of the configuration.
const HEAD: &str =
    "# Written by `sortie init`. `sortie config default` prints every key with its documentation.\n\n";

/// The command to try.
const TRY: &str = "sortie run 'Which day of the week was 20 July 1969? Compute it.'";

/// Steps for a person or a program without a terminal.
const STEPS: &str = "\
`sortie init` asks questions, and standard input is not a terminal. These steps do the same:
  1. Set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY to the key of the provider. For a server such as
     Ollama or vLLM, write its address and models to sortie.toml; `sortie config default` has an example.
  2. Check the key: sortie doctor --providers
  3. Start a run: sortie run 'Which day of the week was 20 July 1969? Compute it.'";

/// A provider that a person has chosen, with what the check needs.
struct Choice {
    /// Name of the table in the configuration.
    name: &'static str,
    /// Keys of the table, without the API key.
    table: Table,
    /// The API key, unless the server wants none.
    key: Option<String>,
}

pub(super) async fn init(context: &Context) -> Result<Exit> {
    if !stdin().is_terminal() {
        return Err(Failure::usage(STEPS));
    }
    let own = user_file(&context.environment).ok_or_else(no_home)?;
    let target = context.flags.file.clone().unwrap_or_else(|| own.clone());
    let exists = target.try_exists().is_ok_and(|exists| exists);
    if exists && !confirm(&format!("{} exists. Replace it? [y/N] ", target.display()), false)? {
        return Err(Failure::usage(format!(
            "{} stays as it is; write the configuration to another file by --config",
            target.display()
        )));
    }
    let (choice, settings) = checked_choice(context, &target).await?;
    let mut root = choice.table_with_models(&settings).await?;
    let key_file = match (&choice.key, user_folders::settings(&context.environment)) {
        (Some(key), Some(folder)) => {
            let path = folder.join(format!("{}.key", choice.name));
            let question = format!("{} has another key. Replace it? [y/N] ", path.display());
            let is_other = std::fs::read_to_string(&path).is_ok_and(|saved| saved.trim() != *key);
            if is_other && !confirm(&question, false)? {
                return Err(Failure::usage(format!(
                    "{} stays as it is, and nothing is written",
                    path.display()
                )));
            }
            save_private(&path, key)?;
            set_provider(
                &mut root,
                choice.name,
                "api_key_file",
                &path.display().to_string(),
            );
            Some(path)
        }
        (None, _) | (_, None) => None,
    };
    let text = format!("{HEAD}{}", to_text(&root)?);
    write(&target, &own, &text)?;
    report(&target, key_file.as_deref(), &text)?;
    if target == own && Path::new("sortie.toml").exists() {
        terminal::note("note: commands in this folder read its own sortie.toml instead");
    }
    terminal::note("Try it:");
    terminal::print_line(TRY)?;
    Ok(Exit::Success)
}

/// Asks for a provider until it accepts the key, or the person wants it as it is.
async fn checked_choice(context: &Context, target: &Path) -> Result<(Choice, Settings)> {
    let mut choice = choose(context)?;
    loop {
        let settings = match choice.settings(target) {
            Ok(settings) => settings,
            Err(failure) => {
                terminal::note(&format!("{failure}"));
                choice = choice.again()?;
                continue;
            }
        };
        terminal::note(&format!("asking {} for its models …", choice.name));
        let found = probe(&settings)
            .await
            .map_err(|error| Failure::usage(error.to_string()))?;
        let refused = found.into_iter().find_map(|(_, answer)| answer.err());
        let Some(reason) = refused else {
            terminal::note(&format!("{} answers, and accepts the key", choice.name));
            return Ok((choice, settings));
        };
        terminal::note(&format!("{}: {reason}", choice.name));
        if confirm("Save this anyway? [y/N] ", false)? {
            return Ok((choice, settings));
        }
        choice = choice.again()?;
    }
}

/// Asks for the provider and the key. Offers a key of the environment.
fn choose(context: &Context) -> Result<Choice> {
    let variable = |known: &KnownProvider, key: &str| format!("{}_{key}", known.name).to_ascii_uppercase();
    for known in KnownProvider::all() {
        let name = variable(known, "API_KEY");
        if let Some(key) = context.environment.get(&name)
            && confirm(&format!("{name} is set. Use this key? [Y/n] "), true)?
        {
            let base = context.environment.get(&variable(known, "BASE_URL"));
            return Ok(Choice::known(known.name, base, Some(key.to_owned())));
        }
    }
    terminal::note("Which provider has the models?");
    for (number, known) in (1..).zip(KnownProvider::all()) {
        terminal::note(&format!("  {number}  {}", title(known.name)));
    }
    let others = KnownProvider::all().count() + 1;
    terminal::note(&format!(
        "  {others}  a server with the protocol of OpenAI, such as Ollama or vLLM"
    ));
    loop {
        let answer = asked("Number: ")?;
        let Ok(number) = answer.parse::<usize>() else {
            continue;
        };
        if number == others {
            return server();
        }
        if let Some(known) = number
            .checked_sub(1)
            .and_then(|index| KnownProvider::all().nth(index))
        {
            let base = context.environment.get(&variable(known, "BASE_URL"));
            return Choice::known(known.name, base, None).again();
        }
    }
}

/// Asks for the address and the key of a server.
fn server() -> Result<Choice> {
    let address = asked(&format!("Address [{OLLAMA}]: "))?;
    let address = if address.is_empty() { OLLAMA } else { &address };
    let key = hidden("API key, or Enter if the server wants none: ")?;
    let mut table = Table::new();
    table.insert("api".to_owned(), text("openai-chat"));
    table.insert("base_url".to_owned(), text(address));
    Ok(Choice {
        name: SERVER,
        table,
        key: Some(key).filter(|key| !key.is_empty()),
    })
}

impl Choice {
    fn known(name: &'static str, base: Option<&str>, key: Option<String>) -> Self {
        let base = base.map(|base| ("base_url".to_owned(), text(base)));
        Self {
            name,
            table: base.into_iter().collect(),
            key,
        }
    }

    /// Asks again for what may have been wrong.
    fn again(self) -> Result<Self> {
        if self.name == SERVER {
            return server();
        }
        let mut key = String::new();
        while key.is_empty() {
            key = hidden(&format!("API key of {}: ", title(self.name)))?;
        }
        Ok(Self {
            key: Some(key),
            ..self
        })
    }

    /// Returns the settings with the key in them, for the check.
    fn settings(&self, target: &Path) -> Result<Settings> {
        let mut root = self.root();
        if let Some(key) = &self.key {
            set_provider(&mut root, self.name, "api_key", key);
        }
        Ok(Config::of_text(target, &to_text(&root)?)?.models)
    }

    fn root(&self) -> Table {
        let provider = Table::from_iter([(self.name.to_owned(), Value::Table(self.table.clone()))]);
        Table::from_iter([("providers".to_owned(), Value::Table(provider))])
    }

    /// Returns the configuration. The models of a server of one's own are unknown to Sortie, so one is chosen and described.
    async fn table_with_models(&self, settings: &Settings) -> Result<Table> {
        let mut root = self.root();
        if self.name != SERVER {
            return Ok(root);
        }
        let listed = probe(settings).await.unwrap_or_default();
        let listed = listed
            .into_iter()
            .find_map(|(_, models)| models.ok())
            .unwrap_or_default();
        let model = chosen_model(&listed)?;
        let described = Table::from_iter([
            ("provider".to_owned(), text(self.name)),
            ("context_window".to_owned(), Value::Integer(32_768)),
            ("max_output_tokens".to_owned(), Value::Integer(8_192)),
            ("free".to_owned(), Value::Boolean(true)),
        ]);
        terminal::note(&format!(
            "{model} is written down as free, with a context of 32,768 tokens: change both in the file if they are wrong"
        ));
        let models = Table::from_iter([(model.clone(), Value::Table(described))]);
        root.insert("models".to_owned(), Value::Table(models));
        root.insert("default_model".to_owned(), Value::String(model));
        Ok(root)
    }
}

/// Asks which model of a server runs use.
fn chosen_model(listed: &[String]) -> Result<String> {
    for (number, model) in (1..).zip(listed.iter().take(LISTED)) {
        terminal::note(&format!("  {number}  {}", terminal::harmless(model)));
    }
    loop {
        let answer = asked("Model, by number or name: ")?;
        let by_number = answer
            .parse::<usize>()
            .ok()
            .and_then(|number| number.checked_sub(1));
        match by_number.and_then(|index| listed.get(index)) {
            Some(model) => return Ok(model.clone()),
            None if !answer.is_empty() => return Ok(answer),
            None => {}
        }
    }
}

/// Name of a provider for people.
fn title(name: &str) -> &str {
    match name {
        "anthropic" => "Anthropic (Claude)",
        "openai" => "OpenAI",
        "gemini" => "Google Gemini",
        other => other,
    }
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn set_provider(root: &mut Table, name: &str, key: &str, value: &str) {
    let provider = root
        .get_mut("providers")
        .and_then(|providers| providers.get_mut(name));
    if let Some(table) = provider.and_then(Value::as_table_mut) {
        table.insert(key.to_owned(), text(value));
    }
}

fn to_text(root: &Table) -> Result<String> {
    toml::to_string(root).map_err(|error| Failure::internal(error.to_string()))
}

/// Writes the configuration: into the user's settings folder, or in place of a file in a project.
fn write(target: &Path, own: &PathBuf, text: &str) -> Result<()> {
    if target == own {
        return save_private(target, text);
    }
    replace_private(target, text).map_err(|error| {
        let cause = sortie_api::plain::io(&error);
        Failure::usage(format!("cannot write {}: {cause}", target.display()))
    })
}

/// Reads the configuration as every command does, and prints a summary.
fn report(target: &Path, key_file: Option<&Path>, text: &str) -> Result<()> {
    let config = Config::of_text(target, text)?;
    let catalog = model_catalog(&config.models)
        .map_err(|error| Failure::new(Exit::Configuration, error.to_string()))?;
    let count = catalog.models.iter().filter(|model| !is_offline(model)).count();
    terminal::note(&format!("wrote {}", target.display()));
    if let Some(path) = key_file {
        terminal::note(&format!(
            "the key is in {}, which only you can read",
            path.display()
        ));
    }
    terminal::note(&format!(
        "models: {count}; the default is {}",
        catalog.default_model
    ));
    Ok(())
}

/// Asks a yes-or-no question. An empty answer is `default`.
fn confirm(question: &str, default: bool) -> Result<bool> {
    loop {
        match asked(question)?.to_ascii_lowercase().as_str() {
            "" => return Ok(default),
            "y" | "yes" => return Ok(true),
            "n" | "no" => return Ok(false),
            _ => {}
        }
    }
}

/// Reads the answer to a question. Ctrl-D leaves the command.
fn asked(question: &str) -> Result<String> {
    prompt::line(question)?.ok_or_else(Failure::left)
}

fn hidden(question: &str) -> Result<String> {
    let typed = prompt::hidden(question, KEY_BYTES)?.ok_or_else(Failure::left)?;
    Ok(typed.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_of_each_provider_is_valid_and_has_no_key() {
        for known in KnownProvider::all() {
            let choice = Choice::known(known.name, None, Some("sk-hush".to_owned()));
            let settings = choice.settings(Path::new("sortie.toml")).unwrap();
            let key = settings.providers[0].key.as_ref().unwrap();
            assert_eq!((settings.providers.len(), key.expose()), (1, "sk-hush"));
            assert!(!to_text(&choice.root()).unwrap().contains("hush"));
        }
    }

    #[test]
    fn a_wrong_address_is_refused_with_the_rule() {
        let choice = Choice {
            name: SERVER,
            table: Table::from_iter([
                ("api".to_owned(), text("openai-chat")),
                ("base_url".to_owned(), text("localhost")),
            ]),
            key: None,
        };
        let refusal = choice.settings(Path::new("sortie.toml")).unwrap_err().to_string();
        assert!(
            refusal.starts_with("providers.local.base_url (sortie.toml): "),
            "{refusal}"
        );
    }
}
