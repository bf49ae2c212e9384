//! Names of models in texts: each is one of the list in `agent::model`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use haft::agent::model::models;

use crate::support::TestWorkspace;

/// Names that stand for a form, or for what a person has: not models of the list. So do those with an ellipsis.
const FORMS: [&str; 5] =
    ["ollama:NAME", "ollama:MODEL", "ollama:qwen3:32b", "openai:chat:MODEL", "openai:responses:MODEL"];

#[test]
fn every_model_that_is_named_is_in_the_list() {
    let top = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut files = vec![top.join("README.md"), top.join("haft.example.toml")];
    for folder in ["docs", "examples", "crates/agent/prompts", "crates/tools/manuals", "crates/tools/hints"] {
        texts(&top.join(folder), &mut files);
    }
    let mut named = 0;
    let mut wrong = Vec::new();
    let mut look = |text: &str, at: &str| {
        for name in names(text) {
            named += 1;
            let known = models().any(|it| name == format!("{}:{}", it.provider, it.name));
            if !known && !name.ends_with('…') && !FORMS.contains(&name.as_str()) {
                wrong.push(format!("{at}: {name}"));
            }
        }
    };
    for file in &files {
        look(&fs::read_to_string(file).unwrap(), &file.display().to_string());
    }
    let test_ws = TestWorkspace::new();
    let help = test_ws.run(&["--help"]).out;
    look(&help, "haft --help");
    for verb in ["run", "chat", "prompt", "models", "login", "demo", "mcp"] {
        look(&test_ws.run(&[verb, "--help"]).out, verb);
    }
    assert!(named > 2, "the texts were looked at");
    assert!(wrong.is_empty(), "not in the list of crates/agent/src/model/known.rs:\n{}", wrong.join("\n"));
}

/// Files of text below a folder.
fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let is_text =
            path.extension().is_some_and(|it| ["md", "toml", "sh", "jsonl"].iter().any(|known| it == *known));
        if path.is_dir() {
            texts(&path, found);
        } else if is_text {
            found.push(path);
        }
    }
}

/// Returns every `PROVIDER:MODEL` of a text.
fn names(text: &str) -> Vec<String> {
    let mut providers: Vec<&str> = models().map(|it| it.provider).collect();
    providers.dedup();
    let is_name = |it: char| it.is_alphanumeric() || "-._/:…".contains(it);
    let words = text.split(|it: char| !is_name(it)).map(|it| it.trim_end_matches(['.', ':']));
    words
        .filter(|word| {
            let rest = word.split_once(':').filter(|(provider, _)| providers.contains(provider));
            // `haft.toml: openai: …` is a sentence.
            rest.is_some_and(|(_, model)| !model.is_empty() && !model.starts_with('/'))
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn names_are_found_in_sentences_and_addresses_are_not() {
    let text = "Name `openai:gpt-4o`, or anthropic:claude-x. Not openai: this, nor http://openai://x, nor ollama:qwen3.";
    assert_eq!(names(text), ["openai:gpt-4o", "anthropic:claude-x", "ollama:qwen3"]);
}
