//! Tools that crash, hang or flood: only their own call fails.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use haft::{
    kit::{Fault, Kind},
    runtime::{Answer, Call},
};
use serde_json::json;

use super::support::{Fixture, HANG, Wish, after, navi, until};

fn fault(answer: &Answer) -> &Fault {
    answer.result.as_ref().err().unwrap_or_else(|| panic!("it worked: {}", answer.as_text()))
}

/// Checks that after a crash, a call of another tool succeeds, and one of the same tool.
async fn crashes(body: &str, says: &[&str]) {
    let body = format!("if args.get('good'): return 'good'\nprint('before the end')\n{body}");
    let fixture = Fixture::new(&[navi("ends", &body), navi("other", "return 'other'")]).await;
    let answer = fixture.call("ends").await;
    assert_eq!(fault(&answer).kind, Kind::Failed, "{}", answer.as_text());
    for word in says.iter().chain(&["before the end"]) {
        assert!(answer.as_text().contains(word), "{word}: {}", answer.as_text());
    }
    assert_eq!(fixture.says("other").await, "other");
    assert_eq!(fixture.call_with("ends", json!({"good": true})).await.as_text(), "good");
}

#[tokio::test]
async fn a_process_that_exits_says_its_code() {
    kit::needs!(Python);
    crashes("import os; os._exit(3)", &["`ends` ended its process", "exited with code 3"]).await;
}

#[tokio::test]
async fn a_segfault_says_its_signal() {
    kit::needs!(Python);
    crashes("import ctypes; ctypes.string_at(0)", &["SIGSEGV"]).await;
}

#[tokio::test]
async fn a_process_that_kills_all_it_can_kills_itself() {
    kit::needs!(Python);
    crashes("import os\nos.kill(-1, 9)\nos.kill(os.getpid(), 9)", &["`ends` ended its process"]).await;
}

#[tokio::test]
async fn a_traceback_comes_with_what_was_printed() {
    kit::needs!(Python);
    let body = "def inner():\n    raise ValueError('bad thing')\ninner()";
    crashes(body, &["ValueError: bad thing", "line ", "inner()"]).await;
}

#[tokio::test]
async fn one_that_closes_its_connection_is_ended() {
    kit::needs!(Python);
    crashes("import os, time; os.closerange(3, 1024); time.sleep(60)", &["closed its connection"]).await;
}

#[tokio::test]
async fn junk_without_end_is_no_answer() {
    kit::needs!(Python);
    let body = "import os\nwhile True:\n    for fd in range(3, 256):\n        try: os.write(fd, b'x' * 65536)\n        except OSError: pass";
    crashes(body, &["not an answer", "64 MB"]).await;
}

#[tokio::test]
async fn what_a_tool_writes_to_all_its_descriptors_harms_no_answer() {
    kit::needs!(Python);
    let body = "import os\nfor fd in range(3, 256):\n    try: os.write(fd, b'{\"op\": \"result\"}\\njunk')\n    except OSError: pass\nreturn 'good'";
    let fixture = Fixture::new(&[navi("junk", body)]).await;
    for _ in 0..3 {
        assert_eq!(fixture.says("junk").await, "good");
    }
}

#[tokio::test]
async fn much_that_is_printed_is_kept_in_a_file() {
    kit::needs!(Python);
    let body = "import os\nfor _ in range(1024):\n    os.write(1, b'y' * 1048575 + b'\\n')\nraise ValueError('enough')";
    let fixture = Fixture::new(&[navi("much", body), navi("other", "return 'other'")]).await;
    let answer = fixture.call("much").await;
    let text = answer.as_text();
    assert!(text.contains("ValueError: enough") && text.contains("left out"), "{text}");
    assert!(text.len() < 16 << 10, "{}", text.len());
    assert_eq!(fixture.says("other").await, "other");
}

#[tokio::test]
async fn an_endless_loop_ends_at_the_deadline() {
    kit::needs!(Python);
    let wish = Wish { deadline: Duration::from_secs(2), ..Wish::default() };
    let body = "if args.get('good'): return 'good'\nprint('in the loop')\nwhile True: pass";
    let fixture = Fixture::with(&[navi("hangs", body)], &wish).await;
    let answer = fixture.call("hangs").await;
    assert_eq!(fault(&answer).kind, Kind::Timeout);
    assert!(answer.as_text().contains("in the loop"), "{}", answer.as_text());
    assert_eq!(fixture.call_with("hangs", json!({"good": true})).await.as_text(), "good");
}

#[tokio::test]
async fn a_stopped_call_says_what_it_printed_and_the_process_stays_if_it_obeys() {
    kit::needs!(Python);
    let body = "import asyncio, os\nif args.get('pid'): return str(os.getpid())\nprint('waits', flush=True)\nopen('begun', 'w').close()\nawait asyncio.sleep(1000)";
    let fixture = Fixture::new(&[navi("waits", body)]).await;
    let pid = fixture.call_with("waits", json!({"pid": true})).await.as_text();
    let answer = fixture.stopped_once_begun("waits").await;
    assert_eq!(fault(&answer).kind, Kind::Cancelled);
    assert!(answer.as_text().contains("waits"), "{}", answer.as_text());
    assert_eq!(fixture.call_with("waits", json!({"pid": true})).await.as_text(), pid);
}

#[tokio::test]
async fn a_call_that_does_not_obey_is_ended() {
    kit::needs!(Python);
    let body =
        "import os, time\nif args.get('good'): return 'good'\nopen('begun', 'w').close()\nwhile True: pass";
    let fixture = Fixture::new(&[navi("deaf", body)]).await;
    let answer = fixture.stopped_once_begun("deaf").await;
    assert_eq!(fault(&answer).kind, Kind::Cancelled, "{}", answer.as_text());
    assert_eq!(fixture.call_with("deaf", json!({"good": true})).await.as_text(), "good");
}

#[tokio::test]
async fn calls_that_had_not_begun_when_their_process_went_are_begun_anew() {
    kit::needs!(Python);
    // The loop is blocked by the first, so the others wait in the socket.
    let body = "import os, time\nif args.get('end'):\n    open('begun', 'w').close()\n    while not os.path.exists('go'): time.sleep(0.01)\n    os._exit(4)\nreturn 'done'";
    let fixture = Fixture::new(&[navi("shared", body)]).await;
    let first = fixture.session.call(Call::new("shared", json!({"end": true})));
    let rest = async {
        fixture.until_begun().await;
        let rest = (0..20).map(|_| fixture.call("shared"));
        let rest = join_all(rest);
        tokio::pin!(rest);
        // They are sent before the first may end.
        let sent = tokio::time::timeout(Duration::from_millis(300), &mut rest).await;
        assert!(sent.is_err());
        std::fs::write(fixture.workspace().join("go"), "").unwrap();
        rest.await
    };
    let (first, rest) = tokio::time::timeout(HANG, async { tokio::join!(first, rest) }).await.unwrap();
    assert!(fault(&first).what.contains("exited with code 4"), "{}", first.as_text());
    for answer in rest {
        assert_eq!(answer.as_text(), "done");
    }
}

#[tokio::test]
async fn a_call_that_had_begun_is_told_that_another_ended_its_process() {
    kit::needs!(Python);
    let body = "import asyncio, os\nif args.get('end'):\n    await asyncio.sleep(0.2)\n    os._exit(4)\nawait asyncio.sleep(1000)";
    let fixture = Fixture::new(&[navi("shared", body)]).await;
    let call = |arguments| fixture.call_with("shared", arguments);
    let (waits, ends) = tokio::join!(call(json!({})), call(json!({"end": true})));
    for answer in [waits, ends] {
        assert!(fault(&answer).what.contains("either may have ended it"), "{}", answer.as_text());
    }
}

#[tokio::test]
async fn what_a_tool_s_import_started_ends_with_the_session() {
    kit::needs!(Python);
    let head = "import subprocess\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)";
    let fixture = Fixture::new(&[after(head, "leaves", "return 'left'")]).await;
    assert_eq!(fixture.says("leaves").await, "left");
    until(|| fixture.processes() >= 2).await;
    fixture.session.end().await;
    until(|| fixture.processes() == 0).await;
}

#[tokio::test]
async fn an_import_that_ends_the_process_says_so() {
    kit::needs!(Python);
    // It goes well where it is described.
    let head = "import os\nif os.path.exists('armed'):\n    print('so far')\n    os._exit(5)\nopen('armed', 'w').close()";
    let fixture = Fixture::new(&[after(head, "early", "return 'never'")]).await;
    let text = fixture.says("early").await;
    assert!(text.contains("can't be imported: it exited with code 5") && text.contains("so far"), "{text}");
}

#[tokio::test]
async fn an_import_of_what_is_not_there_says_how_to_have_it() {
    kit::needs!(Python);
    let fixture = Fixture::new(&[navi("needs", "import no_such_module.part")]).await;
    let text = fixture.says("needs").await;
    assert!(
        text.contains("No module named") && text.contains("dependencies = [\"no_such_module\"]"),
        "{text}"
    );
}

#[tokio::test]
async fn a_call_stops_within_its_own_time() {
    kit::needs!(Python);
    let body = "import asyncio\nprint('slowly')\nawait asyncio.sleep(1000)";
    let fixture = Fixture::new(&[after("timeout_seconds = 0.5", "slow", body)]).await;
    let begun = Instant::now();
    let answer = fixture.call("slow").await;
    assert_eq!(fault(&answer).kind, Kind::Timeout, "{}", answer.as_text());
    assert!(answer.as_text().contains("within its 0.5 s") && answer.as_text().contains("slowly"));
    assert!(begun.elapsed() < HANG);
}
