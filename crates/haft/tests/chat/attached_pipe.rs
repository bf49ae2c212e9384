//! `haft chat --attach` in a pipe: lines in, lines out, on a session that another process runs.

use std::{
    io::{Read as _, Write as _},
    process::Stdio,
};

use super::{
    screens::{calls, says, until},
    stage::Stage,
};
use crate::support::run;

#[test]
fn pipe_takes_part_in_the_session_of_another_process_and_ends_with_its_input() {
    let stage = Stage::new((80, 24), true);
    let script = says("First.") + &says("Second.") + &says("Third.");
    let mut owner = stage.chat(&script);
    owner.types("one\n").rests("First.");
    let lines = "two\n/tools filegrep\n/context\n/cost\n!echo from-the-pipe\n/rename Numbers\nthree\n";
    let ran = run(&mut stage.test_ws.haft(&["chat", "--attach", "latest"]), lines);
    assert_eq!(ran.code, 0, "{ran:?}");
    let order = ["Second.\n", "filegrep: ", "Window: ", "2 steps, ", "from-the-pipe\n", "Third.\n"];
    let at = order.map(|it| ran.out.find(it).unwrap_or_else(|| panic!("{it}: {ran:?}")));
    assert!(at.is_sorted(), "each line is done before the next one: {ran:?}");
    for said in
        ["haft: attached to one (", "> one\n", "haft: renamed: Numbers", "haft: left; the session goes on"]
    {
        assert!(ran.err.contains(said), "{said}: {ran:?}");
    }
    owner.shows("> two").shows("Second.").shows("> three").rests("Third.");
}

#[test]
fn pipe_without_input_shows_the_turn_that_goes_on_until_it_is_over() {
    let stage = Stage::new((80, 24), true);
    let script = calls(&[("shell", until("go", "echo begun", "true"))]) + &says("All done.");
    let mut owner = stage.chat(&script);
    owner.types("the task\n").shows("shell");
    let mut pipe = stage.test_ws.haft(&["chat", "--attach", "latest"]);
    let mut pipe = pipe.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut err = pipe.stderr.take().unwrap();
    let mut first = [0];
    err.read_exact(&mut first).unwrap();
    assert!(pipe.try_wait().unwrap().is_none(), "the turn goes on");
    stage.test_ws.put("go", "");
    let ran = pipe.wait_with_output().unwrap();
    assert!(ran.status.success() && String::from_utf8_lossy(&ran.stdout).contains("All done.\n"), "{ran:?}");
    owner.rests("All done.");
}

#[test]
fn pipe_fails_with_a_command_that_does_not_work_there_and_goes_on() {
    let stage = Stage::new((80, 24), true);
    let script = says("First.") + &says("Second.");
    let mut owner = stage.chat(&script);
    owner.types("one\n").rests("First.");
    let ran = run(
        &mut stage.test_ws.haft(&["chat", "--attach", "latest"]),
        "/sessions\n/model nothing:here\ntwo\n",
    );
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("`/sessions` works only in the terminal that runs this session"), "{ran:?}");
    assert_eq!(ran.out, "Second.\n", "{ran:?}");
}

#[test]
fn pipe_needs_the_name_of_a_session_and_continues_one_that_nobody_runs() {
    let stage = Stage::new((80, 24), true);
    let ran = stage.test_ws.run(&["chat", "--attach"]);
    assert!(ran.code == 2 && ran.err.contains("`--attach` needs a name"), "{ran:?}");
    let script = says("First.") + &says("Second.");
    let mut owner = stage.chat(&script);
    owner.types("one\n").rests("First.").key("C-d");
    owner.ends();
    let ran = run(&mut stage.test_ws.haft(&["chat", "--attach", "latest"]), "two\n");
    assert!(ran.code == 0 && ran.out == "Second.\n", "{ran:?}");
}

#[test]
fn pipes_that_attach_at_once_to_a_session_that_nobody_runs_all_take_part() {
    let stage = Stage::new((80, 24), true);
    let mut owner = stage.chat(&says("Answer.").repeat(6));
    owner.types("one\n").rests("Answer.").key("C-d");
    owner.ends();
    let lines = ["pipe A", "pipe B", "pipe C", "pipe D"];
    let begun: Vec<_> = lines
        .iter()
        .map(|line| {
            let mut haft = stage.test_ws.haft(&["chat", "--attach", "latest"]);
            let haft = haft.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut pipe = haft.spawn().unwrap();
            writeln!(pipe.stdin.take().unwrap(), "{line}").unwrap();
            pipe
        })
        .collect();
    for pipe in begun {
        let ran = pipe.wait_with_output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    }
    let shown = stage.test_ws.run(&["sessions", "show", "latest"]).out;
    for line in lines {
        assert_eq!(shown.matches(line).count(), 1, "{line}: {shown}");
    }
}

#[test]
fn pipe_without_input_asks_the_model_for_nothing_in_a_session_whose_last_turn_failed() {
    let stage = Stage::new((80, 24), true);
    let script = stage.test_ws.base().join("script");
    let model = format!("script:{}", script.display());
    std::fs::write(&script, "{\"fault\": \"auth\"}\n").unwrap();
    let ran = stage.test_ws.run(&["run", "--model", &model, "a task"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    std::fs::write(&script, says("Nobody asked.")).unwrap();
    let ran = stage.test_ws.run(&["chat", "--attach", "latest"]);
    assert!(ran.code == 0 && ran.out.is_empty(), "{ran:?}");
    assert!(ran.err.contains("> a task"), "{ran:?}");
}
