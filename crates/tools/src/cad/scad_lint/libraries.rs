//! Names that used and included files define.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    path::{Component, Path, PathBuf},
};

use kit::{Cx, Kind};

use super::{
    parse::parse,
    report::Report,
    tokens::tokens,
    tree::{Expression, Name, Parameter, Statement},
};

/// Limits of the files read for one source: their number, and the size of each and of all.
const FILES: usize = 100;
const LONGEST: u64 = 2 << 20;
const ALL_BYTES: usize = 16 << 20;

/// The folders of OpenSCAD's own libraries, if none is beside a configured program.
const INSTALLED: [&str; 2] = ["/usr/share/openscad/libraries", "/usr/local/share/openscad/libraries"];

/// The definitions outside of the source that is checked.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    pub(super) modules: BTreeMap<String, Option<Signature>>,
    pub(super) functions: BTreeMap<String, Option<Signature>>,
    pub(super) variables: BTreeSet<String>,
    /// Whether there may be unknown modules and functions.
    pub(super) may_lack_modules: bool,
    /// Whether there may be unknown variables.
    pub(super) may_lack_variables: bool,
}

/// The parameters of a module or function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) parameters: Vec<String>,
    /// Whether it uses its children.
    pub(super) children: bool,
}

/// The folder of a source, against which it names other files.
#[derive(Debug, Clone)]
pub(super) enum Base {
    /// A folder in the roots, as a model would write it.
    Roots(String),
    /// A folder of a library.
    Library(PathBuf),
}

/// The files that may be read.
pub(super) struct Sources<'a> {
    cx: &'a Cx,
    libraries: Vec<PathBuf>,
    seen: HashSet<(String, bool)>,
    bytes: usize,
}

enum Found {
    Text {
        base: Base,
        text: String,
    },
    /// It exists, and defines nothing that can be read.
    Opaque,
    Missing(String),
    /// The limit is reached.
    Enough,
}

impl<'a> Sources<'a> {
    pub(super) fn new(cx: &'a Cx) -> Self {
        let program = cx.preferences().programs.openscad.as_deref();
        let beside = program.and_then(|it| Some(it.parent()?.parent()?.join("share/openscad/libraries")));
        let libraries = beside.into_iter().chain(INSTALLED.map(PathBuf::from)).collect();
        Self { cx, libraries, seen: HashSet::new(), bytes: 0 }
    }

    /// Returns the definitions of these `use` and `include` statements; a missing file is reported.
    pub(super) fn outside(
        &mut self,
        statements: &[Statement<'_>],
        base: &Base,
        report: &mut Report<'_>,
    ) -> Definitions {
        let mut definitions = Definitions::default();
        self.gather(statements, base, Some(report), Gather { uses: true, depth: 0 }, &mut definitions);
        definitions
    }

    /// Follows `use` and `include`; the names of the statements themselves are added if they belong to another file.
    fn gather(
        &mut self,
        statements: &[Statement<'_>],
        base: &Base,
        mut report: Option<&mut Report<'_>>,
        how: Gather,
        into: &mut Definitions,
    ) {
        for statement in statements {
            match statement {
                Statement::Use(path) if how.uses => {
                    self.follow(*path, base, report.as_deref_mut(), Follow::Use(how), into);
                }
                Statement::Include(path) => {
                    self.follow(*path, base, report.as_deref_mut(), Follow::Include(how), into);
                }
                Statement::Block(inner) => self.gather(inner, base, report.as_deref_mut(), how, into),
                Statement::Module { body, .. } => {
                    // An include may stand anywhere.
                    self.gather(std::slice::from_ref(&**body), base, report.as_deref_mut(), how, into);
                }
                _ => {}
            }
        }
    }

    fn follow(
        &mut self,
        path: Name<'_>,
        base: &Base,
        report: Option<&mut Report<'_>>,
        how: Follow,
        into: &mut Definitions,
    ) {
        let (is_use, gather) = match how {
            Follow::Use(gather) => (true, gather),
            Follow::Include(gather) => (false, gather),
        };
        let lack = |into: &mut Definitions| {
            into.may_lack_modules = true;
            into.may_lack_variables |= !is_use;
        };
        match self.find(path.text, base, is_use, gather.depth) {
            Found::Text { base, text } => {
                let mut silent = Report::new("", &text);
                let statements = parse(&tokens(&text, &mut silent), &mut silent);
                if silent.len() > 0 {
                    // A file that can't be parsed to its end may define anything.
                    lack(into);
                }
                add(&statements, is_use, into);
                // The names that a used file itself uses are not visible here; those of an included one are.
                let gather = Gather { uses: gather.uses && !is_use, depth: gather.depth + 1 };
                let mut inner = Definitions::default();
                self.gather(&statements, &base, None, gather, &mut inner);
                if is_use {
                    inner.variables.clear();
                    inner.may_lack_variables = false;
                }
                into.take(inner);
            }
            Found::Opaque => {}
            Found::Enough => lack(into),
            Found::Missing(why) => {
                lack(into);
                if let Some(report) = report {
                    report.error(path.at, why);
                }
            }
        }
    }

    fn find(&mut self, path: &str, base: &Base, is_use: bool, depth: usize) -> Found {
        let is_font = [".ttf", ".otf", ".ttc"].iter().any(|it| path.to_ascii_lowercase().ends_with(it));
        if self.seen.len() >= FILES || self.bytes >= ALL_BYTES || depth > 20 {
            return Found::Enough;
        }
        let mut why = format!("there is no file `{path}` here, and no installed library has it");
        if let Base::Roots(dir) = base {
            let joined = if dir.is_empty() || path.starts_with('/') {
                path.to_owned()
            } else {
                format!("{dir}/{path}")
            };
            match self.cx.files().load(&joined, LONGEST) {
                Ok(_) if is_font => return Found::Opaque,
                Ok(loaded) => {
                    let place = loaded.location.absolute().display().to_string();
                    let dir = joined.rsplit_once('/').map_or("", |it| it.0).to_owned();
                    return self.text(place, is_use, Base::Roots(dir), &loaded.bytes);
                }
                Err(fault) if fault.kind == Kind::NotFound => {}
                Err(fault) => why = fault.what,
            }
        }
        let beside = if let Base::Library(dir) = base { Some(dir.join(path)) } else { None };
        let places = beside.into_iter().chain(self.libraries.iter().map(|it| it.join(path)));
        let Some(place) = places.into_iter().find_map(|it| self.installed(&it)) else {
            return Found::Missing(why);
        };
        match fs::read(&place) {
            Ok(_) if is_font => Found::Opaque,
            Ok(bytes) => {
                let dir = place.parent().map(Path::to_owned).unwrap_or_default();
                self.text(place.display().to_string(), is_use, Base::Library(dir), &bytes)
            }
            Err(error) => Found::Missing(format!("`{path}` can't be read: {error}")),
        }
    }

    /// Finds a file of an installed library; its name can't lead out of the library.
    fn installed(&self, place: &Path) -> Option<PathBuf> {
        if place.components().any(|it| it == Component::ParentDir) {
            return None;
        }
        let place = place.canonicalize().ok()?;
        let is_in_one =
            self.libraries.iter().filter_map(|it| it.canonicalize().ok()).any(|it| place.starts_with(it));
        let is_file = fs::metadata(&place).is_ok_and(|it| it.is_file() && it.len() <= LONGEST);
        (is_in_one && is_file).then_some(place)
    }

    fn text(&mut self, place: String, is_use: bool, base: Base, bytes: &[u8]) -> Found {
        if !self.seen.insert((place, is_use)) {
            return Found::Opaque;
        }
        self.bytes += bytes.len();
        Found::Text { base, text: String::from_utf8_lossy(bytes).into_owned() }
    }
}

#[derive(Clone, Copy)]
struct Gather {
    uses: bool,
    depth: usize,
}

#[derive(Clone, Copy)]
enum Follow {
    Use(Gather),
    Include(Gather),
}

impl Definitions {
    fn take(&mut self, other: Self) {
        for (name, signature) in other.modules {
            define(&mut self.modules, &name, signature);
        }
        for (name, signature) in other.functions {
            define(&mut self.functions, &name, signature);
        }
        self.variables.extend(other.variables);
        self.may_lack_modules |= other.may_lack_modules;
        self.may_lack_variables |= other.may_lack_variables;
    }
}

/// Adds the definitions of these statements of another file.
fn add(statements: &[Statement<'_>], is_use: bool, into: &mut Definitions) {
    for statement in statements {
        match statement {
            Statement::Module { name, parameters, body } => {
                define(&mut into.modules, name.text, Some(Signature::of(parameters, Some(body))));
            }
            Statement::Function { name, parameters, .. } => {
                define(&mut into.functions, name.text, Some(Signature::of(parameters, None)));
            }
            Statement::Assign { name, .. } if !is_use => {
                into.variables.insert(name.text.to_owned());
            }
            Statement::Block(inner) => add(inner, is_use, into),
            _ => {}
        }
    }
}

/// Adds a definition; with two different ones of a name, which applies is unknown.
fn define(into: &mut BTreeMap<String, Option<Signature>>, name: &str, signature: Option<Signature>) {
    into.entry(name.to_owned())
        .and_modify(|it| {
            if *it != signature {
                *it = None;
            }
        })
        .or_insert(signature);
}

impl Signature {
    pub(super) fn of(parameters: &[Parameter<'_>], body: Option<&Statement<'_>>) -> Self {
        Self {
            parameters: parameters.iter().map(|it| it.name.text.to_owned()).collect(),
            children: body.is_some_and(uses_children),
        }
    }
}

/// Returns whether a module with this body uses its children.
fn uses_children(body: &Statement<'_>) -> bool {
    match body {
        Statement::Nothing | Statement::Use(_) | Statement::Function { .. } => false,
        // The included file may use them.
        Statement::Include(_) => true,
        Statement::Assign { value, .. } => mentions_children(value),
        Statement::Module { body, .. } => uses_children(body),
        Statement::Call(call) => {
            matches!(call.name.text, "children" | "child")
                || uses_children(&call.child)
                || call.arguments.iter().any(|it| mentions_children(&it.value))
        }
        Statement::If(branches) => branches.iter().any(|(condition, body)| {
            uses_children(body) || condition.as_ref().is_some_and(mentions_children)
        }),
        Statement::Block(inner) => inner.iter().any(uses_children),
    }
}

/// Returns whether this reads `$children`.
fn mentions_children(value: &Expression<'_>) -> bool {
    let any =
        |arguments: &[super::tree::Argument<'_>]| arguments.iter().any(|it| mentions_children(&it.value));
    match value {
        Expression::Name(name) => name.text == "$children",
        Expression::Call { callee, arguments } => mentions_children(callee) || any(arguments),
        Expression::Let { bindings, body } => any(bindings) || mentions_children(body),
        Expression::For { bindings, next, body } => {
            any(bindings)
                || mentions_children(body)
                || next.as_ref().is_some_and(|(until, then)| mentions_children(until) || any(then))
        }
        Expression::Function { body, .. } => mentions_children(body),
        Expression::Said { arguments, body } => {
            any(arguments) || body.as_deref().is_some_and(mentions_children)
        }
        Expression::Parts(parts) => parts.iter().any(mentions_children),
    }
}
