//! Views for hosts of MCP (MCP Apps): single HTML documents, made of the page's own modules.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    sync::{Arc, LazyLock},
};

use crate::assets;

include!(concat!(env!("OUT_DIR"), "/app_files.rs"));

/// A view.
#[derive(Debug, Clone)]
pub struct View {
    /// Its name: `diff`.
    pub name: &'static str,
    /// Its description, in one line.
    pub about: &'static str,
    /// The document. It loads nothing.
    pub html: Arc<str>,
}

static VIEWS: LazyLock<Vec<View>> = LazyLock::new(|| {
    let view = |name, about| View { name, about, html: document(name, about).into() };
    vec![
        view("diff", "The changes of a call as diffs, with their undo"),
        view("jobs", "The jobs of the session: state, output, stop"),
        view("part", "A part to print, in 3D"),
    ]
});

/// Returns the views.
pub fn views() -> &'static [View] {
    &VIEWS
}

/// Returns the change as a view shows it.
pub fn change(change: &store::changes::Change) -> serde_json::Value {
    crate::diffs::change(change)
}

fn file(name: &str) -> Option<&'static str> {
    let own = APPS.iter().find(|it| it.0 == name).map(|it| it.1);
    std::str::from_utf8(own.or_else(|| assets::find(name))?).ok()
}

/// Returns the document of the view whose module has this name.
fn document(name: &str, title: &str) -> String {
    let styles: String =
        ["frame.css", "style.css", "conversation.css", "view.css"].iter().filter_map(|it| file(it)).collect();
    let (mut script, mut made) = ("'use strict';\n".to_owned(), BTreeSet::new());
    add(&format!("{name}.js"), &mut script, &mut made, true);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <style>\n{styles}</style>\n</head>\n<body>\n<script type=\"module\">\n{script}</script>\n</body>\n</html>\n"
    )
}

/// Adds a module, after those that it imports: each is a function that returns its exports. The first needs none around it.
/// A view's `diff.js` is the first, and imports the page's module of that name.
fn add(name: &str, script: &mut String, made: &mut BTreeSet<String>, is_first: bool) {
    let text = if is_first { own(name) } else { page_or_own(name) };
    let (mut head, mut body, mut exports) = (String::new(), String::new(), Vec::new());
    for line in text.lines() {
        if let Some((names, from)) = import(line) {
            if made.insert(from.to_owned()) {
                add(from, script, made, false);
            }
            let names = names.replace(" as ", ": ");
            let _ = writeln!(head, "const {{{names}}} = {};", variable(from));
            continue;
        }
        match line.strip_prefix("export ") {
            Some(rest) => {
                exports.extend(exported(rest));
                body.push_str(rest);
            }
            None => body.push_str(line),
        }
        body.push('\n');
    }
    if is_first {
        script.push_str(&head);
        script.push_str(&body);
    } else {
        let exports = exports.join(", ");
        let _ = write!(
            script,
            "const {} = (() => {{\n{head}{body}return {{{exports}}};\n}})();\n",
            variable(name)
        );
    }
}

fn own(name: &str) -> &'static str {
    APPS.iter().find(|it| it.0 == name).and_then(|it| std::str::from_utf8(it.1).ok()).unwrap_or_default()
}

/// A module that a view imports: `host.js` is a view's, all others are the page's.
fn page_or_own(name: &str) -> &'static str {
    assets::find(name).and_then(|it| std::str::from_utf8(it).ok()).unwrap_or_else(|| own(name))
}

fn variable(module: &str) -> String {
    format!("module_{}", module.trim_end_matches(".js"))
}

/// Returns the names and the file of `import { a, b as c } from './x.js';`.
fn import(line: &str) -> Option<(&str, &str)> {
    let (names, from) = line.strip_prefix("import {")?.split_once("} from '")?;
    let from = from.trim_end_matches("';");
    Some((names, from.rsplit('/').next().unwrap_or(from)))
}

/// Returns the name of `function x(`, `async function x(`, `class X {` or `const x =`.
fn exported(declaration: &str) -> Option<&str> {
    let rest = declaration.trim_start_matches("async ");
    let rest = ["function ", "class ", "const "].iter().find_map(|it| rest.strip_prefix(it))?;
    rest.split(|it: char| !it.is_ascii_alphanumeric() && it != '_' && it != '$').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_one_document_that_loads_nothing() {
        for view in views() {
            let html = &view.html;
            assert!(html.contains("ui/initialize") && html.contains("document.body.append"), "{}", view.name);
            assert!(
                !html.contains("\nimport ") && !html.contains("\nexport "),
                "{} has a module left",
                view.name
            );
            assert_eq!(html.matches("</script").count(), 1, "{}", view.name);
            for loads in ["src=", "url(", "href=", "@import", "https://"] {
                assert!(!html.contains(loads), "{} has {loads}", view.name);
            }
            assert!(html.len() < 100_000, "{} has {} bytes", view.name, html.len());
        }
    }

    #[test]
    fn imports_and_exports_are_recognized() {
        assert_eq!(import("import { h, a as b } from './dom.js';"), Some((" h, a as b ", "dom.js")));
        assert_eq!(import("const a = 1;"), None);
        for (line, name) in
            [("async function x(a) {", "x"), ("class Y extends Z {", "Y"), ("const z_1 = 2;", "z_1")]
        {
            assert_eq!(exported(line), Some(name));
        }
    }
}
