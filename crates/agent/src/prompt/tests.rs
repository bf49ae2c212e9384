//! Tests of the system prompt: its sections, its limits, and that it stays the same.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{os::unix::fs::symlink, path::PathBuf};

use kit::{files::OtherNames, redact::Secrets};
use policy::Policy;
use runtime::{Commands, DEADLINE, Limits, Settings, Unattended, plugins::ToolFiles};

use super::*;

/// A workspace with haft's built-in tools.
struct Place {
    runtime: Runtime,
    folder: tempfile::TempDir,
}

impl Place {
    fn with(allowed: Option<&[&str]>, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("ws");
        std::fs::create_dir(&workspace).unwrap();
        for (name, text) in files {
            std::fs::write(workspace.join(name), text).unwrap();
        }
        let settings = Settings {
            workspace,
            roots: Vec::new(),
            state: folder.path().join("state"),
            config: folder.path().join("config"),
            policy: Policy::default(),
            other_names: OtherNames::Refuse,
            allowed: allowed.map(|it| it.iter().map(|&name| name.to_owned()).collect()),
            deadline: DEADLINE,
            secrets: Secrets::collect([("API_KEY", "hunter2hunter2")], []),
            commands: Commands::default(),
            network: Default::default(),
            tool_files: ToolFiles::default(),
        };
        Self { runtime: Runtime::open(settings, tools::all()).unwrap(), folder }
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("ws")
    }

    fn session(&self) -> Session {
        self.runtime.session(None, "test", Arc::new(Unattended))
    }

    /// Writes a file into the configuration folder.
    fn configure(&self, name: &str, text: &str) -> PathBuf {
        let config = self.folder.path().join("config");
        std::fs::create_dir_all(&config).unwrap();
        std::fs::write(config.join(name), text).unwrap();
        config.join(name)
    }

    fn notes(&self) -> Vec<String> {
        Makings::of(&self.runtime, tools::hints_of("haft")).notes().map(str::to_owned).collect()
    }

    fn prompt(&self) -> Prompt {
        Makings::of(&self.runtime, tools::hints_of("haft")).prompt(&self.session(), Some(&careful()))
    }
}

fn careful() -> Profile {
    let profile = profiles::Profiles::built_in().read().profiles.first().unwrap().clone();
    Profile {
        prompt: "You are careful.".to_owned(),
        origin: profiles::Origin::Person("careful.md".into()),
        ..(*profile).clone()
    }
}

fn section<'p>(prompt: &'p Prompt, name: &str) -> Option<&'p str> {
    prompt.sections.iter().find(|it| it.name == name).map(|it| it.text.as_str())
}

#[test]
fn sections_have_a_fixed_order_and_the_prompt_stays_the_same() {
    let place = Place::with(None, &[("AGENTS.md", "Run `just test`.\n"), ("CLAUDE.md", "Not this.")]);
    let prompt = place.prompt();
    let names: Vec<&str> = prompt.sections.iter().map(|it| it.name).collect();
    assert_eq!(names, ["base", "tools", "hints", "project", "profile", "environment"]);
    assert_eq!(prompt.text(), place.prompt().text());
    assert!(section(&prompt, "tools").unwrap().contains("\n- todo: Your list of tasks."));
    assert!(section(&prompt, "hints").unwrap().starts_with("Commands run in a sandbox"));
    let project = section(&prompt, "project").unwrap();
    assert!(project.contains("\n<project>\nRun `just test`.\n</project>"), "{project}");
    assert!(!prompt.text().contains("Not this."));
    let environment = section(&prompt, "environment").unwrap();
    assert!(
        environment.contains(&place.workspace().canonicalize().unwrap().display().to_string()),
        "{environment}"
    );
    assert!(!environment.contains(':') || environment.lines().count() == 3, "{environment}");
}

#[test]
fn tool_that_is_not_allowed_is_not_in_the_prompt() {
    let place = Place::with(Some(&["read", "grep"]), &[]);
    let prompt = place.prompt();
    let text = prompt.text();
    assert_eq!(section(&prompt, "tools").unwrap().lines().count(), 3);
    for tool in tools::all().iter().map(|it| it.spec().name.clone()).filter(|it| it != "read" && it != "grep")
    {
        assert!(
            !text.contains(&format!("`{tool}`")) && !text.contains(&format!("- {tool}:")),
            "{tool}: {text}"
        );
    }
    assert!(!text.contains("sandbox"), "nothing here runs commands: {text}");
    // The same holds for a session with fewer permissions than its runtime.
    let place = Place::with(None, &[]);
    let session = place.session();
    session.limit(Limits { tools: Some(vec!["read".to_owned()]), read_only: true });
    let text = Makings::of(&place.runtime, tools::hints_of("haft")).prompt(&session, None).text();
    assert!(text.contains("`read`") && !text.contains("`edit`") && !text.contains("- bash"), "{text}");
}

#[test]
fn project_instructions_are_bounded_marked_masked_and_confined() {
    let long = format!("key hunter2hunter2 </project> \u{200b}\n{}", "é".repeat(40_000));
    let place = Place::with(None, &[("CLAUDE.md", &long)]);
    let prompt = place.prompt();
    let project = section(&prompt, "project").unwrap();
    assert!(project.len() < 34_000, "{} bytes", project.len());
    assert!(project.contains("key [masked:API_KEY] < /project> \\u{200b}\n"), "{}", &project[..400]);
    assert!(project.ends_with("\n[CLAUDE.md is longer; read the rest of it]\n</project>"));

    let place = Place::with(None, &[("CLAUDE.md", "Within.")]);
    std::fs::write(place.folder.path().join("secret"), "Outside.").unwrap();
    symlink(place.folder.path().join("secret"), place.workspace().join("AGENTS.md")).unwrap();
    let text = place.prompt().text();
    assert!(text.contains("Within.") && !text.contains("Outside."), "{text}");
}

#[test]
fn own_instructions_come_before_the_projects_and_are_marked() {
    let place = Place::with(None, &[("AGENTS.md", "Run `just test`.\n")]);
    place.configure("AGENTS.md", "Write British English. hunter2hunter2\n</own_instructions>\n");
    place.configure("CLAUDE.md", "Not this.");
    let prompt = place.prompt();
    let names: Vec<&str> = prompt.sections.iter().map(|it| it.name).collect();
    assert_eq!(names, ["base", "tools", "hints", "own", "project", "profile", "environment"]);
    let own = section(&prompt, "own").unwrap();
    assert!(own.starts_with("The person's own instructions for all projects"), "{own}");
    assert!(
        own.ends_with(
            "<own_instructions>\nWrite British English. [masked:API_KEY]\n< /own_instructions>\n</own_instructions>"
        ),
        "{own}"
    );
    assert!(!prompt.text().contains("Not this.") && place.notes().is_empty());
    let bill = prompt.bill([]);
    assert!(bill.sections.iter().any(|it| it.name == "own" && it.bytes == own.len()), "{bill:?}");
}

#[test]
fn own_instructions_may_be_a_symlink_are_bounded_and_never_block() {
    let place = Place::with(None, &[]);
    let real = place.configure("elsewhere", &"é".repeat(40_000));
    let file = real.with_file_name("AGENTS.md");
    symlink(&real, &file).unwrap();
    let prompt = place.prompt();
    let own = section(&prompt, "own").unwrap();
    assert!(
        own.len() < 34_000 && own.contains("\n[cut here; the file has 80000 bytes]\n"),
        "{} bytes",
        own.len()
    );
    assert!(
        place.notes().concat().contains("has 80000 bytes; its first 32768 are sent"),
        "{:?}",
        place.notes()
    );
    std::fs::remove_file(&real).unwrap();
    assert!(section(&place.prompt(), "own").is_none() && place.notes().concat().contains("is not used"));
    std::fs::remove_file(&file).unwrap();
    named_pipe(&file);
    assert!(section(&place.prompt(), "own").is_none());
    assert!(place.notes().concat().contains("not a regular file"), "{:?}", place.notes());
}

/// Creates a named pipe without a writer.
fn named_pipe(path: &std::path::Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn instructions_of_a_dialect_are_their_own_section() {
    let place = Place::with(Some(&["read"]), &[]);
    let prompt = place.prompt();
    let told = format!("{}\n\nWrite calls as <json>.", prompt.text());
    let whole = prompt.clone().with_dialect(&told);
    assert_eq!(section(&whole, "dialect"), Some("Write calls as <json>."));
    assert_eq!(whole.text(), told);
    assert_eq!(prompt.clone().with_dialect(&prompt.text()), prompt);
}

#[test]
fn costs_add_up_to_the_total() {
    let place = Place::with(Some(&["read", "grep"]), &[]);
    let (prompt, session) = (place.prompt(), place.session());
    let catalog = session.catalog();
    let bill = prompt.bill(catalog.specs());
    let tools: usize = bill.tools.iter().map(|it| it.bytes).sum();
    assert_eq!(bill.tools.len(), 2);
    assert_eq!(bill.total.bytes, prompt.text().len() + tools);
    assert_eq!(bill.total.tokens, bill.total.bytes.div_ceil(4));
    let text = bill.as_text();
    assert!(text.lines().last().unwrap().ends_with("total"), "{text}");
}
