//! Calls as Python writes them: `[name(key="text", other=1)]`, of Llama 4 and others.

use super::super::near_json::{self, Closing};
use super::{Alias, CUT_OFF, Scanner, WrittenCall, json};

impl Scanner<'_, '_, '_> {
    /// Whether a list of calls begins here.
    pub(super) fn is_python_list(&self) -> bool {
        let Some(rest) = self.rest().strip_prefix('[') else {
            return false;
        };
        let name = rest.trim_start();
        let behind = name.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
        behind.len() < name.len() && behind.starts_with('(')
    }

    /// Reads a list of calls.
    pub(super) fn python_calls(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            self.skip_white();
            let name = self.word()?;
            let alias = if self.is_marked {
                Alias::Allowed
            } else {
                Alias::Refused
            };
            let (name, _) = json::known(name, self.find, alias)?;
            let arguments = self.python_arguments()?;
            self.calls.push(WrittenCall { name, arguments });
            self.skip_white();
            let rest = self.rest();
            self.at += usize::from(rest.starts_with([',', ']']));
            match rest.chars().next() {
                Some(',') => {}
                Some(']') => return Some(()),
                None if self.is_marked => return Some(()),
                Some(_) | None => return None,
            }
        }
    }

    /// Reads arguments by their names, between parentheses.
    pub(super) fn python_arguments(&mut self) -> Option<String> {
        self.rest().strip_prefix('(')?;
        self.at += 1;
        let mut arguments = super::tags::Arguments::default();
        loop {
            self.skip_white();
            let rest = self.rest();
            if rest.starts_with(')') {
                self.at += 1;
                return Some(arguments.json());
            }
            if rest.is_empty() && self.is_marked {
                return Some(CUT_OFF.to_owned());
            }
            let field = self.word()?;
            self.skip_white();
            self.rest().strip_prefix('=')?;
            match near_json::value(self.text, self.at + 1, Closing::Required) {
                Ok((json, end)) => {
                    arguments.push(field, &json);
                    self.at = end;
                }
                Err(why) if why.is_cut && self.is_marked => {
                    self.at = self.text.len();
                    return Some(CUT_OFF.to_owned());
                }
                Err(_) => return None,
            }
            self.skip_white();
            self.at += usize::from(self.rest().starts_with(','));
        }
    }
}
