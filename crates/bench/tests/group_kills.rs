//! Random groups whose process is killed: a small sample of `group_kills`, with a fixed seed.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::process::{Command, Output};

fn runs(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_group_kills")).args(arguments).output().unwrap()
}

#[test]
fn groups_lose_and_repeat_nothing_when_their_process_is_killed_at_random_steps() {
    let output = runs(&["--sample"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        text.ends_with(": 0 lost, 0 repeated, 0 double fires, 0 missed fires, 0 other faults\n"),
        "{text}"
    );
}

#[test]
fn groups_whose_messages_are_claimed_outside_of_the_transaction_are_noticed() {
    let output = runs(&["--runs", "24", "--seed", "7", "--broken", "inbox-claim"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && !text.contains(" 0 repeated,"), "{text}");
}
