//! Settings of licenses: the key that signs them on a hosted deployment, and those that verify them on a self-hosted engine.

use std::sync::Arc;

use sortie_api::Mode;
use sortie_base::{InvalidLicenseKey, LicensePublicKey, LicenseSigner};
use sortie_engine::LicenseOptions;

use super::{Error, values::Reader};

/// Key of the seed that signs licenses. Nothing shows it.
pub(super) const SIGNING_KEY: &str = "license.signing_key";
const PUBLIC_KEYS: &str = "license.public_keys";
const MACHINE_ID: &str = "license.machine_id";

/// Reads the key that signs licenses. None where no license is issued.
pub(super) fn signer(read: &Reader<'_>) -> Result<Option<Arc<LicenseSigner>>, Error> {
    let Some(seed) = read.optional_text(SIGNING_KEY)? else {
        return Ok(None);
    };
    if read.mode()? == Mode::SelfHosted {
        return Err(read.wrong(SIGNING_KEY, "needs mode = \"hosted\""));
    }
    let signer = seed
        .parse()
        .map_err(|error: InvalidLicenseKey| read.wrong(SIGNING_KEY, &error.to_string()))?;
    Ok(Some(Arc::new(signer)))
}

/// Reads the settings of the license of a self-hosted engine. A hosted deployment must not have them.
pub(super) fn options(read: &Reader<'_>) -> Result<LicenseOptions, Error> {
    let public_keys = read
        .texts(PUBLIC_KEYS)?
        .into_iter()
        .map(|text| {
            text.parse::<LicensePublicKey>()
                .map_err(|error| read.wrong(PUBLIC_KEYS, &format!("each {error}")))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let machine_id = read.optional_text(MACHINE_ID)?;
    if let Some(id) = machine_id
        && !(id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
    {
        return Err(read.wrong(MACHINE_ID, "must be 32 hexadecimal digits in lower case"));
    }
    if read.mode()? == Mode::Hosted {
        for (key, is_set) in [
            (PUBLIC_KEYS, !public_keys.is_empty()),
            (MACHINE_ID, machine_id.is_some()),
        ] {
            if is_set {
                return Err(read.wrong(key, "needs mode = \"self-hosted\""));
            }
        }
    }
    Ok(LicenseOptions {
        public_keys,
        machine_id: machine_id.map(str::to_owned),
    })
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
            config.license_signer.as_ref().unwrap().public().to_string(),
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
        let license = config.unwrap().license;
        assert_eq!(license.public_keys[0].to_string(), PUBLIC);
        assert_eq!(license.machine_id, Some(machine));
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
                "license.public_keys (sortie.toml): must be a list of texts",
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
