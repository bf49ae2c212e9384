//! Executables as tools.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use haft::{
    kit::{Fault, Kind, Output, Part, redact::Secrets},
    policy::{Approve, Policy},
    runtime::{
        Call, Commands, Runtime, Session, Settings, Unattended,
        config::ToolSection,
        plugins::{Folder, ToolFiles, Whose},
    },
};
use serde_json::{Value, json};

use super::support::{HANG, until_now};
use crate::support::TestWorkspace;

/// A workspace, a person's folder of tools beside it, and a session.
struct Fixture {
    _dir: tempfile::TempDir,
    base: PathBuf,
    runtime: Runtime,
    session: Session,
}

impl Fixture {
    /// Creates a fixture with these files in the folder of tools; those that begin with `#!` are executable.
    async fn new(files: &[(&str, &str)]) -> Self {
        Self::with(files, ToolSection::default(), Approve::Auto).await
    }

    /// Does the same, with these grants for the tool `t`.
    async fn with(files: &[(&str, &str)], section: ToolSection, approve: Approve) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("ws")).unwrap();
        std::fs::create_dir_all(base.join("tools")).unwrap();
        for (name, text) in files {
            put(&base.join("tools").join(name), text);
        }
        let settings = Settings {
            network: Default::default(),
            tool_files: ToolFiles {
                folders: vec![Folder { path: base.join("tools"), whose: Whose::Workspace }],
                workspace_sections: [("t".to_owned(), section)].into(),
                vouched_now: true,
                ..ToolFiles::default()
            },
            workspace: base.join("ws"),
            roots: Vec::new(),
            state: base.join("state"),
            config: base.join("config"),
            policy: Policy { approve, ..Policy::default() },
            other_names: Default::default(),
            allowed: None,
            deadline: HANG,
            secrets: Secrets::none(),
            commands: Commands {
                keeper: Some(PathBuf::from(env!("CARGO_BIN_EXE_haft"))),
                variables: std::env::vars().chain([("THEIR_KEY".to_owned(), "k3y".to_owned())]).collect(),
                ..Commands::default()
            },
        };
        let runtime = Runtime::open(settings, Vec::new()).unwrap();
        runtime.plugins().settled().await;
        let session = runtime.session(None, "test", Arc::new(Unattended));
        Self { _dir: dir, base, runtime, session }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<Output, Fault> {
        tokio::time::timeout(HANG, self.session.call(Call::new(tool, arguments))).await.unwrap().result
    }

    async fn says(&self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments)
            .await
            .map_or_else(|it| format!("{}: {}", it.kind, it.as_text()), |it| it.as_text())
    }

    /// Returns the reason why the one file here is not a tool.
    fn trouble(&self) -> String {
        let failed = self.runtime.plugins().failed();
        assert_eq!(failed.len(), 1, "{failed:?}");
        failed.into_iter().map(|it| it.why).collect()
    }
}

fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    let mode = if text.starts_with("#!") || text.starts_with("echo") { 0o755 } else { 0o644 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Returns the tool `t` in sh, with this in its description, and this for a call.
fn script(more: &Value, body: &str) -> String {
    let mut spec = json!({"name": "t", "description": "For a test.", "touches": []});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    format!("#!/bin/sh\nif [ \"$1\" = --tool ]; then\n  cat <<'SPEC'\n{spec}\nSPEC\n  exit\nfi\n{body}\n")
}

async fn fixture(body: &str) -> Fixture {
    Fixture::new(&[("t", &script(&json!({}), body))]).await
}

#[tokio::test]
async fn a_call_is_json_in_and_text_out_in_the_workspace() {
    let fixture = fixture(
        "cat; echo; echo \"$HAFT_TOOL in $PWD, $HAFT_TOOLS_DIR\"; test \"$PWD\" = \"$HAFT_WORKSPACE\"",
    )
    .await;
    let base = fixture.base.display();
    assert_eq!(
        fixture.says("t", json!({"a": [1, "x"]})).await,
        format!("{{\"a\":[1,\"x\"]}}\nt in {base}/ws, {base}/tools")
    );
}

#[tokio::test]
async fn what_it_prints_is_text_or_parts_or_a_failure() {
    let fixture = fixture("echo gone >&2; cat | sed 's/^{\"say\"://; s/}$//'").await;
    let said = |say: Value| fixture.call("t", json!({ "say": say }));
    assert_eq!(said(json!("plain")).await.unwrap().as_text(), "\"plain\"");
    let other = said(json!({"n": 1})).await.unwrap();
    assert_eq!((other.as_text().as_str(), other.structured), ("{\"n\":1}", Some(json!({"n": 1}))));
    let parts = said(json!({"content": [{"type": "text", "text": "hello"}], "structuredContent": {"n": 2}}))
        .await
        .unwrap();
    assert_eq!((parts.as_text().as_str(), parts.structured), ("hello", Some(json!({"n": 2}))));
    let fault = said(json!({"error": "no such disk"})).await.unwrap_err();
    assert_eq!((fault.kind, fault.as_text().as_str()), (Kind::Failed, "no such disk"));
    let fault =
        said(json!({"content": [{"type": "text", "text": "no"}], "isError": true})).await.unwrap_err();
    assert_eq!((fault.kind, fault.as_text().as_str()), (Kind::Failed, "no"));
}

#[tokio::test]
async fn a_picture_larger_than_any_pipe_arrives_whole() {
    let fixture = fixture(
        "printf '{\"content\":[{\"type\":\"image\",\"mimeType\":\"image/png\",\"data\":\"iVBORw0KGgoA'\n\
         head -c 400000 /dev/zero | tr '\\0' A\nprintf '\"}]}'",
    )
    .await;
    let output = fixture.call("t", json!({})).await.unwrap();
    let [Part::Image { mime, data }] = output.parts.as_slice() else { panic!("{}", output.as_text()) };
    assert_eq!((mime.as_str(), data.len()), ("image/png", 300_009));
}

#[tokio::test]
async fn another_exit_code_is_a_failure_with_what_was_printed() {
    let fixture = fixture("echo half; echo 'disk is gone' >&2; exit 3").await;
    assert_eq!(fixture.says("t", json!({})).await, "failed: `t` ended with exit code 3\nhalf\ndisk is gone");
    let fixture = self::fixture("kill -9 $$").await;
    assert_eq!(fixture.says("t", json!({})).await, "failed: `t` was ended by SIGKILL");
    let fixture = self::fixture("echo '{\"error\": \"full\"}'; exit 1").await;
    assert!(fixture.says("t", json!({})).await.starts_with("failed: `t` ended with exit code 1: full"));
}

#[tokio::test]
async fn arguments_that_do_not_fit_never_reach_it() {
    let parameters = json!({"parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}});
    let fixture = Fixture::new(&[("t", &script(&parameters, "touch \"$HAFT_WORKSPACE/ran\""))]).await;
    let said = fixture.says("t", json!({"n": "many"})).await;
    assert!(said.starts_with("bad_args: `n` is the string \"many\" and must be an integer"), "{said}");
    assert!(!fixture.base.join("ws/ran").exists());
    assert_eq!(fixture.says("t", json!({"n": 1})).await, "(no output)");
    assert!(fixture.base.join("ws/ran").exists());
}

#[tokio::test]
async fn one_file_may_be_several_tools() {
    let spec = json!([{"name": "one", "description": "1."}, {"name": "two", "description": "2."}]);
    let code = format!("#!/bin/sh\n[ \"$1\" = --tool ] && echo '{spec}' || echo \"I am $HAFT_TOOL\"\n");
    let fixture = Fixture::new(&[("both.sh", &code)]).await;
    assert_eq!(fixture.says("one", json!({})).await, "I am one");
    assert_eq!(fixture.says("two", json!({})).await, "I am two");
}

#[tokio::test]
async fn a_program_that_reads_nothing_and_one_that_writes_for_ever_are_bounded() {
    let fixture = Fixture::new(&[
        ("t", &script(&json!({}), "exec <&-; echo done")),
        ("much", &script(&json!({"name": "much"}), "yes 0123456789 | head -c 1000000000; echo; echo end")),
    ])
    .await;
    assert_eq!(fixture.says("t", json!({"x": "y".repeat(900_000)})).await, "done");
    assert!(
        fixture
            .says("t", json!({"x": "y".repeat(1_100_000)}))
            .await
            .starts_with("too_big: the arguments have 1100008 bytes")
    );
    let said = fixture.says("much", json!({})).await;
    assert!(
        said.len() < 60_000 && said.starts_with("0123456789\n") && said.trim_end().ends_with("end"),
        "{}",
        said.len()
    );
    assert!(said.contains("bytes left out; all of it: out_"), "{said}");
}

#[tokio::test]
async fn what_it_leaves_running_holds_nobody_up_and_is_ended() {
    let fixture = fixture("sleep 1000 & sleep 1000 & echo ready").await;
    let said = fixture.says("t", json!({})).await;
    assert_eq!(said, "ready\n[2 processes that it left running were ended]");
}

#[tokio::test]
async fn one_that_takes_too_long_is_ended_with_all_it_started() {
    let code = script(&json!({"timeout_seconds": 0.5}), "echo begun; echo odd >&2; sleep 1000 & wait");
    let fixture = Fixture::new(&[("t", &code)]).await;
    assert_eq!(
        fixture.says("t", json!({})).await,
        "timeout: `t` did not end within its 0.5 s, so it was ended\nbegun\nodd"
    );
    let section = ToolSection { timeout_seconds: Some(1), ..ToolSection::default() };
    let fixture = Fixture::with(&[("t", &code)], section, Approve::Auto).await;
    assert!(fixture.says("t", json!({})).await.contains("within its 1 s"));
}

#[tokio::test]
async fn it_has_a_sandbox_of_its_own() {
    let fixture = Fixture::new(&[
        ("t", &script(&json!({}), "kill -9 -1; echo alive")),
        ("look", &script(&json!({"name": "look"}), "echo x > \"$HAFT_TOOLS_DIR/look\"; echo \"[$THEIR_KEY]\"; echo x > \"$HAFT_TOOLS_DIR/look.data\" && echo kept")),
    ])
    .await;
    // It ends who minds it, so how it ended may be known to nobody.
    let _ = fixture.call("t", json!({})).await;
    assert_eq!(fixture.says("look", json!({})).await, "[]\nkept");
    assert!(std::fs::read_to_string(fixture.base.join("tools/look")).unwrap().starts_with("#!"));
}

#[tokio::test]
async fn what_a_person_grants_to_it_is_not_asked_about() {
    let code = script(
        &json!({"touches": ["net example.org"]}),
        "echo \"[$THEIR_KEY]\"; cat \"$HAFT_WORKSPACE/../extra\"",
    );
    let fixture = Fixture::with(&[("t", &code)], ToolSection::default(), Approve::Never).await;
    assert!(fixture.says("t", json!({})).await.starts_with("denied: "));
    let dir = tempfile::tempdir().unwrap();
    let extra = dir.path().canonicalize().unwrap().join("extra");
    std::fs::write(&extra, "more").unwrap();
    let code = code.replace("$HAFT_WORKSPACE/../extra", extra.to_str().unwrap());
    let section = ToolSection {
        net: vec!["*.org".to_owned()],
        env: vec!["THEIR_KEY".to_owned()],
        read: vec![extra],
        ..ToolSection::default()
    };
    let fixture = Fixture::with(&[("t", &code)], section, Approve::Never).await;
    assert_eq!(fixture.says("t", json!({})).await, "[k3y]\nmore");
}

#[tokio::test]
async fn a_tool_toml_makes_a_tool_of_any_command() {
    let fixture = Fixture::new(&[
        ("count/tool.toml", "name = 'count'\ndescription = 'Counts.'\ncommand = ['./it.sh', '--fast', './it.sh']\ntouches = []\nschema = 's.json'\n"),
        ("count/s.json", "{\"properties\": {\"n\": {\"type\": \"integer\"}}}"),
        ("count/it.sh", "#!/bin/sh\necho \"$1 $2\"; cat"),
        ("echo.tool.toml", "name = 'say'\ndescription = 'Says.'\ncommand = ['cat']\n"),
        ("none.tool.toml", "name = 'none'\ndescription = 'Is not there.'\ncommand = ['./missing']\n"),
        ("bad.tool.toml", "name = 'bad'\ncomand = 1\n"),
    ])
    .await;
    let it = fixture.base.join("tools/count/it.sh");
    assert_eq!(fixture.says("count", json!({"n": 5})).await, format!("--fast {}\n{{\"n\":5}}", it.display()));
    assert!(fixture.says("count", json!({"n": "x"})).await.starts_with("bad_args: `n` is"));
    assert_eq!(fixture.says("say", json!({"a": 1})).await, "{\"a\":1}");
    let said = fixture.says("none", json!({})).await;
    assert!(said.starts_with("not_found: ") && said.contains("tools/missing is not there"), "{said}");
    let failed = fixture.runtime.plugins().failed();
    let why: Vec<&str> = failed.iter().map(|it| it.why.as_str()).collect();
    assert_eq!(why.len(), 2, "{why:?}");
    assert!(why[0].contains("line 2") && why[0].contains("unknown field `comand`"), "{why:?}");
}

#[test]
fn a_tool_toml_without_its_program_is_broken_until_that_is_there() {
    let test_ws = TestWorkspace::new();
    let own = test_ws.config().join("tools");
    let manifest = "name = 'm'\ndescription = 'D.'\nbuild = 'make m'\ncommand = ['./bin/m']\n";
    put(&own.join("m/tool.toml"), manifest);
    put(&own.join("n.tool.toml"), "name = 'n'\ndescription = 'D.'\ncommand = ['no-program-of-this-name']\n");
    let program = own.join("m/bin/m");
    let shown = program.display();
    let ran = test_ws.run(&["reload-tools", "--strict"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains(&format!("{shown} is not there; build it: `make m`")), "{}", ran.out);
    assert!(ran.out.contains("there is no program `no-program-of-this-name` in PATH"), "{}", ran.out);
    std::fs::remove_file(own.join("n.tool.toml")).unwrap();
    let called = test_ws.call("m", &json!({})).must("not_found").text();
    assert!(called.contains("build it: `make m`"), "{called}");

    put(&program, "echo built");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = test_ws.run(&["tools", "--strict"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains(&format!("{shown} is not executable: `chmod +x {shown}`")), "{}", ran.err);

    put(&program, "#!/bin/sh\necho built\n");
    assert_eq!(test_ws.call("m", &json!({})).must("ok").text().trim_end(), "built");
    std::fs::remove_file(&program).unwrap();
    assert_eq!(test_ws.run(&["tools", "--strict"]).code, 1, "also when it was there once");
}

#[test]
fn a_client_sees_a_program_that_is_built_while_it_is_there() {
    let test_ws = TestWorkspace::new();
    let own = test_ws.config().join("tools");
    put(&own.join("m/tool.toml"), "name = 'm'\ndescription = 'D.'\ncommand = ['./a/b/m']\n");
    let server = test_ws.serve();
    put(&own.join("m/a/b/m"), "#!/bin/sh\necho built\n");
    let is_listed = || {
        let answer = server.ask("tools/list", &json!({})).wait().unwrap();
        answer["result"]["tools"].as_array().unwrap().iter().any(|it| it["name"] == "m")
    };
    until_now(is_listed);
    assert!(server.does("m", &json!({})).starts_with("built"));
}

#[test]
fn a_script_that_is_not_executable_is_reported_and_other_files_are_not() {
    let test_ws = TestWorkspace::new();
    let own = test_ws.config().join("tools");
    put(&own.join("run.sh"), "#!/bin/sh\necho never\n");
    put(&own.join("_run.sh"), "#!/bin/sh\necho never\n");
    put(&own.join("below/run.sh"), "#!/bin/sh\necho never\n");
    put(&own.join("notes.md"), "# no script\n");
    for script in ["run.sh", "_run.sh", "below/run.sh"] {
        std::fs::set_permissions(own.join(script), std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    let ran = test_ws.run(&["reload-tools", "--strict"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let file = own.join("run.sh");
    let file = file.display();
    assert_eq!(
        ran.out,
        format!("failed: {file}\nit begins with `#!` but is not executable: `chmod +x {file}`\n")
    );
}

#[test]
fn what_no_client_could_be_given_fails_and_names_the_place() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let own = test_ws.config().join("tools");
    for (name, parameters) in [
        ("typed", "{'type': 'object', 'properties': {'a': {'type': 'str'}}}"),
        ("listed", "{'type': 'object', 'properties': {}, 'required': 't'}"),
        ("shaped", "{'type': 'object', 'properties': ['a']}"),
        ("bare", "{'t': {'type': 'string'}}"),
        ("empty", "{}"),
        ("half", "{'properties': {'a': {'type': 'string', 'pattern': '(?=x)'}}}"),
    ] {
        let code = format!(
            "name = '{name}'\ndescription = 'D.'\nparameters = {parameters}\nasync def execute(params):\n    return 'ran'\n"
        );
        put(&own.join(format!("{name}.py")), &code);
        let wanted = "{'type': 'object', 'properties': {'a': {'type': 'str'}}}";
        if parameters == wanted {
            let written = test_ws.call("write_tool", &json!({"name": name, "code": code})).must("bad_args");
            assert!(
                written.text().contains("`parameters.properties.a.type` is \"str\""),
                "{}",
                written.text()
            );
        }
    }
    let spec = json!({"parameters": {"type": "object", "properties": {"a": {"type": "str"}}}});
    put(&own.join("t"), &script(&spec, ""));
    let ran = test_ws.run(&["reload-tools", "--strict"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    for why in [
        "typed.py\n`parameters.properties.a.type` is \"str\"; it must be one of string, integer,",
        "or a list of such: `parameters.properties.a.type` is \"str\"; it must be one of",
        "listed.py\n`parameters.required` is \"t\"; it must be a list of names",
        "shaped.py\n`parameters.properties` is [\"a\"]; it must be an object of schemas",
        "bare.py\n`parameters.t` is not a word of JSON schemas; arguments belong into `parameters.properties`",
    ] {
        assert!(ran.out.contains(why), "{why}: {}", ran.out);
    }
    assert_eq!(ran.out.matches("failed: ").count(), 5, "{}", ran.out);
    assert!(ran.out.contains("which can't be followed") && ran.out.contains("not checked"), "{}", ran.out);
    let tools: Value = serde_json::from_str(&test_ws.run(&["tools", "--json"]).out).unwrap();
    let empty = tools.as_array().unwrap().iter().find(|it| it["name"] == "empty").unwrap();
    assert_eq!(empty["inputSchema"], json!({"type": "object", "properties": {}}));
}

#[tokio::test]
async fn a_file_that_says_nothing_useful_is_named_with_what_it_printed() {
    for (code, why) in [
        ("echo no first line", "is not a program that this machine runs: begin a script with `#!`"),
        ("#!/bin/sh\necho hello", "it printed: hello"),
        ("#!/bin/sh\necho oops >&2; exit 2", "ended with exit code 2:\noops"),
        ("#!/bin/sh\nprintf '\\377'", "not UTF-8"),
        ("#!/bin/sh\necho '[]'", "the list has 0 tools"),
        ("#!/bin/sh\necho '{\"name\": \"t\"}'", "`description` is missing"),
        ("#!/bin/sh\nyes", "printed more than 1048576 bytes"),
        ("#!/bin/sh\necho waiting; sleep 1000", "did not end within 10 s"),
        ("#!/no/such/interpreter\n", "`#!`"),
    ] {
        let fixture = Fixture::new(&[("t", code)]).await;
        assert!(fixture.trouble().contains(why), "{code}: {}", fixture.trouble());
    }
}

/// Returns the output of the built program, with the examples as the workspace's tools.
fn shipped(base: &Path, tool: &str, arguments: &Value) -> String {
    let ran = Command::new(env!("CARGO_BIN_EXE_haft"))
        .env("HAFT_STATE_DIR", base.join("state"))
        .env("HAFT_CONFIG_DIR", base.join("config"))
        .arg("--dir")
        .arg(base.join("ws"))
        .args(["--trust", "call", tool, &arguments.to_string()])
        .output()
        .unwrap();
    assert!(ran.status.code().is_some_and(|it| it < 2), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().trim_end().to_owned()
}

#[test]
fn each_example_does_what_it_says() {
    kit::needs!(Node, Python);
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tools");
    std::fs::create_dir_all(base.join("ws/.haft")).unwrap();
    let copied =
        Command::new("cp").arg("-r").arg(examples).arg(base.join("ws/.haft/tools")).status().unwrap();
    assert!(copied.success());
    put(&base.join("ws/src/a.rs"), "one\ntwo\n");
    put(&base.join("ws/src/b \"c\"/d.txt"), "one\n");
    let says = |tool: &str, arguments: Value| shipped(&base, tool, &arguments);

    let disk = says("disk", json!({"path": "src/b \"c\""}));
    assert!(disk.ends_with(" KB  src/b \"c\"") && !disk.contains('\n'), "{disk}");
    assert!(says("disk", json!({})).contains(" KB  ./src"));
    assert!(says("disk", json!({"path": "nowhere"})).contains("there is no folder nowhere"));

    assert_eq!(says("slug", json!({"title": "Über die Größe & Form"})), "uber-die-große-form");
    assert!(says("slug", json!({"title": "!"})).contains("there is no letter in \"!\""));
    assert!(says("slug", json!({})).contains("`title` is missing; it must be a string"));

    assert_eq!(says("lines", json!({"dir": "src"})), "2 rs\n1 txt");
    assert!(says("lines", json!({"dir": "a\"b"})).contains("must match"));

    assert_eq!(says("notes", json!({"action": "list"})), "1. The tests run with `cargo test`.");
    assert_eq!(says("notes", json!({"action": "add", "text": "Ask Ida."})), "note 2 is kept");
    assert_eq!(says("notes", json!({"action": "find", "text": "ida"})), "2. Ask Ida.");
    assert_eq!(
        says("notes", json!({"action": "remove", "number": 1})),
        "removed: The tests run with `cargo test`."
    );
    assert!(says("notes", json!({"action": "remove", "number": 7})).contains("there are 1"));
}
