//! Commands with a pseudo-terminal.

use haft::kit::procs::{Exit, Program, Streams};

use super::support::{HANG, keeper, run, sh, start, until_written};

fn in_terminal(script: &str) -> Program {
    Program { streams: Streams::Terminal { rows: 30, cols: 100 }, ..sh(script) }
}

#[tokio::test]
async fn pseudo_terminal_has_a_name_a_size_and_an_end() {
    let keeper = keeper().await;
    let (exit, text) =
        run(&keeper, in_terminal("tty; stty size; test -t 0 -a -t 1 -a -t 2 && echo all; exit 3")).await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(exit, Exit::Code(3));
    assert!(lines[0].starts_with("/dev/pts/"), "{text}");
    assert_eq!(lines[1..], ["30 100", "all"]);
}

#[tokio::test]
async fn typed_text_arrives_and_control_keys_send_signals() {
    let keeper = keeper().await;
    let process = start(&keeper, in_terminal("exec cat")).await.unwrap();
    process.write(b"hello\n").await.unwrap();
    // As the terminal shows it, and as the program wrote it.
    until_written(&process, "hello\nhello\n").await;
    // Ctrl-C
    process.write(&[3]).await.unwrap();
    assert_eq!(process.finished(HANG).await, Exit::Signal(2));
    assert!(process.output().is_over());

    let process =
        start(&keeper, in_terminal("trap 'stty size' WINCH; echo ready; cat; echo over")).await.unwrap();
    until_written(&process, "ready").await;
    process.resize(20, 50).unwrap();
    process.close_input();
    assert_eq!(process.finished(HANG).await, Exit::Code(0));
    assert!(process.output().tail(100).text.contains("20 50"));
    assert!(process.output().tail(100).text.ends_with("over\n"));
}
