//! Chromium on the pages, controlled by `browser.mjs`. Every page must fit the window. Screenshots of each are below
//! `target/tmp`.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use sortie_testkit::{
    peers::{self, Peer},
    prelude::*,
};

/// Window of a person, and the settings of the browser.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Device {
    /// Wide and light, with script.
    Desk,
    /// Narrow and dark, without script.
    PhoneWithoutScript,
}

impl Device {
    const fn name(self) -> &'static str {
        match self {
            Self::Desk => "desk",
            Self::PhoneWithoutScript => "phone",
        }
    }

    fn options(self) -> Value {
        match self {
            Self::Desk => json!({"viewport": {"width": 1_280, "height": 800}, "colorScheme": "light"}),
            Self::PhoneWithoutScript => json!({
                "viewport": {"width": 320, "height": 640}, "deviceScaleFactor": 2, "isMobile": true,
                "colorScheme": "dark", "javaScriptEnabled": false,
            }),
        }
    }
}

/// Browser of one person.
pub(crate) struct Browser {
    peer: Peer,
    org_url: String,
    pictures: PathBuf,
    taken: usize,
}

/// Page as the person sees it.
#[derive(Debug, Deserialize)]
pub(crate) struct Shown {
    pub(crate) url: String,
    pub(crate) status: u16,
    pub(crate) heading: String,
    pub(crate) text: String,
    fits: bool,
}

impl Shown {
    /// This page, if it is the expected one.
    pub(crate) fn is(self, status: u16, heading: &str) -> Result<Self> {
        ensure!(
            (self.status, self.heading.as_str()) == (status, heading),
            "expected {status} {heading}: {self:#?}"
        );
        Ok(self)
    }

    /// This page, if it shows a text.
    pub(crate) fn says(self, text: &str) -> Result<Self> {
        ensure!(self.text.contains(text), "expected {text}: {self:#?}");
        Ok(self)
    }
}

impl Browser {
    /// Opens a browser at the pages of a deployment. `name` is that of the person and the test, for the pictures.
    pub(crate) fn open(device: Device, org_url: String, name: &str) -> Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/browser.mjs");
        peers::installed("npm/node_modules/playwright-core")?;
        let (script, folder) = (
            script.to_string_lossy(),
            peers::folder().to_string_lossy().into_owned(),
        );
        let arguments = [&*script, &folder, &device.options().to_string()];
        let pictures = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("pages")
            .join(format!("{name} at the {}", device.name()));
        std::fs::create_dir_all(&pictures)?;
        Ok(Self {
            peer: Peer::start(Path::new("node"), &arguments)?,
            org_url,
            pictures,
            taken: 0,
        })
    }

    fn ask(&mut self, command: &Value) -> Result<Value> {
        self.peer.tell(command)?;
        let mut said = self.peer.json()?;
        ensure!(said.get("error").is_none(), "the browser failed: {said:#}");
        Ok(said["answer"].take())
    }

    fn leads(&mut self, command: &Value) -> Result<Shown> {
        let shown: Shown = serde_json::from_value(self.ask(command)?).context("no page")?;
        self.taken += 1;
        let picture = self.pictures.join(format!("{:02}.png", self.taken));
        self.ask(&json!({"name": "picture", "path": picture}))?;
        ensure!(shown.fits, "wider than the window: {shown:#?}");
        Ok(shown)
    }

    /// Goes to an address, or to a path of the deployment.
    pub(crate) fn go(&mut self, address: &str) -> Result<Shown> {
        let url = match address.strip_prefix('/') {
            Some(path) => format!("{}/{path}", self.org_url),
            None => address.to_owned(),
        };
        self.leads(&json!({"name": "open", "url": url}))
    }

    /// Follows a link by its text.
    pub(crate) fn follow(&mut self, link: &str) -> Result<Shown> {
        self.leads(&json!({"name": "follow", "link": link}))
    }

    /// Presses a button.
    pub(crate) fn press(&mut self, button: &str) -> Result<Shown> {
        self.send(&[], button)
    }

    /// Fills fields, which are named by their labels, and presses a button.
    pub(crate) fn send(&mut self, fields: &[(&str, &str)], button: &str) -> Result<Shown> {
        let fields: serde_json::Map<_, _> = fields
            .iter()
            .map(|(label, text)| ((*label).to_owned(), json!(text)))
            .collect();
        self.leads(&json!({"name": "send", "fields": fields, "choices": {}, "button": button}))
    }

    /// Chooses an option by its text, and presses a button.
    pub(crate) fn choose(&mut self, (label, option): (&str, &str), button: &str) -> Result<Shown> {
        self.leads(&json!({"name": "send", "fields": {}, "choices": {label: option}, "button": button}))
    }

    /// Code of an authenticator with this key, `later` steps in the future.
    pub(crate) fn code(&mut self, secret: &str, later: u32) -> Result<String> {
        let code = self.ask(&json!({"name": "code", "secret": secret, "later": later}))?;
        Ok(code.as_str().context("no code")?.to_owned())
    }

    /// Ends the browser. It must have reported no error: no refused script, style, form or frame, and no missing
    /// resource.
    pub(crate) fn close(mut self) -> Result<()> {
        let complaints = self.ask(&json!({"name": "complaints"}))?;
        ensure!(complaints == json!([]), "the browser complains: {complaints:#}");
        Ok(())
    }
}
