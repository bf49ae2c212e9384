#![expect(clippy::unwrap_used, reason = "tests")]

use agent::Message;
use expect_test::expect;
use serde_json::json;

use super::*;

fn text(text: &str) -> Event {
    Event::Text { text: text.to_owned() }
}

fn called(call: &str, tool: &str, arguments: serde_json::Value) -> Event {
    Event::Called { call: call.to_owned(), tool: tool.to_owned(), arguments }
}

fn answered(call: &str, ok: bool, said: &str) -> Event {
    Event::Answered {
        call: call.to_owned(),
        tool: "shell".to_owned(),
        ok,
        fault: None,
        exit: None,
        ms: 1200.0,
        text: said.to_owned(),
        pictures: Vec::new(),
        changes: Vec::new(),
        links: Vec::new(),
    }
}

fn under(inner: Event) -> Event {
    Event::Under { agent: "explore_1".to_owned(), inner: Box::new(inner) }
}

fn shown(rows: &[Row]) -> String {
    rows.iter().map(|it| it.text() + "\n").collect()
}

fn events() -> Vec<Event> {
    vec![
        Event::Asked { step: 1 },
        Event::Reasoning { text: "hm, the tests".to_owned() },
        text("I run the **tests**.\n\nAnd "),
        called("c1", "shell", json!({"command": "python3 -m unittest discover --verbose"})),
        text("look"),
        called("c2", "subagent", json!({"prompt": "find it"})),
        under(called("c3", "grep", json!({"pattern": "x\u{1b}[2J"}))),
        under(text("looking\ninto it")),
        answered("c1", false, "FAILED (failures=1)"),
    ]
}

fn look(columns: usize) -> Look {
    Look { columns, plain: false }
}

fn rows_of(drawn: Vec<Drawn>) -> Vec<Row> {
    drawn.into_iter().filter_map(|it| if let Drawn::Row(row) = it { Some(row) } else { None }).collect()
}

#[test]
fn what_happened_stays_and_what_runs_is_in_motion() {
    for (columns, stays, moves) in [
        (
            60,
            expect![[r#"

                hm, the tests

                I run the tests.

                And
                look

                ✗ shell python3 -m unittest discover --verbose  error, 1.2 s
                    FAILED (failures=1)
            "#]],
            expect![[r#"
            • subagent find it  3.0 s
                last line
              explore_1: into it
                • grep x\u{1b}[2J  3.0 s

            ⠋ running 1 call · 3 s · ~28 tokens · Esc to stop
        "#]],
        ),
        (
            20,
            expect![[r#"

                hm, the tests

                I run the tests.

                And
                look

                ✗ shell…  error, 1.…
                    FAILED
                    (failures=1)
            "#]],
            expect![[r#"
            • subagent f…  3.0 s
                last line
              explore_1: into it
                • grep x…  3.0 s

            ⠋ running 1 call
        "#]],
        ),
    ] {
        let began = Instant::now();
        let mut view = View::default();
        view.begin(began, None);
        let mut rows = Vec::new();
        for event in events() {
            rows.extend(rows_of(view.observe(&event, began, look(columns))));
        }
        stays.assert_eq(&shown(&rows));
        view.look_at_calls(began, |id| match id {
            "c2" => Seen { line: Some("last line".to_owned()), ..Seen::default() },
            _ => Seen::default(),
        });
        let live = view.live(began + Duration::from_secs(3), look(columns));
        moves.assert_eq(&shown(&live));
        assert!(live.iter().chain(&rows).all(|it| it.width() <= columns));
    }
}

fn stays_of(view: &mut View, event: &Event) -> String {
    shown(&rows_of(view.observe(event, Instant::now(), look(60))))
}

fn ends(call: &str, tool: &str, said: &str, of: impl FnOnce(&mut Event)) -> Event {
    let mut event = answered(call, true, said);
    if let Event::Answered { tool: name, .. } = &mut event {
        *name = tool.to_owned();
    }
    of(&mut event);
    event
}

#[test]
fn lines_of_a_command_are_counted_without_those_that_frame_them() {
    let command = |said: &str| {
        stays_of(
            &mut View::default(),
            &ends("c", "shell", said, |it| {
                if let Event::Answered { exit, .. } = it {
                    *exit = Some(3);
                }
            }),
        )
    };
    assert_eq!(command("a\n[exit 3]"), "✗ shell  exit 3, 1.2 s\n    a\n");
    assert_eq!(command("a\nb\n[waited 1.0 s]\n[exit 3]"), "✗ shell  exit 3, 1.2 s\n    b  (2 lines)\n");
}

#[test]
fn a_stopped_call_shows_what_it_wrote_by_then() {
    let stopped = |said: &str| {
        stays_of(
            &mut View::default(),
            &ends("c", "shell", said, |it| {
                if let Event::Answered { ok, fault, .. } = it {
                    (*ok, *fault) = (false, Some(Kind::Cancelled));
                }
            }),
        )
    };
    assert_eq!(
        stopped("`shell` was stopped after 2.0 s\nbegun\n[stopped]"),
        "✗ shell  stopped, 1.2 s\n    begun\n"
    );
    assert_eq!(stopped("`write` was stopped after 0.0 s"), "✗ shell  stopped, 1.2 s\n");
}

#[test]
fn a_diff_that_a_question_showed_is_not_shown_again() {
    let diff = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n".to_owned();
    let change = Change { path: "a".to_owned(), added: 1, removed: 1, diff, ..Change::default() };
    let edited = ends("c", "edit", "Updated a", |it| {
        if let Event::Answered { changes, .. } = it {
            changes.push(change.clone());
        }
    });
    let mut view = View::default();
    view.showed("c".to_owned(), vec![change.clone()]);
    assert_eq!(stays_of(&mut view, &edited), "✓ edit  1.2 s\n    a (+1 -1)\n");
    // The applied changes differ from those that were shown.
    let mut view = View::default();
    view.showed("c".to_owned(), vec![Change { added: 7, ..change }]);
    assert!(stays_of(&mut view, &edited).contains("1 + y"));
}

#[test]
fn the_answer_of_the_person_is_not_repeated() {
    let answered = ends("c", "ask_user", "main", |_| ());
    assert_eq!(stays_of(&mut View::default(), &answered), "✓ ask_user  1.2 s\n");
}

#[test]
fn a_plan_is_a_checklist_that_follows_what_is_done() {
    let now = Instant::now();
    let mut view = View::default();
    view.begin(now, None);
    let todo = |view: &mut View, list: &str| {
        let id = list.to_owned();
        view.observe(
            &called(&id, "todo", json!({"action": "set", "tasks": ["read", "write"]})),
            now,
            look(40),
        );
        let mut answer = answered(&id, true, list);
        if let Event::Answered { tool, .. } = &mut answer {
            *tool = "todo".to_owned();
        }
        let stays = rows_of(view.observe(&answer, now, look(40)));
        shown(&stays) + "and below\n" + &shown(&view.live(now, look(40)))
    };
    expect![[r#"

        ✓ todo 0 of 2 done  1.2 s
            ☐ read
            ☐ write
        and below
        ⠋ waiting for the model · 0 s
    "#]]
    .assert_eq(&todo(&mut view, "1. [pending] read\n2. [pending] write\n0 of 2 done"));
    expect![[r#"
        ✓ todo 1 of 2 done  1.2 s
            ☑ read
            ▶ write
        and below
        ⠋ waiting for the model · 0 s
    "#]]
    .assert_eq(&todo(&mut view, "1. [done] read\n2. [in_progress] write\n1 of 2 done"));
    expect![[r#"
        ✓ todo 2 of 2 done  1.2 s
            ☑ write
        and below
        ⠋ waiting for the model · 0 s
    "#]]
    .assert_eq(&todo(&mut view, "1. [done] read\n2. [done] write\n2 of 2 done"));
    let mut view = View { tasks: checklist::read("1. [done] read\n2. [pending] write"), ..View::default() };
    view.begin(now, None);
    view.observe(&called("c", "shell", json!({"command": "make"})), now, look(40));
    expect![[r#"

        • shell make  0.0 s

        Tasks: 1 of 2 done
          ☑ read
          ☐ write
        ⠋ running 1 call · 0 s · Esc to stop
    "#]]
    .assert_eq(&shown(&view.live(now, look(40))));
}

#[test]
fn a_long_thought_is_folded_once_it_is_over() {
    let now = Instant::now();
    let mut view = View::default();
    let lines: Vec<String> = (1..=9).map(|it| format!("thought {it}")).collect();
    let thought = Event::Reasoning { text: lines.join("\n") };
    assert!(view.observe(&thought, now, look(60)).is_empty());
    assert_eq!(shown(&view.live(now, look(60))), "thought 7\nthought 8\nthought 9\n");
    let end = Event::Reasoning { text: "\nand so".to_owned() };
    view.observe(&end, now + Duration::from_secs(12), look(60));
    let rows = rows_of(view.observe(&text("Hello\n\n"), now, look(60)));
    assert_eq!(shown(&rows), "thought for 12 s, 10 lines (Ctrl-O shows them)\n\n");
}

#[test]
fn what_was_said_before_is_seen_again() {
    let message: Message = serde_json::from_value(
        json!({"who": "tool", "tool": "read", "title": "{\"path\":\"a.py\"}", "ok": true, "line": "3 lines", "ms": 3.0}),
    )
    .unwrap();
    assert_eq!(shown(&said_before(&message, look(40))), "✓ read a.py  0.0 s\n    3 lines\n");
    let person = Message::Person { text: "do\nit".to_owned(), attached: Vec::new() };
    assert_eq!(shown(&said_before(&person, look(40))), "> do\n  it\n");
}
