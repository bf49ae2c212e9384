//! How does a command begin and end?

use haft::kit::procs::Exit;

use crate::support::{keeper, run, sh};

#[tokio::test]
async fn exit_codes_and_signals_are_told_apart() {
    let keeper = keeper().await;
    assert_eq!(run(&keeper, sh("echo hello")).await, (Exit::Code(0), "hello\n".to_owned()));
    assert_eq!(run(&keeper, sh("exit 7")).await.0, Exit::Code(7));
    assert_eq!(run(&keeper, sh("kill -9 $$")).await.0, Exit::Signal(9));
}
