//! `haft workers up`: a NATS server on this machine, for workers of many machines.

use std::process::ExitCode;

use clap::Args;
use engine::nats::server;
use kit::Fault;
use serde_json::json;

use crate::{Place, print, remote::fault, state_folder};

#[derive(Args)]
pub(super) struct Up {
    /// Stop the server; what it stores stays
    #[arg(long)]
    stop: bool,
    /// Print one line of JSON
    #[arg(long, conflicts_with = "stop")]
    json: bool,
}

impl Up {
    pub(super) async fn run(&self, place: &Place) -> Result<ExitCode, Fault> {
        state_folder::make(&place.state)
            .map_err(|error| Fault::bad_args(format!("`{}`: {error}", place.state.display())))?;
        if self.stop {
            let was = server::stop(&place.state).await.map_err(fault)?;
            print::out(if was { "the server is stopped" } else { "no server was running" });
            return Ok(ExitCode::SUCCESS);
        }
        let server = server::start(&place.state).await.map_err(fault)?;
        if self.json {
            print::json(&json!({
                "url": server.url, "version": server.version, "pid": server.pid, "already": server.already,
                "worker_nkey": server.worker_nkey, "sender_nkey": server.sender_nkey, "log": server.log,
            }));
            return Ok(ExitCode::SUCCESS);
        }
        let how = if server.already { "runs already" } else { "is started" };
        print::err(&format!(
            "haft: nats-server {} {how} (process {}, log {}); `haft workers up --stop` stops it",
            server.version,
            server.pid,
            server.log.display()
        ));
        print::err(&format!(
            "haft: put these lines into your haft.toml; a worker has {} as `nkey`",
            server.worker_nkey.display()
        ));
        let text = |value: &str| toml::Value::String(value.to_owned()).to_string();
        print::out(&format!("engine = {}", text(&server.url)));
        print::out(&format!("[workers]\nnkey = {}", text(&server.sender_nkey.display().to_string())));
        Ok(ExitCode::SUCCESS)
    }
}
