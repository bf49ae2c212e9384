//! `haft models`, and messages about models.

use std::fs;

use serde_json::Value;

use super::provider::{KEY, Provider, alone, nobody};
use crate::support::{TestWorkspace, run};

#[test]
fn what_providers_serve_is_listed_with_windows_and_prices() {
    let (test_ws, provider) = (TestWorkspace::new(), Provider::new());
    let mut haft = test_ws.haft(&["models"]);
    alone(&mut haft).env("OPENAI_BASE_URL", &provider.url).env("OPENAI_API_KEY", KEY);
    let ran = run(&mut haft, "");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(
        lines[0].starts_with("openai at http://127.0.0.1:") && lines[0].ends_with(", key of OPENAI_API_KEY")
    );
    assert!(lines[1].contains("MODEL") && lines[1].contains("WINDOW"), "{ran:?}");
    assert!(lines[2].contains("openai:gpt-5.6-terra") && lines[2].contains("1,050,000"), "{ran:?}");
    assert!(lines[3].contains("openai:house-model") && lines[3].contains("64,000"), "{ran:?}");
    assert!(!ran.out.contains(KEY));

    let mut haft = test_ws.haft(&["models", "openai", "--json"]);
    alone(&mut haft).env("OPENAI_BASE_URL", &provider.url).env("OPENAI_API_KEY", KEY);
    let all: Value = serde_json::from_str(&run(&mut haft, "").out).unwrap();
    let openai = &all["providers"][0];
    assert_eq!((&openai["provider"], &openai["key"]), (&"openai".into(), &"OPENAI_API_KEY".into()), "{all}");
    assert_eq!(openai["models"][0]["name"], "openai:gpt-5.6-terra");
    assert_eq!(openai["models"][1]["window"], 64_000);
}

#[test]
fn a_local_server_is_found_without_a_key() {
    let (test_ws, provider) = (TestWorkspace::new(), Provider::new());
    // The mock wants a key; Ollama has a variable for one, too.
    let mut haft = test_ws.haft(&["models"]);
    haft.env("OLLAMA_HOST", provider.url.trim_end_matches("/v1")).env("OLLAMA_API_KEY", KEY);
    let ran = run(&mut haft, "");
    assert!(ran.code == 0 && ran.out.contains("ollama:house-model"), "{ran:?}");
    // A local server does not have the maker's prices.
    assert!(
        ran.out.lines().all(|it| !it.contains("gpt-5.6-terra") || it.trim_end().ends_with('-')),
        "{ran:?}"
    );
}

#[test]
fn what_fails_is_one_line_with_what_to_do() {
    let (test_ws, provider) = (TestWorkspace::new(), Provider::new());
    let none = run(alone(&mut test_ws.haft(&["models"])), "");
    assert!(
        none.code == 1 && none.err.contains("no provider has a key, and no local model server answers"),
        "{none:?}"
    );
    assert!(none.err.contains("haft login PROVIDER") && none.err.contains("--known"), "{none:?}");

    fs::create_dir_all(test_ws.config()).unwrap();
    let sections = "[models.far]\nurl = \"https://models.invalid/v1\"\nmodel = \"x\"\n";
    fs::write(test_ws.config().join("haft.toml"), sections).unwrap();
    let line = |arguments: &[&str], url: &str, key: &str| {
        let mut haft = test_ws.haft(arguments);
        alone(&mut haft).env("OPENAI_BASE_URL", url).env("OPENAI_API_KEY", key);
        let ran = run(&mut haft, "");
        assert!(ran.code == 1 && ran.out.is_empty() && ran.err.lines().count() == 1, "{ran:?}");
        ran.err
    };
    let told = line(&["models", "anthropic"], &provider.url, KEY);
    assert!(told.contains("ANTHROPIC_API_KEY") && told.contains("haft login anthropic"), "{told}");
    let told = line(&["models", "openai"], &provider.url, "sk-a-wrong-key-2");
    assert!(
        told.contains("401") && told.contains("Check the key in OPENAI_API_KEY.") && !told.contains("sk-a"),
        "{told}"
    );
    let told = line(&["models", "openai"], &nobody(), KEY);
    assert!(told.contains("nothing listens at http://127.0.0.1:"), "{told}");
    let told = line(&["models", "far"], &provider.url, KEY);
    assert!(told.contains("no network, or the name is unknown: models.invalid."), "{told}");
}

#[test]
fn a_name_that_is_unknown_or_misspelt_is_answered_with_the_one_that_was_meant() {
    let (test_ws, provider) = (TestWorkspace::new(), Provider::new());
    let unknown = run(alone(&mut test_ws.haft(&["run", "--model", "gpt-4o", "hi"])), "");
    assert_eq!(unknown.code, 2, "{unknown:?}");
    assert!(unknown.err.contains("unknown model `gpt-4o`; did you mean `openai:gpt-4o`?"), "{unknown:?}");
    let none = run(alone(&mut test_ws.haft(&["run", "hi"])), "");
    assert!(none.code == 2 && none.err.contains("haft login anthropic"), "{none:?}");
    assert!(none.err.contains("export ANTHROPIC_API_KEY=…") && none.err.contains("haft demo"), "{none:?}");
    // A server of one's own has names of its own, so nothing is doubted there.
    let mut own = test_ws.haft(&["run", "--model", "openai:gpt-5.6-tera", "hi"]);
    alone(&mut own).env("OPENAI_BASE_URL", &provider.url).env("OPENAI_API_KEY", KEY);
    let own = run(&mut own, "");
    assert!(own.code == 0 && !own.err.contains("did you mean"), "{own:?}");
}
