//! The process of an MCP server: standard output carries messages only, and it ends with its input.
//!
//! Without the usual harness, which prints to the very stream that is tested: this program starts itself
//! again as the server.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

#[path = "mcp/fake.rs"]
mod fake;

use std::{
    env,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

const AS_SERVER: &str = "HAFT_TEST_AS_SERVER";

fn main() {
    if env::var_os(AS_SERVER).is_some() {
        print!("printed before it serves, and not flushed");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime
            .block_on(serve::mcp_stdio(fake::FakeBackend::default(), serve::About::new("For tests.")))
            .expect("it serves");
        println!("printed after it has served");
        return;
    }
    what_is_printed_goes_to_stderr();
    the_end_of_input_ends_it_within_a_second();
    println!("2 checks passed");
}

fn what_is_printed_goes_to_stderr() {
    let (mut child, mut input, mut output) = start();
    ask(&mut input, &mut output, &initialize());
    let answer = ask(&mut input, &mut output, &call(2, "print", &json!({"text": "NOISE"})));
    assert_eq!(answer["result"]["content"][0]["text"], "printed");
    let answer = ask(&mut input, &mut output, &call(3, "stdin", &json!({})));
    assert_eq!(answer["result"]["content"][0]["text"], "0 bytes", "nobody else reads what the client says");
    drop(input);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "only messages on standard output");
    let mut noise = String::new();
    child.stderr.take().unwrap().read_to_string(&mut noise).unwrap();
    for printed in ["printed before", "NOISE", "printed after"] {
        assert!(noise.contains(printed), "{printed} is not in {noise:?}");
    }
    assert!(child.wait().unwrap().success());
}

fn the_end_of_input_ends_it_within_a_second() {
    let (mut child, mut input, mut output) = start();
    ask(&mut input, &mut output, &initialize());
    writeln!(input, "{}", call(2, "wait", &json!({}))).unwrap();
    writeln!(input, "{}", call(3, "stubborn", &json!({}))).unwrap();
    let closed = Instant::now();
    drop(input);
    assert!(child.wait().unwrap().success());
    // Twice what is promised, for a machine that is busy with other tests.
    assert!(closed.elapsed() < Duration::from_secs(2), "{:?}", closed.elapsed());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(2), &json!(true)));
}

fn start() -> (Child, ChildStdin, BufReader<ChildStdout>) {
    let mut child = Command::new(env::current_exe().unwrap())
        .env(AS_SERVER, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, input, output)
}

fn ask(input: &mut ChildStdin, output: &mut BufReader<ChildStdout>, request: &Value) -> Value {
    writeln!(input, "{request}").unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let answer: Value = serde_json::from_str(&line).unwrap_or_else(|error| unreachable!("{line:?}: {error}"));
    assert_eq!(answer["id"], request["id"], "{answer}");
    answer
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}})
}

fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}
