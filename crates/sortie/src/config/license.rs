//! The section `license`: the key that signs licenses on a hosted deployment and the plans that it sells, and the keys that
//! verify licenses on a self-hosted engine.

use std::sync::Arc;

use serde::Deserialize;
use sortie_base::{LicensePublicKey, LicenseSigner};

use super::{
    plans::PlanSection,
    values::{license_signer, public_keys},
};

/// Keys of `[license]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LicenseSection {
    #[serde(default, deserialize_with = "license_signer")]
    pub(crate) signing_key: Option<Arc<LicenseSigner>>,
    #[serde(deserialize_with = "public_keys")]
    pub(crate) public_keys: Vec<LicensePublicKey>,
    pub(crate) machine_id: Option<String>,
    #[serde(default)]
    pub(super) plans: Vec<PlanSection>,
}

#[cfg(test)]
mod tests {
    use super::super::tests::{of_file, refusal};

    const HOSTED: &str = "mode = \"hosted\"\norg_listen = \"127.0.0.1:8081\"\norg_url = \"https://accounts.example.com\"\n\
        advertise_url = \"https://engine.example.com\"\n";
    const PUBLIC: &str = "k4.public.Hrnbu7wEfAP9cGBOAHHwmH4Wsot1ciXBHwBBXQ4gsaI";
    const SEED: &str = "b4cbfb43df4ce210727d953e4a713307fa19bb7d9f85041438d9e11b942a3774";

    #[test]
    fn a_hosted_deployment_signs_and_a_self_hosted_engine_verifies() {
        let config = of_file(&format!("{HOSTED}[license]\nsigning_key = \"{SEED}\"\n")).unwrap();
        assert_eq!(
            config.license.signing_key.as_ref().unwrap().public().to_string(),
            PUBLIC
        );
        for shown in [
            config.to_toml(),
            config.to_json().to_string(),
            format!("{config:?}"),
        ] {
            assert!(!shown.contains(SEED), "{shown}");
        }
        let machine = "0123456789abcdef".repeat(2);
        let config = of_file(&format!(
            "[license]\npublic_keys = [\"{PUBLIC}\"]\nmachine_id = \"{machine}\"\n"
        ));
        let license = &config.as_ref().unwrap().license;
        assert_eq!(license.public_keys[0].to_string(), PUBLIC);
        assert_eq!(license.machine_id.as_ref(), Some(&machine));
        assert!(of_file("").unwrap().license.public_keys.is_empty());
    }

    #[test]
    fn keys_of_the_wrong_form_or_mode_are_refused() {
        for (file, sentence) in [
            (
                format!("[license]\nsigning_key = \"{SEED}\"\n"),
                "license.signing_key (sortie.toml): needs mode = \"hosted\"",
            ),
            (
                format!("{HOSTED}[license]\nsigning_key = \"short\"\n"),
                "license.signing_key (sortie.toml): must be 32 random bytes in base64 or in hexadecimal",
            ),
            (
                "[license]\npublic_keys = [\"x\"]\n".to_owned(),
                "license.public_keys (sortie.toml): each must be the output of `sortie license public-key`, which begins \
                 with k4.public.",
            ),
            (
                "[license]\npublic_keys = [7]\n".to_owned(),
                "license.public_keys (sortie.toml): entry 1 must be a string, not the number 7",
            ),
            (
                format!("{HOSTED}[license]\npublic_keys = [\"{PUBLIC}\"]\n"),
                "license.public_keys (sortie.toml): needs mode = \"self-hosted\"",
            ),
            (
                "[license]\nmachine_id = \"ABC\"\n".to_owned(),
                "license.machine_id (sortie.toml): must be 32 hexadecimal digits in lower case",
            ),
        ] {
            assert_eq!(refusal(&file), sentence);
        }
    }
}
