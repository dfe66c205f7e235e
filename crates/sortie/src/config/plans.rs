//! Plans of licenses that a hosted deployment sells: the tables `[[license.plans]]` of the file.

use serde::Deserialize;
use sortie_api::limits::{LICENSE_DEPLOYMENTS, LICENSE_MONTHLY_RUNS};
use sortie_billing::Plan;

use super::{
    Error,
    layers::Layers,
    settings::Settings,
    values::{ShortName, whole},
};

/// Maximum length of the name of a price, in characters.
const LONGEST_PRICE: usize = 100;

/// Keys of `[[license.plans]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanSection {
    name: ShortName,
    price: String,
    #[serde(deserialize_with = "whole::<_, _, 1, LICENSE_MONTHLY_RUNS>")]
    monthly_runs: i64,
    #[serde(deserialize_with = "whole::<_, _, 1, LICENSE_DEPLOYMENTS>")]
    deployments: i64,
}

/// Returns the plans. They need an account at Stripe, and the key that signs licenses.
pub(super) fn plans(settings: &Settings, layers: &Layers) -> Result<Vec<Plan>, Error> {
    let sections = &settings.license.plans;
    for key in ["stripe.secret_key", "license.signing_key"] {
        if !sections.is_empty() && layers.get(key).is_none() {
            return Err(layers.wrong(key, "must be set with `[[license.plans]]`"));
        }
    }
    let mut plans: Vec<Plan> = Vec::with_capacity(sections.len());
    for section in sections.iter().cloned() {
        let plan = Plan {
            name: section.name.into(),
            price: section.price,
            monthly_runs: section.monthly_runs,
            deployments: section.deployments,
        };
        let is_price = (1..=LONGEST_PRICE).contains(&plan.price.len())
            && plan.price.bytes().all(|byte| byte.is_ascii_graphic());
        let has_name = |other: &Plan| other.name == plan.name;
        let has_price = |other: &Plan| other.price == plan.price;
        for (key, is_right, rule) in [
            (
                "price",
                is_price,
                "must be the ID of a price at Stripe, such as price_1a2b3c",
            ),
            ("name", !plans.iter().any(has_name), "must be that of one plan"),
            ("price", !plans.iter().any(has_price), "must be that of one plan"),
        ] {
            if !is_right {
                return Err(layers.wrong(&format!("license.plans.{}.{key}", plan.name), rule));
            }
        }
        plans.push(plan);
    }
    Ok(plans)
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

    /// A file with these plans and their prerequisites.
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
        for line in TEAM.lines().chain(second.lines()) {
            assert!(shown.contains(line), "{line}: {shown}");
        }
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
                "license.plans (sortie.toml): entry 1: name must be 1 to 32 lower-case letters, digits and hyphens",
            ),
            (
                with(&TEAM.replace("price_1", "")),
                "license.plans.team.price (sortie.toml): must be the ID of a price at Stripe, such as price_1a2b3c",
            ),
            (
                with(&TEAM.replace("1000", "0")),
                "license.plans (sortie.toml): entry 1: monthly_runs must be a whole number from 1 to 1000000000000",
            ),
            (
                with(&TEAM.replace("= 2", "= 1001")),
                "license.plans (sortie.toml): entry 1: deployments must be a whole number from 1 to 1000",
            ),
            (
                with(&format!("{TEAM}{}", TEAM.replace("price_1", "price_2"))),
                "license.plans.team.name (sortie.toml): must be that of one plan",
            ),
            (
                with(&format!("{TEAM}{}", TEAM.replace("team", "company"))),
                "license.plans.company.price (sortie.toml): must be that of one plan",
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
            unknown.starts_with(
                "license.plans (sortie.toml): entry 1: unknown key `engines`; expected one of `name`"
            ),
            "{unknown}"
        );
    }
}
