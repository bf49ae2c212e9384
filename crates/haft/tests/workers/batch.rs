//! `haft run --tasks`: many tasks, each once, with a table of results; continued after a stop.

use std::{collections::BTreeMap, fs};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Running, Worker, says, script, shell, until, workspace};
use crate::support::TestWorkspace;

/// Writes a file of tasks, each with a script of its own that appends a line to a file outside of all workspaces.
fn tasks(test_ws: &TestWorkspace, count: usize, command: &str) -> String {
    let oracle = test_ws.outside().join("effects");
    let lines: String = (0..count)
        .map(|at| {
            let effect = format!("{command}; echo effect-{at} >> {}", oracle.display());
            let model = script(
                test_ws,
                &format!("scripts/{at}.jsonl"),
                &[shell(&effect), says(&format!("Answer {at}."))],
            );
            json!({"task": format!("do {at}"), "id": format!("n{at}"), "model": model}).to_string() + "\n"
        })
        .collect();
    let file = test_ws.base().join("tasks.jsonl");
    fs::write(&file, lines).unwrap();
    file.display().to_string()
}

/// Returns how often each task had its effect.
fn effects(test_ws: &TestWorkspace) -> BTreeMap<String, usize> {
    let text = fs::read_to_string(test_ws.outside().join("effects")).unwrap_or_default();
    text.lines().fold(BTreeMap::new(), |mut all, it| {
        *all.entry(it.to_owned()).or_default() += 1;
        all
    })
}

/// Returns the results, by the id of the task; and the last line.
fn results(out: &str) -> (BTreeMap<String, Value>, Value) {
    let mut lines: Vec<Value> = out.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let last = lines.pop().unwrap();
    (lines.into_iter().map(|it| (it["id"].as_str().unwrap().to_owned(), it)).collect(), last)
}

fn worker(test_ws: &TestWorkspace) -> Worker {
    let outside = test_ws.outside().display().to_string();
    Worker::start(test_ws, &["--root", &outside, "--slots", "2"])
}

#[test]
fn batch_over_three_workers_with_one_killed_is_complete_and_nothing_happens_twice() {
    let test_ws = workspace();
    let file = tasks(&test_ws, 24, "sleep 0.1");
    let workers = [worker(&test_ws), worker(&test_ws), worker(&test_ws)];
    let running = Running::start(&test_ws, &["run", "--json", "--tasks", &file]);
    until(&running.err, "4/24");
    workers[0].until("begins");
    workers[0].signal(Signal::KILL);
    let ran = running.ended();
    let (rows, last) = results(&ran.out);
    assert_eq!((rows.len(), &last["tasks"]), (24, &json!(24)), "{ran:?}");
    let count = |name: &str| last[name].as_u64().unwrap();
    assert_eq!(count("done") + count("interrupted"), 24, "{last}");
    assert!(count("interrupted") <= 2, "only what ran on the killed worker: {last}");
    let before = effects(&test_ws);
    assert!(before.values().all(|it| *it == 1), "{before:?}");
    assert!(before.len() as u64 >= count("done"), "{before:?}");

    // The same command again reads the results; `--retry` runs what was interrupted, which may have happened.
    let again = test_ws.run(&["run", "--json", "--tasks", &file]);
    let (rows, same) = results(&again.out);
    assert_eq!((rows.len(), &same["done"], &same["interrupted"]), (24, &last["done"], &last["interrupted"]));
    assert_eq!(effects(&test_ws), before, "nothing ran again");
    let retried = test_ws.run(&["run", "--json", "--retry", "--tasks", &file]);
    let (rows, all) = results(&retried.out);
    assert_eq!((retried.code, rows.len(), &all["done"]), (0, 24, &json!(24)), "{retried:?}");
    for (id, row) in rows {
        assert_eq!(row["text"], format!("Answer {}.", id.trim_start_matches('n')), "{row}");
    }
}

#[test]
fn stopped_batch_is_continued_by_the_same_command() {
    let test_ws = workspace();
    let file = tasks(&test_ws, 8, "sleep 0.2");
    let _worker = worker(&test_ws);
    let running = Running::start(&test_ws, &["run", "--tasks", &file]);
    until(&running.err, "2/8");
    running.signal(Signal::INT);
    let ran = running.ended();
    assert!(ran.code == 130 && ran.err.contains("the same command again continues"), "{ran:?}");
    let done: Vec<String> = effects(&test_ws).into_keys().collect();
    assert!(done.len() < 8, "{done:?}");
    let ran = test_ws.run(&["run", "--json", "--tasks", &file]);
    let (rows, last) = results(&ran.out);
    assert_eq!((ran.code, rows.len(), &last["done"]), (0, 8, &json!(8)), "{ran:?}");
    let old: Vec<&str> = rows
        .values()
        .filter(|it| it["before"] == true && it["attempt"] == 0)
        .map(|it| it["id"].as_str().unwrap())
        .collect();
    assert!(old.len() >= 2, "what was done is read: {old:?}");
    let effects = effects(&test_ws);
    for id in old {
        assert_eq!(effects[&id.replacen('n', "effect-", 1)], 1, "{id} ran once");
    }
}

#[test]
fn table_has_a_row_for_each_task_with_its_answer_or_error() {
    let test_ws = workspace();
    let good = script(&test_ws, "good.jsonl", &[says("All is well.")]);
    let lines = [
        json!({"task": "a", "model": good}),
        json!({"task": "b", "model": "script:missing.jsonl", "id": "bad"}),
    ];
    let file = test_ws.base().join("tasks.jsonl");
    fs::write(&file, lines.map(|it| it.to_string()).join("\n")).unwrap();
    let _worker = worker(&test_ws);
    let ran = test_ws.run(&["run", "--tasks", &file.display().to_string()]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let row =
        |begins: &str| ran.out.lines().find(|it| it.starts_with(begins)).unwrap_or_else(|| panic!("{ran:?}"));
    assert!(row("1").contains("done") && row("1").contains("All is well."), "{ran:?}");
    assert!(row("bad").contains("failed") && row("bad").contains("missing.jsonl"), "{ran:?}");
    assert!(ran.err.contains("haft: 1 of 2 tasks done"), "{ran:?}");
    assert!(ran.err.contains("`--retry` runs those again that failed"), "{ran:?}");
    let again = test_ws.run(&["run", "--retry", "--tasks", &file.display().to_string()]);
    assert!(again.code == 1 && !again.err.contains("--retry"), "it was given already: {again:?}");
}

#[test]
fn changes_of_a_batch_land_only_on_request_and_a_second_change_of_a_file_is_refused() {
    let test_ws = workspace();
    test_ws.put("shared.txt", "old\n");
    let lines: String = (0..2)
        .map(|at| {
            let model = script(
                &test_ws,
                &format!("{at}.jsonl"),
                &[shell(&format!("echo {at} > own-{at}.txt; echo {at} > shared.txt")), says("Done.")],
            );
            json!({"task": format!("t{at}"), "model": model}).to_string() + "\n"
        })
        .collect();
    let file = test_ws.base().join("tasks.jsonl");
    fs::write(&file, lines).unwrap();
    let file = file.display().to_string();
    let _worker = worker(&test_ws);
    let ran = test_ws.run(&["run", "--tasks", &file]);
    assert!(ran.code == 0 && ran.err.contains("2 tasks changed files"), "{ran:?}");
    assert_eq!(ran.out.matches("2 not landed").count(), 2, "{ran:?}");
    assert_eq!(test_ws.text("shared.txt"), "old\n");
    let ran = test_ws.run(&["run", "--tasks", &file, "--land"]);
    assert_eq!(ran.code, 1, "one of both is refused: {ran:?}");
    assert_eq!((test_ws.text("own-0.txt"), test_ws.text("own-1.txt")), ("0\n".into(), "1\n".into()));
    assert!(["0\n", "1\n"].contains(&test_ws.text("shared.txt").as_str()), "one landed");
    assert_eq!(ran.err.matches("not changed: shared.txt").count(), 1, "{ran:?}");
    let again = test_ws.run(&["run", "--tasks", &file, "--land"]).err;
    assert!(
        again.contains("not written, as it was so already: ") && !again.contains("haft: changed"),
        "{again}"
    );

    // Without `--land` the table shows what landed before, and what was refused.
    let shown = test_ws.run(&["run", "--tasks", &file]);
    let mut files: Vec<bool> = shown.out.lines().skip(1).map(|it| it.contains(", 1 refused")).collect();
    files.sort_unstable();
    assert_eq!((files, shown.out.matches(" landed").count()), (vec![false, true], 2), "{shown:?}");
    assert!(!shown.err.contains("stay with the results"), "{shown:?}");
    assert!(shown.err.contains("files of 1 task were refused here before"), "{shown:?}");
    let (rows, _) = results(&test_ws.run(&["run", "--json", "--tasks", &file]).out);
    let refused: u64 = rows.values().map(|it| it["landed_before"]["refused"].as_u64().unwrap()).sum();
    assert_eq!(refused, 1, "{rows:?}");

    // What was undone since is not shown as landed, until it is done again.
    for call in 0..2 {
        assert_eq!(test_ws.run(&["undo"]).code, 0, "{call}");
    }
    let undone = test_ws.run(&["run", "--tasks", &file]);
    assert_eq!(
        (undone.out.matches(" undone").count(), undone.out.matches(" landed").count()),
        (2, 0),
        "{undone:?}"
    );
    assert!(undone.err.contains("the changes of 2 tasks were undone here"), "{undone:?}");
    let (rows, _) = results(&test_ws.run(&["run", "--json", "--tasks", &file]).out);
    assert!(rows.values().all(|it| it["landed_before"]["undone"] == true), "{rows:?}");
    let ran = test_ws.run(&["run", "--tasks", &file, "--land"]);
    assert!(ran.out.matches(" landed").count() == 2 && !ran.out.contains("undone"), "{ran:?}");
    assert_eq!(test_ws.text("own-1.txt"), "1\n");
    let shown = test_ws.run(&["run", "--tasks", &file]);
    assert!(!shown.out.contains("undone"), "{shown:?}");
}
