//! Files of packages that may hold a credential.

use std::{
    fs::{self, Metadata},
    os::unix::fs::PermissionsExt,
    path::Path,
};

pub(super) const NOT_FOR_ALL: &str = "not all users of the host may read it";

/// Maximum size of a settings file that is searched. Larger files come with packages and are not edited by operators.
const MOST_BYTES: u64 = 256 << 10;
/// Extensions and names of files in which operators write settings.
const SETTINGS: &[&str] = &["cfg", "conf", "ini", "properties"];
const SETTINGS_NAMES: &[&str] = &["policy.xml", "renviron", "default-flags"];
/// Substrings that mark the name of a setting as a credential.
const CREDENTIALS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "access_key",
    "access-key",
    "license",
    "credential",
    "private_key",
    // Parameters of a URL. A setting called `auth` is usually a switch.
    "?auth=",
    "&auth=",
    "?auth[",
    "&auth[",
];
/// Last words that mark the name of a setting as a credential. As substrings they occur in many other words.
const LAST_WORDS: &[&str] = &["pw", "pwd", "pat"];
/// Comment prefixes in the formats of such files.
const COMMENTS: &[&str] = &["#", ";", "!", "//", "--", "<!--"];

/// Returns the reason to hide a file of a package from commands, if there is one.
pub(super) fn reason_to_withhold(path: &Path, metadata: &Metadata) -> Option<&'static str> {
    if !metadata.is_file() {
        return Some("it is neither a file nor a folder");
    }
    if metadata.permissions().mode() & 0o004 == 0 {
        return Some(NOT_FOR_ALL);
    }
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let ending = path.extension().and_then(|ending| ending.to_str());
    // A template contains placeholders, not a password.
    if matches!(ending, Some("password" | "key")) || name.contains("credentials") {
        return Some("its name is that of a credential");
    }
    // Packages generate these files, and operators do not write passwords into them.
    let is_generated = path.starts_with("/var/lib") || path.starts_with("/var/cache");
    let is_settings =
        ending.is_some_and(|ending| SETTINGS.contains(&ending)) || SETTINGS_NAMES.contains(&name.as_str());
    if is_generated || !is_settings || metadata.len() > MOST_BYTES {
        return None;
    }
    let content = fs::read(path).ok()?;
    let content = String::from_utf8_lossy(&content);
    content
        .lines()
        .any(sets_a_credential)
        .then_some("a line of it sets a credential")
}

/// Whether a line sets a credential, judged by the name of the setting, or has a URL with a password.
fn sets_a_credential(line: &str) -> bool {
    let line = line.trim_start().to_ascii_lowercase();
    if line.contains("private key-----") {
        return true;
    }
    if COMMENTS.iter().any(|start| line.starts_with(start)) {
        return false;
    }
    if has_url_with_password(&line) {
        return true;
    }
    CREDENTIALS.iter().any(|name| {
        line.match_indices(name).any(|(at, _)| {
            let rest = line.get(at..).unwrap_or_default();
            let value = rest.split_once(['=', ':']).map(|(_, value)| value);
            value.is_some_and(has_value)
        })
    }) || LAST_WORDS.iter().any(|word| {
        line.match_indices(word).any(|(at, _)| {
            let before = line.get(..at).unwrap_or_default();
            let behind = line.get(at + word.len()..).unwrap_or_default();
            // `$PWD` is the value of a variable.
            let is_whole = !before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '$');
            // The name may be quoted, and in brackets.
            let behind = behind.trim_start_matches(['"', '\'', ']', ' ', '\t']);
            is_whole && behind.strip_prefix(['=', ':']).is_some_and(has_value)
        })
    })
}

fn has_value(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_alphanumeric())
}

/// Whether a `.npmrc` may contain a credential. Node.js and packages ship files of that name without any.
pub(super) fn is_npmrc_with_credential(path: &Path) -> bool {
    let is_searched =
        fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MOST_BYTES);
    let content = if is_searched { fs::read(path).ok() } else { None };
    let Some(content) = content else {
        return true;
    };
    String::from_utf8_lossy(&content).lines().any(|line| {
        // The name of a registry setting begins with two slashes, as a comment does.
        let line = line.trim_start().trim_start_matches('/');
        line.contains("_auth") || sets_a_credential(line)
    })
}

fn has_url_with_password(line: &str) -> bool {
    line.match_indices("://").any(|(at, scheme)| {
        let rest = line.get(at + scheme.len()..).unwrap_or_default();
        let host = rest
            .split(|c: char| c == '/' || c == '"' || c.is_whitespace())
            .next();
        let user = host.and_then(|host| host.rsplit_once('@')).map(|(user, _)| user);
        user.is_some_and(|user| {
            user.split_once(':')
                .is_some_and(|(_, password)| !password.is_empty())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_sets_a_credential_is_told_from_one_that_speaks_of_it() {
        for line in [
            "newrelic.license = \"0123456789abcdef\"",
            "mysqli.default_password=hunter2",
            "  session.save_path = \"tcp://cache:6379?auth_token=abc\"",
            "http.proxy=http://user:hunter2@proxy.example:3128/",
            "<policy domain=\"cache\" name=\"shared-secret\" value=\"hunter2\"/>",
            "javax.net.ssl.keyStorePassword = hunter2",
            "-----BEGIN RSA PRIVATE KEY-----",
            "blackfire.server_token: abc",
            "mysqli.default_pw = hunter2",
            "odbc.default_pw=\"hunter2\"",
            "session.save_path = \"tcp://cache:6379?auth=hunter2\"",
            "session.save_path = \"tcp://cache:6379?database=1&auth[]=runs&auth[]=hunter2\"",
            "GITHUB_PAT=ghp_0123",
            "AWS_ACCESS_KEY_ID=AKIA0123",
            "fs.access-key: AKIA0123",
            "pwd=hunter2",
            "Server=db;Uid=runs;Pwd=hunter2;",
            "$db['pw'] = 'hunter2'",
            "\"db-pwd\": \"hunter2\"",
        ] {
            assert!(sets_a_credential(line), "{line}");
        }
        for line in [
            "",
            "; mysqli.default_password = hunter2",
            "# com.sun.management.jmxremote.password.file=/etc/x",
            "  <!-- <policy domain=\"cache\" name=\"shared-secret\" value=\"passphrase\"/> -->",
            "mysqli.default_password =",
            "extension=opcache",
            "url = https://example.com/a:b@c",
            "http.proxyHost=proxy.example",
            "the token of the compiler",
            "mysqli.default_pw =",
            ";odbc.default_pw    =  Not yet implemented",
            "# GITHUB_PAT=ghp_0123",
            "author=someone",
            "auto_detect_line_endings = 1",
            "auth = basic",
            "mail.smtp.auth=true",
            "url = https://example.com/?author=someone&authority=1",
            "pattern=*.txt",
            "path = /usr/share",
            "PATH=$PWD:/usr/bin",
            "compat = 1",
            "cwd = /srv",
            "pwdx = /usr/bin/pwdx",
            "pw_min = 8",
            "print pwd and go on",
        ] {
            assert!(!sets_a_credential(line), "{line}");
        }
    }

    #[test]
    fn settings_of_npm_that_hold_a_credential_are_told_from_those_of_a_package() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(".npmrc");
        assert!(is_npmrc_with_credential(&path), "cannot be read");
        for (content, holds_one) in [
            ("", false),
            (
                "package-lock=false\nregistry=https://registry.npmjs.org/\n",
                false,
            ),
            ("a=b\n//registry.npmjs.org/:_authToken=npm_0123\n", true),
            ("_auth = cnVuczpodW50ZXIy", true),
            ("//registry.example/:_password=aHVudGVyMg==", true),
            ("proxy=http://user:hunter2@proxy.example:3128/", true),
        ] {
            fs::write(&path, content).unwrap();
            assert_eq!(is_npmrc_with_credential(&path), holds_one, "{content}");
        }
    }
}
