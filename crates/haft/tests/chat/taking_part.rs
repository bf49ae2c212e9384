//! An attached terminal in the session of another process: commands, plan mode, pictures, whole outputs, and prompts while
//! `haft run` works.

use std::{io::Read as _, process::Stdio};

use serde_json::json;

use super::{
    screens::{calls, says, until},
    stage::{SIZES, Stage},
};

/// Waits until an operation of an attached person waits for the owner.
fn until_asked(stage: &Stage) {
    let secrets = std::sync::Arc::new(kit::redact::Secrets::none());
    let store = store::Store::open(&stage.test_ws.state(), &stage.test_ws.at("."), secrets);
    while store.operations().open(0).unwrap().is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn command_of_an_attached_person_runs_in_the_owner_and_the_model_sees_its_output() {
    for size in SIZES {
        let stage = Stage::new(size, true);
        let script = says("First.")
            + &(json!({"expect": ["$ echo from-here", "from-here"], "say": "I saw it."}).to_string() + "\n");
        let mut owner = stage.chat(&script);
        owner.types("one\n").rests("First.");
        let mut other = stage.run(&script, &["chat", "--attach", "latest"]);
        other.rests("First.").types("!echo from-here; echo second-line\n").shows("second-line");
        owner.shows("> !echo from-here").shows("second-line");
        other.types("what was it?\n").rests("I saw it.");
        owner.rests("I saw it.");
    }
}

#[test]
fn command_of_an_attached_person_is_stopped_by_them() {
    let stage = Stage::new((80, 24), true);
    let mut owner = stage.chat(&says("First."));
    owner.types("one\n").rests("First.");
    let mut other = stage.run(&says("First."), &["chat", "--attach", "latest"]);
    other.rests("First.").types("!echo begun; sleep 600\n").shows("shell");
    owner.shows("> !echo begun").key("Esc").shows("stopped");
    other.shows("stopped");
}

#[test]
fn conversation_is_compacted_and_planned_from_an_attached_terminal() {
    let stage = Stage::new((80, 24), true);
    let script = says(&"First. ".repeat(400)) + &says("Next.") + &says("Next.");
    let mut owner = stage.chat(&script);
    owner.types("one\n").rests("First.");
    let mut other = stage.run(&script, &["chat", "--attach", "latest"]);
    other.rests("First.").types("/compact\n").shows("Compacted: about");
    owner.shows("/compact").shows("Compacted: about");
    other.types("/plan\n").shows("from now on: profile plan");
    owner.shows("profile");
    other.types("/plan how?\n").rests("Next.");
    owner.shows("> how?").rests("Next.");
    other.types("/plan\n").shows("from now on: profile none");
    other.types("/sessions\n").shows("works only in the terminal that runs this session");
}

#[test]
fn whole_output_of_a_call_is_read_at_an_attached_terminal() {
    for size in SIZES {
        let stage = Stage::new(size, true);
        let shell = json!({"command": "seq 1 3000"});
        let script = says("First.") + &calls(&[("shell", shell)]) + &says("Counted.");
        let mut owner = stage.chat(&script);
        owner.types("one\n").rests("First.");
        let mut other = stage.run(&script, &["chat", "--attach", "latest"]);
        other.rests("First.").types("count\n").rests("Counted.");
        // The middle of it is not in the log: it is read from where the owner stored it.
        other.key("C-o").shows("shell seq 1 3000").key("g").shows("\n1\n2\n").key("q").rests("Counted.");
    }
}

#[test]
fn picture_of_an_attached_person_goes_along() {
    let stage = Stage::new((80, 24), true);
    let mut picture = Vec::new();
    let pixels = image::DynamicImage::new_rgb8(8, 8);
    pixels.write_to(&mut std::io::Cursor::new(&mut picture), image::ImageFormat::Png).unwrap();
    stage.test_ws.put("shot.png", &picture);
    let script = says("First.") + &(json!({"expect": ["shot.png"], "say": "I see it."}).to_string() + "\n");
    let mut owner = stage.chat(&script);
    owner.types("one\n").rests("First.");
    let mut other = stage.run(&script, &["chat", "--attach", "latest"]);
    other.rests("First.").pastes(&stage.test_ws.at("shot.png").display().to_string());
    other.types(" what is it?\n").rests("I see it.");
    owner.shows("picture shot.png").rests("I see it.");
}

#[test]
fn prompt_that_came_while_haft_run_worked_is_done_before_it_ends() {
    for size in SIZES {
        let stage = Stage::new(size, true);
        let waits = until("go", "echo begun", "true");
        let script = calls(&[("shell", waits)]) + &says("The task is done.") + &says("The docs too.");
        let mut run = stage.run(&script, &["run", "the task"]);
        run.shows("shell");
        let mut other = stage.run(&script, &["chat", "--attach", "latest"]);
        other.shows("shell").types("and the docs\n");
        until_asked(&stage);
        stage.test_ws.put("go", "");
        other.shows("The docs too.");
        let said = run.ends();
        assert!(said.contains("> and the docs") && said.contains("The docs too."), "{said}");
        assert!(said.contains("done: 2 steps"), "the summary is that of the task: {said}");
    }
}

#[test]
fn standard_output_of_haft_run_has_only_its_own_task() {
    for json in [false, true] {
        let stage = Stage::new((80, 24), true);
        let waits = until("go", "echo begun", "true");
        let script = calls(&[("shell", waits)]) + &says("The task is done.") + &says("The docs too.");
        let file = stage.test_ws.base().join("task.jsonl");
        std::fs::write(&file, &script).unwrap();
        let model = format!("script:{}", file.display());
        let options = if json { &["run", "--json"][..] } else { &["run"] };
        let mut run = stage.test_ws.haft(&[options, &["--model", &model, "the task"]].concat());
        let mut run = run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while !stage.test_ws.run(&["sessions"]).out.contains("the task") {}
        let mut other = stage.run(&script, &["chat", "--attach", "latest"]);
        other.shows("shell");
        other.types("and the docs\n");
        until_asked(&stage);
        stage.test_ws.put("go", "");
        other.shows("The docs too.");
        let (mut out, mut err) = (String::new(), String::new());
        run.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        run.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert!(run.wait().unwrap().success(), "{err}");
        assert!(out.contains("The task is done.") && !out.contains("docs"), "{out}");
        assert!(err.contains(" asks: and the docs\n"), "{err}");
        let last = out.lines().last().unwrap();
        assert!(last.contains(if json { "\"event\":\"ended\"" } else { "The task is done." }), "{last}");
    }
}

#[test]
fn tools_context_and_cost_are_shown_at_an_attached_terminal_as_at_its_owner_s() {
    for size in SIZES {
        let stage = Stage::new(size, true);
        let script = says("First.");
        let mut owner = stage.chat(&script);
        owner.types("one\n").rests("First.");
        let mut other = stage.run(&script, &["chat", "--attach", "latest"]);
        other.rests("First.").types("/tools filegrep\n").shows("filegrep: ");
        other.types("/context\n").shows("Window: 200,000");
        other.types("/cost\n").shows("1 step, ");
        owner.types("/cost\n").shows("1 step, ");
        other.types("/tools nothingofthekind\n").shows("no tool is about");
        assert!(!owner.text().contains("/context"), "the owner's terminal is left alone: {}", owner.text());
    }
}
