//! Names of records on the command line.

use std::{fmt, str::FromStr};

use sortie_api::RunId;

/// A run: its ID, a beginning of the ID that no other run has, or `@last` for the newest run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunRef {
    Id(RunId),
    /// A beginning, with the first and the last ID that have it.
    Beginning(String, [RunId; 2]),
    Last,
}

/// A text that names no run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be the ID of a run, such as run_01kafs6w1cefkstv6qr1ptb0mp, at least six characters of its beginning, or @last"
)]
pub(crate) struct InvalidRunRef;

impl RunRef {
    /// Characters that the beginning of an ID has at least. Fewer are the same for all IDs of some days.
    pub(crate) const SHORTEST: usize = 6;
}

impl FromStr for RunRef {
    type Err = InvalidRunRef;

    fn from_str(text: &str) -> Result<Self, InvalidRunRef> {
        if text == "@last" {
            return Ok(Self::Last);
        }
        let text = text.to_ascii_lowercase();
        let beginning = text.strip_prefix("run_").unwrap_or(&text);
        let first = format!("run_{beginning:0<26}").parse();
        let last = format!("run_{beginning:z<26}").parse();
        match (first, last) {
            (Ok(first), Ok(last)) if first == last => Ok(Self::Id(first)),
            (Ok(first), Ok(last)) if beginning.len() >= Self::SHORTEST => {
                Ok(Self::Beginning(beginning.to_owned(), [first, last]))
            }
            (Ok(_) | Err(_), _) => Err(InvalidRunRef),
        }
    }
}

impl fmt::Display for RunRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Beginning(beginning, _) => f.write_str(beginning),
            Self::Last => f.write_str("@last"),
        }
    }
}

/// A key or a schedule: its ID, a beginning of the ID that no other has, or its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference(String);

impl FromStr for Reference {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err("must not be empty");
        }
        Ok(Self(text.to_owned()))
    }
}

impl Reference {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "run_01kafs6w1cefkstv6qr1ptb0mp";

    #[test]
    fn a_run_is_named_by_its_id_a_beginning_of_it_or_as_the_last() {
        let id: RunId = ID.parse().unwrap();
        for text in [ID, "01kafs6w1cefkstv6qr1ptb0mp", "RUN_01KAFS6W1CEFKSTV6QR1PTB0MP"] {
            assert_eq!(text.parse(), Ok(RunRef::Id(id)), "{text}");
        }
        assert_eq!("@last".parse(), Ok(RunRef::Last));
        for wrong in [
            "",
            "run_",
            "key_01kafs6w1cefkstv6qr1ptb0mp",
            "01kaf",
            "8kafs6w1",
            "01kafs6u",
            "@first",
            &format!("{ID}0"),
        ] {
            assert_eq!(wrong.parse::<RunRef>(), Err(InvalidRunRef), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_beginning_includes_every_id_that_has_it(length in RunRef::SHORTEST..26) {
            let id: RunId = ID.parse().map_err(|_| TestCaseError::fail("no ID"))?;
            let beginning = ID.get(4..4 + length).unwrap_or_default();
            let Ok(RunRef::Beginning(_, [first, last])) = beginning.parse() else {
                return Err(TestCaseError::fail(beginning.to_owned()));
            };
            prop_assert!(first <= id && id <= last);
            prop_assert!(first.to_string().contains(beginning) && last.to_string().contains(beginning));
        }

        #[test]
        fn no_text_makes_a_reference_panic(text in "\\PC{0,40}") {
            let _read = text.parse::<RunRef>();
        }
    }
}
