//! `ssh_exec`: runs a command on another machine, or copies a file.

use std::{collections::BTreeMap, path::Path, sync::OnceLock, time::Duration};

use kit::{Preferences, prelude::*};

use super::{
    command::{self, Limits, Sent},
    destination::{Asked, Route},
    pool::Pool,
    secret::SecretName,
    transfer::{self, Way},
};
use crate::shell;

/// Default and maximum time to wait for the result, in milliseconds.
const WAIT: u64 = 30_000;
const LONGEST: u64 = 3_600_000;

/// Maximum length of a command: Linux accepts arguments up to 128 KiB; quotes and haft's prefix are added.
const LONGEST_COMMAND: usize = 120 << 10;

/// Time for connecting, and for haft's own messages after that.
const TO_CONNECT: Duration = Duration::from_secs(60);

/// Run a command on another machine by SSH, or copy a file to or from it. If it takes longer than `wait_ms`, it continues as a job. Connections are kept for the next call.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SshExec {
    /// A name of ~/.ssh/config or the hosts file, or `[user@]host[:port]`.
    pub(crate) host: String,
    /// For the login shell there.
    #[serde(default)]
    pub(crate) command: Option<String>,
    /// Instead of `command`: a file to send, {path here, to there}.
    #[serde(default)]
    pub(crate) put: Option<Put>,
    /// Instead of `command`: a file to fetch, {from there, path here}.
    #[serde(default)]
    pub(crate) get: Option<Get>,
    /// Where to run it there. Default: the home folder.
    #[serde(default)]
    pub(crate) dir: String,
    /// Environment variables.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Its standard input.
    #[serde(default)]
    pub(crate) stdin: String,
    /// How long to wait for it; 0: not at all. Default: 30000.
    #[serde(default)]
    pub(crate) wait_ms: Option<u64>,
    /// Stop it after this long. Default: never.
    #[serde(default)]
    pub(crate) timeout_ms: Option<u64>,
    /// Give it a terminal.
    #[serde(default)]
    pub(crate) pty: bool,
    /// User to log in as.
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
    /// The resolved route: the connection goes to what was approved, even if the configuration changes meanwhile.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) route: OnceLock<Result<Route, Fault>>,
    /// The target of a fetched file: what was granted is what is written.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) local: OnceLock<String>,
}

/// From here to there.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "{\"path\": the file here, \"to\": the file or folder there}")]
pub(crate) struct Put {
    /// The file here.
    pub(crate) path: String,
    /// The file or folder there.
    pub(crate) to: String,
}

/// From there to here.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "{\"from\": the file there, \"path\": the file or folder here}")]
pub(crate) struct Get {
    /// The file there.
    pub(crate) from: String,
    /// The file or folder here.
    pub(crate) path: String,
}

impl Tool for SshExec {
    const NAME: &str = "ssh_exec";
    const AT_MOST: Kinds = Kinds::READ.with(Kinds::WRITE).with(Kinds::NET);

    fn touches(&self) -> Touches {
        match (&self.put, &self.get) {
            (Some(put), _) => Touches::read(&put.path),
            (None, Some(get)) => Touches::write(self.local.get().unwrap_or(&get.path)),
            (None, None) => Touches::none(),
        }
    }

    fn touches_with(&self, preferences: &Preferences) -> Touches {
        if let Some(get) = &self.get {
            self.local.get_or_init(|| get.local(&preferences.workspace));
        }
        let hops = match self.route.get_or_init(|| Route::resolve(&self.asked(), preferences)) {
            Ok(route) => route.hops.as_slice(),
            // Nothing is granted, and `run` reports why the host can't be resolved.
            Err(_) => &[],
        };
        hops.iter().fold(self.touches(), |touches, hop| touches.and(Touch::Net(hop.place())))
    }

    fn time_limit(&self) -> Option<Duration> {
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

/// The action there.
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
        self.names_no_secret()?;
        self.can_be_sent()?;
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
            (None, None, Some(get)) => {
                let local = std::mem::take(&mut self.local).into_inner();
                let path = local.unwrap_or_else(|| get.path.clone());
                Ok(What::Bring(Way::Get { from: get.from, path }))
            }
            _ => Err(Fault::bad_args("exactly one of `command`, `put` and `get` is needed")
                .next("{\"host\": …, \"command\": \"uname -a\"}")),
        }
    }

    /// Checks the length of the command, which is an argument of the remote shell.
    fn can_be_sent(&self) -> Result<(), Fault> {
        let given = self.command.iter().chain([&self.dir]).chain(self.env.values());
        let (mut bytes, mut has_nul) = (0, false);
        for text in given {
            bytes += text.len();
            has_nul |= text.contains('\0');
        }
        if has_nul {
            return Err(Fault::bad_args("a command, its folder and its variables can have no NUL character"));
        }
        if bytes > LONGEST_COMMAND {
            return Err(Fault::bad_args(format!(
                "`command` and what belongs to it have {bytes} bytes; a shell takes {LONGEST_COMMAND} at most"
            ))
            .next("Send the script as `stdin` of {\"command\": \"sh -s\"}."));
        }
        Ok(())
    }

    /// Checks that no secret is in the command: secrets are only for authentication, because the remote
    /// machine may show or store its input.
    fn names_no_secret(&self) -> Result<(), Fault> {
        let given =
            [("command", self.command.as_deref()), ("dir", Some(&self.dir)), ("stdin", Some(&self.stdin))];
        let given = given.into_iter().filter_map(|(name, text)| Some((name, text?)));
        let given = given.chain(self.env.values().map(|text| ("env", text.as_str())));
        for (argument, text) in given {
            if let Some(name) = SecretName::within(text) {
                return Err(Fault::bad_args(format!(
                    "`{name}` in `{argument}` is not filled in: ssh_exec takes a secret in `password` and `passphrase` \
                     only; nothing was sent"
                ))
                .next("Let the command read it where it is kept there, a file or a variable, or ask the person."));
            }
        }
        Ok(())
    }

    /// Returns the command with its folder and variables, in the syntax of any login shell.
    fn line(&self, command: &str) -> Result<String, Fault> {
        if self.dir.is_empty() && self.env.is_empty() {
            return Ok(command.to_owned());
        }
        let mut line = String::new();
        if !self.dir.is_empty() {
            let dir = match self.dir.strip_prefix("~/") {
                Some(rest) => format!("~/{}", quoted(rest)),
                None if self.dir == "~" => "~".to_owned(),
                // Prefixed, so that it is not taken for an option.
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
                    "`{}` in `env` is not a name of a variable",
                    name.escape_debug()
                )));
            }
            line.push_str(&format!(" {name}={}", quoted(value)));
        }
        line.push_str(&format!(" sh -c {}", quoted(command)));
        Ok(line)
    }
}

impl Get {
    /// Returns the local file, below the folder if one is named.
    fn local(&self, workspace: &Path) -> String {
        let path = &self.path;
        let is_folder = path.ends_with('/') || workspace.join(path).is_dir();
        match self.from.rsplit('/').next() {
            Some(name) if is_folder && !matches!(name, "" | "." | ".." | "~") => {
                format!("{}/{name}", path.trim_end_matches('/'))
            }
            _ => path.clone(),
        }
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests")]

    use kit::erase;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_touches_the_destination_of_its_name() {
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
    fn a_file_that_is_fetched_into_a_folder_keeps_its_name() {
        let workspace = tempfile::tempdir().unwrap();
        std::fs::create_dir(workspace.path().join("data")).unwrap();
        let local = |from: &str, path: &str| {
            Get { from: from.to_owned(), path: path.to_owned() }.local(workspace.path())
        };
        assert_eq!(local("/srv/a.pdf", "dl/"), "dl/a.pdf");
        assert_eq!(local("a.json", "data"), "data/a.json");
        assert_eq!(local("~/a.json", "."), "./a.json");
        assert_eq!(local("/srv/a.pdf", "b.pdf"), "b.pdf");
        assert_eq!(local("/srv/..", "data"), "data");
        let preferences = Preferences { workspace: workspace.path().to_owned(), ..Preferences::default() };
        let call = erase::<SshExec>()
            .prepare(json!({"host": "a.org", "get": {"from": "/x/.bashrc", "path": "data"}}))
            .unwrap();
        let touched: Vec<Touch> = call.touches_with(&preferences).iter().cloned().collect();
        assert_eq!(touched.first(), Some(&Touch::Write("data/.bashrc".to_owned())));
    }

    #[test]
    fn a_secret_is_refused_where_it_would_not_be_filled_in() {
        for call in [
            json!({"host": "a.org", "command": "echo {{secret:key}}"}),
            json!({"host": "a.org", "command": "cat", "stdin": "x {{secret:key}}\n"}),
            json!({"host": "a.org", "command": "env", "env": {"A": "{{ secret:key }}"}}),
        ] {
            let mut call: SshExec = serde_json::from_value(call).unwrap();
            let fault = call.what().err().unwrap();
            assert!(fault.what.contains("secret:key") && fault.what.contains("`password`"), "{fault}");
        }
        let mut call: SshExec =
            serde_json::from_value(json!({"host": "a.org", "command": "echo '{{secret}}' {{x}}"})).unwrap();
        assert!(call.what().is_ok());
    }

    #[test]
    fn a_command_that_no_shell_takes_is_refused_before_it_is_sent() {
        for (command, why) in [("a\0b".to_owned(), "NUL"), ("x".repeat(200_000), "200000 bytes")] {
            let mut call = SshExec { command: Some(command), ..SshExec::default() };
            let fault = call.what().err().unwrap();
            assert!(fault.what.contains(why), "{fault}");
        }
    }

    #[test]
    fn the_shape_of_put_and_get_is_said() {
        for (name, field) in [("put", "\"to\""), ("get", "\"from\"")] {
            let mut call = json!({"host": "a.org"});
            call[name] = "up.txt".into();
            let fault = erase::<SshExec>().prepare(call).err().unwrap();
            assert!(fault.what.contains(field) && !fault.what.contains("struct"), "{fault}");
        }
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
