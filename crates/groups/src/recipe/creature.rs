//! Creature configs: `config.yaml` of KohakuTerrarium, with `base_config` inheritance, as a member of a group.

use std::path::Path;

use kit::Fault;
use serde_json::{Map, Value};

use super::{
    MemberSpec, TriggerSpec,
    document::{self, Places, kind_of},
};
use crate::wiring::{Wire, jinja};

/// Maximum length of a chain of `base_config`.
const BASES: usize = 8;

/// Fields whose lists are merged by the field `name`.
const BY_NAME: [&str; 5] = ["tools", "subagents", "plugins", "mcp_servers", "triggers"];

/// Fields that say how a config is merged.
const DIRECTIVES: [&str; 3] = ["base_config", "no_inherit", "prompt_mode"];

/// Fields that have an effect here.
const USED: [&str; 21] = [
    "name",
    "description",
    "controller",
    "llm",
    "llm_profile",
    "model",
    "provider",
    "tool_format",
    "max_iterations",
    "system_prompt",
    "system_prompt_file",
    "prompt_context_files",
    "tools",
    "subagents",
    "triggers",
    "startup_trigger",
    "output_wiring",
    "termination",
    "pwd",
    "process",
    "session_key",
];

/// Fields of KohakuTerrarium without an effect here, each with the reason.
const IGNORED: [(&str, &str); 17] = [
    ("version", ""),
    ("input", ""),
    ("output", ""),
    ("plugins", "haft runs no plugins of KohakuTerrarium around calls"),
    ("default_plugins", "haft runs no plugins of KohakuTerrarium around calls"),
    ("mcp_servers", "MCP servers are configured in haft.toml"),
    ("compact", "haft has a compaction of its own"),
    ("memory", "haft has a memory of its own"),
    ("skills", "skills are in .claude/skills"),
    ("disable_provider_tools", ""),
    ("skill_index_budget_bytes", ""),
    ("framework_hint_overrides", ""),
    ("framework_hints", ""),
    ("api_key_env", "keys are those of `haft login`"),
    ("base_url", "models are configured in haft.toml"),
    ("auth_mode", "keys are those of `haft login`"),
    ("commands", ""),
];

/// Fields of a model without an effect here.
const OF_MODEL: [&str; 17] = [
    "variation",
    "variation_selections",
    "temperature",
    "max_tokens",
    "reasoning_effort",
    "service_tier",
    "extra_body",
    "retry_policy",
    "tool_doc_mode",
    "include_tools_in_prompt",
    "include_hints_in_prompt",
    "max_messages",
    "ephemeral",
    "pwd_guard",
    "sanitize_orphan_tool_calls",
    "skill_mode",
    "known_outputs",
];

/// A config with everything that it inherits.
struct Merged {
    fields: Map<String, Value>,
    /// The prompts that it inherits, the oldest first.
    prompts: Vec<String>,
}

/// Reads the creature that `named` names from `from`: a folder, or a config file.
///
/// # Errors
/// When it can't be read, or a field has a wrong type.
pub fn load(places: &Places, from: &Path, named: &str) -> Result<MemberSpec, Fault> {
    let path = places.find(from, named)?;
    let file = document::config_in(&path)?;
    let folder = file.parent().unwrap_or(&file);
    let mut spec = of_fields(places, folder, document::mapping(&file)?)?;
    if spec.name.is_empty() {
        let name = folder.file_name().unwrap_or_default();
        spec.name = name.to_string_lossy().into_owned();
    }
    spec.source = named.to_owned();
    Ok(spec)
}

/// Returns whether a member runs in a process of its own, where its config says so.
///
/// # Errors
/// When that is neither true nor false.
pub(super) fn process(fields: &Map<String, Value>) -> Result<Option<bool>, Fault> {
    match fields.get("process") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(it)) => Ok(Some(*it)),
        Some(other) => Err(wrong("process", other, "true or false")),
    }
}

/// Turns the fields of a config in `folder` into a member.
///
/// # Errors
/// When a base is missing, or a field has a wrong type.
pub fn of_fields(places: &Places, folder: &Path, fields: Map<String, Value>) -> Result<MemberSpec, Fault> {
    let mut notes = Vec::new();
    let Merged { fields, prompts } = inherit(places, folder, fields, BASES, &mut notes)?;
    if fields.contains_key("on") {
        return Err(Fault::bad_args("`on` is not a key of a creature's config: its turns run here")
            .next("Only an agent of group.toml can have `on`; it may name this config by `config`."));
    }
    let name = text(&fields, "name")?.unwrap_or_default();
    let mut spec = MemberSpec { name, ..MemberSpec::default() };
    spec.description = text(&fields, "description")?.unwrap_or_default();
    spec.prompt = with_context(places, folder, &fields, prompts.join("\n\n"), &mut notes)?;
    of_model(&fields, &mut spec, &mut notes)?;
    spec.tools = names(&fields, "tools", &mut notes)?;
    if let (Some(tools), Some(agents)) = (&mut spec.tools, names(&fields, "subagents", &mut notes)?)
        && !agents.is_empty()
    {
        tools.push("subagent".to_owned());
    }
    for raw in list(&fields, "triggers")? {
        spec.triggers.push(trigger(&raw)?);
    }
    if let Some(startup) = fields.get("startup_trigger").and_then(Value::as_object) {
        spec.startup = startup.get("prompt").and_then(Value::as_str).map(str::to_owned);
    }
    spec.wires = wires(&list(&fields, "output_wiring")?)?;
    if let Some(termination) = fields.get("termination").and_then(Value::as_object) {
        for (key, value) in termination {
            match (key.as_str(), value.as_f64()) {
                ("max_turns", Some(turns)) if turns > 0.0 => spec.max_steps = Some(turns as usize),
                ("max_duration", Some(seconds)) if seconds > 0.0 => spec.max_seconds = Some(seconds as u64),
                (_, Some(0.0)) => {}
                _ => notes.push(format!("`termination.{key}` has no effect here")),
            }
        }
    }
    if let Some(most) = fields.get("max_iterations").and_then(Value::as_u64) {
        spec.max_steps = usize::try_from(most).ok();
    }
    spec.pwd = text(&fields, "pwd")?;
    spec.process = process(&fields)?.unwrap_or_default();
    spec.session_key = text(&fields, "session_key")?;
    let used = |it: &str| USED.contains(&it) || OF_MODEL.contains(&it);
    for (key, value) in fields.iter().filter(|(key, _)| !used(key)) {
        match IGNORED.iter().find(|it| it.0 == key) {
            Some((_, "")) => {}
            Some(_) if is_empty(value) => {}
            Some((_, why)) => notes.push(format!("`{key}` has no effect: {why}")),
            None => {
                notes.push(format!("`{key}` is not a field of a creature that haft knows; it is ignored"));
            }
        }
    }
    spec.notes = notes;
    Ok(spec)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Merges a config over its bases.
fn inherit(
    places: &Places,
    folder: &Path,
    fields: Map<String, Value>,
    left: usize,
    notes: &mut Vec<String>,
) -> Result<Merged, Fault> {
    let mut value = Value::Object(fields);
    let mut missing = Vec::new();
    document::without_variables(&mut value, &mut missing);
    for name in missing {
        notes.push(format!("`${{{name}}}` is empty: a config does not see the environment"));
    }
    let Value::Object(mut fields) = value else { return Err(Fault::bug("a mapping is no longer one")) };
    // A config on top of this one lies in another folder.
    if let Some(Value::Object(files)) = fields.get_mut("prompt_context_files") {
        for file in files.values_mut() {
            if let Some(named) = file.as_str().filter(|it| !it.starts_with('@')) {
                *file = folder.join(named).display().to_string().into();
            }
        }
    }
    let mut prompts = match fields.get("base_config").and_then(Value::as_str).map(str::to_owned) {
        Some(base) => {
            let left = left.checked_sub(1).ok_or_else(|| {
                Fault::bad_args(format!(
                    "`base_config: {base}`: more than {BASES} configs on top of each other"
                ))
            })?;
            let path = places
                .find(folder, &base)
                .map_err(|fault| Fault { what: format!("`base_config: {base}`: {}", fault.what), ..fault })?;
            let file = document::config_in(&path)?;
            let above = file.parent().unwrap_or(&file).to_owned();
            let base = inherit(places, &above, document::mapping(&file)?, left, notes)?;
            let replaces = fields.get("prompt_mode").and_then(Value::as_str) == Some("replace");
            let dropped = texts(fields.get("no_inherit"));
            let keeps = |it: &str| !dropped.iter().any(|other| other == it);
            let prompts = if replaces || !keeps("system_prompt") || !keeps("system_prompt_file") {
                Vec::new()
            } else {
                base.prompts
            };
            fields = merged(base.fields, fields, &dropped);
            prompts
        }
        None => Vec::new(),
    };
    // The prompts of the bases are read already, from their own folders.
    if let Some(file) = text(&fields, "system_prompt_file")? {
        prompts.push(places.read(folder, &file)?.trim().to_owned());
    }
    if let Some(inline) = text(&fields, "system_prompt")? {
        prompts.push(inline);
    }
    for key in ["system_prompt", "system_prompt_file"] {
        fields.remove(key);
    }
    Ok(Merged { fields, prompts })
}

fn merged(base: Map<String, Value>, child: Map<String, Value>, dropped: &[String]) -> Map<String, Value> {
    let mut all: Map<String, Value> = base.into_iter().filter(|it| !dropped.contains(&it.0)).collect();
    for (key, value) in child {
        if DIRECTIVES.contains(&key.as_str()) || value.is_null() {
            continue;
        }
        match (all.get_mut(&key), value) {
            (Some(Value::Array(base)), Value::Array(items)) if BY_NAME.contains(&key.as_str()) => {
                for item in items {
                    let name = name_of(&item).map(str::to_owned);
                    match base.iter_mut().find(|it| name.is_some() && name_of(it) == name.as_deref()) {
                        Some(same) => *same = item,
                        None => base.push(item),
                    }
                }
            }
            (Some(Value::Object(base)), Value::Object(fields)) => base.extend(fields),
            (_, value) => {
                all.insert(key, value);
            }
        }
    }
    all
}

fn name_of(item: &Value) -> Option<&str> {
    item.get("name").and_then(Value::as_str)
}

/// Renders `prompt_context_files`: each variable stands for the text of a file.
fn with_context(
    places: &Places,
    folder: &Path,
    fields: &Map<String, Value>,
    prompt: String,
    notes: &mut Vec<String>,
) -> Result<String, Fault> {
    let Some(files) = fields.get("prompt_context_files").and_then(Value::as_object) else {
        return Ok(prompt);
    };
    let mut context = Map::new();
    for (name, file) in files {
        match file.as_str().map(|it| places.read(folder, it)) {
            Some(Ok(text)) => drop(context.insert(name.clone(), text.into())),
            Some(Err(fault)) if fault.kind == kit::Kind::Denied => return Err(fault),
            _ => notes.push(format!("`prompt_context_files.{name}`: {file} can't be read")),
        }
    }
    if context.is_empty() {
        return Ok(prompt);
    }
    jinja(&prompt, &Value::Object(context))
        .map_err(|why| Fault::bad_args(format!("the system prompt is not a Jinja template: {why}")))
}

/// Takes the model, and how it writes calls.
fn of_model(
    fields: &Map<String, Value>,
    spec: &mut MemberSpec,
    notes: &mut Vec<String>,
) -> Result<(), Fault> {
    let empty = Map::new();
    let controller = match fields.get("controller") {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(fields)) => fields,
        Some(other) => return Err(wrong("controller", other, "a mapping")),
    };
    for key in controller.keys().filter(|it| !OF_MODEL.contains(&it.as_str())) {
        let known = ["llm", "llm_profile", "model", "provider", "tool_format"];
        let has_no_effect = IGNORED.iter().any(|it| it.0 == key);
        if !known.contains(&key.as_str()) && !has_no_effect {
            notes.push(format!("`controller.{key}` is not a field that haft knows; it is ignored"));
        }
    }
    let either = |key: &str| -> Result<Option<String>, Fault> {
        Ok(text(controller, key)?.or(text(fields, key)?).filter(|it| !it.is_empty()))
    };
    let provider = either("provider")?;
    let model = either("model")?.map(|model| match provider {
        Some(provider) if !model.contains(':') => format!("{provider}:{model}"),
        _ => model,
    });
    spec.model = either("llm")?.or(either("llm_profile")?).or(model);
    spec.tool_format = match controller.get("tool_format").or(fields.get("tool_format")) {
        Some(Value::String(name)) => Some(name.clone()),
        Some(Value::Object(_)) => {
            notes.push("a `tool_format` of its own has no effect; the usual one is used".to_owned());
            None
        }
        _ => None,
    };
    Ok(())
}

/// Returns the names in a list of names or of mappings with `name`. A tool that is a trigger has the trigger's name.
fn names(
    fields: &Map<String, Value>,
    key: &str,
    notes: &mut Vec<String>,
) -> Result<Option<Vec<String>>, Fault> {
    if fields.get(key).is_none_or(Value::is_null) {
        return Ok(None);
    }
    let mut all = Vec::new();
    for item in list(fields, key)? {
        let kind = item.get("type").and_then(Value::as_str).unwrap_or("builtin");
        match item.as_str().or(name_of(&item)) {
            Some(name) => {
                if matches!(kind, "custom" | "package") {
                    notes.push(format!(
                        "`{name}` of `{key}` is a file of its own ({kind}): it counts if it is in a folder of tools"
                    ));
                }
                all.push(name.to_owned());
            }
            None => return Err(wrong(key, &item, "a name, or a mapping with `name`")),
        }
    }
    Ok(Some(all))
}

fn trigger(raw: &Value) -> Result<TriggerSpec, Fault> {
    let Some(fields) = raw.as_object() else { return Err(wrong("triggers", raw, "a mapping with `type`")) };
    let kind = text(fields, "type")?
        .ok_or_else(|| Fault::bad_args("a trigger needs `type`: timer, schedule, context or channel"))?;
    let own = ["type", "name", "prompt", "options", "module", "class"];
    let mut options: Map<String, Value> = fields
        .iter()
        .filter(|it| !own.contains(&it.0.as_str()))
        .map(|it| (it.0.clone(), it.1.clone()))
        .collect();
    if let Some(Value::Object(more)) = fields.get("options") {
        options.extend(more.clone());
    }
    Ok(TriggerSpec { kind, name: text(fields, "name")?, prompt: text(fields, "prompt")?, options })
}

/// Reads a list of output wires: names, or mappings.
///
/// # Errors
/// When one has no target, or a field of a wrong type.
pub fn wires(raw: &[Value]) -> Result<Vec<Wire>, Fault> {
    let one = |raw: &Value| {
        let wire = match raw {
            Value::String(to) => Wire::to(to.clone()),
            other => serde_json::from_value(other.clone())
                .map_err(|error| Fault::bad_args(format!("`output_wiring`: {error}")))?,
        };
        wire.check().map_err(Fault::bad_args)?;
        Ok(wire)
    };
    raw.iter().map(one).collect()
}

pub(super) fn text(fields: &Map<String, Value>, key: &str) -> Result<Option<String>, Fault> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(other) => Err(wrong(key, other, "a text")),
    }
}

pub(super) fn list(fields: &Map<String, Value>, key: &str) -> Result<Vec<Value>, Fault> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items.clone()),
        Some(other) => Err(wrong(key, other, "a list")),
    }
}

pub(super) fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(super) fn wrong(key: &str, value: &Value, wanted: &str) -> Fault {
    Fault::bad_args(format!("`{key}` is {}; it must be {wanted}", kind_of(value)))
}
