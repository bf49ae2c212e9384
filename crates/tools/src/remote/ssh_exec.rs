//! `ssh_exec`: what does this command do on that machine?

use std::{collections::BTreeMap, sync::OnceLock, time::Duration};

use kit::{Preferences, prelude::*};

use super::{
    command::{self, Limits, Sent},
    place::{Asked, Route},
    pool::Pool,
    secret::SecretName,
    transfer::{self, Way},
};
use crate::shell;

/// How long the answer waits for it, by itself and at most.
const WAIT: u64 = 30_000;
const LONGEST: u64 = 3_600_000;

/// How long a way may take to open, and our own words after it.
const TO_CONNECT: Duration = Duration::from_secs(60);

/// Run a command on another machine by SSH, or bring a file there or from there. If it takes longer than `wait_ms`, it
/// goes on as a job. Connections are kept for the next call.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SshExec {
    /// A name of ~/.ssh/config or the hosts file, or `[user@]host[:port]`.
    pub(crate) host: String,
    /// For the login shell there.
    #[serde(default)]
    pub(crate) command: Option<String>,
    /// Instead of `command`: a file to send.
    #[serde(default)]
    pub(crate) put: Option<Put>,
    /// Instead of `command`: a file to fetch.
    #[serde(default)]
    pub(crate) get: Option<Get>,
    /// Where to run it there. Default: the home folder.
    #[serde(default)]
    pub(crate) dir: String,
    /// Variables of its environment.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// What it reads.
    #[serde(default)]
    pub(crate) stdin: String,
    /// How long to wait for it; 0: not at all. Default: 30000.
    #[serde(default)]
    pub(crate) wait_ms: Option<u64>,
    /// Stop it after so long. Default: never.
    #[serde(default)]
    pub(crate) timeout_ms: Option<u64>,
    /// Give it a terminal.
    #[serde(default)]
    pub(crate) pty: bool,
    /// Who to be there.
    #[serde(default)]
    pub(crate) user: Option<String>,
    /// Default: 22.
    #[serde(default)]
    pub(crate) port: Option<u16>,
    /// A key in ~/.ssh: `id_work`.
    #[serde(default)]
    pub(crate) identity: Option<String>,
    /// By name only: `{{secret:NAME}}`.
    #[serde(default)]
    pub(crate) password: Option<SecretName>,
    /// Of the key, by name only.
    #[serde(default)]
    pub(crate) passphrase: Option<SecretName>,
    /// Where this leads: what was asked about is what is connected to, whatever becomes of the files that say so.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) route: OnceLock<Result<Route, Fault>>,
}

/// From here to there.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Put {
    /// The file here.
    pub(crate) path: String,
    /// The file or folder there.
    pub(crate) to: String,
}

/// From there to here.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Get {
    /// The file there.
    pub(crate) from: String,
    /// The file here.
    pub(crate) path: String,
}

impl Tool for SshExec {
    const NAME: &str = "ssh_exec";
    const AT_MOST: Kinds = Kinds::READ.with(Kinds::WRITE).with(Kinds::NET);

    fn touches(&self) -> Touches {
        match (&self.put, &self.get) {
            (Some(put), _) => Touches::read(&put.path),
            (None, Some(get)) => Touches::write(&get.path),
            (None, None) => Touches::none(),
        }
    }

    fn touches_with(&self, preferences: &Preferences) -> Touches {
        let hops = match self.route.get_or_init(|| Route::resolve(&self.asked(), preferences)) {
            Ok(route) => route.hops.as_slice(),
            // Nothing is granted, and `run` says why it leads nowhere.
            Err(_) => &[],
        };
        hops.iter().fold(self.touches(), |touches, hop| touches.and(Touch::Net(hop.place())))
    }

    fn patience(&self) -> Option<Duration> {
        Some(self.wait() + TO_CONNECT)
    }

    fn title(&self) -> String {
        let host = &self.host;
        match (&self.command, &self.put, &self.get) {
            (Some(command), ..) => format!("{host}: {}", shell::title(command)),
            (None, Some(Put { path, to }), _) => format!("put {path} to {host}:{to}"),
            (None, None, Some(Get { from, .. })) => format!("get {host}:{from}"),
            (None, None, None) => host.clone(),
        }
    }

    async fn run(mut self, cx: &Cx) -> Result<Output, Fault> {
        let limits = Limits { wait: self.wait(), most: self.timeout_ms.map(Duration::from_millis) };
        let route = std::mem::take(&mut self.route).into_inner();
        let route = route.unwrap_or_else(|| Route::resolve(&self.asked(), cx.preferences()))?;
        let what = self.what()?;
        let open = tokio::select! {
            biased;
            () = cx.cancelled() => {
                return Err(Fault::new(Kind::Cancelled, "stopped before anything was done there"));
            }
            open = Pool::channel(cx, &route) => open?,
        };
        match what {
            What::Run(sent) => command::run(cx, open, sent, limits).await,
            What::Bring(way) => transfer::run(cx, open, way, limits).await,
        }
    }
}

/// What is to be done there.
enum What {
    Run(Sent),
    Bring(Way),
}

impl SshExec {
    fn wait(&self) -> Duration {
        Duration::from_millis(self.wait_ms.unwrap_or(WAIT).min(LONGEST))
    }

    fn asked(&self) -> Asked<'_> {
        Asked {
            host: &self.host,
            user: self.user.as_deref(),
            port: self.port,
            identity: self.identity.as_deref(),
            password: self.password.clone(),
            passphrase: self.passphrase.clone(),
        }
    }

    fn what(&mut self) -> Result<What, Fault> {
        let empty = |name: &str| Err(Fault::bad_args(format!("`{name}` is empty")));
        match (self.command.take(), self.put.take(), self.get.take()) {
            (Some(command), None, None) if command.trim().is_empty() => empty("command"),
            (Some(command), None, None) => Ok(What::Run(Sent {
                line: self.line(&command)?,
                input: std::mem::take(&mut self.stdin),
                terminal: self.pty,
            })),
            (None, Some(Put { to, .. }), None) if to.is_empty() => empty("put.to"),
            (None, Some(Put { path, to }), None) => Ok(What::Bring(Way::Put { path, to })),
            (None, None, Some(Get { from, .. })) if from.is_empty() => empty("get.from"),
            (None, None, Some(Get { from, path })) => Ok(What::Bring(Way::Get { from, path })),
            _ => Err(Fault::bad_args("exactly one of `command`, `put` and `get` is needed")
                .next("{\"host\": …, \"command\": \"uname -a\"}")),
        }
    }

    /// The command with its folder and variables, as any login shell understands it.
    fn line(&self, command: &str) -> Result<String, Fault> {
        if self.dir.is_empty() && self.env.is_empty() {
            return Ok(command.to_owned());
        }
        let mut line = String::new();
        if !self.dir.is_empty() {
            let dir = match self.dir.strip_prefix("~/") {
                Some(rest) => format!("~/{}", quoted(rest)),
                None if self.dir == "~" => "~".to_owned(),
                // It is no option, whatever it begins with.
                None if self.dir.starts_with('-') => quoted(&format!("./{}", self.dir)),
                None => quoted(&self.dir),
            };
            line.push_str(&format!("cd {dir} && "));
        }
        line.push_str("exec env");
        for (name, value) in &self.env {
            let plain = |it: char| it.is_ascii_alphanumeric() || it == '_';
            if name.is_empty() || name.starts_with(|it: char| it.is_ascii_digit()) || !name.chars().all(plain)
            {
                return Err(Fault::bad_args(format!(
                    "`{}` in `env` is no name of a variable",
                    name.escape_debug()
                )));
            }
            line.push_str(&format!(" {name}={}", quoted(value)));
        }
        line.push_str(&format!(" sh -c {}", quoted(command)));
        Ok(line)
    }
}

/// A word that a shell takes as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use kit::erase;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_call_touches_is_where_its_name_leads() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".ssh")).unwrap();
        std::fs::write(
            home.path().join(".ssh/config"),
            "Host web\nHostName 10.0.0.1\nPort 2222\nUser me\nProxyJump you@[::1]:23\n",
        )
        .unwrap();
        let preferences = Preferences { home: Some(home.path().to_owned()), ..Preferences::default() };
        let touches = |arguments| -> Vec<Touch> {
            let call = erase::<SshExec>().prepare(arguments).unwrap();
            call.touches_with(&preferences).iter().cloned().collect()
        };
        let net = |it: &str| Touch::Net(it.to_owned());
        assert_eq!(
            touches(json!({"host": "web", "command": "true"})),
            [net("[::1]:23"), net("10.0.0.1:2222")]
        );
        assert_eq!(
            touches(json!({"host": "me@a.org", "get": {"from": "x", "path": "y"}})),
            [Touch::Write("y".to_owned()), net("a.org:22")]
        );
        assert_eq!(touches(json!({"host": "-oProxyCommand=x", "command": "true"})), []);
    }

    #[test]
    fn a_password_that_is_written_out_is_refused_and_not_repeated() {
        let call = json!({"host": "a.org", "command": "true", "password": "hunter2"});
        let fault = erase::<SshExec>().prepare(call).err().unwrap();
        assert!(fault.what.contains("{{secret:NAME}}") && !fault.as_text().contains("hunter2"), "{fault}");
    }

    #[test]
    fn a_folder_and_variables_are_words_of_their_own() {
        let with = |dir: &str, env: &[(&str, &str)]| {
            let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            SshExec { dir: dir.to_owned(), env, ..SshExec::default() }.line("echo 'a' b")
        };
        assert_eq!(with("", &[]).unwrap(), "echo 'a' b");
        assert_eq!(
            with("/srv/it's", &[("A", "x; y"), ("B", "")]).unwrap(),
            r"cd '/srv/it'\''s' && exec env A='x; y' B='' sh -c 'echo '\''a'\'' b'"
        );
        assert_eq!(with("~/a b", &[]).unwrap(), r"cd ~/'a b' && exec env sh -c 'echo '\''a'\'' b'");
        assert_eq!(with("-P", &[]).unwrap(), r"cd './-P' && exec env sh -c 'echo '\''a'\'' b'");
        for name in ["", "1A", "A=B", "A B", "-u", "A\n"] {
            assert!(with("", &[(name, "x")]).is_err(), "{name:?}");
        }
    }
}
