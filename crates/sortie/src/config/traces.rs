//! Export of spans: the section `traces`. The standard variables of OpenTelemetry also set its keys.

use percent_encoding::percent_decode_str;
use reqwest::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use sortie_api::Credential;
use url::Url;

use super::{Environment, Error, layers::Layers, values::BaseUrl};

/// The standard variables, and the keys they set. A `SORTIE_` variable of the same key wins.
pub(super) const STANDARD_VARIABLES: &[(&str, &str)] = &[
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "traces.endpoint"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "traces.headers"),
    ("OTEL_SERVICE_NAME", "traces.service_name"),
    ("OTEL_RESOURCE_ATTRIBUTES", "traces.resource_attributes"),
    ("OTEL_TRACES_SAMPLER", "traces.sampler"),
    ("OTEL_TRACES_SAMPLER_ARG", "traces.sampler_arg"),
];

/// The one protocol there is.
const PROTOCOL: &str = "http/protobuf";

/// Keys of `[traces]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TraceSection {
    endpoint: Option<BaseUrl>,
    #[serde(default)]
    headers: Vec<Credential>,
    service_name: String,
    resource_attributes: Vec<String>,
    sampler: String,
    sampler_arg: String,
}

/// Settings of the export of spans.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(feature = "otel"),
    expect(dead_code, reason = "without the feature, asking for traces is refused")
)]
pub(crate) struct TraceSettings {
    /// Address for batches: that of the collector with `/v1/traces`.
    pub(crate) endpoint: Url,
    /// Headers of each request. The values are marked as sensitive, so they are redacted.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// `service.name`.
    pub(crate) service_name: String,
    /// Further attributes of this process.
    pub(crate) resource: Vec<(String, String)>,
    pub(crate) sampler: Sampler,
}

/// Selection of the traces to export.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampler {
    /// Whether the sampling decision of a client's trace is followed.
    pub(crate) follows_parent: bool,
    /// Sampled share of the traces that begin here, 0 to 1.
    pub(crate) share: f64,
}

impl TraceSection {
    /// Returns the settings of the export of spans; `None` if disabled.
    pub(super) fn settings(
        &self,
        layers: &Layers,
        environment: &Environment,
    ) -> Result<Option<TraceSettings>, Error> {
        let off = environment
            .get("OTEL_SDK_DISABLED")
            .is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let Some(base) = self.endpoint.as_ref().filter(|_| !off) else {
            return Ok(None);
        };
        for name in [
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        ] {
            if environment.get(name).is_some_and(|value| value != PROTOCOL) {
                return Err(Error(format!(
                    "traces.endpoint ({name}): only {PROTOCOL} is spoken, usually on port 4318"
                )));
            }
        }
        let wrong = |key, rule| layers.wrong(key, rule);
        let attributes = self.resource_attributes.iter().map(String::as_str);
        Ok(Some(TraceSettings {
            endpoint: format!("{base}/v1/traces")
                .parse()
                .map_err(|_| wrong("traces.endpoint", "must be an address"))?,
            headers: self.headers().map_err(|rule| wrong("traces.headers", rule))?,
            service_name: self.service_name.clone(),
            resource: pairs(attributes).map_err(|rule| wrong("traces.resource_attributes", rule))?,
            sampler: self.sampler().map_err(|(key, rule)| wrong(key, rule))?,
        }))
    }

    fn headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>, &'static str> {
        pairs(self.headers.iter().map(Credential::expose))?
            .into_iter()
            .map(|(name, value)| {
                let name = name.parse().ok()?;
                let mut value: HeaderValue = value.parse().ok()?;
                value.set_sensitive(true);
                Some((name, value))
            })
            .collect::<Option<_>>()
            .ok_or("must be names and values that an HTTP header may have")
    }

    /// Returns the sampler. The error is the key and its rule.
    fn sampler(&self) -> Result<Sampler, (&'static str, &'static str)> {
        let own = self.sampler.strip_prefix("parentbased_");
        let share = match own.unwrap_or(&self.sampler) {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => self
                .sampler_arg
                .parse()
                .ok()
                .filter(|share| (0.0..=1.0).contains(share))
                .ok_or(("traces.sampler_arg", "must be a number from 0 to 1"))?,
            _ => {
                return Err((
                    "traces.sampler",
                    "must be `always_on`, `always_off` or `traceidratio`, each also behind `parentbased_`",
                ));
            }
        };
        Ok(Sampler {
            follows_parent: own.is_some(),
            share,
        })
    }
}

/// Reads a list of `name=value` with percent-encoded values (W3C Baggage). Error messages do not repeat them.
fn pairs<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<(String, String)>, &'static str> {
    texts
        .map(|text| {
            let (name, value) = text.split_once('=')?;
            let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
            let name = name.trim();
            (!name.is_empty()).then(|| (name.to_owned(), value.into_owned()))
        })
        .collect::<Option<_>>()
        .ok_or("must be a list of name=value")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flags, SandboxPolicy, tests::load};

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");

    fn of(variables: &[(&str, &str)]) -> Result<Option<TraceSettings>, Error> {
        load("", variables, &Flags::default(), SandboxPolicy::Required).map(|config| config.traces)
    }

    #[test]
    fn nothing_is_exported_unless_an_address_is_named_and_the_export_is_on() {
        assert!(of(&[]).unwrap().is_none());
        assert!(of(&[ENDPOINT, ("OTEL_SDK_DISABLED", "True")]).unwrap().is_none());
        assert!(of(&[ENDPOINT, ("OTEL_SDK_DISABLED", "no")]).unwrap().is_some());
    }

    #[test]
    fn the_standard_variables_are_read_and_ours_win() {
        let settings = of(&[
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=x%20y, b=1=2"),
            ("OTEL_SERVICE_NAME", "theirs"),
            ("SORTIE_TRACES_SERVICE_NAME", "ours"),
            ("OTEL_RESOURCE_ATTRIBUTES", "k=v"),
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ]);
        let settings = settings.unwrap().unwrap();
        assert_eq!(settings.endpoint.as_str(), "http://collector:4318/v1/traces");
        let headers: Vec<_> = settings
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        assert_eq!(headers, [("a", "x y"), ("b", "1=2")]);
        assert_eq!(settings.service_name, "ours");
        assert_eq!(settings.resource, [("k".to_owned(), "v".to_owned())]);
        let expected = Sampler {
            follows_parent: false,
            share: 0.25,
        };
        assert_eq!(settings.sampler, expected);
        assert!(!format!("{settings:?}").contains("x y"));
    }

    #[test]
    fn a_header_that_cannot_be_sent_is_refused_without_its_value() {
        for headers in ["a b=mark-9c", "x=mark-9c%0Ay", "x=1,y=mark-9c%00"] {
            let error = of(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_HEADERS", headers)]).unwrap_err();
            assert_eq!(
                error.to_string(),
                "traces.headers (OTEL_EXPORTER_OTLP_HEADERS): must be names and values that an HTTP header may have",
                "{headers}"
            );
        }
    }

    #[test]
    fn a_sampler_is_one_of_six_and_its_share_a_share() {
        for (name, follows_parent, share) in [
            ("always_on", false, 1.0),
            ("always_off", false, 0.0),
            ("parentbased_always_off", true, 0.0),
            ("parentbased_traceidratio", true, 0.5),
        ] {
            let variables = [
                ENDPOINT,
                ("OTEL_TRACES_SAMPLER", name),
                ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
            ];
            let sampler = of(&variables).unwrap().unwrap().sampler;
            assert_eq!(
                sampler,
                Sampler {
                    follows_parent,
                    share
                },
                "{name}"
            );
        }
        for (name, value) in [
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("SORTIE_TRACES_SAMPLER_ARG", "2"),
            ("SORTIE_TRACES_SAMPLER_ARG", "nan"),
        ] {
            let variables = [ENDPOINT, ("SORTIE_TRACES_SAMPLER", "traceidratio"), (name, value)];
            let variables = if name.starts_with("OTEL") {
                &[variables[0], variables[2]][..]
            } else {
                &variables[..]
            };
            let error = of(variables).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
