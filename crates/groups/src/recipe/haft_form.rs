//! haft's own form of a recipe: `[group]` in a TOML file, or `group:` in the front matter of a profile.

use std::path::Path;

use kit::Fault;
use serde_json::{Map, Value};

use super::{
    Limits, MemberSpec, ROOT, Recipe, TriggerSpec, channel,
    creature::{self, list, text, texts, wrong},
    document::{self, Places},
    wires_of,
};

/// The keys of a group.
const KEYS: [&str; 7] = ["name", "max_agents", "root", "agents", "agent", "channels", "limits"];

/// The keys of an agent.
const OF_AGENT: [&str; 19] = [
    "name",
    "description",
    "profile",
    "config",
    "prompt",
    "model",
    "tools",
    "tool_format",
    "max_steps",
    "max_seconds",
    "read_only",
    "listen",
    "send",
    "wires",
    "triggers",
    "startup",
    "pwd",
    "process",
    "on",
];

/// Reads a profile with `group:` in its front matter. The profile itself is the root.
pub(super) fn of_profile(file: &Path, folder: &Path, places: &Places) -> Result<Recipe, Fault> {
    let shown = file.display();
    let text_of = places.read(folder, &file.to_string_lossy())?;
    let front = text_of.strip_prefix("---\n").and_then(|it| it.split_once("\n---\n"));
    let (front, body) = front
        .ok_or_else(|| Fault::bad_args(format!("{shown} has no front matter between two lines `---`")))?;
    let mut fields = document::parse("yaml", front)
        .map_err(|why| Fault::bad_args(format!("{shown}: front matter, {why}")))?;
    let Some(Value::Object(group)) = fields.remove("group") else {
        return Err(Fault::bad_args(format!("{shown} has no `group:` in its front matter")));
    };
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let root = MemberSpec {
        name: ROOT.to_owned(),
        description: text(&fields, "description")?.unwrap_or_default(),
        prompt: body.trim().to_owned(),
        model: text(&fields, "model")?.filter(|it| it != "inherit"),
        tools: fields.contains_key("tools").then(|| texts(fields.get("tools"))),
        max_steps: number(&fields, "max_turns")?.or(number(&fields, "max_steps")?),
        read_only: text(&fields, "sandbox")?.as_deref() == Some("read-only"),
        source: stem.clone().into_owned(),
        ..MemberSpec::default()
    };
    let mut recipe = of_fields(&group, &Map::new(), folder, places, Some(root))?;
    if recipe.name.is_empty() {
        recipe.name = stem.into_owned();
    }
    Ok(recipe)
}

/// Reads the fields of a group. An unknown one is an error, since it may be a misspelt limit.
pub(super) fn of_fields(
    fields: &Map<String, Value>,
    beside: &Map<String, Value>,
    folder: &Path,
    places: &Places,
    root: Option<MemberSpec>,
) -> Result<Recipe, Fault> {
    known("group", fields, &KEYS)?;
    if let Some(other) = beside.keys().next() {
        return Err(Fault::bad_args(format!("`{other}` is beside `[group]`; a recipe has nothing else")));
    }
    let mut recipe = Recipe { name: text(fields, "name")?.unwrap_or_default(), root, ..Recipe::default() };
    recipe.cap = number(fields, "max_agents")?.unwrap_or(0);
    if let Some(limits) = fields.get("limits") {
        recipe.limits = serde_json::from_value::<Limits>(limits.clone())
            .map_err(|error| Fault::bad_args(format!("`group.limits`: {error}")))?;
    }
    if let Some(channels) = fields.get("channels") {
        let Value::Object(channels) = channels else { return Err(wrong("channels", channels, "a table")) };
        for (name, about) in channels {
            let described = channel(name, about, &mut recipe.notes)?;
            recipe.channels.push((name.clone(), described));
        }
    }
    // `[[group.agent]]` is the usual way in TOML, `agents:` in YAML.
    for raw in list(fields, "agent")?.into_iter().chain(list(fields, "agents")?) {
        let Value::Object(fields) = raw else { return Err(wrong("agents", &raw, "a list of tables")) };
        recipe.members.push(agent(&fields, None, folder, places)?);
    }
    if let Some(raw) = fields.get("root") {
        let Value::Object(fields) = raw else { return Err(wrong("root", raw, "a table")) };
        if recipe.root.is_some() {
            return Err(Fault::bad_args("the profile is the root; it can't have another one"));
        }
        recipe.root = Some(agent(fields, Some(ROOT), folder, places)?);
    }
    if recipe.name.is_empty() && recipe.root.is_none() {
        recipe.name = "group".to_owned();
    }
    Ok(recipe)
}

fn agent(
    fields: &Map<String, Value>,
    name: Option<&str>,
    folder: &Path,
    places: &Places,
) -> Result<MemberSpec, Fault> {
    known("group.agent", fields, &OF_AGENT)?;
    let name = match name {
        Some(name) => name.to_owned(),
        None => text(fields, "name")?
            .filter(|it| !it.is_empty())
            .ok_or_else(|| Fault::bad_args("an agent of the group has no `name`"))?,
    };
    let within = |fault: Fault| Fault { what: format!("`{name}`: {}", fault.what), ..fault };
    let mut spec = match text(fields, "config")? {
        Some(config) => creature::load(places, folder, &config).map_err(within)?,
        None => MemberSpec::default(),
    };
    spec.name.clone_from(&name);
    spec.profile = text(fields, "profile")?;
    spec.description = text(fields, "description")?.unwrap_or(spec.description);
    spec.prompt = text(fields, "prompt")?.unwrap_or(spec.prompt);
    spec.model = text(fields, "model")?.or(spec.model);
    if fields.contains_key("tools") {
        spec.tools = Some(texts(fields.get("tools")));
    }
    spec.tool_format = text(fields, "tool_format")?.or(spec.tool_format);
    spec.max_steps = number(fields, "max_steps")?.or(spec.max_steps);
    spec.max_seconds = number(fields, "max_seconds")?.map(|it| it as u64).or(spec.max_seconds);
    spec.read_only = fields.get("read_only").and_then(Value::as_bool).unwrap_or(spec.read_only);
    spec.listen = texts(fields.get("listen"));
    spec.send = texts(fields.get("send"));
    spec.wires.extend(wires_of(fields, "wires").map_err(within)?);
    spec.startup = text(fields, "startup")?.or(spec.startup);
    spec.pwd = text(fields, "pwd")?.or(spec.pwd);
    spec.process = creature::process(fields).map_err(within)?.unwrap_or(spec.process);
    spec.on = on(fields).map_err(within)?;
    for raw in list(fields, "triggers")? {
        let Value::Object(mut options) = raw else { return Err(within(wrong("triggers", &raw, "tables"))) };
        let mut take = |key: &str| options.remove(key).and_then(|it| it.as_str().map(str::to_owned));
        let kind = take("type").ok_or_else(|| within(Fault::bad_args("a trigger needs `type`")))?;
        let (name, prompt) = (take("name"), take("prompt"));
        spec.triggers.push(TriggerSpec { kind, name, prompt, options });
    }
    Ok(spec)
}

/// Returns the labels of the workers on which the turns of an agent run: `"gpu"`, `["gpu", "linux"]`.
fn on(fields: &Map<String, Value>) -> Result<Option<String>, Fault> {
    match fields.get("on") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(labels)) => Ok(Some(labels.clone())),
        Some(Value::Array(labels)) if labels.iter().all(Value::is_string) => {
            let labels: Vec<&str> = labels.iter().filter_map(Value::as_str).collect();
            Ok(Some(labels.join(",")))
        }
        Some(other) => Err(wrong("on", other, "labels of workers, such as \"gpu\"")),
    }
}

fn number(fields: &Map<String, Value>, key: &str) -> Result<Option<usize>, Fault> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64().and_then(|it| usize::try_from(it).ok()) {
            Some(number) if number > 0 => Ok(Some(number)),
            _ => Err(Fault::bad_args(format!("`{key}` is {value}; it must be a number from 1"))),
        },
    }
}

fn known(what: &str, fields: &Map<String, Value>, keys: &[&str]) -> Result<(), Fault> {
    match fields.keys().find(|it| !keys.contains(&it.as_str())) {
        Some(other) => Err(Fault::bad_args(format!(
            "`{other}` is not a key of `{what}`; those are: {}",
            keys.join(", ")
        ))),
        None => Ok(()),
    }
}
