//! Restarts of processes that run triggers: a small sample of `trigger_restarts`.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::process::{Command, Output};

fn restarts(count: &str, broken: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trigger_restarts"));
    if let Some(broken) = broken {
        command.env("HAFT_BREAK", broken);
    }
    command.arg(count).output().unwrap()
}

#[test]
fn no_trigger_fires_twice_or_is_lost_when_its_process_is_killed() {
    let output = restarts("80", None);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        text.starts_with("80 restarts after kill -9, ") && text.ends_with(" 0 double, 0 lost\n"),
        "{text}"
    );
}

#[test]
fn a_claim_that_is_not_one_transaction_with_its_message_is_noticed() {
    let output = restarts("80", Some("trigger-claim"));
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
