//! Notebooks: parsed, with the place of each part in the file.

pub(crate) mod cell_reference;
pub(crate) mod change;
pub(crate) mod show;
mod style;
#[cfg(test)]
mod tests;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    ops::Range,
};

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{Array, Object, Value},
    common::Ranged,
    parse_to_ast,
};
use kit::{Cx, Fault, Kind};

use super::{
    json::{DEEPEST, depth},
    open::{self, Opened},
};
use style::Style;

/// Maximum size of a notebook; in memory it takes a few times that.
const LARGEST: u64 = 64 << 20;

/// Strict JSON.
const STRICT: ParseOptions = ParseOptions {
    allow_comments: false,
    allow_trailing_commas: false,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// A notebook, with the place of every part in the text of its file.
pub(crate) struct Notebook<'t> {
    pub(crate) text: &'t str,
    /// The minor format version: the 5 of nbformat 4.5.
    pub(crate) minor: u32,
    /// The kernel's name, where there is one.
    pub(crate) kernel: Option<String>,
    /// The language of its code, if the notebook declares it.
    pub(crate) language: Option<String>,
    pub(crate) cells: Vec<Cell<'t>>,
    /// The range between the brackets of `cells`.
    inner: Range<usize>,
    style: Style,
}

/// One cell.
pub(crate) struct Cell<'t> {
    /// Its range in the text.
    range: Range<usize>,
    /// `code`, `markdown` or `raw`.
    pub(crate) kind: String,
    pub(crate) id: Option<String>,
    pub(crate) source: String,
    /// Its execution count, if it was run.
    pub(crate) run: Option<String>,
    pub(crate) outputs: Vec<Value<'t>>,
    members: Vec<Member>,
    /// Whether the source is one string, not a list of lines.
    in_one: bool,
}

/// One member of a cell's object.
struct Member {
    name: String,
    at: Range<usize>,
    value: Range<usize>,
}

impl Cell<'_> {
    /// Returns a digest of its content.
    pub(crate) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.kind, &self.source).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the digest as the model reads it.
    pub(crate) fn hash(&self) -> String {
        format!("{:04x}", self.digest() & 0xffff)
    }

    /// Returns whether it has outputs or an execution count.
    pub(crate) fn was_run(&self) -> bool {
        self.run.is_some() || !self.outputs.is_empty()
    }

    /// Returns its metadata as the file has it; `None` if it is empty.
    pub(crate) fn metadata<'a>(&self, notebook: &'a Notebook<'_>) -> Option<&'a str> {
        let value = notebook.text.get(self.member("metadata")?.value.clone())?;
        let is_empty = value.bytes().all(|it| it == b'{' || it == b'}' || it.is_ascii_whitespace());
        (!is_empty).then_some(value)
    }

    fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|it| it.name == name)
    }
}

/// Loads the file of a notebook.
///
/// # Errors
/// Those of [`Files::open`](kit::Files::open); [`Kind::BadArgs`] when its name or content is not a notebook's.
pub(crate) fn load(cx: &Cx, path: &str) -> Result<Opened, Fault> {
    let file = cx.files().open(path)?;
    if file.identity.size > LARGEST {
        let what = format!("`{path}` has {} bytes; a notebook may have {LARGEST}", file.identity.size);
        return Err(Fault::new(Kind::TooBig, what)
            .next("`tool:read` shows any part of it.[? `tool:filegrep` finds lines in it.| `tool:grep` finds lines in it.?]"));
    }
    open::text_of(file, path)
}

/// Refuses a file without the extension of notebooks.
///
/// # Errors
/// [`Kind::BadArgs`].
pub(crate) fn check_name(path: &str) -> Result<(), Fault> {
    let is_notebook = path.rsplit_once('.').is_some_and(|(_, ext)| ext.eq_ignore_ascii_case("ipynb"));
    if is_notebook {
        return Ok(());
    }
    Err(Fault::bad_args(format!("File must be a Jupyter notebook (.ipynb): `{path}`"))
        .next("`tool:read` and `tool:edit` are for other files."))
}

impl<'t> Notebook<'t> {
    /// Parses the text of a notebook.
    ///
    /// # Errors
    /// [`Kind::BadArgs`] when it is not a notebook of format 4.
    pub(crate) fn parse(path: &str, text: &'t str) -> Result<Self, Fault> {
        let no = |why: String| Fault::bad_args(format!("`{path}` is not a notebook: {why}"));
        if depth(text) > DEEPEST {
            let what = format!("`{path}` is nested more than {DEEPEST} levels deep");
            return Err(Fault::new(Kind::TooBig, what));
        }
        let parsed = parse_to_ast(text, &CollectOptions::default(), &STRICT)
            .map_err(|error| no(format!("it is not JSON: {error}")))?;
        let Some(Value::Object(root)) = parsed.value else {
            return Err(no("it is not a JSON object".to_owned()));
        };
        let minor = format_of(path, &root)?;
        once(&root, "cells").map_err(&no)?;
        let Some(Value::Array(cells)) = value(&root, "cells") else {
            return Err(no("it has no list of `cells`".to_owned()));
        };
        let inner = cells.range.start + 1..cells.range.end - 1;
        let (kernel, language) = (kernel_of(&root), language_of(&root));
        let style = Style::of(text, &root);
        let cells = cells.elements.iter().enumerate();
        let cells = cells
            .map(|(index, it)| Cell::parse(it, text).map_err(|why| no(format!("cell {index} {why}"))))
            .collect::<Result<_, _>>()?;
        Ok(Self { text, minor, kernel, language, cells, inner, style })
    }
}

impl<'t> Cell<'t> {
    fn parse(value: &Value<'t>, text: &'t str) -> Result<Self, String> {
        let Value::Object(cell) = value else { return Err("is not an object".to_owned()) };
        for name in ["cell_type", "id", "source", "outputs", "execution_count"] {
            once(cell, name)?;
        }
        let string = |name: &str| cell.get_string(name).map(|it| it.value.clone().into_owned());
        let kind = string("cell_type").ok_or("has no `cell_type`")?;
        let source = self::value(cell, "source").ok_or("has no `source`")?;
        let members = cell.properties.iter().map(|it| Member {
            name: it.name.as_str().to_owned(),
            at: it.range.start..it.range.end,
            value: it.value.start()..it.value.end(),
        });
        let run = self::value(cell, "execution_count").and_then(Value::as_number_lit);
        Ok(Self {
            range: cell.range.start..cell.range.end,
            kind,
            id: string("id"),
            source: text_of(source).ok_or("has a `source` that is neither text nor a list of lines")?,
            run: run.and_then(|it| text.get(it.range.start..it.range.end)).map(str::to_owned),
            outputs: cell.get_array("outputs").map(|it| it.elements.clone()).unwrap_or_default(),
            members: members.collect(),
            in_one: source.as_string_lit().is_some(),
        })
    }
}

/// Returns a text in either of the two forms: one string, or a list of lines.
pub(crate) fn text_of(value: &Value<'_>) -> Option<String> {
    match value {
        Value::StringLit(it) => Some(it.value.clone().into_owned()),
        Value::Array(Array { elements, .. }) => {
            elements.iter().map(|it| it.as_string_lit().map(|it| &*it.value)).collect()
        }
        _ => None,
    }
}

/// Returns the member of this name.
pub(crate) fn value<'a, 't>(object: &'a Object<'t>, name: &str) -> Option<&'a Value<'t>> {
    object.get(name).map(|it| &it.value)
}

/// Refuses two members with one name: readers differ on which counts.
fn once(object: &Object<'_>, name: &str) -> Result<(), String> {
    let times = object.properties.iter().filter(|it| it.name.as_str() == name).count();
    if times < 2 { Ok(()) } else { Err(format!("has `{name}` {times} times")) }
}

/// Returns the minor version of a notebook of format 4.
fn format_of(path: &str, root: &Object<'_>) -> Result<u32, Fault> {
    let number = |name: &str| root.get_number(name).and_then(|it| it.value.parse::<u32>().ok());
    match number("nbformat") {
        Some(4) => Ok(number("nbformat_minor").unwrap_or(0)),
        None => Err(Fault::bad_args(format!("`{path}` is not a notebook: it has no `nbformat`"))),
        Some(older @ 0..4) => Err(Fault::bad_args(format!(
            "`{path}` is a notebook of format {older}; only format 4 is read and changed"
        ))
        .next(format!("`jupyter nbconvert --to notebook --nbformat 4 --inplace {path}` converts it."))),
        Some(newer) => Err(Fault::bad_args(format!(
            "`{path}` is a notebook of format {newer}; only format 4 is read and changed"
        ))
        .next("`tool:json_read` and `tool:json_write` reach its parts.")),
    }
}

fn kernel_of(root: &Object<'_>) -> Option<String> {
    let metadata = root.get_object("metadata")?;
    let kernel = metadata.get_object("kernelspec").and_then(|it| it.get_string("name"));
    let language = metadata.get_object("language_info").and_then(|it| it.get_string("name"));
    kernel.or(language).map(|it| it.value.clone().into_owned())
}

fn language_of(root: &Object<'_>) -> Option<String> {
    let metadata = root.get_object("metadata")?;
    let named = |part: &str, name: &str| metadata.get_object(part).and_then(|it| it.get_string(name));
    let language = named("language_info", "name").or_else(|| named("kernelspec", "language"));
    language.map(|it| it.value.clone().into_owned())
}
