//! `interact`: a program in a pseudo-terminal, by its screen and keys.

use serde_json::{Value, json};

use super::{Shells, alive, job_in, mark, until};

/// A program that owns the whole screen: it shows a menu, and what was chosen.
const MENU: &str = r"
printf '\033[?1049h\033[2J\033[3;5H\033[7mmenu\033[0m\033[4;5H> '
while IFS= read -rsn1 key; do
    [ $key = q ] && break
    printf '\033[4;7H%s' $key
done
printf '\033[?1049lbye\n'
exit 4";

impl Shells {
    #[track_caller]
    fn types(&self, job: &str, input: &Value) -> String {
        self.does("continue_job", &json!({"job": job, "input": input}))
    }
}

#[test]
fn a_repl_is_spoken_with() {
    kit::needs!(Python);
    let shells = Shells::new();
    let said = shells.does("interact", &json!({"command": "python3 -q", "until": "^>>> $"}));
    let job = job_in(&said);
    let said = shells.types(&job, &json!({"text": "x = 6 * 7\r", "until": "^>>> $"}));
    assert!(said.contains(">>> x = 6 * 7"), "{said}");
    let said =
        shells.types(&job, &json!({"text": "print('x is', x)", "keys": ["Enter"], "until": "^x is 42"}));
    assert!(said.contains("\nx is 42\n"), "{said}");
    let said = shells
        .types(&job, &json!({"keys": ["while True: pass", "Enter", "Enter"], "until": "while True: pass"}));
    assert!(said.contains("while True"), "{said}");
    let said = shells.types(&job, &json!({"keys": ["C-c"], "until": "KeyboardInterrupt"}));
    assert!(said.contains("KeyboardInterrupt"), "{said}");
    let said = shells.types(&job, &json!("exit(3)"));
    assert!(said.contains("\n[exit 3]"), "{said}");
    shells.finish();
}

#[test]
fn a_program_that_owns_the_screen_is_shown_as_it_stands() {
    let shells = Shells::new();
    shells.test_ws.put("menu", MENU);
    let said =
        shells.does("interact", &json!({"command": "bash menu", "rows": 10, "cols": 40, "until": "> $"}));
    let job = job_in(&said);
    assert!(said.starts_with("\n\n    menu\n    >\n[cursor: row 4, column 7]\n"), "{said}");
    let said = shells.types(&job, &json!({"keys": ["a"], "until": "> a"}));
    assert!(said.contains("    > a\n"), "{said}");
    let said = shells.types(&job, &json!({"keys": ["b"], "until": "> b"}));
    assert!(said.contains("    > b\n") && !said.contains("> a"), "{said}");
    let said = shells.types(&job, &json!({"keys": ["q"]}));
    assert!(said.starts_with("bye\n[exit 4]"), "{said}");
    shells.finish();
}

#[test]
fn what_is_typed_wrong_is_said_and_does_not_end_the_program() {
    let shells = Shells::new();
    let job = job_in(&shells.does("interact", &json!({"command": "cat"})));
    let said = shells.types(&job, &json!({"key": "x"}));
    assert!(said.contains("the input was not typed"), "{said}");
    let said = shells.types(&job, &json!({"text": "x", "until": "("}));
    assert!(said.contains("not a regular expression"), "{said}");
    let said = shells.types(&job, &json!("still here"));
    assert_eq!(said.lines().next(), Some("still here"), "{said}");
    let said = shells.types(&job, &json!({"keys": ["C-d"]}));
    assert!(said.contains("\n[it has ended]"), "{said}");
    let said = shells.call("continue_job", &json!({"job": job, "input": "x"}));
    assert!(said.is_error, "{}", said.text);
    shells.finish();
}

#[test]
fn what_was_waited_for_and_did_not_come_is_said() {
    let shells = Shells::new();
    let said =
        shells.does("interact", &json!({"command": "echo here; cat", "until": "never", "wait_ms": 3000}));
    assert!(said.starts_with("here\n[the time is up"), "{said}");
    let said = shells.call("interact", &json!({"command": "cat", "until": "("}));
    assert!(said.is_error && said.text.contains("`until`"), "{}", said.text);
    shells.finish();
}

#[test]
fn a_program_is_stopped_with_all_it_started() {
    for ended in [Shells::finish, Shells::kill] {
        let shells = Shells::new();
        let command = format!("export {}; sleep 1234 & touch begun; bash", mark(&shells.test_ws));
        let said = shells.does("interact", &json!({"command": command}));
        shells.await_file("begun");
        until("it did not start", || alive(&shells.test_ws).iter().any(|it| it.contains("sleep 1234")));
        shells.does("stop_task", &json!({"job": job_in(&said)}));
        until("it lives on", || !alive(&shells.test_ws).iter().any(|it| it.contains("sleep 1234")));
        shells.does("interact", &json!({"command": command}));
        ended(shells);
    }
}
