//! Lists the files of the page, so that each is embedded under its name; modules and styles without their comments.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

fn main() {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(env::var("OUT_DIR").unwrap_or_default());
    for (folder, name, about) in
        [("page", "FILES", "The files of the page"), ("apps", "APPS", "The files of views for hosts of MCP")]
    {
        let from = here.join(folder);
        println!("cargo::rerun-if-changed={}", from.display());
        let mut files = Vec::new();
        list(&from, "", &mut files);
        files.sort();
        if let Err(error) = embed(&from, &files, &out, (name, about)) {
            println!("cargo::error=the files of {folder} can't be written to {}: {error}", out.display());
        }
    }
}

/// Writes the list of files, and beside it the modules and styles as they are sent.
fn embed(from: &Path, files: &[String], out: &Path, (name, about): (&str, &str)) -> io::Result<()> {
    let mut rows = String::new();
    let folder = from.file_name().unwrap_or_default();
    for name in files {
        let mut path = from.join(name);
        let comment = match name.rsplit('.').next() {
            Some("js") => Some("/**"),
            Some("css") => Some("/*"),
            _ => None,
        };
        if let Some(comment) = comment {
            let sent = out.join(folder).join(name);
            fs::create_dir_all(sent.parent().unwrap_or(out))?;
            fs::write(&sent, stripped(&fs::read_to_string(path)?, comment))?;
            path = sent;
        }
        rows += &format!("    ({name:?}, include_bytes!({:?})),\n", path.display().to_string());
    }
    let text = format!("/// {about}, by their names.\nstatic {name}: &[(&str, &[u8])] = &[\n{rows}];\n");
    let list = format!("{}_files.rs", folder.display().to_string().trim_end_matches('s'));
    fs::write(out.join(list), text)
}

/// Returns a module or a style without indentation and without comments that have lines of their own, a fifth of what would be
/// sent. `comment` begins one. The script `page/check` does the same, and checks that the rest is a module.
fn stripped(source: &str, comment: &str) -> String {
    let mut text = String::new();
    let mut is_comment = false;
    for line in source.lines() {
        let line = line.trim_start();
        if is_comment {
            is_comment = !line.trim_end().ends_with("*/");
            continue;
        }
        if line.starts_with(comment) {
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
