//! Names that are given on the command line.

/// A connection's or workflow's name: fit to stand in a path as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name(String);

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Name {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let starts_well = text.bytes().next().is_some_and(fits);
        let goes_on = text
            .bytes()
            .all(|byte| fits(byte) || matches!(byte, b'.' | b'_' | b'-'));
        if starts_well && goes_on && text.len() <= sortie_api::limits::NAME_CHARS {
            return Ok(Self(text.to_owned()));
        }
        Err(
            "a name is 1 to 100 characters of a to z, 0 to 9, `.`, `_`, `-`, and starts with a letter or digit",
        )
    }
}
