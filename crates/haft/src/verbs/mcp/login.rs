//! `haft mcp login` and `haft mcp logout`: OAuth sign-in to remote MCP servers.

use std::{
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use clap::Args;
use kit::Fault;
use runtime::mcp_client::{Redirect, Server};

use crate::{Options, Place, print};

#[derive(Args)]
pub(super) struct Login {
    /// Name of the server in haft.toml
    #[arg(value_name = "NAME")]
    name: String,
    /// Print the address only, and open no browser
    #[arg(long)]
    no_browser: bool,
    /// Time to wait for the sign-in, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    wait: u64,
}

#[derive(Args)]
pub(super) struct Logout {
    /// Name of the server in haft.toml
    #[arg(value_name = "NAME")]
    name: String,
}

impl Login {
    /// # Errors
    /// When there is no such server, it does not declare how to sign in, or the sign-in fails.
    pub(super) async fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        let servers = opened.runtime.plugins().servers();
        let server = servers.named(&self.name)?;
        let redirect = Redirect::listen(server.section.oauth.redirect_port).await?;
        let signing = servers.logins().begin(&server, &place.variables, &redirect.uri()).await?;
        print::out(&format!(
            "{} asks whether haft may use `{}`{}",
            signing.asks(),
            self.name,
            scopes(signing.scopes())
        ));
        print::out(&format!("open: {}", signing.address()));
        if !self.no_browser {
            browse(signing.address(), &place.variables);
        }
        let answer = redirect.answer(&signing, Duration::from_secs(self.wait)).await?;
        signing.finish(&answer).await?;
        print::out(&format!("signed in to `{}`", self.name));
        Ok(ExitCode::SUCCESS)
    }
}

impl Logout {
    /// # Errors
    /// When there is no such server, or the stored tokens can't be removed.
    pub(super) fn run(&self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let opened = options.open(place)?;
        let servers = opened.runtime.plugins().servers();
        let server: std::sync::Arc<Server> = servers.named(&self.name)?;
        let said = match servers.logins().forget(&server, &place.variables)? {
            true => format!(
                "signed out of `{}`; haft deleted its tokens, but did not revoke them at the server",
                self.name
            ),
            false => format!("haft was not signed in to `{}`", self.name),
        };
        print::out(&said);
        Ok(ExitCode::SUCCESS)
    }
}

fn scopes(scopes: &[String]) -> String {
    if scopes.is_empty() { String::new() } else { format!(": {}", scopes.join(" ")) }
}

/// Opens the address in a browser, if there is a screen. The address is one argument of a program and begins with `http`, so
/// no part of it is interpreted as anything else.
fn browse(address: &str, variables: &[(String, String)]) {
    let has = |name: &str| variables.iter().any(|(it, value)| it == name && !value.is_empty());
    let program = match cfg!(target_os = "macos") {
        true => "open",
        false if has("DISPLAY") || has("WAYLAND_DISPLAY") => "xdg-open",
        false => return,
    };
    let mut shown = Command::new(program);
    shown.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // A person without a browser has the printed address.
    if let Ok(mut shown) = shown.spawn() {
        // The process may live as long as the browser.
        std::thread::spawn(move || shown.wait());
    }
}
