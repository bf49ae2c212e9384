#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::fs;

use super::*;
use crate::{graph::REPORT, wiring::Format};

/// A folder with these files, each `//- PATH` and its lines.
fn folder(files: &str) -> (tempfile::TempDir, Places) {
    let folder = tempfile::tempdir().unwrap();
    for file in files.split("//- ").skip(1) {
        let (name, text) = file.split_once('\n').unwrap();
        let path = folder.path().join(name.trim());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let places = Places::new([folder.path().to_owned()], None);
    (folder, places)
}

fn loaded(files: &str, name: &str) -> Result<Recipe, String> {
    let (folder, places) = folder(files);
    load(&folder.path().join(name), &places).map_err(|fault| fault.as_text())
}

const WHOLE: &str = "//- terrarium.yaml
terrarium:
  name: newsroom
  max_creatures: 5
  root:
    base_config: creatures/lead
    system_prompt: You decide.
  creatures:
    - name: writer
      base_config: creatures/base
      controller: {llm: fast}
      channels: {listen: [tasks], can_send: [drafts, nowhere]}
      output_wiring:
        - root
        - {to: checker, with_content: false, prompt: '{{ source }} is done', prompt_format: jinja}
      output_log: true
      output_log_size: 7
      colour: red
    - name: checker
      config: creatures/base
      system_prompt: Check it.
      prompt_mode: replace
      tools: [read]
      channels: {listen: [drafts]}
  channels:
    tasks: What is to be written
    drafts: {description: Texts, type: queue}
    bare:
  extra: 1
//- creatures/lead/config.yaml
name: lead
tools: [{name: read}, bash]
system_prompt_file: prompts/system.md
//- creatures/lead/prompts/system.md
You lead.
//- creatures/base/config.yaml
name: base
base_config: ../root
controller: {model: slow, tool_format: bracket, temperature: 0.2}
tools: [{name: edit, type: builtin}, {name: mine, type: custom, module: ./x.py}]
triggers:
  - {type: timer, name: tick, prompt: Look around., options: {interval: 60}}
startup_trigger: {prompt: Begin.}
termination: {max_turns: 9, keywords: [DONE]}
plugins: [{name: guard}]
system_prompt_file: base.md
prompt_context_files: {rules: rules.txt}
//- creatures/base/base.md
Write about ${TOPIC:news}. {{ rules }}
//- creatures/base/rules.txt
Be brief.
//- creatures/root/config.yaml
name: root-of-all
tools: [{name: grep}, {name: edit, type: package}]
system_prompt: Be kind.
max_iterations: 30
";

#[test]
fn every_key_of_a_terrarium_is_read_and_what_has_no_effect_is_named() {
    let recipe = loaded(WHOLE, "terrarium.yaml").unwrap();
    assert_eq!((recipe.name.as_str(), recipe.cap), ("newsroom", 5));
    let named = |it: &str| (it.to_owned(), String::new());
    assert_eq!(
        recipe.channels,
        [
            ("tasks".to_owned(), "What is to be written".to_owned()),
            ("drafts".to_owned(), "Texts".to_owned()),
            named("bare")
        ]
    );
    let root = recipe.root.as_ref().unwrap();
    assert_eq!((root.name.as_str(), root.prompt.as_str()), (ROOT, "You lead.\n\nYou decide."));
    assert_eq!(root.tools.as_ref().unwrap(), &["read", "bash"]);
    let writer = &recipe.members[0];
    assert_eq!(writer.model.as_deref(), Some("fast"));
    assert_eq!(writer.tool_format.as_deref(), Some("bracket"));
    assert_eq!(writer.tools.as_ref().unwrap(), &["grep", "edit", "mine"], "bases first, a name once");
    assert_eq!(writer.prompt, "Be kind.\n\nWrite about ${TOPIC:news}. Be brief.\n");
    assert_eq!((writer.max_steps, writer.startup.as_deref()), (Some(30), Some("Begin.")));
    assert_eq!(writer.triggers[0].options["interval"], 60);
    assert_eq!(
        (writer.triggers[0].kind.as_str(), writer.triggers[0].name.as_deref()),
        ("timer", Some("tick"))
    );
    assert_eq!(writer.wires[0], Wire::to("root"));
    assert_eq!((writer.wires[1].with_content, writer.wires[1].prompt_format), (false, Format::Jinja));
    assert_eq!((writer.output_log, writer.source.as_str()), (7, "creatures/base"));
    let checker = &recipe.members[1];
    assert_eq!(checker.prompt, "Check it.", "replaced");
    assert_eq!(checker.model.as_deref(), Some("slow"));
    let notes = recipe.all_notes().join("\n");
    for part in [
        "`terrarium.extra` is not a key",
        "writer: `colour` is not a field",
        "writer: `plugins` has no effect",
        "writer: `termination.keywords` has no effect",
        "`mine` of `tools` is a file of its own (custom)",
    ] {
        assert!(notes.contains(part), "{part}\n{notes}");
    }
    assert_eq!(recipe.dangling(), ["writer: no channel `nowhere` is declared; the edge is left out"]);
}

#[test]
fn graph_of_a_recipe_has_direct_channels_and_those_of_the_root() {
    let recipe = loaded(WHOLE, "terrarium.yaml").unwrap();
    let (all, members) = recipe.graph().unwrap();
    assert_eq!(
        members.iter().map(|it| it.1.name.as_str()).collect::<Vec<_>>(),
        ["writer", "checker", "root"]
    );
    let graph = all.graphs.values().next().unwrap();
    let id = |name: &str| members.iter().find(|it| it.1.name == name).unwrap().0.as_str();
    assert_eq!(graph.cap, 5);
    assert_eq!(
        graph.channels.keys().collect::<Vec<_>>(),
        ["bare", "checker", "drafts", REPORT, "tasks", "writer"]
    );
    assert!(graph.channels["writer"].direct && !graph.channels["tasks"].direct);
    assert_eq!(graph.listens(id("writer")).collect::<Vec<_>>(), ["tasks", "writer"]);
    assert_eq!(graph.sends(id("writer")).collect::<Vec<_>>(), ["drafts", REPORT]);
    assert_eq!(graph.listens(id("root")).count(), 6, "every channel");
    assert!(all.is_privileged(id("root")) && !all.is_privileged(id("writer")));
    assert_eq!(graph.wires_of(id("writer")).len(), 2);
}

#[test]
fn a_recipe_that_names_things_twice_or_goes_outside_is_refused() {
    let two = "//- terrarium.yaml\nterrarium:\n  creatures: [{name: a}, {name: a}]\n";
    assert!(loaded(two, "terrarium.yaml").unwrap_err().contains("two members are called `a`"));
    let root = "//- terrarium.yaml\nterrarium:\n  root: {}\n  creatures: [{name: root}]\n";
    assert!(loaded(root, "terrarium.yaml").unwrap().root.is_none(), "an empty root is none");
    let root = "//- terrarium.yaml\nterrarium:\n  root: {model: x}\n  creatures: [{name: root}]\n";
    assert!(loaded(root, "terrarium.yaml").unwrap_err().contains("`root` is the name of the root"));
    let many = "//- terrarium.yaml\nterrarium:\n  max_creatures: 1\n  creatures: [{name: a}, {name: b}]\n";
    assert!(loaded(many, "terrarium.yaml").unwrap_err().contains("2 members; 1 is the most"));
    let missing = "//- terrarium.yaml\nterrarium:\n  creatures: [{name: a, base_config: ../nobody}]\n";
    assert!(loaded(missing, "terrarium.yaml").unwrap_err().contains("`a`: `base_config: ../nobody`"));
    let outside =
        "//- terrarium.yaml\nterrarium:\n  creatures: [{name: a, system_prompt_file: /etc/passwd}]\n";
    assert!(loaded(outside, "terrarium.yaml").unwrap_err().contains("outside of the workspace"));
    let endless = "//- terrarium.yaml\nterrarium:\n  creatures: [{name: a, base_config: b}]\n//- b/config.yaml\nbase_config: ../b\n";
    assert!(loaded(endless, "terrarium.yaml").unwrap_err().contains("more than 8 configs"));
    let package =
        "//- terrarium.yaml\nterrarium:\n  creatures: [{name: a, base_config: '@kt/creatures/x'}]\n";
    assert!(loaded(package, "terrarium.yaml").unwrap_err().contains("no packages are installed"));
    let broken = "//- terrarium.yaml\nterrarium:\n  creatures: [{name: a\n";
    assert!(loaded(broken, "terrarium.yaml").unwrap_err().contains("terrarium.yaml: line "));
}

#[test]
fn a_creature_alone_is_a_privileged_group_of_one() {
    let recipe = loaded("//- solo/config.yaml\nsystem_prompt: Hello.\n", "solo").unwrap();
    let (all, members) = recipe.graph().unwrap();
    assert_eq!((members.len(), members[0].1.name.as_str()), (1, "solo"));
    assert!(all.is_privileged(&members[0].0));
}

#[test]
fn group_in_toml_has_profiles_limits_and_strict_keys() {
    let toml = "//- group.toml
[group]
name = \"desk\"
max_agents = 4
limits = { tokens = 1000, minutes = 2.5, exchanges = 3 }
channels = { talk = \"All of it\" }

[group.root]
profile = \"plan\"
send = [\"talk\"]

[[group.agent]]
name = \"writer\"
prompt = \"Write.\"
model = \"script:w.jsonl\"
tools = [\"read\"]
listen = [\"talk\"]
wires = [\"root\", { to = \"writer\", allow_self_trigger = true }]
triggers = [{ type = \"timer\", interval = 5, prompt = \"Look.\" }]
";
    let recipe = loaded(toml, "group.toml").unwrap();
    assert_eq!((recipe.cap, recipe.limits.tokens, recipe.limits.exchanges), (4, Some(1000), Some(3)));
    assert_eq!(recipe.root.as_ref().unwrap().profile.as_deref(), Some("plan"));
    let writer = &recipe.members[0];
    assert_eq!((writer.listen.as_slice(), writer.wires.len()), (&["talk".to_owned()][..], 2));
    assert_eq!(writer.triggers[0].options["interval"], 5);
    let (all, _) = recipe.graph().unwrap();
    let graph = all.graphs.values().next().unwrap();
    assert_eq!(graph.channels.keys().collect::<Vec<_>>(), [REPORT, "talk"], "no direct channels");
    let misspelt = toml.replace("max_agents", "max_agent");
    assert!(loaded(&misspelt, "group.toml").unwrap_err().contains("`max_agent` is not a key of `group`"));
    let misspelt = toml.replace("tokens = 1000", "token = 1000");
    assert!(loaded(&misspelt, "group.toml").unwrap_err().contains("`group.limits`: unknown field `token`"));
}

#[test]
fn a_profile_with_a_group_is_its_root() {
    let profile = "//- lead.md
---
description: Leads.
tools: [read]
group:
  channels: {talk: All of it}
  agents:
    - {name: a, prompt: Help., listen: [talk]}
---
You lead.
";
    let recipe = loaded(profile, "lead.md").unwrap();
    let root = recipe.root.as_ref().unwrap();
    assert_eq!((recipe.name.as_str(), root.prompt.as_str()), ("lead", "You lead."));
    assert_eq!(root.tools.as_ref().unwrap(), &["read"]);
    assert_eq!(recipe.members[0].listen, ["talk"]);
}

#[test]
fn variables_have_their_defaults_and_never_the_environment() {
    let files = "//- a/config.yaml\nsystem_prompt: 'Home is ${HOME} and ${CITY:Oslo}.'\n";
    let recipe = loaded(files, "a").unwrap();
    let root = recipe.root.unwrap();
    assert_eq!(root.prompt, "Home is  and Oslo.");
    assert!(root.notes.concat().contains("`${HOME}` is empty"));
}

#[test]
fn process_of_its_own_is_a_key_in_both_forms_and_true_or_false() {
    let toml = "//- group.toml\n[group]\n[[group.agent]]\nname = \"ann\"\nprocess = true\n";
    let yaml = "//- terrarium.yaml\nterrarium:\n  creatures:\n    - {name: ann, process: true}\n";
    let files = "//- group.toml\n[group]\n[[group.agent]]\nname = \"ann\"\nconfig = \"a\"\n\
                 //- a/config.yaml\nprocess: true\n";
    for (files, file) in [(toml, "group.toml"), (yaml, "terrarium.yaml"), (files, "group.toml")] {
        assert!(loaded(files, file).unwrap().members[0].process, "{files}");
        assert!(
            !loaded(&files.replace("process: true", "").replace("process = true", ""), file).unwrap().members
                [0]
            .process
        );
    }
    let why = loaded(&toml.replace("true", "\"yes\""), "group.toml").unwrap_err();
    assert!(why.contains("`ann`") && why.contains("`process`") && why.contains("true or false"), "{why}");
}
