//! Lists the files of the page, so that each is embedded under its name; modules without their comments.
//!
//! `app.js` is sent with all modules that it imports, as one file: compressed alone, each of some fifty would be a third larger, and
//! a request of its own.

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
};

fn main() {
    let from = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("page");
    println!("cargo::rerun-if-changed={}", from.display());
    let mut files = Vec::new();
    list(&from, "", &mut files);
    files.sort();
    let out = PathBuf::from(env::var("OUT_DIR").unwrap_or_default());
    if let Err(error) = embed(&from, &files, &out) {
        println!("cargo::error=the page's files can't be written to {}: {error}", out.display());
    }
}

/// Writes the list of files, and beside it the modules as they are sent.
fn embed(from: &Path, files: &[String], out: &Path) -> io::Result<()> {
    let mut rows = String::new();
    let mut modules = BTreeMap::new();
    for name in files.iter().filter(|it| it.ends_with(".js")) {
        modules.insert(name.clone(), stripped(&fs::read_to_string(from.join(name))?));
    }
    let app = bundle(&modules, "app.js")?;
    modules.insert("app.js".to_owned(), app);
    for name in files {
        let mut path = from.join(name);
        if let Some(text) = modules.get(name) {
            let sent = out.join("page").join(name);
            fs::create_dir_all(sent.parent().unwrap_or(out))?;
            fs::write(&sent, text)?;
            path = sent;
        }
        rows += &format!("    ({name:?}, include_bytes!({:?})),\n", path.display().to_string());
    }
    let text = format!(
        "/// The files of the page, by their names.\nstatic FILES: &[(&str, &[u8])] = &[\n{rows}];\n"
    );
    fs::write(out.join("page_files.rs"), text)
}

/// Returns a module with all that it imports: each is a function that gives its exports, after those that it imports.
fn bundle(modules: &BTreeMap<String, String>, name: &str) -> io::Result<String> {
    let (mut text, mut done) = (String::new(), Vec::new());
    add(modules, name, &mut Vec::new(), &mut done, &mut text)?;
    Ok(text)
}

fn add(
    modules: &BTreeMap<String, String>,
    name: &str,
    above: &mut Vec<String>,
    done: &mut Vec<String>,
    text: &mut String,
) -> io::Result<()> {
    if done.iter().any(|it| it == name) {
        return Ok(());
    }
    let broken = |why: &str| io::Error::other(format!("{name} can't be put into one file: {why}"));
    above.push(name.to_owned());
    let (mut imports, mut body, mut exports) = (String::new(), String::new(), Vec::new());
    for line in modules.get(name).ok_or_else(|| broken("there is no such module"))?.lines() {
        if line.starts_with("import ") || line.starts_with("import{") {
            let (names, from) = line
                .strip_prefix("import {")
                .and_then(|it| it.trim_end_matches(';').split_once("} from "))
                .ok_or_else(|| broken("an import is `import { NAMES } from './FILE';` in one line"))?;
            let from = from.trim_matches(['\'', '"']).trim_start_matches("./");
            if above.iter().any(|it| it == from) {
                // It comes after this one: its functions are found when they are called.
                imports += &later(modules, names, from).ok_or_else(|| {
                    broken("modules that import each other do so for exported functions alone")
                })?;
            } else {
                add(modules, from, above, done, text)?;
                imports += &format!("const {{{}}} = {};\n", names.replace(" as ", ": "), variable(from));
            }
        } else if let Some(rest) = line.strip_prefix("export ") {
            let words: Vec<&str> =
                rest.split(|it: char| !it.is_alphanumeric() && !"_$".contains(it)).collect();
            let exported = match words.as_slice() {
                ["async", "function", name, ..] | ["function" | "class" | "const", name, ..] => *name,
                _ => "",
            };
            if exported.is_empty() {
                return Err(broken(
                    "only functions, classes and constants are exported, each at its declaration",
                ));
            }
            exports.push(exported.to_owned());
            body += rest;
            body.push('\n');
        } else {
            body += line;
            body.push('\n');
        }
    }
    let exports = exports.join(", ");
    *text +=
        &format!("const {} = (() => {{\n{imports}{body}return {{ {exports} }};\n}})();\n", variable(name));
    above.pop();
    done.push(name.to_owned());
    Ok(())
}

/// Returns functions that call those of a module that comes later.
fn later(modules: &BTreeMap<String, String>, names: &str, from: &str) -> Option<String> {
    let module = modules.get(from)?;
    let mut text = String::new();
    for name in names.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        let (name, own) = name.split_once(" as ").unwrap_or((name, name));
        let is_function = |it: &str| {
            let rest =
                it.strip_prefix("export async function ").or_else(|| it.strip_prefix("export function "));
            rest.is_some_and(|it| it.starts_with(&format!("{name}(")))
        };
        if !module.lines().any(is_function) {
            return None;
        }
        text += &format!("const {own} = (...it) => {}.{name}(...it);\n", variable(from));
    }
    Some(text)
}

/// Returns the variable that has the exports of a module.
fn variable(module: &str) -> String {
    let name = module.trim_end_matches(".js");
    format!("${}", name.replace(|it: char| !it.is_ascii_alphanumeric(), "_"))
}

/// Returns a module without indentation and without comments that have lines of their own: a fifth of what would be sent.
/// The script `page/check` does the same, and checks that the rest is a module.
fn stripped(module: &str) -> String {
    let mut text = String::new();
    let mut is_comment = false;
    for line in module.lines() {
        let line = line.trim_start();
        if is_comment {
            is_comment = !line.trim_end().ends_with("*/");
            continue;
        }
        if line.starts_with("/**") {
            match line.find("*/") {
                None => {
                    is_comment = true;
                    continue;
                }
                Some(end) if line[end + 2..].trim().is_empty() => continue,
                // The type of an expression that begins the line.
                Some(_) => {}
            }
        }
        if !line.is_empty() && !line.starts_with("//") {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// Adds the files below this folder. Those that the page is only checked with are left out.
fn list(folder: &Path, prefix: &str, files: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        if name.starts_with('.') || name == "node_modules" {
            continue;
        }
        if path.is_dir() {
            list(&path, &format!("{prefix}{name}/"), files);
        } else if ["html", "js", "css", "svg", "png", "ico", "woff2", "webmanifest"]
            .iter()
            .any(|it| name.ends_with(&format!(".{it}")))
        {
            files.push(format!("{prefix}{name}"));
        }
    }
}
