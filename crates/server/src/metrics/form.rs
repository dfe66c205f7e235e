//! The two formats of the metrics: Prometheus text, and `OpenMetrics` on request.

use http::{HeaderMap, header::ACCEPT};

/// Form of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Text format 0.0.4 of Prometheus, which every agent supports.
    Prometheus,
    /// `OpenMetrics` 1.0, which Prometheus requests since 2.5.
    OpenMetrics,
}

impl Form {
    /// Returns the form for a request with these headers: `OpenMetrics` only if `Accept` names it (RFC 9110, 12.5.1).
    pub(super) fn accepted_by(headers: &HeaderMap) -> Self {
        let mut ranges = headers
            .get_all(ACCEPT)
            .into_iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        if ranges.any(names_open_metrics) {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    pub(super) const fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Returns true if a range of `Accept` is the media type of `OpenMetrics` with a weight above zero.
fn names_open_metrics(range: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let is_named = parts
        .next()
        .is_some_and(|kind| kind.eq_ignore_ascii_case("application/openmetrics-text"));
    is_named
        && !parts
            .filter_map(|parameter| parameter.split_once('='))
            .any(|(name, value)| {
                name.eq_ignore_ascii_case("q") && value.parse::<f32>().is_ok_and(|weight| weight <= 0.0)
            })
}

/// Converts `OpenMetrics` text to Prometheus text 0.0.4: a family has the name of its samples there, an info is a gauge, and
/// units and the end marker have no line.
pub(super) fn prometheus_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + open_metrics.len() / 8);
    // The help of a family precedes its type, and the type decides the name.
    let mut help = None;
    for line in open_metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(_), said) => help = Some(said.unwrap_or_default()),
            (Some("#"), Some("TYPE"), Some(family), Some(kind)) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", "counter"),
                    "info" => ("_info", "gauge"),
                    "unknown" => ("", "untyped"),
                    other => ("", other),
                };
                if let Some(help) = help.take() {
                    text.extend(["# HELP ", family, suffix, " ", help, "\n"]);
                }
                text.extend(["# TYPE ", family, suffix, " ", kind, "\n"]);
            }
            (Some("#"), ..) => {}
            _ => text.extend([line, "\n"]),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn open_metrics_is_for_those_who_name_it() {
        let form = |accept: &[&'static str]| {
            let values = accept
                .iter()
                .map(|value| (ACCEPT, HeaderValue::from_static(value)));
            Form::accepted_by(&values.collect())
        };
        for accept in [
            &["application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"][..],
            &["text/plain", "Application/OpenMetrics-Text; q=0.3"],
        ] {
            assert_eq!(form(accept), Form::OpenMetrics, "{accept:?}");
        }
        for accept in [
            &[][..],
            &["*/*"],
            &["text/html,application/xhtml+xml,*/*;q=0.8"],
            &["text/plain;version=0.0.4;q=0.5,*/*;q=0.1"],
            &["application/openmetrics-text;q=0, */*"],
        ] {
            assert_eq!(form(accept), Form::Prometheus, "{accept:?}");
        }
    }

    #[test]
    fn families_have_the_names_of_their_samples() {
        let open_metrics = "\
# HELP sortie_build The version of this node.
# TYPE sortie_build info
sortie_build_info{version=\"1\"} 1
# HELP sortie_runs Runs that were accepted.
# TYPE sortie_runs counter
sortie_runs_total{trigger=\"api\"} 4
# HELP sortie_delay_seconds Delay.
# TYPE sortie_delay_seconds histogram
# UNIT sortie_delay_seconds seconds
sortie_delay_seconds_sum 0.5
sortie_delay_seconds_count 1
sortie_delay_seconds_bucket{le=\"+Inf\"} 1
# EOF
";
        let expected = "\
# HELP sortie_build_info The version of this node.
# TYPE sortie_build_info gauge
sortie_build_info{version=\"1\"} 1
# HELP sortie_runs_total Runs that were accepted.
# TYPE sortie_runs_total counter
sortie_runs_total{trigger=\"api\"} 4
# HELP sortie_delay_seconds Delay.
# TYPE sortie_delay_seconds histogram
sortie_delay_seconds_sum 0.5
sortie_delay_seconds_count 1
sortie_delay_seconds_bucket{le=\"+Inf\"} 1
";
        assert_eq!(prometheus_text(open_metrics), expected);
    }
}
