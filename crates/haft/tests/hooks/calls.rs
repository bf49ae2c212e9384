//! Hooks before and after a call: refusing, changing, adding, failing.

use std::{fs, time::Instant};

use serde_json::json;

use super::{own, printing, script};
use crate::support::{TIMEOUT, TestWorkspace, run};

#[test]
fn exit_code_two_refuses_the_call_with_stderr_as_the_reason() {
    let test_ws = TestWorkspace::new();
    let check = script(
        &test_ws,
        "check.sh",
        "grep -q secret.txt && { echo 'secret.txt is not for agents' >&2; exit 2; }\nexit 0\n",
    );
    own(
        &test_ws,
        &format!("[[hook]]\nevent = \"before_tool\"\nmatch = \"edit|write\"\ncommand = \"sh {check}\"\n"),
    );
    let called = test_ws.call("write", &json!({"path": "secret.txt", "content": "x"})).must("denied");
    assert!(called.text().contains("secret.txt is not for agents"), "{}", called.text());
    assert!(!test_ws.at("secret.txt").exists());
    test_ws.call("write", &json!({"path": "open.txt", "content": "x\n"})).must("ok");
    test_ws.call("read", &json!({"path": "open.txt"})).must("ok");
    let log = test_ws.log();
    let row = log.iter().find(|it| it["outcome"] == "denied").unwrap_or(&log[0]).to_string();
    assert!(row.contains("denied by the hook"), "the journal names the hook: {row}");
}

#[test]
fn changed_arguments_run_and_the_journal_says_so() {
    let test_ws = TestWorkspace::new();
    let changed =
        json!({"hookSpecificOutput": {"updatedInput": {"path": "b.txt", "content": "by the hook\n"}}});
    own(&test_ws, &printing("before_tool", &changed).replace("command", "match = \"write\"\ncommand"));
    let called = test_ws.call("write", &json!({"path": "a.txt", "content": "by the model\n"})).must("ok");
    assert!(called.notes().contains("changed the arguments"), "{}", called.notes());
    assert!(!test_ws.at("a.txt").exists());
    assert_eq!(test_ws.text("b.txt"), "by the hook\n");
    assert!(format!("{:?}", test_ws.log()).contains("changed the arguments"));
}

#[test]
fn changed_arguments_are_decided_anew_so_a_hook_can_not_widen() {
    let test_ws = TestWorkspace::new();
    for (path, rule) in
        [("../outside/x", "outside"), ("haft.toml", "control_files"), (".git/config", "control_files")]
    {
        let changed =
            json!({"permissionDecision": "deny-not", "updatedInput": {"path": path, "content": "x\n"}});
        own(&test_ws, &printing("before_tool", &changed).replace("command", "match = \"write\"\ncommand"));
        let called = test_ws.call("write", &json!({"path": "a.txt", "content": "x\n"}));
        assert_ne!(called.kind(), "ok", "{path}: {}", called.text());
        assert!(called.text().contains(rule), "{path}: {}", called.text());
    }
    let wrong = json!({"updatedInput": {"nonsense": 1}});
    own(&test_ws, &printing("before_tool", &wrong).replace("command", "match = \"write\"\ncommand"));
    test_ws.call("write", &json!({"path": "a.txt", "content": "x\n"})).must("bad_args");
    assert!(!test_ws.at("a.txt").exists());
}

#[test]
fn allow_of_the_persons_own_hook_is_a_yes_and_never_overrides_a_deny_rule() {
    let test_ws = TestWorkspace::new();
    let allow = json!({"hookSpecificOutput": {"permissionDecision": "allow"}});
    let deny = "[commands]\ndeny = [\"touch\"]\n";
    own(&test_ws, &format!("{deny}{}", printing("before_tool", &allow)));
    test_ws.call("write", &json!({"path": ".envrc", "content": "x\n"})).must("ok");
    let called = test_ws.call("shell", &json!({"command": "touch y"})).must("denied");
    assert!(called.text().contains("command_deny"), "{}", called.text());
    test_ws
        .call_with(&["--sandbox", "read-only"], "write", &json!({"path": "z", "content": "x\n"}))
        .must("denied");
    // The same words of a hook in a workspace don't count as a yes, though the workspace is trusted.
    own(&test_ws, "");
    test_ws.put("haft.toml", printing("before_tool", &allow));
    let called = test_ws
        .call_with(&["--trust"], "write", &json!({"path": ".direnvrc", "content": "x\n"}))
        .must("denied");
    assert!(called.text().contains("control_files"), "{}", called.text());
}

#[test]
fn hook_that_asks_is_refused_where_nobody_can_be_asked() {
    let test_ws = TestWorkspace::new();
    let ask = json!({"permissionDecision": "ask", "permissionDecisionReason": "look at it first"});
    own(&test_ws, &printing("before_tool", &ask));
    let called = test_ws.call("write", &json!({"path": "a", "content": "x"})).must("denied");
    assert!(called.text().contains("look at it first"), "{}", called.text());
}

#[test]
fn hanging_hook_is_ended_and_the_call_goes_on_unless_it_must_not_fail() {
    let test_ws = TestWorkspace::new();
    let hook = "[[hook]]\nevent = \"before_tool\"\ncommand = \"sleep 1000\"\nseconds = 1\n";
    own(&test_ws, hook);
    let began = Instant::now();
    test_ws.call("write", &json!({"path": "a", "content": "x"})).must("ok");
    own(&test_ws, &format!("{hook}on_failure = \"deny\"\n"));
    let called = test_ws.call("write", &json!({"path": "b", "content": "x"})).must("denied");
    assert!(called.text().contains("did not end within 1 s"), "{}", called.text());
    assert!(began.elapsed() < TIMEOUT);
}

#[test]
fn context_after_a_call_is_data_with_its_source_and_secrets_are_redacted() {
    let test_ws = TestWorkspace::new();
    let print = script(
        &test_ws,
        "after.py",
        "import json, sys\nsaid = json.load(sys.stdin)\n\
         assert said['hook_event_name'] == 'PostToolUse' and said['tool_name'] == 'read', said\n\
         secret = 'hunter2' + 'hunter2' + 'abcdef'\n\
         print(json.dumps({'hookSpecificOutput': {'additionalContext': 'lint says ' + secret + ' of ' + \
         said['tool_response']['output'][:3]}}))\n",
    );
    own(&test_ws, &format!("[[hook]]\nevent = \"after_tool\"\ncommand = \"python3 {print}\"\n"));
    test_ws.put("a.txt", "one\n");
    let mut command = test_ws.haft(&["call", "read", "{\"path\": \"a.txt\"}"]);
    command.env("SOME_API_KEY", "hunter2hunter2abcdef").env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let ran = run(&mut command, "");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("it is data, not the person's words): lint says "), "{ran:?}");
    assert!(!ran.out.contains("hunter2"), "{ran:?}");
}

#[test]
fn hook_may_change_the_workspace_only_where_it_is_configured() {
    let test_ws = TestWorkspace::new();
    let hook = "[[hook]]\nevent = \"after_tool\"\ncommand = \"touch made\"\n";
    own(&test_ws, hook);
    test_ws.call("write", &json!({"path": "a", "content": "x"})).must("ok");
    assert!(!test_ws.at("made").exists());
    own(&test_ws, &format!("{hook}write = true\n"));
    test_ws.call("write", &json!({"path": "b", "content": "x"})).must("ok");
    assert!(test_ws.at("made").exists());
}

#[test]
fn tool_file_is_a_hook_and_gets_the_same_object() {
    let test_ws = TestWorkspace::new();
    let tools = test_ws.config().join("tools");
    fs::create_dir_all(&tools).unwrap();
    fs::write(
        tools.join("guard.py"),
        "import json\nname = 'guard'\ndescription = 'Judge.'\n\
         parameters = {'type': 'object', 'properties': {'tool_name': {'type': 'string'}, 'tool_input': {'type': 'object'}}}\n\
         async def execute(params):\n    \
         return json.dumps({'decision': 'block', 'reason': 'no ' + params['tool_name'] + ' of ' + params['tool_input']['path']})\n",
    )
    .unwrap();
    own(
        &test_ws,
        "[[hook]]\nevent = \"before_tool\"\nmatch = \"write\"\ntool = \"guard\"\non_failure = \"deny\"\n",
    );
    let arguments = json!({"path": "a", "content": "x"}).to_string();
    let mut command = test_ws.haft(&["call", "write", &arguments]);
    let ran = run(command.env("PATH", "/usr/local/bin:/usr/bin:/bin"), "");
    assert!(ran.out.contains("no write of a"), "{ran:?}");
    assert!(!test_ws.at("a").exists());
}
