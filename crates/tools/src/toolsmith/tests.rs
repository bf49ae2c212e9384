//! Tests: the answers of tools that manage tools.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use expect_test::expect;
use kit::{
    Fault, Kind, Kinds, Mode, Origin, Output, Spec,
    services::{Called, Listed, NotLoaded, Reloaded, Soon, Tools},
    testing::TestWorkspace,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{
    CallTool, DeleteTool, ListTools, ReloadTools, SearchTools, WriteTool, info::Info, test_tool::TestTool,
};

/// Simulated tools of a session.
#[derive(Default)]
struct Fake {
    workspace: PathBuf,
    listed: Listed,
    reloaded: Reloaded,
    /// The error that a check reports; `None`: it passes.
    unfit: Option<&'static str>,
    /// The error of loading after it is written.
    unloadable: Option<&'static str>,
    manual: Option<&'static str>,
    /// The requests, in order.
    asked: Mutex<Vec<String>>,
}

impl Tools for Fake {
    fn list(&self) -> Listed {
        let mut listed = self.listed.clone();
        // A written file is a tool from then on.
        for name in self.asked.lock().iter().filter_map(|it| it.strip_prefix("rewritten ")) {
            if !listed.tools.iter().any(|it| it.name == name) {
                let file = self.workspace.join(format!(".haft/tools/{name}.py"));
                listed.tools.push(spec(name, "New.", Origin::File(file)));
            }
        }
        listed
    }

    fn manual(&self, _: &str) -> Option<String> {
        self.manual.map(str::to_owned)
    }

    fn explained(&self, name: &str) {
        self.asked.lock().push(format!("explained {name}"));
    }

    fn reload(&self) -> Soon<'_, Reloaded> {
        Box::pin(std::future::ready(self.reloaded.clone()))
    }

    fn check<'a>(&'a self, name: &'a str, code: &'a str) -> Soon<'a, Result<Spec, Fault>> {
        self.asked.lock().push(format!("check {name} {code:?}"));
        let result = match self.unfit {
            Some(what) => Err(Fault::bad_args(what)),
            None => Ok(spec(name, "New.", Origin::Program)),
        };
        Box::pin(std::future::ready(result))
    }

    fn rewritten<'a>(&'a self, name: &'a str) -> Soon<'a, Result<(), Fault>> {
        self.asked.lock().push(format!("rewritten {name}"));
        let result = self.unloadable.map_or(Ok(()), |what| Err(Fault::new(Kind::Failed, what)));
        Box::pin(std::future::ready(result))
    }

    fn call<'a>(&'a self, name: &'a str, arguments: Value) -> Soon<'a, Called> {
        self.asked.lock().push(format!("call {name} {arguments}"));
        let result = match name {
            "good" => Ok(Output::text("four")),
            "quiet" => Ok(Output::text("")),
            "bad" => Err(Fault::new(Kind::Failed, "ValueError: no such city")
                .seen(Output::text("Traceback (most recent call last):\n  …\nprinted: hello"))),
            _ => Err(Fault::not_found(format!("there is no tool `{name}`"))),
        };
        let (notes, took) = (vec!["a note".to_owned()], Duration::from_millis(12));
        let called = Called { result, notes, printed: (name == "good").then(|| "it ran".to_owned()), took };
        Box::pin(std::future::ready(called))
    }
}

fn spec(name: &str, description: &str, origin: Origin) -> Spec {
    Spec {
        name: name.to_owned(),
        description: description.to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where."},
                "days": {"type": "integer"},
            },
            "required": ["city"],
        }),
        mode: Mode::Direct,
        at_most: Kinds::ALL,
        output: None,
        origin,
    }
}

fn file(test_ws: &TestWorkspace, path: &str) -> Origin {
    Origin::File(test_ws.path().join(path))
}

/// Adds these tools to a workspace; returns both.
fn with(mut test_ws: TestWorkspace, fake: Fake) -> (TestWorkspace, Arc<Fake>) {
    let fake = Arc::new(Fake { workspace: test_ws.path().to_owned(), ..fake });
    test_ws.tools = fake.clone();
    (test_ws, fake)
}

fn some_tools(test_ws: &TestWorkspace) -> Listed {
    Listed {
        tools: vec![
            spec("read", "Read a file. And more.", Origin::Program),
            spec("weather", "The weather (e.g. rain). Ask often.", file(test_ws, ".haft/tools/weather.py")),
            spec("tides", "High tide.", file(test_ws, ".haft/tools/sea.py")),
            spec("disk", "Space left.", file(test_ws, ".haft/tools/disk.sh")),
            spec("mine", "The person's.", Origin::File(PathBuf::from("/config/tools/mine.py"))),
        ],
        failed: vec![NotLoaded {
            file: test_ws.path().join(".haft/tools/broken.py").display().to_string(),
            why: "Traceback (most recent call last):\n  line 3\nSyntaxError: invalid syntax".to_owned(),
            older_serves: true,
        }],
        aside: 0,
    }
}

fn text(test_ws: &TestWorkspace, path: &str) -> String {
    String::from_utf8(test_ws.bytes(path)).unwrap()
}

#[test]
fn a_list_has_one_line_for_each_tool_and_then_what_is_broken() {
    let test_ws = TestWorkspace::empty();
    let listed = some_tools(&test_ws);
    let (test_ws, _) = with(test_ws, Fake { listed, ..Fake::default() });
    expect![[r#"
        read: Read a file.
        weather: The weather (e.g. rain). [.haft/tools/weather.py]
        tides: High tide. [.haft/tools/sea.py]
        disk: Space left. [.haft/tools/disk.sh]
        mine: The person's. [/config/tools/mine.py]
        Not loaded (1), `reload_tools` says more:
         .haft/tools/broken.py: SyntaxError: invalid syntax (its last good version stays in use)"#]]
    .assert_eq(&test_ws.says::<ListTools>(&json!({})));
}

#[test]
fn a_search_gives_whole_schemas_ready_to_call() {
    let test_ws = TestWorkspace::empty();
    let listed = some_tools(&test_ws);
    let (test_ws, _) = with(test_ws, Fake { listed, ..Fake::default() });
    expect![[r#"
        weather: The weather (e.g. rain). Ask often.
          schema: {"type":"object","properties":{"city":{"type":"string","description":"Where."},"days":{"type":"integer"}},"required":["city"]}
        Call one by its name."#]]
    .assert_eq(&test_ws.says::<SearchTools>(&json!({"query": "is it raining"})));
    let said = test_ws.says::<SearchTools>(&json!({"query": "city", "limit": 2}));
    assert!(said.contains("\n3 more match; a larger `limit` names them\n"), "{said}");
    expect!["none of 5 tools matches `unicorn`; try other words, or `list_tools`"]
        .assert_eq(&test_ws.says::<SearchTools>(&json!({"query": "unicorn"})));
    expect![[r#"
        bad_args: `limit` is 0
        Give 1 to 20."#]]
    .assert_eq(&test_ws.says::<SearchTools>(&json!({"query": "x", "limit": 0})));
}

#[test]
fn a_search_is_cheap_and_says_how_to_call_what_it_finds() {
    let test_ws = TestWorkspace::empty();
    let described = |name: &str, bytes: usize| {
        let mut tool = spec(name, "Rain there. And on.", Origin::Program);
        *tool.schema.pointer_mut("/properties/city/description").unwrap() = json!("x".repeat(bytes));
        tool
    };
    let mut tools = vec![
        spec("search_tools", "Find rain.", Origin::Program),
        spec("call_tool", "Call rain.", Origin::Program),
        described("rain", 30_000),
        described("rain_later", 20_000),
    ];
    tools.extend((0..50).map(|it| described(&format!("rain_{it}"), 100)));
    let (test_ws, _) =
        with(test_ws, Fake { listed: Listed { tools, ..Listed::default() }, ..Fake::default() });
    let said = test_ws.says::<SearchTools>(&json!({"query": "rain"}));
    // The first one always has its schema; the others only if it fits.
    assert!(said.len() < 32_000 && said.contains(&"x".repeat(30_000)), "{} bytes", said.len());
    let names: Vec<&str> = said.lines().filter_map(|it| it.split_once(": Rain").map(|it| it.0)).collect();
    assert_eq!(names, ["rain", "rain_later", "rain_0", "rain_1", "rain_2", "rain_3", "rain_4", "rain_5"]);
    assert_eq!(said, test_ws.says::<SearchTools>(&json!({"query": "rain"})), "the same words find the same");
    expect![[r#"
        44 more match; a larger `limit` names them
        Call one by its name, or as call_tool {"name": "rain", "arguments": {…}}."#]]
    .assert_eq(
        &said.lines().rev().take(2).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n"),
    );
    let said = test_ws.says::<SearchTools>(&json!({"query": "rain 7", "limit": 20}));
    assert!(said.starts_with("rain_7: Rain there. And on.\n  schema: {"), "{said}");
    assert_eq!(said.matches("schema: ").count(), 3, "those that are too long keep no other from it: {said}");
    assert!(said.len() < 4_000, "{} bytes", said.len());
}

#[test]
fn a_tool_called_by_name_answers_as_if_called_directly() {
    let (test_ws, fake) = with(TestWorkspace::empty(), Fake::default());
    let arguments = json!({"name": "good", "arguments": {"city": "Ulm"}});
    let output = test_ws.call::<CallTool>(&arguments).unwrap();
    assert_eq!(output.as_text(), "four\nnote: a note");
    assert!(output.paged, "what is cut to size once is not cut again");
    let fault = test_ws.call::<CallTool>(&json!({"name": "bad"})).unwrap_err();
    assert_eq!((fault.kind, fault.what.as_str()), (Kind::Failed, "ValueError: no such city"));
    assert_eq!(fault.next.as_deref(), Some("note: a note"));
    assert!(fault.seen.is_some_and(|it| it.as_text().ends_with("printed: hello")));
    expect![[r#"
        bad_args: `call_tool` can't call itself
        Name the tool that is meant."#]]
    .assert_eq(&test_ws.says::<CallTool>(&json!({"name": "call_tool", "arguments": arguments})));
    assert_eq!(*fake.asked.lock(), ["call good {\"city\":\"Ulm\"}", "call bad {}"]);
}

#[test]
fn a_manual_is_the_schema_and_the_written_text() {
    let test_ws = TestWorkspace::empty();
    let listed = some_tools(&test_ws);
    let (test_ws, _) = with(test_ws, Fake { listed, manual: Some("Ask in the morning."), ..Fake::default() });
    expect![[r#"
        # weather

        The weather (e.g. rain). Ask often.

        ## Arguments

        - `city` (string, required): Where.
        - `days` (integer)

        It is the file .haft/tools/weather.py.

        Ask in the morning.
    "#]]
    .assert_eq(&test_ws.says::<Info>(&json!({"name": "weather"})));
    expect![[r#"
        not_found: `broken` is not a tool: .haft/tools/broken.py can't be loaded
        Traceback (most recent call last):
          line 3
        SyntaxError: invalid syntax"#]]
    .assert_eq(&test_ws.says::<Info>(&json!({"name": "broken"})));
    expect![[r#"
        not_found: there is no tool `read_weather`
        Did you mean read, weather? `list_tools` shows what there is."#]]
    .assert_eq(&test_ws.says::<Info>(&json!({"name": "read_weather"})));
}

#[test]
fn a_successful_reload_lists_what_it_loaded() {
    let none = with(TestWorkspace::empty(), Fake::default()).0;
    expect!["No tools loaded."].assert_eq(&none.says::<ReloadTools>(&json!({})));
    let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let reloaded = Reloaded {
        loaded: names(&["a", "b"]),
        changed: names(&["b"]),
        gone: names(&["c"]),
        notes: names(&["a.py holds two formats"]),
        ..Reloaded::default()
    };
    let (test_ws, _) = with(TestWorkspace::empty(), Fake { reloaded, ..Fake::default() });
    expect![[r#"
        Loaded (2): a, b
        New or changed (1): b
        Gone (1): c
        note: a.py holds two formats"#]]
    .assert_eq(&test_ws.says::<ReloadTools>(&json!({})));
}

#[test]
fn a_reload_says_that_files_wait_for_trust() {
    let says = |aside| {
        let reloaded = Reloaded { aside, ..Reloaded::default() };
        with(TestWorkspace::empty(), Fake { reloaded, ..Fake::default() }).0.says::<ReloadTools>(&json!({}))
    };
    expect![[r#"
        No tools loaded.
        9 tool files are ignored until the person trusts this workspace (`haft trust`)."#]]
    .assert_eq(&says(9));
    assert!(
        says(1).ends_with("\n1 tool file is ignored until the person trusts this workspace (`haft trust`).")
    );
}

#[test]
fn a_reload_with_errors_fails_with_the_whole_report() {
    let long: String = (0..10_000).map(|line| format!("  line {line}\n")).collect();
    let failed =
        |file: &str, why: String, older_serves| NotLoaded { file: file.to_owned(), why, older_serves };
    let reloaded = Reloaded {
        loaded: vec!["a".to_owned()],
        failed: vec![
            failed(
                "b.py",
                "Traceback:\n  File \"b.py\", line 1\nNameError: name 'x' is not defined\n".to_owned(),
                true,
            ),
            failed("c.sh", "it says nothing".to_owned(), false),
            failed("d.py", format!("{long}RecursionError: deep"), false),
        ],
        ..Reloaded::default()
    };
    let (test_ws, _) = with(TestWorkspace::empty(), Fake { reloaded, ..Fake::default() });
    let said = test_ws.says::<ReloadTools>(&json!({}));
    assert!(said.len() < 3_000, "{} bytes", said.len());
    let (beginning, _) = said.split_once("  line 3\n").unwrap();
    expect![[r#"
        failed: 3 files could not be loaded
        Loaded (1): a
        Errors (3):
         b.py: NameError: name 'x' is not defined
         c.sh: it says nothing
         d.py: RecursionError: deep
        The last good version of b.py stays in use.

        b.py:
        Traceback:
          File "b.py", line 1
        NameError: name 'x' is not defined

        d.py:
          line 0
          line 1
          line 2
    "#]]
    .assert_eq(beginning);
    assert!(said.contains("[9971 lines left out]") && said.ends_with("RecursionError: deep"), "{said}");
}

#[test]
fn a_tool_that_fails_was_tried_with_success() {
    let (test_ws, fake) = with(TestWorkspace::empty(), Fake::default());
    expect![[r#"
        ok: good, 12 ms
        four
        note: a note
        note: it printed: it ran"#]]
    .assert_eq(&test_ws.says::<TestTool>(&json!({"name": "good", "arguments": {"city": "Ulm"}})));
    expect![[r#"
        ok: quiet, 12 ms, no output
        note: a note"#]]
    .assert_eq(&test_ws.says::<TestTool>(&json!({"name": "quiet"})));
    let failed = test_ws.call::<TestTool>(&json!({"name": "bad"})).unwrap();
    expect![[r#"
        failed: bad, 12 ms, failed
        ValueError: no such city
        Traceback (most recent call last):
          …
        printed: hello
        note: a note"#]]
    .assert_eq(&failed.as_text());
    assert!(failed.paged, "what is cut to size once is not cut again");
    assert_eq!(*fake.asked.lock(), ["call good {\"city\":\"Ulm\"}", "call quiet {}", "call bad {}"]);
}

#[test]
fn untestable_tools_are_refused() {
    let test_ws = TestWorkspace::empty();
    let listed = some_tools(&test_ws);
    let (test_ws, fake) = with(test_ws, Fake { listed, ..Fake::default() });
    expect![[r#"
        bad_args: `test_tool` can't try itself
        Name another tool."#]]
    .assert_eq(&test_ws.says::<TestTool>(&json!({"name": "test_tool"})));
    assert!(fake.asked.lock().is_empty());
    expect![[r#"
        not_found: there is no tool `weathr_now`
        Did you mean weather? `list_tools` shows what there is."#]]
    .assert_eq(&test_ws.says::<TestTool>(&json!({"name": "weathr_now"})));
}

#[test]
fn a_tool_is_checked_written_listed_and_loaded() {
    let test_ws = TestWorkspace::empty();
    let listed = Listed {
        failed: vec![NotLoaded {
            file: test_ws.path().join(".haft/tools/broken.py").display().to_string(),
            why: "it is".to_owned(),
            older_serves: false,
        }],
        ..some_tools(&test_ws)
    };
    fs::create_dir_all(test_ws.path().join(".haft/tools")).unwrap();
    for name in ["broken.py", "_template.py", "data.json"] {
        fs::write(test_ws.path().join(".haft/tools").join(name), "").unwrap();
    }
    let (test_ws, fake) = with(test_ws, Fake { listed, ..Fake::default() });
    expect![[r#"
        Created .haft/tools/rain.py (9 bytes). Arguments: city (string, required), days (integer).
        It has no network and writes below the workspace only, until a person grants more.
        Call it as `rain`, or try it by `test_tool` {"name": "rain", "arguments": {"city":"…"}}. `undo` takes it back.
        note: the ``` around the code was left out"#]]
    .assert_eq(&test_ws.says::<WriteTool>(&json!({"name": "rain", "code": "```python\nthe code\n\n```\n"})));
    assert_eq!(text(&test_ws, ".haft/tools/rain.py"), "the code\n");
    assert_eq!(
        text(&test_ws, ".haft/tools/enabled.json"),
        "[\n  \"rain\"\n]\n",
        "the others are loaded without it, and a file that fails is no tool"
    );
    assert_eq!(*fake.asked.lock(), ["check rain \"the code\\n\"", "rewritten rain"]);
    let said = test_ws.says::<WriteTool>(&json!({"name": "rain", "code": "x = 1"}));
    assert!(said.starts_with("Replaced .haft/tools/rain.py (5 bytes)."), "{said}");
    assert!(said.contains("`undo` brings the version before back."), "{said}");
    assert_eq!(text(&test_ws, ".haft/tools/rain.py"), "x = 1");
    let said = test_ws.says::<WriteTool>(&json!({"name": "rain", "code": "x = 1"}));
    assert!(said.starts_with("Unchanged: .haft/tools/rain.py"), "{said}");
}

#[test]
fn nothing_is_written_that_does_not_pass() {
    let (test_ws, fake) =
        with(TestWorkspace::empty(), Fake { unfit: Some("missing: `description = …`"), ..Fake::default() });
    expect!["bad_args: missing: `description = …`"]
        .assert_eq(&test_ws.says::<WriteTool>(&json!({"name": "rain", "code": "x"})));
    let large = "#".repeat((256 << 10) + 1);
    expect![[r#"
        too_big: the code has 262145 bytes; a tool has at most 262144
        Keep data in a file beside it, found by `__file__`."#]]
    .assert_eq(&test_ws.says::<WriteTool>(&json!({"name": "rain", "code": large})));
    for name in ["_rain", "../rain", "ra-in", ""] {
        let said = test_ws.says::<WriteTool>(&json!({"name": name, "code": "x"}));
        assert!(said.starts_with("bad_args: "), "{name}: {said}");
    }
    assert!(!test_ws.path().join(".haft").exists());
    assert_eq!(fake.asked.lock().len(), 1, "what is refused beforehand is not run");
}

#[test]
fn the_name_of_another_tool_is_refused_with_who_has_it() {
    let test_ws = TestWorkspace::empty();
    let listed = some_tools(&test_ws);
    let (test_ws, _) = with(test_ws, Fake { listed, ..Fake::default() });
    let says = |name: &str| {
        let said = test_ws.says::<WriteTool>(&json!({"name": name, "code": "x"}));
        said.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(says("read"), "bad_args: `read` is a tool of haft's own; nothing was written");
    // Not shown here, but a tool of the toolset navi.
    assert_eq!(says("terminal"), "bad_args: `terminal` is a tool of haft's own; nothing was written");
    assert_eq!(
        says("mine"),
        "bad_args: `mine` is a tool already, in /config/tools/mine.py; nothing was written"
    );
    assert_eq!(
        says("tides"),
        "bad_args: `tides` is a tool already, in .haft/tools/sea.py; nothing was written"
    );
    assert!(!test_ws.path().join(".haft").exists());
}

#[test]
fn a_written_tool_that_cannot_be_loaded_is_reported() {
    let (test_ws, _) =
        with(TestWorkspace::empty(), Fake { unloadable: Some("it went away"), ..Fake::default() });
    expect![[r#"
        failed: it went away
        Write it again as it should be; `undo` brings back what was there before."#]]
    .assert_eq(&test_ws.says::<WriteTool>(&json!({"name": "rain", "code": "x"})));
}

#[test]
fn a_tool_is_deleted_and_its_data_stays() {
    let test_ws = TestWorkspace::new(
        "//- .haft/tools/weather.py\nx\n//- .haft/tools/weather_data.json\n{}\n//- .haft/tools/weather_map.py\ny\n//- .haft/tools/_test_weather.py\nz\n//- .haft/tools/enabled.json\n[\"weather\", \"tides\"]\n",
    );
    let listed = some_tools(&test_ws);
    let (test_ws, fake) = with(test_ws, Fake { listed, ..Fake::default() });
    expect![[r#"
        Deleted .haft/tools/weather.py. `undo` brings it back.
        Still there: .haft/tools/_test_weather.py, .haft/tools/weather_data.json"#]]
    .assert_eq(&test_ws.says::<DeleteTool>(&json!({"name": "weather"})));
    assert!(!test_ws.path().join(".haft/tools/weather.py").exists());
    assert_eq!(text(&test_ws, ".haft/tools/enabled.json"), "[ \"tides\"]\n");
    assert_eq!(*fake.asked.lock(), ["rewritten weather"]);
}

#[test]
fn only_tools_of_the_workspace_are_deleted() {
    let test_ws = TestWorkspace::empty();
    let listed = some_tools(&test_ws);
    let (test_ws, fake) = with(test_ws, Fake { listed, ..Fake::default() });
    let says = |name: &str| test_ws.says::<DeleteTool>(&json!({"name": name}));
    expect!["denied: `read` is part of haft; only a workspace's own tools are deleted"]
        .assert_eq(&says("read"));
    expect![[r#"
        denied: `mine` is /config/tools/mine.py, which is not among this workspace's own tools
        A person can delete it."#]]
    .assert_eq(&says("mine"));
    expect![[r#"
        denied: `disk` is .haft/tools/disk.sh, which is not a single Python file
        A person can delete it."#]]
    .assert_eq(&says("disk"));
    let tides = says("tides");
    assert!(tides.starts_with("denied: `tides` is one of the tools in .haft/tools/sea.py\n"), "{tides}");
    assert!(says("unicorn").starts_with("not_found: there is no tool `unicorn`"));
    assert!(fake.asked.lock().is_empty());
}
