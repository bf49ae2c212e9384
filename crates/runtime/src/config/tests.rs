//! Tests of layers: the effect of each layer on the one below it.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;

use kit::files::RootSpec;
use policy::commands::Then;
use rustix::fs::Mode;

use super::*;

fn parse(text: &str) -> Config {
    toml::from_str(text).unwrap()
}

#[test]
fn a_workspace_narrows_at_once_and_widens_only_when_trusted() {
    let widening = parse("roots = [\"/\"]\nsandbox = \"full\"\napprove = \"auto\"\nhard_links = \"allow\"");
    let (config, aside) = Config::default().with_workspace(widening.clone(), false);
    assert_eq!(config, Config::default());
    assert_eq!(aside.len(), 4, "{aside:?}");
    let (config, aside) = Config::default().with_workspace(widening.clone(), true);
    assert_eq!((config, aside.len()), (widening, 0));

    let narrowing = parse("tools = [\"read\"]\nsandbox = \"read-only\"\napprove = \"never\"");
    let (config, aside) = Config::default().with_workspace(narrowing.clone(), false);
    assert_eq!((config, aside.len()), (narrowing, 0));
}

#[test]
fn a_workspace_cannot_bring_back_a_tool_that_the_user_left_out() {
    let mine = parse("tools = [\"read\", \"grep\"]\napprove = \"never\"");
    let (config, _) = mine.with_workspace(parse("tools = [\"read\", \"edit\"]\napprove = \"ask\""), false);
    assert_eq!(config.tools.unwrap(), ["read"]);
    assert_eq!(config.approve, Some(Approve::Never));
}

#[test]
fn the_word_all_stands_for_every_list_of_tools() {
    let config = parse(
        "tools = \"all\"\n[subagent]\ntools = \"all\"\n[mcp.a]\ncommand = \"a\"\ntools = \"all\"\n\
         read_only = \"all\"\nidempotent = \"all\"",
    );
    assert_eq!((config.tools.clone(), config.subagent.tools.clone()), (None, None));
    let server = config.servers.user.get("a").unwrap();
    assert_eq!((server.tools.clone(), server.read_only.as_slice()), (None, &["*".to_owned()][..]));
    assert_eq!(server.idempotent, ["*"]);
    // `all` does not widen the other file's list.
    let some = parse("tools = [\"read\"]");
    assert_eq!(some.clone().with_workspace(config.clone(), true).0.tools.unwrap(), ["read"]);
    assert_eq!(config.with_workspace(some, true).0.tools.unwrap(), ["read"]);
    for text in ["tools = \"read\"", "tools = 3", "tools = [3]"] {
        let error = toml::from_str::<Config>(text).unwrap_err().to_string();
        assert!(error.contains("line 1") && !error.contains("did not match"), "{error}");
    }
    let error = toml::from_str::<Config>("tools = \"read\"").unwrap_err().to_string();
    assert!(error.contains("\"read\", expected a list of names of tools, or \"all\""), "{error}");
}

#[test]
fn a_workspace_may_only_have_more_asked_and_nothing_let_through() {
    for (mine, theirs, holds) in [
        ("ask", "ask-edits", "ask-edits"),
        ("ask", "never", "never"),
        ("ask", "auto", "ask"),
        ("auto", "ask-edits", "ask-edits"),
        ("ask-edits", "ask", "ask-edits"),
        ("ask-edits", "auto", "ask-edits"),
        // A person who is never asked is not asked about edits either.
        ("ask-edits", "never", "ask-edits"),
        ("never", "ask-edits", "never"),
    ] {
        let approve = |it: &str| parse(&format!("approve = \"{it}\""));
        let (config, aside) = approve(mine).with_workspace(approve(theirs), false);
        assert_eq!(config.approve.map(Approve::name), Some(holds), "{mine} {theirs}");
        assert_eq!(aside.is_empty(), holds == theirs, "{aside:?}");
        let (config, _) = approve(mine).with_workspace(approve(theirs), true);
        assert_eq!(config.approve.map(Approve::name), Some(theirs), "trusted");
    }
}

#[test]
fn a_typo_is_an_error_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(FILE), "tools = []\ntoolz = []\n").unwrap();
    let fault = Config::read(&dir.path().join(FILE)).unwrap_err();
    assert!(fault.what.contains("toolz") && fault.what.contains("line 2"), "{}", fault.what);
}

/// Returns the example with its settings active instead of commented out.
fn example() -> Config {
    let text = include_str!("../../../../haft.example.toml");
    let is_setting = |line: &str| {
        let key = line.split_once(" = ").map_or("", |(key, _)| key);
        line.starts_with('[')
            || !key.is_empty() && key.bytes().all(|it| it.is_ascii_lowercase() || it == b'_')
    };
    let settings = text.lines().filter_map(|it| it.strip_prefix("# ")).filter(|it| is_setting(it));
    parse(&settings.collect::<Vec<_>>().join("\n"))
}

#[test]
fn the_example_has_every_key_of_agents_and_models() {
    let config = example();
    assert!(!config.manual_first.is_empty() && config.tools.is_some() && !config.sections.user.is_empty());
    let AgentSection {
        model,
        profile,
        max_steps,
        max_calls,
        visible,
        wait_seconds,
        wakes,
        inbox_messages,
        inbox_bytes,
    } = config.agent;
    assert!(model.is_some() && profile.is_some() && max_steps.is_some() && visible.is_some());
    assert!(max_calls.is_some() && wait_seconds.is_some() && wakes.is_some());
    assert!(inbox_messages.is_some() && inbox_bytes.is_some());
    let ChatSection { notify, theme } = config.chat;
    assert!(notify.is_some() && theme.is_some());
    let SubagentSection { tools, nested, max_steps, seconds, tokens } = config.subagent;
    assert!(tools.is_some() && nested.is_some() && max_steps.is_some());
    assert!(seconds.is_some() && tokens.is_some());
    let ModelSection {
        api,
        url,
        model,
        key_env,
        headers,
        window,
        longest,
        dialect,
        images,
        effort,
        own_tools,
        price,
    } = config.models.get("local").unwrap().clone();
    assert!(api.is_some() && url.is_some() && model.is_some() && key_env.is_some());
    assert!(window.is_some() && longest.is_some() && dialect.is_some() && images.is_some());
    assert!(effort.is_some() && price.is_some() && !headers.is_empty() && !own_tools.is_empty());
}

#[test]
fn the_example_has_every_key_of_servers() {
    let config = example();
    let ServerSection {
        command,
        args,
        env,
        cwd,
        url: _,
        headers: _,
        bearer_env: _,
        oauth: _,
        sampling: _,
        tools,
        disabled,
        timeout_seconds,
        start_seconds,
        net,
        read,
        write,
        read_only,
        idempotent,
    } = config.servers.user.get("files").unwrap().clone();
    assert!(command.is_some() && !args.is_empty() && env != Variables::default() && cwd.is_some());
    assert!(tools.is_some() && disabled && timeout_seconds.is_some() && start_seconds.is_some());
    assert!(!net.is_empty() && !read.is_empty() && !write.is_empty());
    assert!(!read_only.is_empty() && !idempotent.is_empty());
    let ServerSection { url, headers, bearer_env, oauth, sampling, .. } =
        config.servers.user.get("tracker").unwrap().clone();
    assert!(url.is_some() && !headers.is_empty() && bearer_env.is_some() && sampling);
    let OauthSection { client_id, client_secret_env, client_metadata_url, scopes, redirect_port } = oauth;
    assert!(client_id.is_some() && client_secret_env.is_some() && client_metadata_url.is_some());
    assert!(!scopes.is_empty() && redirect_port.is_some());
}

#[test]
fn trust_ends_when_the_configuration_changes() {
    let (state, workspace) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let trust = Trust::in_state(state.path());
    fs::write(workspace.path().join(FILE), "tools = []").unwrap();
    assert!(!trust.holds(workspace.path()));
    trust.add(workspace.path()).unwrap();
    assert!(trust.holds(workspace.path()));
    fs::write(workspace.path().join(FILE), "roots = [\"/\"]").unwrap();
    assert!(!trust.holds(workspace.path()));
}

#[test]
fn a_root_may_be_read_only() {
    let root = |text| parse_root(text, Path::new("/ws"));
    assert_eq!(root("../lib:ro"), RootSpec { path: "/ws/../lib".into(), read_only: true });
    assert_eq!(root("/data"), RootSpec { path: "/data".into(), read_only: false });
}

#[test]
fn a_workspace_only_shortens_the_deadline() {
    let seconds =
        |mine: &str, workspace: &str| parse(mine).with_workspace(parse(workspace), true).0.deadline_seconds;
    assert_eq!(seconds("", "deadline_seconds = 18446744073709551615"), Some(120));
    assert_eq!(seconds("", "deadline_seconds = 30"), Some(30));
    assert_eq!(seconds("deadline_seconds = 600", "deadline_seconds = 300"), Some(300));
    assert_eq!(seconds("deadline_seconds = 60", "deadline_seconds = 300"), Some(60));
    assert_eq!(seconds("", "deadline_seconds = 0"), Some(1));
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(FILE), "deadline_seconds = 9223372036854775807").unwrap();
    assert_eq!(Config::read(&dir.path().join(FILE)).unwrap().deadline_seconds, Some(3600));
}

#[test]
fn a_workspace_adds_what_asks_and_denies_and_allows_only_when_trusted() {
    let read = |text: &str| {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), text).unwrap();
        Config::read(&dir.path().join(FILE)).unwrap()
    };
    let mine = read("[commands]\nallow = [\"ls\"]\ndeny = [\"sudo\"]\nonly = [\"git\", \"cargo test\"]");
    let theirs = "[commands]\nallow = [\"curl\"]\nask = [\"git push\"]\ndeny = [\"rm\"]\n\
        only = [\"git status\", \"cargo\", \"curl\"]\n[net]\nallow = [\"evil.org\"]\n\
        [[command]]\nprefix = [\"a\"]\nthen = \"allow\"\n[[command]]\nprefix = [\"b\"]\nthen = \"deny\"";
    let (config, aside) = mine.clone().with_workspace(read(theirs), false);
    assert_eq!(aside.len(), 3, "{aside:?}");
    assert!(config.net.allow.is_empty());
    let CommandsSection { allow, ask, deny, only } = config.commands;
    assert_eq!(
        (allow, ask, deny),
        (vec!["ls".to_owned()], vec!["git push".to_owned()], vec!["sudo".to_owned(), "rm".to_owned()])
    );
    assert_eq!(only.unwrap(), ["git status", "cargo test"]);
    assert_eq!(config.command.iter().map(|it| it.then).collect::<Vec<_>>(), [Then::Deny]);
    let (config, aside) = mine.with_workspace(read(theirs), true);
    assert!(aside.is_empty());
    assert_eq!(
        (config.commands.allow, config.net.allow),
        (vec!["ls".to_owned(), "curl".to_owned()], vec!["evil.org".to_owned()])
    );
}

#[test]
fn a_workspace_only_lowers_what_agents_may_take() {
    let of = |mine: &str, workspace: &str| parse(mine).with_workspace(parse(workspace), false).0;
    let high = "[agent]\nmax_steps = 1000\n[subagent]\nmax_steps = 1000\nseconds = 90000\ntokens = 5";
    let config = of("", high);
    assert_eq!(config.agent.max_steps, Some(STEPS));
    let below = SubagentSection {
        max_steps: Some(SUBAGENT_STEPS),
        seconds: Some(SUBAGENT_SECONDS),
        tokens: Some(5),
        ..SubagentSection::default()
    };
    assert_eq!(config.subagent, below);
    assert_eq!(of("[agent]\nmax_steps = 2000", high).agent.max_steps, Some(1000));
    assert_eq!(of("[agent]\nmax_steps = 2000", "").agent.max_steps, Some(2000));
    let calls = |mine: &str, theirs: &str| of(mine, theirs).agent.max_calls;
    assert_eq!(calls("", "[agent]\nmax_calls = 0"), Some(CALLS));
    assert_eq!(calls("[agent]\nmax_calls = 0", "[agent]\nmax_calls = 1"), Some(1));
    assert_eq!(calls("[agent]\nmax_calls = 0", ""), Some(0), "no limit");
    assert_eq!(calls("[agent]\nmax_calls = 7", "[agent]\nmax_calls = 0"), Some(7));
}

#[test]
fn a_rule_whose_example_is_wrong_is_refused_when_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let read = |text: &str| {
        fs::write(dir.path().join(FILE), text).unwrap();
        Config::read(&dir.path().join(FILE)).map_err(|fault| fault.what)
    };
    let rule = "[[command]]\nprefix = [\"git\", \"push\"]\nthen = \"ask\"\n";
    read(&format!(
        "{rule}match = [\"git push origin\", \"cd x && git -C y push\"]\nnot_match = [\"git pull\"]"
    ))
    .unwrap();
    for (text, why) in [
        (format!("{rule}match = [\"git pull\"]"), "does not match its example `git pull`"),
        (format!("{rule}not_match = [\"ls; git push\"]"), "matches its example `ls; git push`"),
        (format!("{rule}match = [\"git 'push\"]"), "the example `git 'push`"),
        ("[[command]]\nprefix = []\nthen = \"ask\"".to_owned(), "empty `prefix`"),
        ("[[command]]\nprefix = [\"a\"]\nthen = \"maybe\"".to_owned(), "maybe"),
        ("[commands]\nallow = [\"*\"]".to_owned(), "would allow every command"),
        ("[commands]\nallow = [\"git 'x y'\"]".to_owned(), "is not the first words"),
        ("[commands]\nalow = []".to_owned(), "alow"),
        ("[net]\nallow = [\"http://x\"]".to_owned(), "is not a host"),
    ] {
        let what = read(&text).unwrap_err();
        assert!(what.contains(why), "{what}");
    }
}

#[test]
fn long_or_irregular_file_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(FILE);
    let refused = |why: &str| {
        let fault = Config::read_workspace(dir.path()).unwrap_err();
        assert!(fault.what.contains(why), "{}", fault.what);
        let _ = trust::mark(dir.path());
        fs::remove_file(&file).unwrap();
    };
    std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
    assert!(Config::read(&file).unwrap_err().what.contains("not a regular file"));
    refused("a link, which is not followed");
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &file, fifo, Mode::RUSR, 0).unwrap();
    refused("not a regular file");
    fs::write(&file, "#".repeat(64 * 1024 + 1)).unwrap();
    refused("more than 65536 bytes");
    assert_eq!(Config::read_workspace(dir.path()).unwrap(), Config::default());
}
