//! `haft login` and `haft logout`.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, process::Command};

use serde_json::json;

use super::provider::{KEY, Provider, alone, nobody};
use crate::support::{Ran, Terminal, TestWorkspace, run};

const MODEL: &str = "openai:gpt-5.6-terra";

fn haft(test_ws: &TestWorkspace, url: &str, arguments: &[&str]) -> Command {
    let mut haft = test_ws.haft(arguments);
    alone(&mut haft).env("OPENAI_BASE_URL", url);
    haft
}

fn login(test_ws: &TestWorkspace, url: &str, key: &str, more: &[&str]) -> Ran {
    run(&mut haft(test_ws, url, &[&["login", "openai"], more].concat()), key)
}

fn file(test_ws: &TestWorkspace) -> PathBuf {
    test_ws.config().join("keys/openai.json")
}

/// Runs a conversation with the provider at this address; returns its output.
#[track_caller]
fn says_hello(test_ws: &TestWorkspace, url: &str) -> Ran {
    run(&mut haft(test_ws, url, &["run", "--model", MODEL, "hi"]), "")
}

#[test]
fn a_key_that_works_is_kept_privately_and_used_until_logout() {
    let (test_ws, provider) = (TestWorkspace::new(), Provider::new());
    let ran = login(&test_ws, &provider.url, &format!("{KEY}\n"), &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.starts_with("openai: the key works (2 models) and is kept in "), "{ran:?}");
    assert!(!format!("{ran:?}").contains(KEY), "{ran:?}");
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file(&test_ws)), mode(&test_ws.config().join("keys"))), (0o600, 0o700));

    let ran = says_hello(&test_ws, &provider.url);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Hello.\n"), "{ran:?}");
    // Without a model, the suggested one of the provider that has a key.
    let ran = run(&mut haft(&test_ws, &provider.url, &["run", "hi"]), "");
    assert!(
        ran.code == 0
            && ran.err.contains("using openai:gpt-5.6-terra, since it has a key of `haft login openai`"),
        "{ran:?}"
    );
    assert_eq!(provider.keys(), [Some(KEY.to_owned()), Some(KEY.to_owned())]);

    let listed = run(&mut haft(&test_ws, &provider.url, &["login"]), "");
    assert!(listed.out.contains(&format!("openai      {}", file(&test_ws).display())), "{listed:?}");
    let mut set = haft(&test_ws, &provider.url, &["run", "--model", MODEL, "hi"]);
    let ran = run(set.env("OPENAI_API_KEY", "sk-of-the-environment"), "");
    assert!(ran.code == 1 && ran.err.contains("401") && !ran.err.contains("sk-of-the"), "{ran:?}");
    assert_eq!(provider.keys()[2].as_deref(), Some("sk-of-the-environment"), "the variable wins");

    let out = |arguments: &[&str]| run(&mut haft(&test_ws, &provider.url, arguments), "");
    let gone = out(&["logout", "openai"]);
    assert!(
        gone.code == 0 && gone.out.starts_with("removed the key of openai") && !file(&test_ws).exists(),
        "{gone:?}"
    );
    assert!(out(&["logout", "openai"]).err.contains("no key of `openai` is kept"));
    assert_eq!(says_hello(&test_ws, &provider.url).code, 1);
}

#[test]
fn a_wrong_key_is_not_kept_and_not_shown() {
    let (test_ws, provider) = (TestWorkspace::new(), Provider::new());
    let ran = login(&test_ws, &provider.url, "sk-a-wrong-key-2\n", &[]);
    assert!(ran.code == 1 && !file(&test_ws).exists(), "{ran:?}");
    assert!(ran.err.contains("rejected the key, so it was not kept: the provider answered 401"), "{ran:?}");
    assert!(ran.err.contains("Run `haft login openai` with a valid key."), "{ran:?}");
    assert!(!format!("{ran:?}").contains("sk-a-wrong"), "{ran:?}");
    for nonsense in ["", "\n", "two words\n", "short\n"] {
        let ran = login(&test_ws, &provider.url, nonsense, &["--no-test"]);
        assert!(ran.code == 2 && !file(&test_ws).exists(), "{nonsense:?}: {ran:?}");
    }
}

#[test]
fn a_key_that_can_t_be_tested_is_kept_only_if_that_was_asked_for() {
    let (test_ws, url) = (TestWorkspace::new(), nobody());
    let ran = login(&test_ws, &url, KEY, &[]);
    assert!(ran.code == 1 && !file(&test_ws).exists(), "{ran:?}");
    assert!(ran.err.contains("could not be tested") && ran.err.contains("--no-test"), "{ran:?}");
    let ran = login(&test_ws, &url, KEY, &["--no-test"]);
    assert!(ran.code == 0 && ran.out.contains("the key was not tested and is kept in"), "{ran:?}");
}

#[test]
fn a_key_goes_only_to_the_address_that_it_was_entered_for() {
    let (test_ws, own, other) = (TestWorkspace::new(), Provider::new(), Provider::new());
    assert_eq!(login(&test_ws, &own.url, KEY, &[]).code, 0);
    assert_eq!(says_hello(&test_ws, &other.url).code, 1);
    assert_eq!(other.keys(), [None]);
    let listed = run(&mut haft(&test_ws, &other.url, &["login"]), "");
    assert!(listed.out.contains("not used: the key of `haft login` is for http://127.0.0.1:"), "{listed:?}");
}

#[test]
fn a_section_of_haft_toml_has_a_key_of_its_own() {
    let (test_ws, provider) = (TestWorkspace::new(), Provider::new());
    fs::create_dir_all(test_ws.config()).unwrap();
    let section = format!("[models.house]\nurl = \"{}\"\nmodel = \"house-model\"\n", provider.url);
    fs::write(test_ws.config().join("haft.toml"), section).unwrap();
    let ran = run(alone(&mut test_ws.haft(&["login", "house"])), KEY);
    assert!(ran.code == 0 && test_ws.config().join("keys/models.house.json").exists(), "{ran:?}");
    let ran = run(alone(&mut test_ws.haft(&["run", "--model", "house", "hi"])), "");
    assert_eq!((ran.code, ran.out.as_str()), (0, "Hello.\n"), "{ran:?}");
    let models = run(alone(&mut test_ws.haft(&["models", "house"])), "");
    assert!(models.out.contains("house-model") && models.out.contains("64,000"), "{models:?}");
    assert_eq!(run(&mut test_ws.haft(&["logout", "house"]), "").code, 0);
}

#[test]
fn at_a_terminal_the_key_is_not_echoed_and_ctrl_c_gives_up() {
    let (test_ws, provider) = (TestWorkspace::new(), Provider::new());
    let mut terminal = Terminal::start(&haft(&test_ws, &provider.url, &["login", "openai"]));
    terminal.shows("openai key (not shown): ", 1).types(&format!("{KEY}\n"));
    let (code, seen) = terminal.ends();
    assert!(code == Some(0) && !seen.contains(KEY), "{seen}");
    assert!(
        seen.contains("The key goes to http://127.0.0.1:") && seen.contains("Make one at https://"),
        "{seen}"
    );
    assert!(file(&test_ws).exists());
    let mut terminal = Terminal::start(&haft(&test_ws, &provider.url, &["login", "openai"]));
    terminal.shows("(not shown): ", 1).types("sk-half\u{3}");
    let (code, seen) = terminal.ends();
    assert!(code == Some(1) && seen.contains("no key was given; nothing was changed"), "{seen}");
    // Without network the person decides.
    let mut terminal = Terminal::start(&haft(&test_ws, &nobody(), &["login", "openai"]));
    terminal
        .shows("(not shown): ", 1)
        .types(&format!("{KEY}\n"))
        .shows("Keep it untested? [y/N]", 1)
        .types("n\n");
    let (code, seen) = terminal.ends();
    assert!(
        code == Some(1) && seen.contains("nothing listens at") && seen.contains("was not kept"),
        "{seen}"
    );
}

#[test]
fn no_tool_reads_a_kept_key_and_no_output_shows_it() {
    let test_ws = TestWorkspace::new();
    assert_eq!(login(&test_ws, &nobody(), KEY, &["--no-test"]).code, 0);
    let path = file(&test_ws);
    // The configuration lies beside the workspace; a root around both does not open it either.
    let root = test_ws.base().display().to_string();
    for root in [&[][..], &["--root", &root]] {
        let read = test_ws.call_with(root, "read", &json!({ "path": path }));
        assert!(!read.ok() && !read.text().contains("sk-the"), "{}", read.text());
        let command = format!("cat '{}'; env; echo over", path.display());
        let shell = test_ws.call_with(root, "shell", &json!({ "command": command }));
        assert!(shell.text().contains("over") && !shell.text().contains("sk-the"), "{}", shell.text());
        assert!(!shell.text().contains("masked"), "it is hidden, not only masked: {}", shell.text());
    }
    // Pasted somewhere, it is masked like every secret.
    test_ws.put("notes.txt", format!("my key is {KEY}\n"));
    let read = test_ws.call("read", &json!({ "path": "notes.txt" })).must("ok");
    assert!(read.text().contains("[masked:login:openai]") && !read.text().contains(KEY), "{}", read.text());
}

#[test]
fn a_key_file_that_others_may_read_is_reported_and_not_used() {
    let (test_ws, provider) = (TestWorkspace::new(), Provider::new());
    assert_eq!(login(&test_ws, &provider.url, KEY, &[]).code, 0);
    fs::set_permissions(file(&test_ws), fs::Permissions::from_mode(0o644)).unwrap();
    let ran = says_hello(&test_ws, &provider.url);
    assert!(ran.code == 1 && ran.err.contains("others may read it (mode 644); `chmod 600` it"), "{ran:?}");
    assert_eq!(provider.keys(), [None]);
}

#[test]
fn an_unknown_provider_is_suggested_and_a_key_does_not_go_over_plain_http() {
    let test_ws = TestWorkspace::new();
    let ran = run(alone(&mut test_ws.haft(&["login", "antropic"])), KEY);
    assert!(
        ran.code == 2 && ran.err.contains("unknown provider `antropic`; did you mean `anthropic`?"),
        "{ran:?}"
    );
    let ran = login(&test_ws, "http://gateway.example/v1", KEY, &["--no-test"]);
    assert!(ran.code == 1 && ran.err.contains("plain http") && !file(&test_ws).exists(), "{ran:?}");
}

#[test]
fn a_section_whose_variable_is_not_set_is_logged_in_to_by_its_name() {
    let (test_ws, provider) = (TestWorkspace::new(), Provider::new());
    fs::create_dir_all(test_ws.config()).unwrap();
    let section = format!("[models.mine]\nurl = {:?}\nmodel = \"m\"\nkey_env = \"MY_KEY\"\n", provider.url);
    fs::write(test_ws.config().join("haft.toml"), section).unwrap();
    let of_mine = |arguments: &[&str]| run(&mut haft(&test_ws, &nobody(), arguments), KEY);
    let ran = of_mine(&["run", "--model", "mine", "hi"]);
    assert!(ran.code == 1 && ran.err.contains("`key_env` names MY_KEY, which is not set"), "{ran:?}");
    let ran = of_mine(&["login", "mine", "--no-test"]);
    assert!(ran.code == 0 && ran.out.contains("is kept in"), "{ran:?}");
    of_mine(&["run", "--model", "mine", "hi"]);
    assert_eq!(provider.keys().first(), Some(&Some(KEY.to_owned())));
}
