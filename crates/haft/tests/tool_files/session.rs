//! Tool files of one session: shared state, with each other and with haft's own tools.

use futures_util::future::join_all;
use serde_json::json;

use super::support::Fixture;
use crate::support::TestWorkspace;

/// A class with an async `_execute` that sets or gets a key of the scratchpad.
const AWAITED: &str = r#"
import asyncio
from kohakuterrarium.modules.tool.base import BaseTool, ToolResult


class PadTool(BaseTool):
    needs_context = True
    is_concurrency_safe = True
    tool_name = "awaited"
    description = "Sets a key of the scratchpad, or gets it"

    async def _execute(self, args, context=None):
        await asyncio.sleep(0)
        if "value" in args:
            context.scratchpad.set(args["key"], args["value"])
            return ToolResult(output="set")
        pad = context.session.scratchpad
        return ToolResult(output="%s of %s" % (pad.get(args["key"]), ", ".join(pad.list_keys())))
"#;

/// A function on a thread of its own, in another file and so in another process.
const THREADED: &str = r#"
from kohakuterrarium import tool

touches = []


@tool(description="Appends to a key of the scratchpad, in this thread and in another")
def threaded(key: str, more: str, context=None) -> str:
    import threading

    def append():
        context.scratchpad[key] = context.scratchpad.get(key, "") + more

    append()
    thread = threading.Thread(target=append)
    thread.start()
    thread.join()
    return context.scratchpad[key]
"#;

/// A tool without asyncio, which runs without an event loop.
const BY_HAND: &str = r#"
from kohakuterrarium.modules.tool.base import BaseTool


class Kept(BaseTool):
    needs_context = True
    tool_name = "by_hand"
    description = "Keeps a value that is not text"

    def _execute(self, args, context=None):
        pad = context.scratchpad
        pad.set("list", [1, 2])
        found = (pad.get("list"), pad.get("none"), "list" in pad, pad.delete("list"), pad.delete("list"))
        try:
            pad.set("x" * 100, "too long a name")
        except RuntimeError as error:
            return "%s %s" % (found, error)
"#;

#[tokio::test]
async fn many_calls_at_once_have_their_answers() {
    kit::needs!(Python);
    let fixture = Fixture::new(&[("threaded".to_owned(), THREADED.to_owned())]).await;
    // Each has a key of its own: to read and to write are two requests, and between them another call may write.
    let calls =
        (0..60).map(|it| fixture.call_with("threaded", json!({"key": format!("k{it}"), "more": "x"})));
    for answer in join_all(calls).await {
        assert_eq!(answer.as_text(), "xx");
    }
}

fn test_ws(files: &[(&str, &str)]) -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    for (name, code) in files {
        test_ws.put(&format!(".haft/tools/{name}.py"), code.as_bytes());
    }
    let trusted = test_ws.run(&["trust"]);
    assert_eq!(trusted.code, 0, "{trusted:?}");
    test_ws
}

#[test]
fn scratchpad_is_one_for_the_built_in_tool_and_all_tool_files() {
    kit::needs!(Python);
    let test_ws = test_ws(&[("awaited", AWAITED), ("threaded", THREADED), ("by_hand", BY_HAND)]);
    let said = test_ws.batch(
        &["--toolset", "terrarium", "--approve", "auto"],
        &[
            ("scratchpad", json!({"action": "set", "key": "plan", "value": "look"})),
            ("awaited", json!({"key": "plan"})),
            ("threaded", json!({"key": "plan", "more": "!"})),
            ("awaited", json!({"key": "found", "value": "it"})),
            ("scratchpad", json!({"action": "list"})),
            ("scratchpad", json!({"action": "get", "key": "plan"})),
            ("by_hand", json!({"content": ""})),
        ],
    );
    let said: Vec<String> = said.iter().map(super::super::support::Called::text).collect();
    assert_eq!(said[1], "look of plan");
    assert_eq!(said[2], "look!!");
    assert_eq!(said[4], "found\nplan");
    assert_eq!(said[5], "look!!");
    assert!(said[6].starts_with("([1, 2], None, True, True, False) \"xxxx"), "{}", said[6]);
    assert!(said[6].contains("can't be the name of a section"), "{}", said[6]);
}

/// Says what KohakuTerrarium's guard says of a file, or records that it has read the file.
const GUARDED: &str = r#"
from pathlib import Path

from kohakuterrarium.modules.tool.base import BaseTool
from kohakuterrarium.utils.file_guard import check_read_before_write


class Guarded(BaseTool):
    needs_context = True
    tool_name = "NAME"
    description = "Asks whether a file may be written"

    async def _execute(self, args, context=None):
        path = context.resolve_path(args["path"])
        if args.get("record"):
            context.file_read_state.record_read(str(path), path.stat().st_mtime_ns, False, 1.0)
        record = context.file_read_state.get(str(path))
        said = check_read_before_write(context.file_read_state, str(path))
        return "%s %s" % (said or "may be written", record and record.partial)
"#;

#[test]
fn guard_of_a_tool_file_knows_what_the_session_has_read() {
    kit::needs!(Python);
    let (one, other) = (GUARDED.replace("NAME", "one"), GUARDED.replace("NAME", "other"));
    let test_ws = test_ws(&[("one", &one), ("other", &other)]);
    test_ws.put("a.txt", "one\ntwo\n");
    test_ws.put("b.txt", "b\n");
    let said = test_ws.batch(
        &["--approve", "auto"],
        &[
            ("one", json!({"path": "new.txt"})),
            ("one", json!({"path": "a.txt"})),
            ("read", json!({"path": "a.txt", "offset": 1, "limit": 1})),
            ("one", json!({"path": "a.txt"})),
            ("read", json!({"path": "a.txt"})),
            ("one", json!({"path": "a.txt"})),
            ("shell", json!({"command": "echo three >> a.txt"})),
            ("one", json!({"path": "a.txt"})),
            ("one", json!({"path": "b.txt", "record": true})),
            ("other", json!({"path": "b.txt"})),
        ],
    );
    let said: Vec<String> = said.iter().map(super::super::support::Called::text).collect();
    assert_eq!(said[0], "may be written None");
    assert!(said[1].contains("a.txt': file has not been read yet"), "{}", said[1]);
    assert_eq!(said[3], "may be written True", "{said:?}");
    assert_eq!(said[5], "may be written False", "{said:?}");
    assert!(said[7].contains("file was modified since last read"), "{}", said[7]);
    assert_eq!(said[9], "may be written False", "{said:?}");
}

/// Returns a tool that adds these words to the prompt, in a bucket.
fn contributing(name: &str, bucket: &str, words: &str) -> String {
    format!(
        r#"
from kohakuterrarium.modules.tool.base import BaseTool


class It(BaseTool):
    tool_name = "{name}"
    description = "A tool with words for the prompt"
    prompt_contribution_bucket = "{bucket}"

    def prompt_contribution(self):
        return {words}

    async def _execute(self, args, context=None):
        return "ran"
"#
    )
}

#[test]
fn words_of_a_trusted_tool_file_are_in_the_prompt_and_bounded() {
    kit::needs!(Python);
    let test_ws = TestWorkspace::new();
    let files = [
        contributing("alpha", "last", "'Call it last.'"),
        contributing("beta", "first", "'  Call it first.  '"),
        contributing("gamma", "normal", "'long ' * 1000"),
        contributing("delta", "normal", "None"),
        contributing("epsilon", "normal", "1 / 0"),
    ];
    for (at, code) in files.iter().enumerate() {
        test_ws.put(&format!(".haft/tools/t{at}.py"), code.as_bytes());
    }
    let prompt = |test_ws: &TestWorkspace| {
        let ran = test_ws.run(&["prompt"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out
    };
    let before = prompt(&test_ws);
    assert!(!before.contains("Call it first."), "nobody trusts it:\n{before}");
    assert_eq!(test_ws.run(&["trust"]).code, 0);
    let after = prompt(&test_ws);
    let at = |words: &str| after.find(words).unwrap_or_else(|| panic!("`{words}` is not in\n{after}"));
    assert!(at("beta: Call it first.") < at("gamma: long long"), "{after}");
    assert!(at("gamma: long long") < at("alpha: Call it last."), "{after}");
    let gamma = after.lines().find(|it| it.starts_with("gamma: long")).map(str::len);
    assert_eq!(gamma, Some("gamma: ".len() + 1_999), "{after}");
    assert!(!after.contains("delta: None"), "{after}");
    let told = test_ws.run(&["reload-tools"]);
    let told = format!("{}{}", told.out, told.err);
    assert!(
        told.contains("prompt_contribution() failed") && told.contains("the prompt takes 2000"),
        "{told}"
    );
}

/// Says what is in the context of its call.
const CONTEXT: &str = r#"
from kohakuterrarium.modules.tool.base import BaseTool


class Told(BaseTool):
    needs_context = True
    tool_name = "told"
    description = "Says what is in the context of its call"

    async def _execute(self, args, context=None):
        jobs = ["%s=%s" % (it.job_id, it.type_name) for it in context.job_store.get_running_jobs()]
        none = context.job_store.get_status("job_9")
        session = context.session
        return "%s %s %s %s %s" % (context.agent_name, context.tool_format, bool(session.key), jobs, none)
"#;

#[test]
fn context_of_a_tool_file_has_the_agent_the_format_the_session_and_the_jobs() {
    kit::needs!(Python);
    let test_ws = test_ws(&[("told", CONTEXT)]);
    test_ws.put(".haft/agents/guide.md", "---\ndescription: Guides.\n---\nGuide.\n");
    let script = test_ws.base().join("script.jsonl");
    let say = |name: &str, arguments: &str| format!("[/{name}]\n{arguments}[{name}/]");
    let lines = [
        json!({"say": say("bash", "@@run_in_background=true\nsleep 600\n")}),
        json!({"say": say("told", "")}),
        json!({"expect": ["guide bracket True ['job_1=bash'] None"], "say": "Done."}),
    ];
    let lines: String = lines.iter().map(|it| format!("{it}\n")).collect();
    std::fs::write(&script, lines).unwrap();
    let model = format!("script:{}", script.display());
    let options = ["--toolset", "terrarium", "--approve", "auto", "run", "--no-wait", "--model", &model];
    let ran = test_ws.run(&[&options[..], &["--dialect", "bracket", "--profile", "guide", "go"]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
}

/// A tool that uses private channels, a broadcast of the environment, and its shared state.
const CHANNELS: &str = r#"
import asyncio
from kohakuterrarium.core.channel import AgentChannel, ChannelMessage, ChannelRegistry, SubAgentChannel
from kohakuterrarium.modules.tool.base import BaseTool


class Channels(BaseTool):
    needs_context = True
    tool_name = "channels"
    description = "Uses channels"

    async def _execute(self, args, context=None):
        what, private, shared = args["what"], context.session.channels, context.environment.shared_channels
        if what == "send":
            queue = private.get_or_create("q", maxsize=2, description="for tests")
            for at in range(2):
                await queue.send(ChannelMessage(sender="me", content={"n": at}, metadata={"a": 1}, reply_to="msg_0"))
            try:
                await asyncio.wait_for(queue.send(ChannelMessage(sender="me", content="too much")), 0.1)
            except asyncio.TimeoutError:
                return "full at %d, %s, %s" % (queue.qsize, queue.channel_type, private.get_channel_info())
        if what == "receive":
            queue = context.channels.get("q")
            assert isinstance(queue, SubAgentChannel) and not queue.empty
            first = await queue.receive(timeout=5)
            rest = queue.try_receive()
            try:
                await queue.receive(timeout=0.05)
            except asyncio.TimeoutError:
                return "%s %s %s %s %s %s, then %s" % (
                    first.content, first.sender, first.metadata, first.reply_to, first.channel,
                    first.message_id.startswith("msg_"), rest.content,
                )
        if what == "broadcast":
            news = shared.get_or_create("news", channel_type="broadcast")
            assert isinstance(news, AgentChannel)
            one, two = news.subscribe("one"), news.subscribe("two")
            await news.send(ChannelMessage(sender="one", content="hello"))
            got = await two.receive(timeout=5)
            own = one.try_receive()
            one.unsubscribe()
            context.environment.register("seen", {"by": "two"})
            return "%s %s %s %d %s" % (got.content, own, news.history[0].content, news.subscriber_count, shared.list_channels())
        if what == "state":
            environment = context.environment
            return "%s %s %s" % (environment.get("seen"), environment.get("none", 3), environment.env_id.startswith("env_"))
        if what == "absent":
            return "%s %s" % (private.get("absent"), private.remove("q"))
        if what == "memory":
            registry = ChannelRegistry()
            queue = registry.get_or_create("mine")
            await queue.send(ChannelMessage("me", "x"))
            return (await queue.receive()).content
"#;

#[test]
fn tool_files_reach_channels_and_state_that_outlive_their_process() {
    kit::needs!(Python);
    let test_ws = test_ws(&[("channels", CHANNELS)]);
    let says = |what: &str| {
        // Each is a process of its own, in one session.
        let ran = test_ws.run(&["--session", "s", "call", "channels", &json!({"what": what}).to_string()]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out.trim_end().to_owned()
    };
    assert_eq!(
        says("send"),
        "full at 2, queue, [{'name': 'q', 'type': 'queue', 'description': 'for tests'}]"
    );
    assert_eq!(says("receive"), "{'n': 0} me {'a': 1} msg_0 q True, then {'n': 1}");
    assert_eq!(says("broadcast"), "hello None hello 1 ['news']");
    assert_eq!(says("state"), "{'by': 'two'} 3 True");
    assert_eq!(says("absent"), "None True");
    assert_eq!(says("memory"), "x");
}
