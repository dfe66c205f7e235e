//! A log line as one flat JSON object: time, level, target and message; then the fields of the enclosing spans and of
//! the event, by name. docs/LOGGING.md lists them.

use std::{collections::BTreeMap, fmt};

use serde::ser::{SerializeMap as _, Serializer as _};
use serde_json::Value;
use tracing::{Event, Subscriber};
use tracing_subscriber::{
    field::RecordFields,
    fmt::{
        FmtContext, FormatEvent, FormatFields, FormattedFields,
        format::{JsonFields, Writer},
        time::{FormatTime as _, SystemTime},
    },
    registry::{LookupSpan, Scope},
};

/// Writes events as JSON lines. The fields of spans must be recorded with [`JsonFields`].
pub(super) struct JsonLines;

type Fields = BTreeMap<String, Value>;

/// Fields at the beginning of every line; other fields with these names are left out.
const FIRST: [&str; 3] = ["timestamp", "level", "target"];

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::new();
        for span in ctx.event_scope().into_iter().flat_map(Scope::from_root) {
            if let Some(kept) = span.extensions().get::<FormattedFields<N>>() {
                fields.extend(parsed(&kept.fields)?);
            }
        }
        fields.extend(of_event(event)?);
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let metadata = event.metadata();
        let line = line(&timestamp, metadata.level().as_str(), metadata.target(), fields);
        writeln!(out, "{}", line.map_err(|_| fmt::Error)?)
    }
}

fn line(timestamp: &str, level: &str, target: &str, mut fields: Fields) -> serde_json::Result<String> {
    let mut bytes = Vec::with_capacity(256);
    let mut json = serde_json::Serializer::new(&mut bytes);
    let mut map = json.serialize_map(None)?;
    map.serialize_entry("timestamp", timestamp)?;
    map.serialize_entry("level", level)?;
    map.serialize_entry("target", target)?;
    if let Some(message) = fields.remove("message") {
        map.serialize_entry("message", &message)?;
    }
    for (name, value) in fields.iter().filter(|(name, _)| !FIRST.contains(&name.as_str())) {
        map.serialize_entry(name, value)?;
    }
    map.end()?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn of_event(event: impl RecordFields) -> Result<Fields, fmt::Error> {
    let mut text = String::new();
    JsonFields::new().format_fields(Writer::new(&mut text), event)?;
    parsed(&text)
}

fn parsed(fields: &str) -> Result<Fields, fmt::Error> {
    if fields.is_empty() {
        return Ok(Fields::new());
    }
    serde_json::from_str(fields).map_err(|_| fmt::Error)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Write},
        sync::Arc,
    };

    use tracing_subscriber::{fmt, layer::SubscriberExt as _};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<parking_lot::Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(work: impl FnOnce()) -> Vec<Value> {
        let kept = Kept::default();
        let writer = kept.clone();
        let layer = fmt::layer()
            .fmt_fields(JsonFields::new())
            .event_format(JsonLines)
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), work);
        let bytes = kept.0.lock().clone();
        let lines = String::from_utf8(bytes).unwrap();
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn a_line_has_the_fields_of_all_spans_around_it_and_its_own_and_is_one_line() {
        let lines = logged(|| {
            let outer = tracing::error_span!("run", run.id = "run_1", attempt = 1, trace_id = None::<&str>);
            let _outer = outer.enter();
            let inner = tracing::error_span!("inner", attempt = 2).entered();
            tracing::warn!(error = "a\nb", level = "mine", "what \"happened\"");
            drop(inner);
            tracing::info!("bare");
        });
        let [first, second] = lines.as_slice() else {
            panic!("{lines:?}")
        };
        for (field, value) in [
            ("level", "WARN"),
            ("message", "what \"happened\""),
            ("run.id", "run_1"),
            ("error", "a\nb"),
        ] {
            assert_eq!(first[field], value, "{first}");
        }
        assert_eq!(first["attempt"], 2, "the nearest counts");
        assert!(first.get("trace_id").is_none());
        assert!(first["timestamp"].as_str().unwrap().ends_with('Z'));
        assert_eq!(
            (&second["attempt"], &second["message"]),
            (&1.into(), &"bare".into())
        );
    }

    #[test]
    fn every_line_begins_the_same_way() {
        let fields = Fields::from([("message".to_owned(), "m".into()), ("a".to_owned(), 1.into())]);
        assert_eq!(
            line("T", "INFO", "sortie", fields).unwrap(),
            r#"{"timestamp":"T","level":"INFO","target":"sortie","message":"m","a":1}"#
        );
    }
}
