//! `write_tool`: writes a tool file, checks it and loads it.

use std::time::Duration;

use kit::{
    Origin, Spec,
    files::{Before, Proposal},
    model_tools::{OWN, own_files},
    prelude::*,
    references::call,
    services::Listed,
    text::Content,
};
use serde_json::Value;

use super::{
    enabled::{self, Listing},
    find, is_own, shown_path,
};

/// Maximum size of a tool, in bytes.
const LARGEST: usize = 256 << 10;

/// Its packages may have to be downloaded before it can be checked.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Write a Python tool: checked, kept for later sessions. Read its manual first.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteTool {
    /// Its name.
    name: String,
    /// The whole file: `name`, `description`, `parameters`, `async def execute(params)`.
    code: String,
}

impl Tool for WriteTool {
    const NAME: &str = "write_tool";
    const AT_MOST: Kinds = Kinds::WRITE;

    fn touches(&self) -> Touches {
        Touches::none().and(Touch::Tool(self.name.clone()))
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(TIMEOUT)
    }

    fn title(&self) -> String {
        self.name.clone()
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let Self { name, code } = self;
        cx.check()?;
        own_files(&name)?;
        if code.len() > LARGEST {
            return Err(Fault::new(
                Kind::TooBig,
                format!("the code has {} bytes; a tool has at most {LARGEST}", code.len()),
            )
            .next("Keep data in a file beside it, found by `__file__`."));
        }
        // A file that is still being loaded may have the name.
        cx.tools().settled().await;
        let listed = cx.tools().list();
        free(cx, &listed, &name)?;
        let (code, was_fenced) = without_fence(code);
        let spec = cx.tools().check(&name, &code).await?;
        let (tool, bytes) = (name.clone(), code.len());
        let (did, listing) = cx.blocking(move |cx| write(cx, &tool, code)).await?;
        cx.tools().rewritten(&name).await.map_err(|fault| match fault.next {
            Some(_) => fault,
            None => fault
                .hint("Write it again as it should be[?; `tool:undo` brings back what was there before?]."),
        })?;
        let is_hidden = listing != Listing::NotAList && find(&cx.tools().list(), &name).is_none();
        let how = if is_hidden {
            format!(
                "It can't be called yet: the list `tools = […]` in haft.toml leaves `{name}` out, and a person has to add it."
            )
        } else {
            {
                let test = call("test_tool", &example(&spec));
                format!("Call it as `{name}`[?, or try it by {test}?].")
            }
        };
        let mut text = format!(
            "{did} {OWN}/{name}.py ({bytes} bytes). Arguments: {}.\n\
             It has no network and writes below the workspace only, until a person grants more.\n\
             {}{}",
            spec.arguments(),
            cx.named(&how),
            cx.named(match did {
                Did::Created => "[? `tool:undo` takes it back.?]",
                Did::Replaced => "[? `tool:undo` brings the version before back.?]",
                Did::Kept => " It was just that before.",
            }),
        );
        if was_fenced {
            text.push_str("\nnote: the ``` around the code was left out");
        }
        if listing == Listing::NotAList {
            text.push_str(&format!(
                "\nnote: {OWN}/enabled.json is not a list of names, and was left as it is; it may not enable the tool"
            ));
        }
        Ok(Output::text(text))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Did {
    Created,
    Replaced,
    Kept,
}

impl std::fmt::Display for Did {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Created => "Created",
            Self::Replaced => "Replaced",
            Self::Kept => "Unchanged:",
        })
    }
}

/// Writes the file first: a listed name without a tool would be reported as an error.
fn write(cx: &Cx, name: &str, code: String) -> Result<(Did, Listing), Fault> {
    let [path, list] = own_files(name)?;
    let content = Content::from(code.into_bytes());
    let there = match cx.files().exists(&path)? {
        // A file that no model wrote may be of any size.
        true => Some(cx.files().load(&path, 16 << 20)?),
        false => None,
    };
    let before = there.as_ref().map_or(Before::Absent, Before::Was);
    let did = match &there {
        None => Did::Created,
        Some(there) if there.bytes == content => Did::Kept,
        Some(_) => Did::Replaced,
    };
    let planned = enabled::adding(cx, &list, name)?;
    let save = (did != Did::Kept).then_some(Proposal::Save { path: &path, before, content: &content });
    let both: Vec<Proposal<'_>> = save.into_iter().chain(planned.proposal()).collect();
    cx.files().propose(&both)?;
    if did != Did::Kept {
        cx.files().save(&path, before, &content)?;
    }
    Ok((did, planned.land(cx)?))
}

/// Checks that no other tool has this name.
fn free(cx: &Cx, listed: &Listed, name: &str) -> Result<(), Fault> {
    let taken = |by: String| {
        let what = format!("`{name}` is {by}; nothing was written");
        Err(Fault::bad_args(what).next("Choose another name, and give it to `name` in the code too."))
    };
    match find(listed, name) {
        Some(Spec { origin: Origin::Program | Origin::Provider, .. }) => {
            taken("a tool of haft's own".to_owned())
        }
        Some(Spec { origin: Origin::Server(server), .. }) => {
            taken(format!("a tool of the server `{server}`"))
        }
        Some(spec @ Spec { origin: Origin::File(path), .. }) if !is_own(cx, spec) => {
            taken(format!("a tool already, in {}", shown_path(cx, path)))
        }
        // It would be hidden where another toolset is shown.
        None if is_in_a_toolset(name) => taken("a tool of haft's own".to_owned()),
        _ => Ok(()),
    }
}

fn is_in_a_toolset(name: &str) -> bool {
    crate::toolsets().filter_map(crate::toolset).flatten().any(|tool| tool.spec().name == name)
}

/// Removes the code fence that some models add.
fn without_fence(code: String) -> (String, bool) {
    let trimmed = code.trim();
    let inner = trimmed
        .strip_prefix("```")
        .and_then(|it| it.strip_suffix("```"))
        .and_then(|it| it.split_once('\n'))
        .filter(|(language, _)| language.trim().chars().all(char::is_alphanumeric));
    match inner {
        Some((_, inner)) => (inner.trim_end().to_owned() + "\n", true),
        None => (code, false),
    }
}

/// Returns example arguments: the required ones, with a value of their type.
fn example(spec: &Spec) -> Value {
    let properties = spec.schema.get("properties").and_then(Value::as_object);
    let required = spec.schema.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    let each = names.map(|name| {
        let schema = properties.and_then(|it| it.get(name));
        let first = schema.and_then(|it| it.get("enum")).and_then(|it| it.get(0)).cloned();
        let value =
            first.unwrap_or_else(|| match schema.and_then(|it| it.get("type")).and_then(Value::as_str) {
                Some("integer" | "number") => Value::from(1),
                Some("boolean") => Value::from(true),
                Some("array") => Value::Array(Vec::new()),
                Some("object") => Value::Object(serde_json::Map::new()),
                _ => Value::from("…"),
            });
        (name.to_owned(), value)
    });
    serde_json::json!({"name": spec.name, "arguments": each.collect::<serde_json::Map<_, _>>()})
}
