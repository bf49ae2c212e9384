//! Groups with scripts, and what happened in them.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{Ran, TIMEOUT, TestWorkspace, run};

/// A member of a group with a script.
pub(super) struct Actor<'a> {
    pub(super) name: &'a str,
    pub(super) script: Vec<Value>,
    /// More lines of TOML.
    pub(super) more: &'a str,
}

/// A group in a workspace of its own.
pub(super) struct Stage {
    pub(super) test_ws: TestWorkspace,
}

/// A group that runs.
pub(super) struct Playing {
    child: Child,
    lines: mpsc::Receiver<Value>,
    pub(super) seen: Vec<Value>,
}

/// An answer of a script with these calls.
pub(super) fn calls(calls: &[(&str, Value)]) -> Value {
    let calls: Vec<Value> =
        calls.iter().map(|(tool, arguments)| json!({"tool": tool, "arguments": arguments})).collect();
    json!({"calls": calls})
}

/// An answer of a script with this text.
pub(super) fn says(text: &str) -> Value {
    json!({"say": text})
}

/// The same, for an input that has this text.
pub(super) fn hears(expected: &str, answer: Value) -> Value {
    let mut answer = answer;
    answer["expect"] = json!([expected]);
    answer
}

impl Stage {
    /// A group with a root and these actors; `group` is more TOML for `[group]`.
    pub(super) fn new(group: &str, root: Vec<Value>, actors: &[Actor<'_>]) -> Self {
        let test_ws = TestWorkspace::new();
        let mut toml =
            format!("[group]\nname = \"play\"\n{group}\n[group.root]\nmodel = \"script:root.jsonl\"\n");
        let put = |name: &str, script: &[Value]| {
            let lines: String = script.iter().map(|it| format!("{it}\n")).collect();
            test_ws.put(&format!("{name}.jsonl"), lines);
        };
        put("root", &root);
        for actor in actors {
            let Actor { name, script, more } = actor;
            put(name, script);
            toml.push_str(&format!(
                "[[group.agent]]\nname = \"{name}\"\nmodel = \"script:{name}.jsonl\"\ntools = []\n{more}\n"
            ));
        }
        test_ws.put("group.toml", toml);
        Self { test_ws }
    }

    /// The same, with a process for each of the members.
    pub(super) fn with_processes(self) -> Self {
        let toml = std::fs::read_to_string(self.test_ws.at("group.toml")).unwrap();
        let each = toml
            .replace("[group.root]\n", "[group.root]\nprocess = true\n")
            .replace("[[group.agent]]\n", "[[group.agent]]\nprocess = true\n");
        self.test_ws.put("group.toml", each);
        self
    }

    /// Puts a creature with a script, which the root may start.
    pub(super) fn creature(&self, name: &str, script: &[Value]) {
        self.creature_with(name, script, "");
    }

    /// The same, with more lines of YAML.
    pub(super) fn creature_with(&self, name: &str, script: &[Value], more: &str) {
        let config =
            format!("name: {name}\ncontroller: {{llm: 'script:{name}.jsonl'}}\ntools: [read, shell]\n{more}");
        self.test_ws.put(&format!("creatures/{name}/config.yaml"), config);
        // Its model takes longer than that of the root, which works on meanwhile.
        let slow = |(at, answer): (usize, &Value)| {
            let mut answer = answer.clone();
            if at == 0 && answer.get("fault").is_none() {
                answer["after_ms"] = json!(500);
            }
            format!("{answer}\n")
        };
        self.test_ws.put(&format!("{name}.jsonl"), script.iter().enumerate().map(slow).collect::<String>());
    }

    fn command(&self, more: &[&str]) -> Command {
        let file = self.test_ws.at("group.toml");
        let file = file.to_str().unwrap();
        let resumed = more.contains(&"--resume");
        let what: &[&str] = if resumed { &[] } else { &[file, "go"] };
        self.test_ws.haft(&[&["--trust", "group", "run", "--json"], what, more].concat())
    }

    /// Runs the group to its end.
    pub(super) fn plays(&self, more: &[&str]) -> Played {
        Played::of(run(&mut self.command(more), ""))
    }

    /// Starts the group.
    pub(super) fn starts(&self, more: &[&str]) -> Playing {
        let mut child = self.command(more).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if sender.send(serde_json::from_str(&line).unwrap()).is_err() {
                    return;
                }
            }
        });
        Playing { child, lines, seen: Vec::new() }
    }

    /// Runs another command of `haft group` with JSON as its result.
    pub(super) fn group(&self, arguments: &[&str]) -> Ran {
        self.test_ws.run(&[&["group"], arguments].concat())
    }

    pub(super) fn group_json(&self, arguments: &[&str]) -> Value {
        let ran = self.group(&[arguments, &["--json"]].concat());
        serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"))
    }
}

/// The output of a group until its end.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) code: i32,
    pub(super) lines: Vec<Value>,
}

impl Played {
    fn of(ran: Ran) -> Self {
        let lines = ran.out.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
        Self { code: ran.code, lines }
    }

    /// The texts with which turns of a member ended.
    pub(super) fn outputs(&self, member: &str) -> Vec<String> {
        outputs(&self.lines, member)
    }

    /// The results of a tool's calls, in their order.
    pub(super) fn results(&self, member: &str, tool: &str) -> Vec<String> {
        let of = |it: &&Value| {
            it["agent"] == member && it["row"]["event"] == "answered" && it["row"]["tool"] == tool
        };
        self.lines.iter().filter(of).map(|it| it["row"]["text"].as_str().unwrap().to_owned()).collect()
    }

    /// The bodies of the group's events of a kind.
    pub(super) fn events(&self, kind: &str) -> Vec<&Value> {
        self.lines.iter().filter(|it| it["group_event"] == kind).collect()
    }

    pub(super) fn ended(&self) -> &Value {
        self.lines.last().unwrap()
    }
}

fn outputs(lines: &[Value], member: &str) -> Vec<String> {
    let of = |it: &&Value| it["group_event"] == "creature_output" && it["agent"] == member;
    lines.iter().filter(of).map(|it| it["body"]["text"].as_str().unwrap().to_owned()).collect()
}

impl Drop for Playing {
    /// A test that fails leaves no group behind.
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        drop(self.child.kill());
    }
}

impl Playing {
    /// Waits for a line that is like this.
    pub(super) fn waits_for(&mut self, mut is_it: impl FnMut(&Value) -> bool) -> Value {
        let until = Instant::now() + TIMEOUT;
        if let Some(found) = self.seen.iter().find(|it| is_it(it)) {
            return found.clone();
        }
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line =
                self.lines.recv_timeout(left).unwrap_or_else(|_| panic!("it never came: {:#?}", self.seen));
            self.seen.push(line.clone());
            if is_it(&line) {
                return line;
            }
        }
    }

    /// Waits for one line more than so many, or for the end of them.
    pub(super) fn waits_for_more(&mut self, rows: &mut usize) {
        while self.seen.len() <= *rows {
            match self.lines.recv_timeout(TIMEOUT) {
                Ok(line) => self.seen.push(line),
                Err(_) => return,
            }
        }
        *rows += 1;
    }

    /// Waits for the end of a turn of a member.
    pub(super) fn waits_for_output(&mut self, member: &str, text: &str) {
        self.waits_for(|it| {
            it["group_event"] == "creature_output"
                && it["agent"] == member
                && it["body"]["text"].as_str().is_some_and(|it| it.contains(text))
        });
    }

    /// The id of the group's process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The name of the group.
    pub(super) fn name(&mut self) -> String {
        self.waits_for(|it| it["group"].is_string())["group"].as_str().unwrap().to_owned()
    }

    /// Kills the process and everything in it.
    pub(super) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end.
    pub(super) fn ends(mut self) -> Played {
        while let Ok(line) = self.lines.recv_timeout(TIMEOUT) {
            self.seen.push(line);
        }
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        Played { code, lines: std::mem::take(&mut self.seen) }
    }
}

/// Waits until a condition of the file system holds.
pub(super) fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Copies a folder of `examples/groups` into the workspace.
pub(super) fn copied(example: &str, test_ws: &TestWorkspace) {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap().flatten() {
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            if from.is_dir() {
                copy(&from, &to);
            } else {
                std::fs::copy(from, to).unwrap();
            }
        }
    }
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/groups").join(example);
    copy(&from, &test_ws.at(""));
}
