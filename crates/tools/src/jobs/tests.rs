//! Tests: how the tools word jobs and their output.
#![expect(clippy::unwrap_used, reason = "tests")]

use kit::{
    Fault, Kind, Spec, Tool,
    services::{Jobs, Live, Soon, State, Until, Waited},
    testing::{TestTranscript, TestWorkspace},
};
use serde_json::{Value, json};

use super::{
    continue_job::ContinueJob, jobs::Jobs as List, read_job::ReadJob, stop_task::StopTask, wait::Wait, *,
};

/// Jobs in a fixed state.
struct Still(Vec<Job>);

impl Jobs for Still {
    fn list(&self) -> Vec<Job> {
        self.0.clone()
    }

    fn get(&self, id: &str) -> Result<Job, Fault> {
        let found = self.0.iter().find(|job| job.id == id || job.id.strip_prefix("job_") == Some(id));
        found.cloned().ok_or_else(|| Fault::not_found(format!("there is no job `{id}`")))
    }

    fn wait<'a>(&'a self, id: &'a str, until: Until, _: Duration) -> Soon<'a, Result<Waited, Fault>> {
        let line = match &until {
            Until::Pattern(pattern) if pattern == "ready" => Some("server ready".to_owned()),
            _ => None,
        };
        let met = line.is_some() || matches!(until, Until::Quiet(_));
        Box::pin(async move { self.get(id).map(|job| Waited { job, met, line }) })
    }

    fn stop<'a>(&'a self, id: &'a str) -> Soon<'a, Result<Job, Fault>> {
        Box::pin(async move { self.get(id).map(|job| Job { state: State::Cancelled, ..job }) })
    }

    fn go_on<'a>(&'a self, _: &'a str, input: Value, _: Duration) -> Soon<'a, Result<Output, Fault>> {
        Box::pin(async move { Ok(Output::text(format!("got {input}"))) })
    }
}

fn job(number: u32, state: State, title: &str) -> Job {
    Job {
        id: format!("job_{number}"),
        tool: "shell".to_owned(),
        title: title.to_owned(),
        state,
        took: Duration::from_millis(12_300),
        live: Live::default(),
        said: None,
        result: None,
    }
}

fn test_ws() -> TestWorkspace {
    let written = Arc::new(TestTranscript::default());
    written.write(&(1..=2000).map(|line| format!("line {line}\n")).collect::<String>());
    let mut running = job(1, State::Running, "npm run dev");
    running.live.output = Some(written);
    let mut done = job(2, State::Done, "npm test");
    done.result = Some(Arc::new(Ok(Output { exit: Some(1), ..Output::text("2 failed") })));
    let mut error = job(3, State::Error, "");
    error.result = Some(Arc::new(Err(Fault::new(Kind::Bug, "the tool panicked: oh"))));
    let mut waiting = job(4, State::Waiting, "quiz");
    waiting.said = Some(Arc::new(Output::text("2 + 2?")));
    let mut test_ws = TestWorkspace::new("");
    test_ws.jobs = Arc::new(Still(vec![running, done, error, waiting]));
    test_ws
}

fn says<T: Tool>(arguments: &Value) -> String {
    test_ws().says::<T>(arguments)
}

#[test]
fn a_job_is_one_line() {
    assert_eq!(
        says::<List>(&json!({})),
        "job_1  running 12.3 s  shell  npm run dev  (18893 bytes)\n\
         job_2  done exit 1 12.3 s  shell  npm test\n\
         job_3  error 12.3 s  shell\n\
         job_4  waiting for input 12.3 s  shell  quiz"
    );
    assert_eq!(TestWorkspace::new("").says::<List>(&json!({})), "no jobs");
}

#[test]
fn state_and_exit_come_before_the_output() {
    assert_eq!(says::<ReadJob>(&json!({"job": 2})), "job_2 done, exit 1, 12.3 s: npm test\n2 failed");
    assert_eq!(says::<ReadJob>(&json!({"job": "3"})), "job_3 error, 12.3 s: shell\nthe tool panicked: oh");
    assert_eq!(says::<ReadJob>(&json!({"job": "job_4"})), "job_4 waiting for input, 12.3 s: quiz\n2 + 2?");
    assert_eq!(says::<ReadJob>(&json!({"job": "job_9"})), "not_found: there is no job `job_9`");
}

#[test]
fn a_long_output_shows_a_little_of_its_head_and_more_of_its_tail() {
    let text = says::<ReadJob>(&json!({"job": "job_1"}));
    assert!(text.starts_with("job_1 running, 12.3 s: npm run dev\nline 1\n"), "{text}");
    assert!(text.ends_with("line 2000\n"), "{text}");
    assert!(text.len() < 8500, "{}", text.len());
    let (head, tail) = text.split_once("[about ").unwrap();
    assert!(head.len() * 3 < tail.len());
    assert!(tail.starts_with("10701 of 18893 bytes left out; `read_job` with `offset` pages]\n"), "{tail}");
}

#[test]
fn pages_follow_each_other_and_say_how_to_go_on() {
    let first = says::<ReadJob>(&json!({"job": "job_1", "offset": 0, "limit": 20}));
    assert_eq!(
        first,
        "job_1 running, 12.3 s: npm run dev\nline 1\nline 2\nline 3\n[bytes 0-20 of 18893; next: offset 20]"
    );
    let last = says::<ReadJob>(&json!({"job": "job_1", "offset": 18883, "limit": 20}));
    assert_eq!(
        last,
        "job_1 running, 12.3 s: npm run dev\nline 2000\n[bytes 18883-18893 of 18893; all until now; later: offset 18893]"
    );
    let newest = says::<ReadJob>(&json!({"job": "job_1", "limit": 10}));
    assert_eq!(newest, "job_1 running, 12.3 s: npm run dev\n[bytes 18883-18893 of 18893]\nline 2000\n");
    let none = says::<ReadJob>(&json!({"job": "job_2", "offset": 0}));
    assert!(none.starts_with("bad_args: job_2 (npm test) keeps no output"), "{none}");
}

#[test]
fn a_wait_says_why_it_is_over() {
    let wait = |extra: Value| {
        let mut arguments = json!({"job": "job_1"});
        arguments.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        says::<Wait>(&arguments)
    };
    assert_eq!(
        wait(json!({"pattern": "ready"})),
        "job_1 running, 12.3 s: npm run dev\nmatched: server ready"
    );
    let late = wait(json!({"timeout_s": 5}));
    assert!(late.contains("\nnot yet, after 5 s of waiting; it goes on\nline 1\n"), "{late}");
    assert!(late.ends_with("line 2000\n") && late.len() < 2300, "{late}");
    assert!(wait(json!({"quiet_s": 3})).contains("\nit wrote nothing for 3 s\n"));
    assert!(wait(json!({"job": "job_2"})).starts_with("job_2 done, exit 1, 12.3 s: npm test\n2 failed"));
    assert!(
        wait(json!({"job": "job_2", "pattern": "x"}))
            .contains("\nit ended and no line matched `x`\n2 failed")
    );
    assert!(wait(json!({"job": "job_4"})).contains("\nit waits for input: `continue_job`\n2 + 2?"));
    assert!(wait(json!({"quiet_s": 3, "pattern": "x"})).starts_with("bad_args"));
}

#[test]
fn a_stop_says_what_was_stopped_and_what_was_over_already() {
    assert!(
        says::<StopTask>(&json!({"job": 1})).starts_with("job_1 cancelled, 12.3 s: npm run dev\nline 1\n")
    );
    assert_eq!(
        says::<StopTask>(&json!({"job": 2})),
        "job_2 done, exit 1, 12.3 s: npm test\nit was over already\n2 failed"
    );
}

#[test]
fn any_json_is_an_input() {
    assert_eq!(says::<ContinueJob>(&json!({"job": 4, "input": {"a": [1]}})), "got {\"a\":[1]}");
    assert_eq!(says::<ContinueJob>(&json!({"job": 4, "input": null})), "got null");
}

#[test]
fn all_five_cost_little() {
    let bytes: usize = all().iter().map(|tool| tool.spec().bytes()).sum();
    assert!(bytes < 1_900, "{bytes}");
    assert_eq!(Spec::of::<ReadJob>().schema.pointer("/properties/job/type").unwrap(), "string");
}
