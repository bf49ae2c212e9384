//! Credentials in a home folder that is a root: no file tool reads, finds or names them.

use std::{fs, io, path::Path, sync::Arc};

use kit::{Kind, redact::Secrets};
use policy::Policy;
use runtime::{Call, Commands, DEADLINE, Runtime, Session, Settings, Unattended};
use serde_json::{Value, json};

/// Files in which programs keep credentials.
const FILES: &[&str] = &[
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".cargo/credentials.toml",
    ".claude.json",
    ".ssh/id",
    ".aws/credentials",
];

/// The content of each of them, and of a file that is not one of them.
const WORD: &str = "doctor-credential-5b1e";

/// Tests this in a home folder of the self-test.
///
/// # Errors
/// Names the credentials that were reached.
pub(super) async fn are_hidden(folder: &Path) -> Result<(), String> {
    let home = folder.join("home");
    make(&home).map_err(|error| error.to_string())?;
    let session = session(folder, &home).map_err(|fault| fault.as_text())?;
    let tried = look(&session).await;
    session.runtime().store().close(crate::verbs::LAST_WRITE);
    tried
}

fn make(home: &Path) -> io::Result<()> {
    for name in FILES.iter().chain(&["plain"]) {
        let file = home.join(name);
        fs::create_dir_all(file.parent().unwrap_or(home))?;
        fs::write(file, format!("{WORD}\n"))?;
    }
    Ok(())
}

fn session(folder: &Path, home: &Path) -> Result<Session, kit::Fault> {
    let settings = Settings {
        network: Default::default(),
        tool_files: Default::default(),
        workspace: home.to_owned(),
        roots: Vec::new(),
        state: folder.join("home-state"),
        config: folder.join("config"),
        policy: Policy::default(),
        other_names: kit::files::OtherNames::Refuse,
        allowed: None,
        deadline: DEADLINE,
        secrets: Secrets::none(),
        commands: Commands {
            variables: vec![("HOME".to_owned(), home.display().to_string())],
            ..Commands::default()
        },
    };
    Ok(Runtime::open(settings, tools::all())?.session(None, "doctor", Arc::new(Unattended)))
}

async fn look(session: &Session) -> Result<(), String> {
    for name in FILES {
        let answer = session.call(Call::new("read", json!({"path": name}))).await;
        if !answer.result.as_ref().is_err_and(|fault| fault.kind == Kind::Denied) {
            return Err(format!("read showed ~/{name}"));
        }
    }
    let listings: [(&str, Value); 4] = [
        ("grep", json!({"pattern": WORD, "ignored": true})),
        ("glob", json!({"pattern": "**/*", "ignored": true})),
        ("tree", json!({"dir": "."})),
        ("read", json!({"path": "."})),
    ];
    for (tool, arguments) in listings {
        let said = session.call(Call::new(tool, arguments)).await.as_text();
        if let Some(name) = FILES.iter().find(|it| said.contains(**it)) {
            return Err(format!("{tool} named ~/{name}"));
        }
        if tool == "grep" && !said.contains("plain") {
            return Err(format!("grep found nothing at all: {said}"));
        }
    }
    Ok(())
}
