//! `haft mcp install`: adds haft to a client's configuration and keeps the rest.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use serde_json::{Value, json};

use crate::support::{Ran, TestWorkspace, run};

impl TestWorkspace {
    fn home(&self, path: &str) -> PathBuf {
        self.base().join("home").join(path)
    }

    fn has(&self, path: &str, text: &str) {
        let path = self.home(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn now(&self, path: &str) -> String {
        fs::read_to_string(self.home(path)).unwrap()
    }

    /// Without `--dir`, in the workspace.
    fn install(&self, arguments: &[&str]) -> Ran {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_haft"));
        command
            .env_clear()
            .env("HAFT_STATE_DIR", self.state())
            .env("HAFT_CONFIG_DIR", self.config())
            .env("HOME", self.home(""))
            .current_dir(self.at(""))
            .args(["mcp", "install"])
            .args(arguments);
        run(&mut command, "")
    }

    fn installed(&self, arguments: &[&str]) -> String {
        let ran = self.install(arguments);
        let err = if arguments.contains(&"--print") { "haft: for /" } else { "" };
        assert!(ran.code == 0 && ran.err.starts_with(err) && ran.err.is_empty() == err.is_empty(), "{ran:?}");
        ran.out
    }
}

const HAFT: &str = env!("CARGO_BIN_EXE_haft");

/// Each client, its own file, and what is to be in it.
fn clients() -> Vec<(&'static str, &'static str, Value)> {
    let plain = json!({"command": HAFT, "args": ["mcp"]});
    let typed = json!({"type": "stdio", "command": HAFT, "args": ["mcp"]});
    let app = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".config" };
    let in_app = |path: &str| -> &'static str { format!("{app}/{path}").leak() };
    vec![
        ("claude-code", ".claude.json", json!({"mcpServers": {"haft": typed}})),
        (
            "claude-desktop",
            in_app("Claude/claude_desktop_config.json"),
            json!({"mcpServers": {"haft": plain}}),
        ),
        ("cursor", ".cursor/mcp.json", json!({"mcpServers": {"haft": plain}})),
        ("gemini", ".gemini/settings.json", json!({"mcpServers": {"haft": plain}})),
        (
            "opencode",
            ".config/opencode/opencode.json",
            json!({"mcp": {"haft": {"type": "local", "command": [HAFT, "mcp"], "enabled": true}}}),
        ),
        ("vscode", in_app("Code/User/mcp.json"), json!({"servers": {"haft": typed}})),
        ("zed", ".config/zed/settings.json", json!({"context_servers": {"haft": plain}})),
    ]
}

#[test]
fn where_there_is_no_file_one_is_made_that_holds_haft_alone() {
    for (client, file, mut expected) in clients() {
        let test_ws = TestWorkspace::new();
        let mut install = vec![client];
        if client == "claude-desktop" {
            install.extend(["--dir", "."]);
            expected["mcpServers"]["haft"]["args"] =
                json!(["--dir", test_ws.at("").canonicalize().unwrap(), "mcp"]);
        }
        let said = test_ws.installed(&install);
        assert_eq!(said.lines().count(), 2, "what it wrote, and what is next: {said}");
        assert!(said.contains(test_ws.home(file).to_str().unwrap()), "{said}");
        let text = test_ws.now(file);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected, "{client}");
        let said = test_ws.installed(&install);
        assert!(said.contains("already"), "{said}");
        assert_eq!(test_ws.now(file), text, "twice is once");
        assert_eq!(test_ws.install(&[client, "--remove"]).code, 0);
        assert!(!test_ws.now(file).contains(HAFT), "{client}: {}", test_ws.now(file));
        assert!(test_ws.installed(&[client, "--remove"]).contains("nothing to do"));
    }
}

#[test]
fn codex_has_it_as_a_table_of_its_own() {
    let test_ws = TestWorkspace::new();
    let before = "# mine\nmodel = \"o\"   # the best\n\n[mcp_servers.other]\ncommand = \"x\"\n";
    test_ws.has(".codex/config.toml", before);
    test_ws.installed(&["codex"]);
    let after = test_ws.now(".codex/config.toml");
    let block =
        format!("\n[mcp_servers.haft]\ncommand = {HAFT:?}\nargs = [\"mcp\"]\ntool_timeout_sec = 150\n");
    assert_eq!(after, format!("{before}{block}"));
    test_ws.installed(&["codex"]);
    assert_eq!(test_ws.now(".codex/config.toml"), after);
    test_ws.installed(&["codex", "--remove"]);
    assert_eq!(test_ws.now(".codex/config.toml"), before);
}

#[test]
fn comments_order_and_other_servers_stay_and_what_was_there_is_kept() {
    let test_ws = TestWorkspace::new();
    let before = "{\n\t// what I like\n\t\"theme\": \"dark\",\n\t\"mcp\": {\n\t\t\"b\": {\"type\": \"local\"}, // second\n\t\t\"a\": {}\n\t},\n\t\"z\": [1, 2,],\n}\n";
    test_ws.has(".config/opencode/opencode.jsonc", before);
    fs::set_permissions(test_ws.home(".config/opencode/opencode.jsonc"), fs::Permissions::from_mode(0o600))
        .unwrap();
    let said = test_ws.installed(&["opencode"]);
    let after = test_ws.now(".config/opencode/opencode.jsonc");
    let rest: Vec<&str> = before.lines().filter(|line| !line.contains("\"a\"")).collect();
    let mut lines = after.lines();
    assert!(rest.iter().all(|line| lines.any(|it| it == *line)), "in their order: {after}");
    assert!(after.contains("\n\t\t\"haft\": {"), "as it is indented: {after}");
    let mode = fs::metadata(test_ws.home(".config/opencode/opencode.jsonc")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let kept = said.split_whitespace().find(|word| word.contains("/clients/")).unwrap();
    assert_eq!(fs::read_to_string(kept.trim_end_matches('.')).unwrap(), before);
    test_ws.installed(&["opencode", "--remove"]);
    assert_eq!(test_ws.now(".config/opencode/opencode.jsonc"), before);
    assert!(!test_ws.home(".config/opencode/opencode.json").exists());
}

#[test]
fn a_broken_file_is_refused_and_left_alone() {
    for (client, file, broken) in [
        ("cursor", ".cursor/mcp.json", "{\"mcpServers\": {"),
        ("cursor", ".cursor/mcp.json", "[]"),
        ("cursor", ".cursor/mcp.json", "{\"mcpServers\": 1}"),
        ("codex", ".codex/config.toml", "model = \n"),
        ("codex", ".codex/config.toml", "mcp_servers = { other = { command = \"x\" } }\n"),
        ("codex", ".codex/config.toml", "mcp_servers = 1\n"),
    ] {
        let test_ws = TestWorkspace::new();
        test_ws.has(file, broken);
        for more in [&[][..], &["--force"], &["--dry-run"]] {
            let ran = test_ws.install(&[&[client], more].concat());
            assert_eq!(ran.code, 1, "{broken}: {ran:?}");
            assert!(ran.err.contains("was not changed") && ran.err.contains("--print"), "{ran:?}");
            assert_eq!(test_ws.now(file), broken);
        }
        assert_eq!(
            fs::read_dir(test_ws.home(file).parent().unwrap()).unwrap().count(),
            1,
            "nothing beside it"
        );
    }
}

#[test]
fn another_server_of_that_name_is_only_replaced_by_force() {
    for (client, file, before) in [
        ("cursor", ".cursor/mcp.json", "{\"mcpServers\": {\"haft\": {\"command\": \"/other\"}, \"x\": {}}}"),
        (
            "codex",
            ".codex/config.toml",
            "[mcp_servers.haft]\ncommand = \"/other\"\n\n[mcp_servers.haft.env]\nA = \"1\"\n\n# x\n[mcp_servers.x]\ncommand = \"x\"\n",
        ),
    ] {
        let test_ws = TestWorkspace::new();
        test_ws.has(file, before);
        let ran = test_ws.install(&[client]);
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains("/other") && ran.err.contains("--force"), "{ran:?}");
        assert_eq!(test_ws.now(file), before);
        let diff = test_ws.installed(&[client, "--force", "--dry-run"]);
        assert!(diff.lines().any(|line| line.starts_with('-') && line.contains("/other")), "{diff}");
        assert!(diff.lines().any(|line| line.starts_with('+') && line.contains(HAFT)), "{diff}");
        assert_eq!(test_ws.now(file), before, "a dry run writes nothing");
        test_ws.installed(&[client, "--force"]);
        let after = test_ws.now(file);
        assert!(after.contains(HAFT) && !after.contains("/other") && after.contains("x"), "{after}");
        assert!(before.contains("# x") == after.contains("# x"), "{after}");
    }
}

#[test]
fn what_a_person_added_to_the_entry_is_theirs() {
    let test_ws = TestWorkspace::new();
    let before = format!(
        "{{\"mcpServers\": {{\"haft\": {{\"command\": {HAFT:?}, \"args\": [\"mcp\"], \"env\": {{}}}}}}}}"
    );
    test_ws.has(".cursor/mcp.json", &before);
    assert!(test_ws.installed(&["cursor"]).contains("already"));
    assert_eq!(test_ws.now(".cursor/mcp.json"), before);
}

#[test]
fn a_project_has_it_in_its_own_file() {
    for (client, file, key) in [
        ("claude-code", ".mcp.json", "mcpServers"),
        ("cursor", ".cursor/mcp.json", "mcpServers"),
        ("gemini", ".gemini/settings.json", "mcpServers"),
        ("opencode", "opencode.json", "mcp"),
        ("vscode", ".vscode/mcp.json", "servers"),
        ("zed", ".zed/settings.json", "context_servers"),
    ] {
        let test_ws = TestWorkspace::new();
        test_ws.installed(&[client, "--project"]);
        let it: Value = serde_json::from_str(&test_ws.text(file)).unwrap();
        assert!(it[key]["haft"].is_object(), "{client}: {it}");
    }
    let test_ws = TestWorkspace::new();
    test_ws.installed(&["codex", "--project"]);
    assert!(test_ws.text(".codex/config.toml").starts_with("[mcp_servers.haft]\n"));
    let ran = test_ws.install(&["claude-desktop", "--project"]);
    assert_eq!(ran.code, 2, "{ran:?}");
}

#[test]
fn what_is_printed_is_what_would_be_written_and_options_go_with_it() {
    let test_ws = TestWorkspace::new();
    let printed =
        test_ws.run(&["--approve", "never", "--root", "/tmp:ro", "mcp", "install", "cursor", "--print"]);
    let it: Value = serde_json::from_str(&printed.out).unwrap();
    let workspace = test_ws.at("").canonicalize().unwrap();
    assert_eq!(
        it["mcpServers"]["haft"]["args"],
        json!(["--dir", workspace, "--root", "/tmp:ro", "--approve", "never", "mcp"])
    );
    assert!(!test_ws.home(".cursor").exists());
    let printed = test_ws.installed(&["codex", "--print", "--http", "http://127.0.0.1:1/mcp"]);
    assert_eq!(
        printed,
        "[mcp_servers.haft]\nurl = \"http://127.0.0.1:1/mcp\"\nbearer_token_env_var = \"HAFT_MCP_TOKEN\"\ntool_timeout_sec = 150\n"
    );
    for client in ["claude-code", "cursor", "gemini", "opencode", "vscode"] {
        let printed =
            test_ws.installed(&[client, "--print", "--http", "https://h/mcp", "--token-env", "MY_TOKEN"]);
        assert!(printed.contains("https://h/mcp") && printed.contains("MY_TOKEN}"), "{client}: {printed}");
    }
    assert_eq!(test_ws.install(&["zed", "--http", "https://h/mcp"]).code, 2);
    assert_eq!(test_ws.install(&["cursor", "--http", "h:80"]).code, 2);
}

#[test]
fn a_link_to_a_configuration_stays_a_link() {
    let test_ws = TestWorkspace::new();
    test_ws.has("dotfiles/mcp.json", "{}\n");
    fs::create_dir_all(test_ws.home(".cursor")).unwrap();
    std::os::unix::fs::symlink("../dotfiles/mcp.json", test_ws.home(".cursor/mcp.json")).unwrap();
    test_ws.installed(&["cursor"]);
    assert!(test_ws.home(".cursor/mcp.json").is_symlink());
    assert!(test_ws.now("dotfiles/mcp.json").contains(HAFT));
}

#[test]
fn a_person_s_own_file_has_haft_s_path_and_a_project_s_its_name() {
    let test_ws = TestWorkspace::new();
    fs::create_dir_all(test_ws.home("bin")).unwrap();
    let link = test_ws.home("bin/haft");
    std::os::unix::fs::symlink(HAFT, &link).unwrap();
    let path = format!("/nowhere:{}", test_ws.home("bin").display());
    for (more, expected) in [(None, link.to_str().unwrap()), (Some("--project"), "haft")] {
        let mut command = test_ws.haft(&["mcp", "install", "cursor", "--print"]);
        let ran = run(command.args(more).env("PATH", &path), "");
        let it: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(it["mcpServers"]["haft"]["command"], expected);
    }
    assert!(test_ws.installed(&["cursor", "--project"]).contains("not on your PATH"));
}

#[test]
fn what_an_entry_can_not_carry_is_refused() {
    let test_ws = TestWorkspace::new();
    let url = "http://127.0.0.1:1/mcp";
    for (arguments, said) in [
        (&["codex", "--http", url, "--sandbox", "read-only"][..], "`--sandbox read-only`"),
        (&["codex", "--http", url, "--dir", "."], "`--dir`"),
        (&["codex", "--trust"], "`--trust`"),
        (&["codex", "--http", "http://example.org/mcp"], "not encrypted"),
        (&["codex", "--http", "http://127.0.0.1.example.org/mcp"], "not encrypted"),
        (&["claude-desktop"], "--dir PATH"),
    ] {
        let ran = test_ws.install(arguments);
        assert!(ran.code == 2 && ran.err.contains(said), "{arguments:?}: {ran:?}");
    }
    for arguments in [
        &["mcp", "--all-tools", "install", "codex", "--http", url][..],
        &["mcp", "--http", "127.0.0.1:0", "install", "codex"],
        &["mcp", "--all-tools", "list"],
    ] {
        let ran = test_ws.run(arguments);
        assert_eq!(ran.code, 2, "{ran:?}");
    }
    assert!(!test_ws.home(".codex").exists());
    assert!(test_ws.installed(&["claude-desktop", "--print"]).contains("mcpServers"));
}

#[test]
fn a_client_that_is_to_list_all_tools_gets_that_option() {
    let test_ws = TestWorkspace::new();
    let printed = test_ws.run(&["mcp", "--all-tools", "install", "zed", "--project", "--print"]);
    let it: Value = serde_json::from_str(&printed.out).unwrap();
    assert_eq!(it["context_servers"]["haft"]["args"], json!(["mcp", "--all-tools"]));
}

#[test]
fn who_reaches_a_running_haft_is_told_where_the_token_is() {
    let test_ws = TestWorkspace::new();
    let said = test_ws.installed(&["codex", "--http", "http://127.0.0.1:1/mcp", "--token-env", "MINE"]);
    let file = test_ws.state().join("mcp-token");
    assert!(said.contains("with MINE set to") && said.contains(file.to_str().unwrap()), "{said}");
}

#[test]
fn an_entry_of_haft_s_own_is_updated_and_what_a_person_added_stays() {
    let old = json!({"command": "/old/haft", "args": ["--sandbox", "full", "mcp"], "env": {"A": "1"}});
    for (client, file, before, key) in [
        ("cursor", ".cursor/mcp.json", json!({"mcpServers": {"haft": old}}).to_string(), "mcpServers"),
        (
            "opencode",
            ".config/opencode/opencode.json",
            json!({"mcp": {"haft": {"type": "local", "command": ["haft", "mcp"], "env": {"A": "1"}}}})
                .to_string(),
            "mcp",
        ),
    ] {
        let test_ws = TestWorkspace::new();
        test_ws.has(file, &before);
        test_ws.installed(&[client]);
        let it: Value = serde_json::from_str(&test_ws.now(file)).unwrap();
        let entry = &it[key]["haft"];
        assert_eq!(entry["env"], json!({"A": "1"}));
        assert!(entry["command"] == HAFT || entry["command"] == json!([HAFT, "mcp"]), "{entry}");
        test_ws.installed(&[client, "--http", "https://h/mcp"]);
        let it: Value = serde_json::from_str(&test_ws.now(file)).unwrap();
        let entry = &it[key]["haft"];
        assert_eq!((&entry["url"], &entry["env"]), (&json!("https://h/mcp"), &json!({"A": "1"})));
        assert!(entry.get("command").is_none() && entry.get("args").is_none(), "{entry}");
        test_ws.installed(&[client]);
        let it: Value = serde_json::from_str(&test_ws.now(file)).unwrap();
        let entry = &it[key]["haft"];
        assert!(entry.get("url").is_none() && entry["env"] == json!({"A": "1"}), "back again: {entry}");
    }
    let test_ws = TestWorkspace::new();
    test_ws.has(
        ".codex/config.toml",
        "[mcp_servers.haft]\ncommand = \"haft\"\nargs = [\"mcp\"]\n\n[mcp_servers.haft.env]\nA = \"1\"\n",
    );
    test_ws.installed(&["codex"]);
    let after = test_ws.now(".codex/config.toml");
    assert!(after.contains(HAFT) && after.contains("A = \"1\""), "{after}");
}

#[test]
fn a_project_s_file_that_is_a_link_out_of_it_is_left_alone() {
    for (link, to) in [(".mcp.json", "victim.json"), (".cursor", "folder")] {
        let test_ws = TestWorkspace::new();
        test_ws.has("victim.json", "{}\n");
        fs::create_dir(test_ws.home("folder")).unwrap();
        std::os::unix::fs::symlink(test_ws.home(to), test_ws.at(link)).unwrap();
        let client = if link == ".cursor" { "cursor" } else { "claude-code" };
        let ran = test_ws.install(&[client, "--project"]);
        assert!(ran.code == 1 && ran.err.contains("out of the workspace"), "{ran:?}");
        assert_eq!(test_ws.now("victim.json"), "{}\n");
        assert_eq!(fs::read_dir(test_ws.home("folder")).unwrap().count(), 0);
    }
}

#[test]
fn haft_finds_no_server_in_the_entry_that_it_wrote_for_others() {
    let test_ws = TestWorkspace::new();
    test_ws.installed(&["claude-code", "--project"]);
    let ran = test_ws.run(&["mcp", "list"]);
    assert_eq!(
        (ran.code, ran.out.starts_with("no MCP servers are configured"), ran.err.as_str()),
        (0, true, ""),
        "{ran:?}"
    );
}
