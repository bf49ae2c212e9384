//! A workspace with a server that does what a test says.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{Called, TIMEOUT, TestWorkspace};

/// A workspace in which the person configured the server `fix`.
pub(crate) struct Fixture {
    pub(crate) test_ws: TestWorkspace,
}

impl Fixture {
    /// Creates a fixture whose server behaves as `how` says.
    pub(crate) fn new(how: &Value) -> Self {
        Self::with(how, "")
    }

    /// And has these lines in its section.
    pub(crate) fn with(how: &Value, more: &str) -> Self {
        let fixture = Self { test_ws: TestWorkspace::new() };
        fixture.test_ws.put("server.py", include_str!("server.py"));
        fixture.configure(how, more);
        fixture
    }

    pub(crate) fn configure(&self, how: &Value, more: &str) {
        let mark = self.mark();
        fs::create_dir_all(self.test_ws.config()).unwrap();
        let args = json!(["server.py", how.to_string()]);
        let env = if more.contains("env =") {
            String::new()
        } else {
            format!("env = {{ HAFT_TEST_MARK = {mark:?} }}\n")
        };
        let text = format!("[mcp.fix]\ncommand = \"python3\"\nargs = {args}\n{env}{more}\n");
        fs::write(self.test_ws.config().join("haft.toml"), text).unwrap();
    }

    fn mark(&self) -> String {
        self.test_ws.base().display().to_string()
    }

    pub(crate) fn call(&self, tool: &str, text: &str) -> Called {
        self.test_ws.call(tool, &json!({"text": text}))
    }

    /// Calls in one process, each with this text.
    pub(crate) fn batch(&self, tools: &[&str], text: &str) -> Vec<Called> {
        let calls: Vec<(&str, Value)> = tools.iter().map(|it| (*it, json!({"text": text}))).collect();
        self.test_ws.batch(&[], &calls)
    }

    /// Returns how often the server recorded this mark.
    pub(crate) fn marks(&self, name: &str) -> usize {
        fs::read_to_string(self.test_ws.at(name)).unwrap_or_default().lines().count()
    }

    /// Returns the server's tools that a model is shown.
    pub(crate) fn shown(&self) -> Vec<String> {
        let ran = self.test_ws.run(&["tools"]);
        let names = ran.out.lines().filter_map(|line| line.split_whitespace().next());
        names.filter(|it| it.contains("__")).map(str::to_owned).collect()
    }

    /// Returns the number of the server's processes, including those that it started.
    pub(crate) fn processes(&self) -> usize {
        let mark = format!("HAFT_TEST_MARK={}", self.mark()).into_bytes();
        let all = fs::read_dir("/proc").unwrap().flatten();
        all.filter(|it| {
            let environment = fs::read(it.path().join("environ")).unwrap_or_default();
            environment.split(|it| *it == 0).any(|it| it == mark)
        })
        .count()
    }
}

/// Waits for what no event tells of.
#[track_caller]
pub(crate) fn until(holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < TIMEOUT, "it never came");
        std::thread::sleep(Duration::from_millis(10));
    }
}
