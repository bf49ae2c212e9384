//! Settings in effect: each key's value, and the default, file, variable or option that it comes from.
//!
//! The runtime merges the files, and [`origins`] finds which file decided. This adds the defaults below them and the
//! environment and the command line above them.

use std::path::{Path, PathBuf};

use kit::{Fault, redact::Secrets};
use runtime::config::{
    FILE, Layer, Origin, Source, Why,
    keys::{Fallback, NAMED, Section, sections},
    origins,
};
use serde_json::{Value, json};

use super::hidden::hide;
use crate::{Options, Place, agent_factory::MODEL};

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    Default,
    File(Source),
    Variable(&'static str),
    Option(&'static str),
}

/// A configured value that is not in effect.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unused {
    pub(super) from: From,
    pub(super) value: Value,
    pub(super) why: Why,
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setting {
    /// The names of its tables, then its own.
    pub(super) key: Vec<String>,
    /// Whether it is about the workspace's own tools and servers.
    pub(super) of_workspace: bool,
    /// The value in effect; none if there is none, or only the default, which is not a value.
    pub(super) value: Option<Value>,
    /// The default in words, where the default applies.
    pub(super) words: Option<&'static str>,
    pub(super) from: Vec<From>,
    pub(super) unused: Vec<Unused>,
}

/// A configuration file, and whether all of it applies.
pub(super) struct File {
    pub(super) source: Source,
    pub(super) path: PathBuf,
    pub(super) exists: bool,
    pub(super) trusted: bool,
}

/// Returns the files that haft reads in a workspace.
pub(super) fn files(options: &Options, place: &Place, workspace: &Path) -> [File; 2] {
    let file = |source, path: PathBuf, trusted| File { source, exists: path.is_file(), path, trusted };
    [
        file(Source::User, place.config.join(FILE), true),
        file(Source::Workspace, workspace.join(FILE), options.trusts_config(place, workspace)),
    ]
}

/// Returns every key that always has a value, then the keys that somebody sets.
///
/// # Errors
/// When a file can't be read, or is not a valid configuration.
pub(super) fn settings(options: &Options, place: &Place, workspace: &Path) -> Result<Vec<Setting>, Fault> {
    let user = Layer::user(&place.config.join(FILE))?;
    let theirs = Layer::workspace(workspace)?;
    let typed = typed(options)?;
    let mut written = origins(&user, &theirs, options.trusts_config(place, workspace)).keys;
    let mut settings: Vec<Setting> = defaults().into_iter().map(|(key, it)| default(&key, it)).collect();
    for setting in &mut settings {
        if let Some(at) = written.iter().position(|it| it.key == setting.key) {
            setting.set(written.remove(at));
        }
        setting.set_by_options(&typed);
        setting.set_by_environment(place);
    }
    let order = |it: &Origin| NAMED.iter().position(|name| it.key.first().is_some_and(|first| first == name));
    written.sort_by_key(|it| {
        (order(it), it.of_workspace, it.key.split_last().map(|(_, tables)| tables.to_vec()))
    });
    settings.extend(written.into_iter().map(|it| {
        let (key, of_workspace) = (it.key.clone(), it.of_workspace);
        let mut setting =
            Setting { key, of_workspace, value: None, words: None, from: Vec::new(), unused: Vec::new() };
        setting.set(it);
        setting
    }));
    let secrets = Secrets::collect(place.variables.iter().map(|(name, value)| (name, value)), []);
    for Setting { key, value, unused, .. } in &mut settings {
        *value = value.take().map(|it| hide(key, it, &secrets));
        unused.iter_mut().for_each(|it| it.value = hide(key, it.value.take(), &secrets));
    }
    Ok(settings)
}

/// A key that the command line sets, its option and its value.
type Typed = (Vec<String>, &'static str, Value);

fn typed(options: &Options) -> Result<Vec<Typed>, Fault> {
    let layer = serde_json::to_value(options.typed()?).unwrap_or_default();
    let mut typed = Vec::new();
    for section in sections() {
        for key in section.keys {
            let Some(option) = key.option else { continue };
            let names: Vec<String> =
                section.path().into_iter().chain([key.name]).map(str::to_owned).collect();
            let value = names.iter().try_fold(&layer, |value, name| value.get(name.as_str()));
            let is_given = |it: &&Value| !it.is_null() && it.as_array().is_none_or(|it| !it.is_empty());
            if let Some(value) = value.filter(is_given) {
                typed.push((names, option, value.clone()));
            }
        }
    }
    Ok(typed)
}

/// Returns the keys that every workspace has, in the order in which they are shown.
pub(super) fn defaults() -> Vec<(String, Fallback)> {
    let is_named = |it: &Section| it.path().first().is_some_and(|first| NAMED.contains(first));
    let mut keys = Vec::new();
    for section in sections().into_iter().filter(|it| !is_named(it)) {
        match section.path().as_slice() {
            [list] if section.header.starts_with("[[") => {
                keys.push(((*list).to_owned(), Fallback::Words("none")));
            }
            path => keys.extend(section.keys.iter().map(|key| {
                let names: Vec<&str> = path.iter().copied().chain([key.name]).collect();
                (names.join("."), key.default)
            })),
        }
    }
    // A list of tables is shown as a value among those at the top.
    keys.sort_by_key(|(key, _)| key.contains('.'));
    keys
}

fn default(key: &str, default: Fallback) -> Setting {
    let (value, words) = match default {
        Fallback::Value(value) => (Some(value()), None),
        Fallback::Words(words) => (None, Some(words)),
        Fallback::Required => (None, None),
    };
    Setting {
        key: key.split('.').map(str::to_owned).collect(),
        of_workspace: false,
        value,
        words,
        from: vec![From::Default],
        unused: Vec::new(),
    }
}

impl Setting {
    /// Applies the value from the files.
    fn set(&mut self, origin: Origin) {
        if origin.value.is_some() {
            (self.value, self.words) = (origin.value, None);
            self.from = origin.sources.into_iter().map(From::File).collect();
        }
        let unused = origin.unused.into_iter();
        self.unused.extend(unused.map(|it| Unused {
            from: From::File(it.source),
            value: it.value,
            why: it.why,
        }));
    }

    /// Applies the value from the command line.
    fn set_by_options(&mut self, typed: &[Typed]) {
        let Some((_, option, value)) = typed.iter().find(|(key, ..)| *key == self.key) else { return };
        match value {
            Value::Array(more) => self.extend(option, more),
            value => self.replace(option, value.clone()),
        }
    }

    fn set_by_environment(&mut self, place: &Place) {
        if self.key == ["agent", "model"]
            && let Some(model) = place.variable(MODEL)
        {
            match &self.value {
                Some(_) => {
                    let from = From::Variable(MODEL);
                    self.unused.push(Unused { from, value: json!(model), why: Why::Overridden });
                }
                None => {
                    (self.value, self.words) = (Some(json!(model)), None);
                    self.from = vec![From::Variable(MODEL)];
                }
            }
        }
    }

    fn replace(&mut self, option: &'static str, value: Value) {
        let before = self.value.replace(value);
        let file = self.from.iter().find(|it| matches!(it, From::File(_)));
        if let (Some(from), Some(value)) = (file, before) {
            self.unused.push(Unused { from: *from, value, why: Why::Overridden });
        }
        self.from = vec![From::Option(option)];
    }

    fn extend(&mut self, option: &'static str, more: &[Value]) {
        let mut list = match self.value.take() {
            Some(Value::Array(list)) => list,
            _ => Vec::new(),
        };
        list.extend_from_slice(more);
        (self.value, self.words) = (Some(Value::Array(list)), None);
        self.from.retain(|it| *it != From::Default);
        self.from.push(From::Option(option));
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use std::fs;

    use runtime::config::{STEPS, SUBAGENT_SECONDS, keys::Workspace};

    use super::*;
    use crate::{
        ApproveArg, SandboxArg,
        verbs::config::{hidden::HIDDEN, reference},
    };

    struct TestWorkspace {
        dir: tempfile::TempDir,
        place: Place,
    }

    impl TestWorkspace {
        fn new(mine: &str, theirs: &str) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let (state, config) = (dir.path().join("state"), dir.path().join("config"));
            fs::create_dir_all(dir.path().join("ws")).unwrap();
            fs::create_dir(&config).unwrap();
            fs::write(config.join(FILE), mine).unwrap();
            fs::write(dir.path().join("ws").join(FILE), theirs).unwrap();
            let place = Place { state, config, variables: Vec::new() };
            Self { dir, place }
        }

        fn options(&self) -> Options {
            Options { dir: Some(self.dir.path().join("ws")), ..Options::default() }
        }

        fn settings(&self, options: &Options) -> Vec<Setting> {
            settings(options, &self.place, &options.workspace().unwrap()).unwrap()
        }

        fn setting(&self, options: &Options, key: &str) -> Setting {
            self.settings(options).into_iter().find(|it| it.key.join(".") == key).unwrap()
        }
    }

    /// Returns a file with every key of the reference.
    fn example() -> String {
        let section = |it: &&Section| {
            let keys: String = it.keys.iter().map(|it| format!("{}\n", it.setting())).collect();
            format!("{}\n{keys}", it.header)
        };
        sections().iter().map(section).collect()
    }

    /// Returns the keys of the reference that a file can set; with the reason, if a workspace's value never applies before
    /// the workspace is trusted.
    fn keys() -> Vec<(Vec<String>, Option<Why>)> {
        let path = |section: &Section| section.path().into_iter().map(str::to_owned).collect::<Vec<_>>();
        let mut keys = Vec::new();
        for section in sections() {
            if section.header.starts_with("[[") {
                let needs = section.keys.iter().all(|it| it.workspace == Workspace::NeedsTrust);
                keys.push((path(section), needs.then_some(Why::NeedsTrust)));
                continue;
            }
            keys.extend(section.keys.iter().map(|key| {
                let why = match key.workspace {
                    Workspace::NeedsTrust => Some(Why::NeedsTrust),
                    Workspace::OwnFile => Some(Why::UserOnly),
                    Workspace::Counts | Workspace::Narrows | Workspace::Lowers => None,
                };
                ([path(section), vec![key.name.to_owned()]].concat(), why)
            }));
        }
        keys
    }

    /// Returns the settings of a key of the reference, which may be a table.
    fn of<'a>(settings: &'a [Setting], key: &[String]) -> Vec<&'a Setting> {
        let found: Vec<&Setting> = settings.iter().filter(|it| it.key.starts_with(key)).collect();
        assert!(!found.is_empty(), "{key:?} is not shown");
        found
    }

    #[test]
    fn the_reference_has_each_key_with_the_default_that_holds() {
        for (key, default) in defaults() {
            let parts: Vec<String> = key.split('.').map(str::to_owned).collect();
            let entry = reference::entry(&parts).unwrap_or_else(|| panic!("{key} is not in the reference"));
            let holds = match default {
                Fallback::Value(value) => toml::Value::try_from(value()).unwrap().to_string(),
                Fallback::Words(words) => words.to_owned(),
                Fallback::Required => panic!("{key} has no default"),
            };
            assert_eq!(entry.default.unwrap_or("none".to_owned()), holds, "{key}");
        }
        for (key, _) in keys() {
            let is_named = key.first().is_some_and(|it| NAMED.contains(&it.as_str()));
            let key = key.join(".");
            assert!(is_named || defaults().iter().any(|(it, _)| *it == key), "{key} has no default");
        }
    }

    #[test]
    fn every_key_of_the_reference_has_its_origin_in_your_own_file() {
        let test_ws = TestWorkspace::new(&example(), "");
        let settings = test_ws.settings(&test_ws.options());
        let written: toml::Table = toml::from_str(&example()).unwrap();
        for (key, _) in keys() {
            for setting in of(&settings, &key) {
                assert_eq!(setting.from, [From::File(Source::User)], "{setting:?}");
                let table = serde_json::to_value(&written).unwrap();
                let meant = setting.key.iter().fold(&table, |value, name| value.get(name).unwrap());
                let shown = setting.value.as_ref().unwrap();
                // Paths are resolved against the folder of the file.
                let is_path = ["read", "write", "tools_dirs"].contains(&setting.key.last().unwrap().as_str());
                let is_number = shown.is_number() && shown.as_f64() == meant.as_f64();
                assert!(shown == meant || is_path || is_number || shown == HIDDEN, "{setting:?}: {meant}");
            }
        }
        let other: Vec<&Setting> = settings.iter().filter(|it| it.from == [From::Default]).collect();
        assert!(other.is_empty(), "not in the reference: {other:?}");
    }

    #[test]
    fn the_reference_says_which_keys_of_a_workspace_need_trust() {
        let test_ws = TestWorkspace::new("", &example());
        let mut options = test_ws.options();
        let untrusted = test_ws.settings(&options);
        options.trust = true;
        let trusted = test_ws.settings(&options);
        for (key, why) in keys() {
            for setting in of(&untrusted, &key) {
                assert_eq!(setting.unused.first().map(|it| it.why), why, "{setting:?}");
                assert_eq!(setting.from == [From::File(Source::Workspace)], why.is_none(), "{setting:?}");
            }
            for setting in of(&trusted, &key) {
                let is_own = why == Some(Why::UserOnly);
                assert_eq!(setting.from == [From::File(Source::Workspace)], !is_own, "{setting:?}");
                assert_eq!(setting.unused.is_empty(), !is_own, "{setting:?}");
            }
        }
    }

    #[test]
    fn options_and_variables_are_sources_too() {
        let mut test_ws = TestWorkspace::new("sandbox = \"full\"\nroots = [\"a\"]", "");
        test_ws.place.variables = vec![(MODEL.to_owned(), "ollama:qwen3".to_owned())];
        let mut options = test_ws.options();
        assert_eq!(test_ws.setting(&options, "agent.model").from, [From::Variable(MODEL)]);
        options.sandbox = Some(SandboxArg::ReadOnly);
        options.approve = Some(ApproveArg::Never);
        options.roots = vec!["b".to_owned()];
        let sandbox = test_ws.setting(&options, "sandbox");
        assert_eq!(
            (sandbox.value, sandbox.from),
            (Some(json!("read-only")), vec![From::Option("--sandbox")])
        );
        let before = Unused { from: From::File(Source::User), value: json!("full"), why: Why::Overridden };
        assert_eq!(sandbox.unused, [before]);
        assert_eq!(test_ws.setting(&options, "approve").value, Some(json!("never")));
        let roots = test_ws.setting(&options, "roots");
        assert_eq!(roots.value, Some(json!(["a", std::env::current_dir().unwrap().join("b")])));
        assert_eq!(roots.from, [From::File(Source::User), From::Option("--root")]);
    }

    #[test]
    fn what_is_shown_is_what_a_runtime_does() {
        for (mine, theirs, trust) in [
            ("", "", false),
            ("sandbox = \"full\"\napprove = \"never\"", "sandbox = \"read-only\"", false),
            ("", "sandbox = \"full\"\napprove = \"auto\"\n[net]\nweb = \"none\"", false),
            ("", "approve = \"auto\"\ntoolset = \"nav\"\n[net]\nallow = [\"a.org\"]", true),
            ("[agent]\nmax_steps = 7\n[subagent]\nseconds = 5", "[agent]\nmax_steps = 9", false),
        ] {
            let test_ws = TestWorkspace::new(mine, theirs);
            let options = Options { trust, ..test_ws.options() };
            let opened = options.open(&test_ws.place).unwrap();
            let policy = opened.runtime.policy();
            let shown = |key: &str| {
                let setting = test_ws.setting(&options, key);
                setting.value.unwrap_or_else(|| json!(setting.words))
            };
            assert_eq!(shown("sandbox"), json!(policy.sandbox), "{mine} {theirs}");
            assert_eq!(shown("approve"), json!(policy.approve), "{mine} {theirs}");
            let web = policy.web.map_or(json!("known if a person can be asked, else public"), |it| json!(it));
            assert_eq!(shown("net.web"), web, "{mine} {theirs}");
            assert_eq!(shown("toolset"), json!(opened.toolset), "{mine} {theirs}");
            let hosts: Vec<String> = policy.hosts.to_vec();
            let allow = if hosts.is_empty() { json!("none") } else { json!(hosts) };
            assert_eq!(shown("net.allow"), allow, "{mine} {theirs}");
            let (agent, subagent) = (&opened.agents.agent, &opened.agents.subagent);
            assert_eq!(shown("agent.max_steps"), json!(agent.max_steps.unwrap_or(STEPS)));
            assert_eq!(shown("subagent.seconds"), json!(subagent.seconds.unwrap_or(SUBAGENT_SECONDS)));
        }
    }
}
