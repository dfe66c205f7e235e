//! Trace context in HTTP headers: W3C Trace Context, version 00.

/// The target of the spans that are exported. Logs leave them out, so that without an export they cost nothing.
pub const SPANS: &str = "sortie.spans";

/// The longest `tracestate` that is carried on, in bytes: what the recommendation asks everybody to carry at least.
const TRACESTATE_BYTES: usize = 512;

/// The most members of a `tracestate`.
const TRACESTATE_MEMBERS: usize = 32;

/// Trace that a request belongs to, and its parent span: valid `traceparent` and `tracestate` headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    traceparent: String,
    tracestate: Option<String>,
}

impl TraceContext {
    /// Reads the two headers. `None` if `traceparent` is not valid (W3C Trace Context, 3.2): then no trace is
    /// continued. A `tracestate` that is not valid, or too long, is left out, as the recommendation asks. Of a later
    /// version of `traceparent` the parts are taken that are known.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let bytes = traceparent.as_bytes();
        let [version, trace_id, parent_id, flags] =
            [0..2, 3..35, 36..52, 53..55].map(|part| traceparent.get(part).filter(|text| is_hex(text)));
        let (version, trace_id, parent_id, flags) = (version?, trace_id?, parent_id?, flags?);
        let dashes = [2, 35, 52].iter().all(|at| bytes.get(*at) == Some(&b'-'));
        let is_whole = match version {
            "ff" => false,
            "00" => bytes.len() == 55,
            _ => bytes.len() == 55 || bytes.get(55) == Some(&b'-'),
        };
        let is_zero = |id: &str| id.bytes().all(|digit| digit == b'0');
        if !dashes || !is_whole || is_zero(trace_id) || is_zero(parent_id) {
            return None;
        }
        Some(Self {
            traceparent: format!("00-{trace_id}-{parent_id}-{flags}"),
            tracestate: tracestate
                .map(str::trim)
                .filter(|state| is_tracestate(state))
                .map(str::to_owned),
        })
    }

    /// The `traceparent` header.
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// The `tracestate` header, if there is one.
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }

    /// The id of the trace: 32 hexadecimal digits.
    pub fn trace_id(&self) -> &str {
        self.traceparent.get(3..35).unwrap_or_default()
    }

    /// The id of the parent: 16 hexadecimal digits.
    pub fn parent_id(&self) -> &str {
        self.traceparent.get(36..52).unwrap_or_default()
    }

    /// Returns the context without `tracestate`, which is text of the client's own.
    #[must_use]
    pub fn without_state(self) -> Self {
        Self {
            tracestate: None,
            ..self
        }
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes()
        .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a text is a list of `key=value` that others can be expected to take (W3C Trace Context, 3.3).
fn is_tracestate(state: &str) -> bool {
    let key_byte = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    let value_byte = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'=');
    let members = || {
        state
            .split(',')
            .map(str::trim)
            .filter(|member| !member.is_empty())
    };
    let is_member = |member: &str| {
        member.split_once('=').is_some_and(|(key, value)| {
            (1..=256).contains(&key.len())
                && (1..=256).contains(&value.len())
                && key.bytes().all(key_byte)
                && value.bytes().all(value_byte)
        })
    };
    state.len() <= TRACESTATE_BYTES
        && (1..=TRACESTATE_MEMBERS).contains(&members().count())
        && members().all(is_member)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_valid_context_is_taken_apart() {
        let context = TraceContext::parse(VALID, Some(" rojo=00f067aa0ba902b7,congo@x=t61 ")).unwrap();
        assert_eq!(context.traceparent(), VALID);
        assert_eq!(context.tracestate(), Some("rojo=00f067aa0ba902b7,congo@x=t61"));
        assert_eq!(context.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(context.parent_id(), "00f067aa0ba902b7");
        assert_eq!(context.without_state().tracestate(), None);
    }

    #[test]
    fn what_is_no_context_continues_nothing() {
        for text in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.more",
            "00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01",
        ] {
            assert_eq!(TraceContext::parse(text, None), None, "{text}");
        }
    }

    #[test]
    fn of_a_later_version_the_known_parts_are_taken() {
        let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-holds";
        assert_eq!(TraceContext::parse(later, None).unwrap().traceparent(), VALID);
    }

    #[test]
    fn a_state_that_is_not_valid_is_left_out() {
        let members = vec!["a=1"; 33].join(",");
        let long = format!("a={}", "x".repeat(511));
        for state in [
            "",
            "a",
            "a=",
            "=b",
            "A=b",
            "a=b=c",
            "a=b\u{7f}",
            members.as_str(),
            long.as_str(),
        ] {
            let context = TraceContext::parse(VALID, Some(state)).unwrap();
            assert_eq!(context.tracestate(), None, "{state}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(parent in ".{0,60}", state in ".{0,60}") {
            let _context = TraceContext::parse(&parent, Some(&state));
        }

        #[test]
        fn what_it_gives_out_it_takes_back(text in "0[0-9a-e]-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}") {
            if let Some(context) = TraceContext::parse(&text, None) {
                prop_assert_eq!(TraceContext::parse(context.traceparent(), None), Some(context));
            }
        }
    }
}
