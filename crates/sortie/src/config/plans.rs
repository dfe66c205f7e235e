//! Plans of licenses that a hosted deployment sells: the tables `[[license.plans]]` of the file.

use serde::Deserialize;
use sortie_api::{Mode, limits, plain};
use sortie_billing::Plan;
use toml::{Table, Value};

use super::{Error, layers::Layers, license::SIGNING_KEY, values::Reader};

/// Name of the tables.
pub(super) const SECTION: &str = "license.plans";

/// Key of the account at Stripe, without which nothing is sold.
const SECRET_KEY: &str = "stripe.secret_key";

/// Maximum length of a name, in characters.
const LONGEST_NAME: usize = 32;
/// Maximum length of the name of a price, in characters.
const LONGEST_PRICE: usize = 100;

/// Keys of `[[license.plans]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    price: String,
    monthly_runs: i64,
    deployments: i64,
}

/// Reads the plans. They need an account at Stripe, and the key that signs licenses.
pub(super) fn settings(layers: &Layers) -> Result<Vec<Plan>, Error> {
    let Some(setting) = layers.table(SECTION) else {
        return Ok(Vec::new());
    };
    let wrong = |rule: &str| Error(format!("{SECTION} ({}): {rule}", setting.source));
    let not_tables = || wrong("must be tables, each under `[[license.plans]]`");
    let Value::Array(entries) = &setting.value else {
        return Err(not_tables());
    };
    let read = Reader(layers);
    if !entries.is_empty() {
        if read.mode()? == Mode::SelfHosted {
            return Err(wrong("needs mode = \"hosted\""));
        }
        for key in [SECRET_KEY, SIGNING_KEY] {
            if !read.is_set(key) {
                return Err(read.wrong(key, "must be set with `[[license.plans]]`"));
            }
        }
    }
    let mut plans: Vec<Plan> = Vec::with_capacity(entries.len());
    for (at, entry) in entries.iter().enumerate() {
        let Value::Table(table) = entry else {
            return Err(not_tables());
        };
        let entry = Table::try_into(table.clone());
        let entry: Entry = entry.map_err(|error: toml::de::Error| {
            wrong(&format!("table {}: {}", at + 1, plain::rule(error.message())))
        })?;
        let plan = plan(entry)?;
        if plans.iter().any(|other| other.name == plan.name) {
            return Err(of(&plan.name, "name", "must be that of one plan"));
        }
        if plans.iter().any(|other| other.price == plan.price) {
            return Err(of(&plan.name, "price", "must be that of one plan"));
        }
        plans.push(plan);
    }
    Ok(plans)
}

fn of(name: &str, key: &str, rule: &str) -> Error {
    Error(format!("{SECTION}.{name}.{key}: {rule}"))
}

fn plan(entry: Entry) -> Result<Plan, Error> {
    let is_name = (1..=LONGEST_NAME).contains(&entry.name.len())
        && entry
            .name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !is_name {
        return Err(Error(format!(
            "{SECTION}.name: must be 1 to {LONGEST_NAME} lower-case letters, digits and hyphens"
        )));
    }
    let is_price = (1..=LONGEST_PRICE).contains(&entry.price.len())
        && entry.price.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_price {
        return Err(of(
            &entry.name,
            "price",
            "must be the ID of a price at Stripe, such as price_1a2b3c",
        ));
    }
    for (key, value, most) in [
        ("monthly_runs", entry.monthly_runs, limits::LICENSE_MONTHLY_RUNS),
        ("deployments", entry.deployments, limits::LICENSE_DEPLOYMENTS),
    ] {
        if !(1..=most).contains(&value) {
            return Err(of(&entry.name, key, &format!("must be from 1 to {most}")));
        }
    }
    Ok(Plan {
        name: entry.name,
        price: entry.price,
        monthly_runs: entry.monthly_runs,
        deployments: entry.deployments,
    })
}

/// The plans in the form of the file.
pub(super) fn as_toml(plans: &[Plan]) -> String {
    let shown = plans.iter().map(|plan| {
        let lines = described(plan)
            .into_iter()
            .map(|(key, value)| format!("{key} = {value}\n"));
        format!("\n[[{SECTION}]]\n{}", lines.collect::<String>())
    });
    shown.collect()
}

/// The plans as JSON.
pub(super) fn as_json(plans: &[Plan]) -> serde_json::Value {
    let shown = plans.iter().map(|plan| {
        let entry = described(plan).into_iter().map(|(key, value)| {
            let value = value.try_into().unwrap_or_default();
            (key.to_owned(), value)
        });
        serde_json::Value::Object(entry.collect())
    });
    shown.collect()
}

fn described(plan: &Plan) -> [(&'static str, Value); 4] {
    [
        ("name", Value::String(plan.name.clone())),
        ("price", Value::String(plan.price.clone())),
        ("monthly_runs", Value::Integer(plan.monthly_runs)),
        ("deployments", Value::Integer(plan.deployments)),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{of_file, refusal};

    const HOSTED: &str = "mode = \"hosted\"\norg_listen = \"127.0.0.1:8081\"\norg_url = \"https://accounts.example\"\n\
        advertise_url = \"https://engine.example\"\n";
    const STRIPE: &str = "[stripe]\nsecret_key = \"sk_test_hush\"\nwebhook_secrets = [\"whsec_hush\"]\n";
    const TEAM: &str =
        "[[license.plans]]\nname = \"team\"\nprice = \"price_1\"\nmonthly_runs = 1000\ndeployments = 2\n";

    fn license() -> String {
        format!("[license]\nsigning_key = \"{}\"\n", "5c".repeat(32))
    }

    /// A file with these plans, and all that they need.
    fn with(plans: &str) -> String {
        format!("{HOSTED}{STRIPE}{}{plans}", license())
    }

    #[test]
    fn plans_are_read_and_shown() {
        let second = TEAM.replace("team", "company").replace("price_1", "price_2");
        let config = of_file(&with(&format!("{TEAM}{second}"))).unwrap();
        let [team, company] = config.plans.as_slice() else {
            panic!("{:?}", config.plans)
        };
        assert_eq!((team.name.as_str(), team.price.as_str()), ("team", "price_1"));
        assert_eq!((team.monthly_runs, team.deployments), (1_000, 2));
        assert_eq!(
            (company.name.as_str(), company.price.as_str()),
            ("company", "price_2")
        );
        assert!(of_file(&with("")).unwrap().plans.is_empty());
        let shown = config.to_toml();
        assert!(shown.contains(TEAM) && shown.contains(&second), "{shown}");
        let plans = &config.to_json()["license.plans"];
        let expected =
            serde_json::json!({"name": "team", "price": "price_1", "monthly_runs": 1_000, "deployments": 2});
        assert_eq!(plans[0], expected);
    }

    #[test]
    fn plans_that_break_a_rule_are_refused() {
        for (file, sentence) in [
            (
                TEAM.to_owned(),
                "license.plans (sortie.toml): needs mode = \"hosted\"",
            ),
            (
                format!("{HOSTED}{}{TEAM}", license()),
                "stripe.secret_key: must be set with `[[license.plans]]`",
            ),
            (
                format!("{HOSTED}{STRIPE}{TEAM}"),
                "license.signing_key: must be set with `[[license.plans]]`",
            ),
            (
                with(&TEAM.replace("team", "Team")),
                "license.plans.name: must be 1 to 32 lower-case letters, digits and hyphens",
            ),
            (
                with(&TEAM.replace("price_1", "")),
                "license.plans.team.price: must be the ID of a price at Stripe, such as price_1a2b3c",
            ),
            (
                with(&TEAM.replace("1000", "0")),
                "license.plans.team.monthly_runs: must be from 1 to 1000000000000",
            ),
            (
                with(&TEAM.replace("= 2", "= 1001")),
                "license.plans.team.deployments: must be from 1 to 1000",
            ),
            (
                with(&format!("{TEAM}{}", TEAM.replace("price_1", "price_2"))),
                "license.plans.team.name: must be that of one plan",
            ),
            (
                with(&format!("{TEAM}{}", TEAM.replace("team", "company"))),
                "license.plans.company.price: must be that of one plan",
            ),
            (
                with("plans = 1"),
                "license.plans (sortie.toml): must be tables, each under `[[license.plans]]`",
            ),
        ] {
            assert_eq!(refusal(&file), sentence);
        }
        let unknown = refusal(&with(&TEAM.replace("deployments", "engines")));
        assert!(
            unknown.starts_with("license.plans (sortie.toml): table 1: unknown field `engines`"),
            "{unknown}"
        );
    }
}
