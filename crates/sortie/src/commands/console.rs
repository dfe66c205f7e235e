//! `sortie console` and `sortie open`: pages of the console, signed in.
//!
//! The engine gives a code for the key. The address has it in the fragment, which a browser does not send.

use sortie_api::console::CreatedConsoleCode;

use super::Context;
use crate::{
    args::{ConsoleArgs, RunRef},
    client::post,
    connect::Need,
    failure::{Exit, Result},
    terminal,
};

/// Opens the console or the page of a run, or prints its address where no browser can be opened.
pub(super) async fn open(context: &Context, args: &ConsoleArgs, run: Option<&RunRef>) -> Result<Exit> {
    let config = context.client_config(&context.flags)?;
    let connection = context.open(&config, Need::Console).await?;
    let url = connection
        .during(async |connection| {
            let path = match run {
                Some(run) => format!("runs/{}", connection.client.find_run(run).await?),
                None => String::new(),
            };
            let code: CreatedConsoleCode = connection.client.ask(post("v1/console/codes")).await?;
            let mut url = connection.client.url(&format!("console/{path}"))?;
            url.set_fragment(Some(&format!("code={}", code.code)));
            Ok(url)
        })
        .await?;
    let is_opened = !args.print && has_screen(context) && open::that_detached(url.as_str()).is_ok();
    if is_opened {
        terminal::note("opening the console in a browser; `--print` prints an address instead");
    } else {
        terminal::print_line(url.as_str())?;
        terminal::note("this address signs in once, within a minute");
    }
    Ok(Exit::Success)
}

/// Whether a browser has a screen. Without one, a launcher would start a browser in this terminal.
fn has_screen(context: &Context) -> bool {
    let is_set = |name: &&str| context.environment.get(name).is_some();
    !cfg!(target_os = "linux")
        || ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"]
            .iter()
            .any(is_set)
}
