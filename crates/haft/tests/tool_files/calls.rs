//! Calls of Python tools.

use std::time::Duration;

use futures_util::future::join_all;
use haft::{kit::Part, runtime::Call};
use serde_json::json;

use super::support::{Fixture, after, navi, until};

#[tokio::test]
async fn a_module_keeps_its_state_from_call_to_call() {
    kit::needs!(Python);
    let body = "global calls\ncalls += 1\nreturn f'call {calls}'";
    let fixture = Fixture::new(&[after("calls = 0", "count", body)]).await;
    assert_eq!(fixture.says("count").await, "call 1");
    assert_eq!(fixture.says("count").await, "call 2");
}

#[tokio::test]
async fn what_a_python_compiled_is_kept_where_no_tool_reaches_it() {
    kit::needs!(Python);
    let body = "import os\ntry:\n    return str(os.listdir(args['folder']))\nexcept OSError as e:\n    return type(e).__name__";
    let fixture = Fixture::new(&[navi("looks", body)]).await;
    let folder = fixture.runtime.store().folder().ancestors().nth(2).unwrap().join("tools/compiled");
    let kept = || -> Vec<_> { std::fs::read_dir(&folder).unwrap().map(|it| it.unwrap().path()).collect() };
    // It was described by then.
    assert!(!kept().is_empty());
    let looks = fixture.call_with("looks", json!({"folder": folder.display().to_string()})).await;
    assert_eq!(looks.as_text(), "FileNotFoundError");
    for file in kept() {
        std::fs::write(file, "no code").unwrap();
    }
    let (name, code) = navi("other", "return 'runs'");
    fixture.write(&(name, code));
    fixture.load().await;
    assert!(fixture.says("other").await.starts_with("runs"));
}

#[tokio::test]
async fn arguments_arrive_as_they_were_given() {
    kit::needs!(Python);
    let fixture = Fixture::new(&[navi("echo", "import json\nreturn json.dumps(args, sort_keys=True)")]).await;
    let arguments = json!({"list": [1, 2.5, null, true], "text": "é \u{1f600} \n \"quoted\"", "long": "x".repeat(1 << 20)});
    let answer = fixture.call_with("echo", json!({"a": arguments["list"], "b": arguments["text"]})).await;
    let said: serde_json::Value = serde_json::from_str(&answer.as_text()).unwrap();
    assert_eq!(said, json!({"a": arguments["list"], "b": arguments["text"]}));
    let fixture = Fixture::new(&[navi("size", "return str(len(args['long']))")]).await;
    assert_eq!(
        fixture.call_with("size", json!({"long": arguments["long"]})).await.as_text(),
        (1 << 20).to_string()
    );
}

#[tokio::test]
async fn what_is_printed_is_no_answer() {
    kit::needs!(Python);
    let body =
        "import sys\nprint('printed')\nprint('{\"op\": \"result\"}', file=sys.stderr)\nreturn 'answer'";
    let fixture = Fixture::new(&[after("print('at import')", "prints", body)]).await;
    assert_eq!(fixture.says("prints").await, "answer");
}

#[tokio::test]
async fn first_calls_at_the_same_time_share_one_process() {
    kit::needs!(Python);
    let fixture = Fixture::new(&[navi(
        "pid",
        "import asyncio, os\nawait asyncio.sleep(0.01)\nreturn str(os.getpid())",
    )])
    .await;
    let said = join_all((0..20).map(|_| fixture.says("pid"))).await;
    let first = said.first().unwrap();
    assert!(first.parse::<u32>().is_ok() && said.iter().all(|it| it == first), "{said:?}");
}

#[tokio::test]
async fn a_thousand_calls_at_once_have_an_answer_each() {
    kit::needs!(Python);
    let fixture = Fixture::new(&[navi("echo", "return args['text']")]).await;
    let calls = (0..1000).map(|it| fixture.call_with("echo", json!({"text": it.to_string()})));
    for (at, answer) in join_all(calls).await.into_iter().enumerate() {
        // On a busy machine a note on the wait for other calls follows.
        assert_eq!(answer.as_text().lines().next(), Some(at.to_string().as_str()));
    }
}

#[tokio::test]
async fn a_call_ends_on_the_version_it_began_with() {
    kit::needs!(Python);
    let body = |version: &str| {
        format!(
            "import asyncio, os\nopen('begun', 'w').close()\n\
             while args.get('wait') and not os.path.exists('go'): await asyncio.sleep(0.01)\nreturn '{version}'"
        )
    };
    let fixture = Fixture::new(&[navi("tool", &body("old"))]).await;
    let old = fixture.call_with("tool", json!({"wait": true}));
    let new = async {
        fixture.until_begun().await;
        fixture.write(&navi("tool", &body("new")));
        fixture.load().await;
        let said = fixture.says("tool").await;
        std::fs::write(fixture.workspace().join("go"), "").unwrap();
        said
    };
    let (old, new) = tokio::join!(old, new);
    // Below may stand that the tools changed.
    assert_eq!((old.as_text().lines().next(), new.lines().next()), (Some("old"), Some("new")));
    // The old version's process ends with its last call.
    until(|| fixture.processes() == 1).await;
    assert_eq!(fixture.says("tool").await, "new");
}

#[tokio::test]
async fn a_process_that_nobody_calls_ends() {
    kit::needs!(Python);
    let fixture =
        Fixture::new(&[after("calls = 0", "count", "global calls\ncalls += 1\nreturn str(calls)")]).await;
    assert_eq!(fixture.says("count").await, "1");
    assert_eq!(fixture.processes(), 1);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(301)).await;
    tokio::time::resume();
    until(|| fixture.processes() == 0).await;
    assert_eq!(fixture.says("count").await, "1");
}

#[tokio::test]
async fn pictures_links_and_notes_keep_their_places() {
    kit::needs!(Python);
    let code = "from kohakuterrarium.modules.tool.base import ToolResult\n\
        name = 'parts'\ndescription = 'd'\nparameters = {'type': 'object', 'properties': {}}\n\
        PNG = 'data:image/png;base64,iVBORw0KGgo='\n\
        async def execute(args):\n    return ToolResult(output=['see', {'type': 'image_url', 'url': PNG}, 'end'])\n";
    let fixture = Fixture::new(&[("parts".to_owned(), code.to_owned())]).await;
    let answer = fixture.call("parts").await;
    let output = answer.result.unwrap();
    let [Part::Text { text: first }, Part::Image { mime, data }, Part::Text { text: last }] =
        output.parts.as_slice()
    else {
        panic!("{output:?}");
    };
    assert_eq!((first.as_str(), mime.as_str(), last.as_str()), ("see", "image/png", "end"));
    assert_eq!(data.as_slice(), b"\x89PNG\r\n\x1a\n");
}

/// Returns the number of processes that run `sleep` with this number of seconds.
fn sleeping(seconds: u32) -> usize {
    let wanted = format!("sleep\0{seconds}\0").into_bytes();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter(|it| std::fs::read(it.path().join("cmdline")).is_ok_and(|it| it == wanted)).count()
}

const SLEEP: &str = "import subprocess\nsubprocess.Popen(['sleep', args['sleep']], start_new_session=True)\n";

#[tokio::test]
async fn what_a_call_leaves_running_ends_with_it_and_what_the_import_started_stays() {
    kit::needs!(Python);
    let head = "import subprocess\nsubprocess.Popen(['sleep', '98761'])\n";
    let fixture = Fixture::new(&[after(head, "leaves", &format!("{SLEEP}return 'left'"))]).await;
    for _ in 0..3 {
        assert_eq!(fixture.call_with("leaves", json!({"sleep": "98762"})).await.as_text(), "left");
        assert_eq!((sleeping(98761), sleeping(98762)), (1, 0));
    }
}

#[tokio::test]
async fn what_calls_leave_running_ends_when_none_of_them_runs_any_more() {
    kit::needs!(Python);
    let body = format!(
        "import asyncio, os\nif args.get('wait'):\n    open('begun', 'w').close()\n    \
         while not os.path.exists('go'): await asyncio.sleep(0.005)\n    return 'waited'\n{SLEEP}return 'left'"
    );
    let fixture = Fixture::new(&[navi("shares", &body)]).await;
    let waiting = fixture.session.call(Call::new("shares", json!({"wait": true})));
    let others = async {
        fixture.until_begun().await;
        assert_eq!(fixture.call_with("shares", json!({"sleep": "98763"})).await.as_text(), "left");
        // A process has no command line yet while it is being replaced by its program.
        until(|| sleeping(98763) == 1).await;
        std::fs::write(fixture.workspace().join("go"), "").unwrap();
    };
    let (waited, ()) = tokio::join!(waiting, others);
    assert_eq!(waited.as_text(), "waited");
    assert_eq!(sleeping(98763), 0);
}

#[tokio::test]
async fn what_a_stopped_call_left_running_ends_too() {
    kit::needs!(Python);
    let body = "import asyncio, subprocess\nsubprocess.Popen(['sleep', '98764'], start_new_session=True)\n\
        open('begun', 'w').close()\nawait asyncio.sleep(1000)";
    let fixture = Fixture::new(&[navi("stays", body)]).await;
    fixture.stopped_once_begun("stays").await;
    until(|| sleeping(98764) == 0).await;
}
