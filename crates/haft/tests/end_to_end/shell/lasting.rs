//! `bash`: one shell per session, which always answers.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Shells, alive, job_in, mark, until};

#[test]
fn inputs_that_hang_elsewhere_come_back_at_once() {
    let shells = Shells::new();
    let began = Instant::now();
    let table = [
        ("echo hi # a comment", "hi"),
        ("cat <<E\na $((1+1))\nE", "a 2"),
        ("read x; echo \"[$x]\"", "[]"),
        ("cat; sort; echo read", "read"),
        ("echo '<<exit>>'; echo after", "<<exit>>\nafter"),
        ("(exit 7)", "(no output)\n[exit 7]"),
        ("false", "(no output)\n[exit 1]"),
        ("sleep 300 & echo bg", "bg"),
        ("echo one; echo two >&2; echo three", "one\ntwo\nthree"),
        ("echo no line end | tr -d '\\n'", "no line end"),
        ("echo it\\'s \"\\\"quoted\\\"\" '$HOME'", "it's \"quoted\" $HOME"),
        ("echo back\\", "back\\"),
        (":", "(no output)"),
        ("kill -0 $$ && echo alive", "alive"),
        // Nothing of ours is open in a command but the descriptor that bash tells on.
        ("ls -m /proc/self/fd", "0, 1, 2, 3, 57"),
    ];
    for (command, expected) in table {
        assert_eq!(shells.bash(command), expected, "{command}");
    }
    let said = shells.bash("echo \"unterminated");
    assert!(said.contains("unexpected EOF") && said.contains("[exit "), "{said}");
    let said = shells.bash("cat <<E\nnever ended");
    assert!(said.contains("warning: here-document") && said.ends_with("\nnever ended"), "{said}");
    let said = shells.bash("exit 3");
    assert_eq!(said, "(no output)\n[exit 3]\n[bash has ended; the next call starts a new one]");
    assert!(began.elapsed() < Duration::from_secs(60), "something waited for what never comes");
    shells.finish();
}

#[test]
fn long_outputs_are_cut_in_the_middle_and_kept_whole() {
    let shells = Shells::new();
    let said = shells.bash("seq 30000");
    assert!(said.starts_with("1\n2\n3\n") && said.ends_with("\n29999\n30000"), "{}", said.len());
    let handle =
        said.split("out_").nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect::<String>();
    let page = shells.does("read", &json!({"path": format!("out_{handle}"), "offset": 15_000, "limit": 3}));
    assert!(page.contains("|15000\n") || page.contains("|15001\n"), "{page}");
    let said = shells.bash("head -c 300000 /dev/zero | tr '\\0' x; echo; echo the end");
    assert!(said.contains("out_") && said.ends_with("\nthe end"), "{}", said.len());
    assert!(said.len() < 70_000);
    shells.finish();
}

#[test]
fn what_a_command_changes_is_there_for_the_next() {
    let shells = Shells::new();
    shells.test_ws.put("sub/file", "");
    assert!(shells.bash("cd sub").ends_with("/ws/sub]"));
    shells.bash("export COLOUR=green; plain=1");
    shells.bash("f() { echo \"f($1)\"; }\nalias hello='echo good day'");
    shells.bash("set -o pipefail; shopt -s nullglob; exec 5>kept");
    let said = shells.bash(
        "ls; f 2; hello; echo $COLOUR $plain; bash -c 'echo $COLOUR'; echo x >&5; cat kept; ls no*thing",
    );
    assert_eq!(said, "file\nkept\nf(2)\ngood day\ngreen 1\ngreen\nx\nfile\nkept");
    let said = shells.bash("false | true");
    assert_eq!(said, "(no output)\n[exit 1]");
    assert_eq!(shells.bash("echo $?"), "1");
    shells.bash("sleep 300 & echo $! > pid");
    assert_eq!(shells.bash("kill -0 $(cat pid) && jobs -r | wc -l && kill %1 && wait %1; echo $?"), "1\n143");
    shells.finish();
}

#[test]
fn a_command_runs_at_top_level_whatever_options_and_traps_are_set() {
    let shells = Shells::new();
    let said = shells.bash("return 4; echo on");
    assert!(said.contains("can only `return'") && said.contains("on"), "{said}");
    let said = shells.bash("break; declare -i n=4+4; local m=1; echo $n");
    assert!(said.contains("can only be used in a function") && said.ends_with('8'), "{said}");
    shells.bash("set -x");
    assert_eq!(shells.bash("echo traced"), "++ echo traced\ntraced");
    shells.bash("set +x; set -v");
    assert_eq!(shells.bash("echo a\necho b"), "a\necho b\nb");
    shells.bash("set +v; trap 'echo before \"$BASH_COMMAND\"' DEBUG");
    assert_eq!(shells.bash("echo a; echo b"), "before echo a\na\nbefore echo b\nb");
    shells.bash("trap - DEBUG; IFS=a; readonly IFS; PROMPT_COMMAND='echo prompt'; PS1='prompt '");
    assert_eq!(shells.bash("x=banana; echo $x"), "b n n");
    shells.bash("printf() { :; }; read() { :; }; exec 2>&1 3>&- 10>ten 11>&-");
    assert_eq!(shells.bash("echo fine; nosuchcommand").lines().next(), Some("fine"));
    assert_eq!(shells.bash("exec >file"), "(no output)");
    assert_eq!(shells.bash("echo hidden"), "(no output)");
    assert_eq!(shells.test_ws.text("file"), "hidden\n");
    let said = shells.bash("set -e; set -u; (exit 6)");
    assert_eq!(said, "(no output)\n[exit 6]\n[bash has ended; the next call starts a new one]");
    let said = shells.bash("echo new");
    assert!(said.starts_with("[a new bash, in ") && said.ends_with("\nnew"), "{said}");
    shells.finish();
}

#[test]
fn a_bash_that_ends_says_so_and_the_next_starts_where_it_was() {
    let shells = Shells::new();
    shells.test_ws.put("sub/file", "");
    let ends = [
        ("exec sh -c 'echo x; exit 5'", "x\n[exit 5]"),
        ("echo y; kill -9 $$", "y\n[exit 137: ended by SIGKILL]"),
    ];
    for (command, expected) in ends {
        shells.bash("cd sub 2>/dev/null; v=1; true");
        let said = shells.bash(command);
        assert_eq!(said, format!("{expected}\n[bash has ended; the next call starts a new one]"));
        let said = shells.bash("echo \"[$v]\"; pwd");
        assert!(said.starts_with("[a new bash, in "), "{said}");
        assert!(said.contains("\n[]\n") && said.ends_with("/ws/sub"), "{said}");
    }
    shells.bash("v=2");
    shells.does("bash", &json!({"restart": true}));
    let said = shells.bash("echo \"[$v]\"; pwd");
    assert!(said.contains("[]\n") && said.ends_with("/ws"), "{said}");
    let said = shells.does("bash", &json!({"restart": true, "command": "echo also with a command"}));
    assert!(said.ends_with("also with a command"), "{said}");
    shells.finish();
}

#[test]
fn a_deadline_keeps_the_output_ends_what_was_started_and_leaves_the_shell() {
    let shells = Shells::new();
    shells.bash(&format!("export {}; cd /; cd -; v=kept; f() {{ echo \"f $v\"; }}", mark(&shells.test_ws)));
    shells.bash("sleep 4321 & earlier=$!");
    let tree = "echo before; (setsid sleep 1234 &) ; nohup sleep 1234 & (sh -c 'sleep 1234 & sleep 1234' &); \
                while true; do sleep 1234 || true; done; touch DANGER";
    let said = shells.call("bash", &json!({"command": tree, "timeout_s": 1}));
    assert!(
        said.is_error && said.text.contains("`timeout_s`") && said.text.contains("before"),
        "{}",
        said.text
    );
    assert!(said.text.contains("bash goes on"), "{}", said.text);
    until("its processes live on", || !alive(&shells.test_ws).iter().any(|it| it.contains("1234 ")));
    assert_eq!(shells.bash("f; kill -0 $earlier && echo earlier lives"), "f kept\nearlier lives");
    assert_eq!(
        shells.bash("for i in 1 2; do echo $i; done; shopt -q extdebug || echo as it was"),
        "1\n2\nas it was"
    );
    assert!(!shells.has("DANGER"), "the command went on after its end");
    shells.finish();
}

#[test]
fn a_builtin_that_can_not_be_stopped_costs_the_shell_and_not_the_session() {
    let shells = Shells::new();
    let said = shells.call("bash", &json!({"command": "mkfifo p; echo x; read line < p", "timeout_s": 1}));
    assert!(
        said.is_error && said.text.contains("starts a new one") && said.text.contains('x'),
        "{}",
        said.text
    );
    let said = shells.bash("echo again");
    assert!(said.ends_with("again") && said.starts_with("[a new bash"), "{said}");
    let said = shells.call("bash", &json!({"command": "while :; do :; done", "timeout_s": 1}));
    assert!(said.text.contains("bash goes on"), "{}", said.text);
    shells.finish();
}

#[test]
fn a_cancelled_command_is_stopped_and_the_shell_lives() {
    let shells = Shells::new();
    shells.bash(&format!("export {}; v=kept", mark(&shells.test_ws)));
    let pending =
        shells.server.start_call("bash", &json!({"command": "touch begun; sleep 1234; touch DANGER"}));
    shells.await_file("begun");
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": pending.id()}});
    shells.server.send(&cancelled.to_string());
    assert_eq!(shells.bash("echo $v").lines().last(), Some("kept"));
    assert!(!alive(&shells.test_ws).iter().any(|it| it.contains("1234 ")));
    assert!(!shells.has("DANGER"));
    shells.kill();
}

#[test]
fn a_bash_that_is_busy_in_the_background_says_so() {
    let shells = Shells::new();
    shells.bash("v=kept");
    let busy = json!({"command": "touch begun; sleep 1234", "timeout_s": 600, "run_in_background": true});
    let job = job_in(&shells.does("bash", &busy));
    shells.await_file("begun");
    let said = shells.call("bash", &json!({"command": "echo x"}));
    assert!(said.is_error && said.text.contains("busy"), "{}", said.text);
    let said = shells.does("stop_task", &json!({"job": job}));
    assert!(said.contains("bash goes on"), "{said}");
    assert_eq!(shells.bash("echo $v").lines().last(), Some("kept"));
    shells.finish();
}

#[test]
fn the_background_speaks_with_the_next_call() {
    let shells = Shells::new();
    shells.bash("(until [ -e go ]; do sleep 0.01; done; echo from behind; touch spoke) &");
    shells.test_ws.put("go", "");
    shells.await_file("spoke");
    assert_eq!(
        shells.bash("echo front"),
        "[from the background, since the last call:]\nfrom behind\n[from this call:]\nfront"
    );
    shells.finish();
}

#[test]
fn bytes_that_are_no_text_and_words_that_look_like_ours_are_kept() {
    let shells = Shells::new();
    assert_eq!(shells.bash("printf 'a\\xffb\\n'"), "a\u{fffd}b");
    let said = shells.bash(
        "tr '\\0' '\\n' < /proc/$$/cmdline | head -1; printf 'haft00000000\\n0\\nhBs\\n/\\n'; echo; echo end",
    );
    assert_eq!(said, "bash\nhaft00000000\n0\nhBs\n/\n\nend");
    let said = shells.call("bash", &json!({"command": "echo a\u{0}b"}));
    assert!(said.is_error && said.text.contains("NUL"), "{}", said.text);
    shells.finish();
}
