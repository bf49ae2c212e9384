//! `haft acp`: an agent for editors, over the Agent Client Protocol; and haft in the configuration of editors.

mod editors;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use kit::{Fault, Kind};

use super::login::Login;
use crate::{Options, Place, acp_backend::Backend, agent_factory::AgentOptions};

#[derive(Args)]
pub struct Acp {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    agent: AgentOptions,
    /// Enter the API key of a provider at this terminal, in place of serving: how an editor signs in
    #[arg(long, value_name = "PROVIDER")]
    login: Option<String>,
}

/// Commands that run in place of serving.
#[derive(Subcommand)]
enum What {
    /// Add haft to an editor's configuration, or remove it
    ///
    /// Global options such as `--sandbox` become part of the entry. haft keeps a copy of the file as it was. For Neovim and
    /// Emacs, whose configuration is a program, the lines to add are printed.
    Install(editors::Install),
}

impl Acp {
    /// # Errors
    /// When standard input or output fails, or an editor's configuration can't be read, edited or written.
    pub async fn run(self, options: &Options, place: &Place) -> Result<ExitCode, Fault> {
        let Self { what, agent, login } = self;
        if let Some(What::Install(install)) = what {
            return install.run(options, &agent, place);
        }
        if let Some(provider) = login {
            return Login::of(provider).run(options, place).await;
        }
        if options.session.is_some() {
            return Err(Fault::bad_args(
                "`--session` has no effect here: the editor says which session it opens",
            )
            .next("Leave it out."));
        }
        let (options, place) = (options.clone(), place.clone());
        let served = serve::acp::acp_stdio(move |editor| Backend::new(editor, options, agent, place)).await;
        served.map(|()| ExitCode::SUCCESS).map_err(|error| {
            Fault::new(Kind::Unavailable, format!("the connection to the editor broke: {error}"))
        })
    }
}
