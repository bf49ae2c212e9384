//! Recipes: the members, channels and wires that a group begins with, from `terrarium.yaml`, a creature, or haft's own form.

pub mod creature;
pub mod document;
mod elsewhere;
mod haft_form;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use kit::Fault;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    graph::{Broken, Channel, Direction, Names, Topology, direct_description},
    wiring::Wire,
};
use creature::{list, text, texts, wires, wrong};
use document::{Places, kind_of};

/// The name of the privileged member of a recipe.
pub const ROOT: &str = "root";

/// Maximum number of members of a recipe.
pub const MOST: usize = 100;

/// The members, channels and limits that a group begins with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// Its name.
    pub name: String,
    /// Maximum number of members; 0 means no limit.
    pub cap: usize,
    /// The privileged member, if there is one.
    pub root: Option<MemberSpec>,
    /// The other members.
    pub members: Vec<MemberSpec>,
    /// The declared channels, each with its description.
    pub channels: Vec<(String, String)>,
    /// The limits of the group as a whole.
    pub limits: Limits,
    /// Whether members get direct channels, as in `terrarium.yaml`.
    pub direct_channels: bool,
    /// Notes on keys without an effect, one line each.
    pub notes: Vec<String>,
}

/// A member, as a recipe describes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberSpec {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// The profile that it works under, in haft's form.
    pub profile: Option<String>,
    /// Its system prompt.
    pub prompt: String,
    /// Its model.
    pub model: Option<String>,
    /// The only tools that it has.
    pub tools: Option<Vec<String>>,
    /// How its model writes calls.
    pub tool_format: Option<String>,
    /// Maximum model responses per turn.
    pub max_steps: Option<usize>,
    /// Time limit of a turn, in seconds.
    pub max_seconds: Option<u64>,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// The channels that it listens to.
    pub listen: Vec<String>,
    /// The channels that it may send to.
    pub send: Vec<String>,
    /// Its output wires.
    pub wires: Vec<Wire>,
    /// Its triggers.
    pub triggers: Vec<TriggerSpec>,
    /// The prompt of its first turn.
    pub startup: Option<String>,
    /// Its folder, below the workspace.
    pub pwd: Option<String>,
    /// Whether it runs in a process of its own.
    pub process: bool,
    /// The labels of the workers on which its turns run, such as `gpu,linux`; none: they run here.
    pub on: Option<String>,
    /// The name of the session that it shares its private state under.
    pub session_key: Option<String>,
    /// How many of its outputs are shown by `haft group status`; 0 is none.
    pub output_log: usize,
    /// The config that it comes from.
    pub source: String,
    /// Notes on keys without an effect, one line each.
    pub notes: Vec<String>,
}

/// A trigger, as a recipe describes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TriggerSpec {
    /// The kind: `timer`, `schedule`, `context`, `channel`.
    pub kind: String,
    /// Its id.
    pub name: Option<String>,
    /// Its prompt.
    pub prompt: Option<String>,
    /// The other fields.
    pub options: Map<String, Value>,
}

/// The limits of a group as a whole. What is not given is not limited, but for `exchanges` and `depth`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Tokens of all members, requests and answers together.
    pub tokens: Option<u64>,
    /// Cost of all members, in dollars.
    pub dollars: Option<f64>,
    /// Time since the group began, in minutes.
    pub minutes: Option<f64>,
    /// Model responses of all members.
    pub steps: Option<u64>,
    /// How deep members may start members.
    pub depth: Option<usize>,
    /// After how many exchanges between the same two members, without any other change, both are paused.
    pub exchanges: Option<usize>,
}

impl Limits {
    /// Exchanges before two members are paused, unless configured.
    pub const EXCHANGES: usize = 10;
    /// Depth of members below the first ones, unless configured.
    pub const DEPTH: usize = 3;

    /// Returns these limits, each replaced by that of `other` where it has one.
    #[must_use]
    pub fn with(self, other: &Self) -> Self {
        Self {
            tokens: other.tokens.or(self.tokens),
            dollars: other.dollars.or(self.dollars),
            minutes: other.minutes.or(self.minutes),
            steps: other.steps.or(self.steps),
            depth: other.depth.or(self.depth),
            exchanges: other.exchanges.or(self.exchanges),
        }
    }
}

/// Loads a recipe: a file, or a folder with `terrarium.yaml`, `group.toml` or a creature's config.
///
/// # Errors
/// When it can't be read, is not a recipe, or names things twice.
pub fn load(path: &Path, places: &Places) -> Result<Recipe, Fault> {
    let file = file_of(path)?;
    let folder = file.parent().unwrap_or(&file).to_owned();
    let is_text = file.extension().is_some_and(|it| it == "md");
    let recipe = if is_text {
        haft_form::of_profile(&file, &folder, places)?
    } else {
        let mut fields = document::mapping(&file)?;
        match (fields.remove("terrarium"), fields.remove("group")) {
            (Some(Value::Object(inner)), _) => of_terrarium(&inner, &fields, &folder, places)?,
            (_, Some(Value::Object(inner))) => haft_form::of_fields(&inner, &fields, &folder, places, None)?,
            (Some(other), _) | (_, Some(other)) => {
                return Err(Fault::bad_args(format!("{} is {}", file.display(), kind_of(&other))));
            }
            (None, None) if fields.contains_key("creatures") => {
                of_terrarium(&fields, &Map::new(), &folder, places)?
            }
            // A creature alone is a group of one, which is privileged.
            (None, None) => alone(creature::load(places, &folder, &file.to_string_lossy())?),
        }
    };
    recipe.check()?;
    Ok(recipe)
}

fn file_of(path: &Path) -> Result<PathBuf, Fault> {
    if !path.exists() {
        return Err(Fault::not_found(format!("there is no recipe at {}", path.display())));
    }
    if path.is_file() {
        return Ok(path.to_owned());
    }
    let names = ["terrarium.yaml", "terrarium.yml", "group.toml"];
    match names.iter().map(|it| path.join(it)).find(|it| it.is_file()) {
        Some(file) => Ok(file),
        None => document::config_in(path).map_err(|_| {
            Fault::not_found(format!("{} has no recipe", path.display()))
                .next("A recipe is terrarium.yaml, group.toml, a creature's config.yaml, or a profile with `group:`.")
        }),
    }
}

fn alone(spec: MemberSpec) -> Recipe {
    Recipe { name: spec.name.clone(), root: Some(spec), ..Recipe::default() }
}

/// Makes one group of single members that all listen and send on one channel.
pub fn around_channel(name: &str, channel: &str, members: Vec<MemberSpec>) -> Recipe {
    let wired = |spec: MemberSpec| MemberSpec {
        listen: vec![channel.to_owned()],
        send: vec![channel.to_owned()],
        ..spec
    };
    Recipe {
        name: name.to_owned(),
        members: members.into_iter().map(wired).collect(),
        channels: vec![(channel.to_owned(), String::new())],
        ..Recipe::default()
    }
}

/// The keys of `terrarium:`.
const KEYS: [&str; 5] = ["name", "max_creatures", "root", "creatures", "channels"];

fn of_terrarium(
    fields: &Map<String, Value>,
    beside: &Map<String, Value>,
    folder: &Path,
    places: &Places,
) -> Result<Recipe, Fault> {
    let mut recipe = Recipe {
        name: text(fields, "name")?.unwrap_or_else(|| "terrarium".to_owned()),
        direct_channels: true,
        ..Recipe::default()
    };
    recipe.cap = match fields.get("max_creatures") {
        None | Some(Value::Null) => 0,
        Some(value) => value
            .as_u64()
            .and_then(|it| usize::try_from(it).ok())
            .ok_or_else(|| wrong("max_creatures", value, "a number from 0"))?,
    };
    let unknown =
        fields.keys().filter(|it| !KEYS.contains(&it.as_str())).map(|it| format!("`terrarium.{it}`"));
    for key in unknown.chain(beside.keys().map(|it| format!("`{it}`"))) {
        recipe.notes.push(format!("{key} is not a key of a recipe that haft knows; it is ignored"));
    }
    match fields.get("channels") {
        None | Some(Value::Null) => {}
        Some(Value::Object(channels)) => {
            for (name, about) in channels {
                let described = channel(name, about, &mut recipe.notes)?;
                recipe.channels.push((name.clone(), described));
            }
        }
        Some(other) => return Err(wrong("channels", other, "a mapping of names")),
    }
    for raw in list(fields, "creatures")? {
        let Value::Object(entry) = raw else { return Err(wrong("creatures", &raw, "a list of mappings")) };
        let name = text(&entry, "name")?.filter(|it| !it.is_empty());
        let name = name.ok_or_else(|| Fault::bad_args("an entry of `creatures` has no `name`"))?;
        recipe.members.push(member(&name, entry, folder, places)?);
    }
    if let Some(Value::Object(root)) = fields.get("root")
        && !root.is_empty()
    {
        recipe.root = Some(member(ROOT, root.clone(), folder, places)?);
    }
    Ok(recipe)
}

fn channel(name: &str, about: &Value, notes: &mut Vec<String>) -> Result<String, Fault> {
    match about {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Object(fields) => {
            for key in fields.keys().filter(|it| !["description", "type"].contains(&it.as_str())) {
                notes.push(format!("`channels.{name}.{key}` is not a key that haft knows; it is ignored"));
            }
            Ok(text(fields, "description")?.unwrap_or_default())
        }
        other => Err(wrong(&format!("channels.{name}"), other, "a description, or a mapping with one")),
    }
}

/// Reads an entry of `creatures`, or `root`: an agent's config with `channels` and `output_log` beside it.
fn member(
    name: &str,
    mut fields: Map<String, Value>,
    folder: &Path,
    places: &Places,
) -> Result<MemberSpec, Fault> {
    let within = |fault: Fault| Fault { what: format!("`{name}`: {}", fault.what), ..fault };
    let channels = match fields.remove("channels") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(channels)) => channels,
        Some(other) => {
            return Err(within(wrong("channels", &other, "a mapping with `listen` and `can_send`")));
        }
    };
    let logs = fields.remove("output_log").is_some_and(|it| it == Value::Bool(true));
    let size = fields.remove("output_log_size").and_then(|it| it.as_u64()).unwrap_or(100);
    let source = fields.get("base_config").or(fields.get("config")).and_then(Value::as_str);
    let source = source.unwrap_or_default().to_owned();
    if let Some(config) = fields.remove("config")
        && !fields.contains_key("base_config")
    {
        fields.insert("base_config".to_owned(), config);
    }
    fields.insert("name".to_owned(), name.into());
    let mut spec = creature::of_fields(places, folder, fields).map_err(within)?;
    for key in channels.keys().filter(|it| !["listen", "can_send"].contains(&it.as_str())) {
        spec.notes.push(format!("`channels.{key}` is not a key that haft knows; it is ignored"));
    }
    spec.listen = texts(channels.get("listen"));
    spec.send = texts(channels.get("can_send"));
    spec.output_log = if logs { usize::try_from(size).unwrap_or(100) } else { 0 };
    spec.source = source;
    Ok(spec)
}

/// The types of triggers in recipes that haft has.
pub const TRIGGERS: [&str; 3] = ["timer", "schedule", "channel"];

impl TriggerSpec {
    /// Returns its id, or one by its place among those of its member.
    pub fn id(&self, place: usize) -> String {
        self.name.clone().unwrap_or_else(|| format!("{}_{}", self.kind, place + 1))
    }

    /// Returns its keys, as a creature's configuration has them.
    pub fn keys(&self) -> Map<String, Value> {
        let mut keys = Map::from_iter([
            ("type".to_owned(), self.kind.clone().into()),
            ("options".to_owned(), Value::Object(self.options.clone())),
        ]);
        if let Some(prompt) = &self.prompt {
            keys.insert("prompt".to_owned(), prompt.clone().into());
        }
        keys
    }
}

impl Recipe {
    /// Returns the members, the root last.
    pub fn all(&self) -> impl Iterator<Item = &MemberSpec> {
        self.members.iter().chain(&self.root)
    }

    /// Returns all notes, each with the member that it is about.
    pub fn all_notes(&self) -> Vec<String> {
        let of = |spec: &MemberSpec| -> Vec<String> {
            let unknown = spec.triggers.iter().filter(|it| !TRIGGERS.contains(&it.kind.as_str()));
            let triggers = unknown.map(|it| {
                let name = it.name.as_deref().unwrap_or("without a name");
                format!("the trigger {name} is not armed: haft has no triggers of the type `{}`", it.kind)
            });
            spec.notes.iter().cloned().chain(triggers).map(|it| format!("{}: {it}", spec.name)).collect()
        };
        self.notes.iter().cloned().chain(self.all().flat_map(of)).collect()
    }

    fn check(&self) -> Result<(), Fault> {
        let mut names = BTreeSet::new();
        for spec in &self.members {
            if self.root.is_some() && spec.name == ROOT {
                return Err(Fault::bad_args("`root` is the name of the root; a creature can't have it"));
            }
            if !names.insert(spec.name.as_str()) {
                return Err(Fault::bad_args(format!("two members are called `{}`", spec.name)));
            }
        }
        for spec in self.all() {
            elsewhere::check(spec, self.root.as_ref().is_some_and(|it| it.name == spec.name))?;
        }
        let count = self.all().count();
        if count == 0 {
            return Err(Fault::bad_args("the recipe has no members").next("Add some under `creatures`."));
        }
        if count > MOST || (self.cap > 0 && count > self.cap) {
            let cap = if self.cap == 0 { MOST } else { self.cap.min(MOST) };
            return Err(Fault::bad_args(format!("the recipe has {count} members; {cap} is the most")));
        }
        Ok(())
    }

    /// Returns the graph that the recipe describes, with the id and the spec of each member.
    ///
    /// # Errors
    /// When names collide.
    pub fn graph(&self) -> Result<(Topology, Vec<(String, MemberSpec)>), Broken> {
        let mut all = Topology::default();
        let graph = all.add_graph(self.cap);
        let mut declared: Vec<(String, Channel)> = self
            .channels
            .iter()
            .map(|(name, description)| {
                (name.clone(), Channel { description: description.clone(), direct: false })
            })
            .collect();
        if self.direct_channels {
            declared.extend(self.members.iter().map(|it| {
                (it.name.clone(), Channel { description: direct_description(&it.name), direct: true })
            }));
        }
        for (name, channel) in declared {
            // A declared channel with a member's name stays as it is declared.
            if !all.graphs.get(&graph).is_some_and(|it| it.channels.contains_key(&name)) {
                all.add_channel(&graph, &name, channel)?;
            }
        }
        let mut ids = Vec::new();
        for spec in self.all() {
            let id = crate::graph::new_member_id(&spec.name);
            // Without a root, a group of one is its own root.
            let is_root = self.root.as_ref().is_some_and(|it| it.name == spec.name);
            let names = Names { name: spec.name.clone(), is_privileged: is_root };
            all.add_member(&graph, &id, names, None)?;
            let direct = Some(&spec.name).filter(|_| self.direct_channels && !is_root);
            for channel in direct.into_iter().chain(&spec.listen) {
                self.edge(&mut all, &graph, &id, channel, Direction::Listen)?;
            }
            for channel in &spec.send {
                self.edge(&mut all, &graph, &id, channel, Direction::Send)?;
            }
            ids.push((id, spec.clone()));
        }
        for (id, spec) in &ids {
            for wire in &spec.wires {
                all.add_wire(id, wire.clone())?;
            }
        }
        if let Some(root) = self.root.as_ref().and_then(|root| ids.iter().find(|it| it.1.name == root.name))
            && self.members.len() + self.channels.len() > 0
        {
            all.assign_root(&root.0)?;
        }
        Ok((all, ids))
    }

    /// Adds an edge; one to a channel that nobody declared is left out, as in KohakuTerrarium.
    fn edge(
        &self,
        all: &mut Topology,
        graph: &str,
        member: &str,
        channel: &str,
        direction: Direction,
    ) -> Result<(), Broken> {
        let is_there = all.graphs.get(graph).is_some_and(|it| it.channels.contains_key(channel));
        if is_there { all.set_edge(member, channel, direction, true).map(drop) } else { Ok(()) }
    }

    /// Returns a note for each edge to a channel that nobody declared.
    pub fn dangling(&self) -> Vec<String> {
        let mut known: BTreeSet<&str> = self.channels.iter().map(|it| it.0.as_str()).collect();
        if self.direct_channels {
            known.extend(self.members.iter().map(|it| it.name.as_str()));
        }
        if self.root.is_some() {
            known.insert(crate::graph::REPORT);
        }
        let of = |spec: &MemberSpec| -> Vec<String> {
            let missing = spec.listen.iter().chain(&spec.send).filter(|it| !known.contains(it.as_str()));
            missing
                .map(|it| format!("{}: no channel `{it}` is declared; the edge is left out", spec.name))
                .collect()
        };
        self.all().flat_map(of).collect()
    }
}

/// Reads the wires of a form that has them as a list.
fn wires_of(fields: &Map<String, Value>, key: &str) -> Result<Vec<Wire>, Fault> {
    wires(&list(fields, key)?)
}
