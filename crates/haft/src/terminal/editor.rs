//! The person's editor: opens the typed text in `$VISUAL` or `$EDITOR`, and reads the saved text.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use tokio::sync::oneshot;

/// A longer text, in bytes, is not read.
const LONGEST: u64 = 1 << 20;

/// The editors to try, in this order, if no variable names one.
const USUAL: [&str; 4] = ["editor", "nano", "vim", "vi"];

/// An open editor. The receiver gets the text or an error once the editor is closed.
pub(crate) type Open = oneshot::Receiver<Result<String, String>>;

/// Returns the command that opens the person's editor, from their environment variables.
pub(crate) fn command(variables: &[(String, String)]) -> Option<String> {
    let of = |name: &str| variables.iter().find(|it| it.0 == name && !it.1.trim().is_empty());
    let named = of("VISUAL").or_else(|| of("EDITOR")).map(|it| it.1.clone());
    named.or_else(|| {
        let folders = of("PATH").map(|it| it.1.as_str()).unwrap_or_default();
        let is_there = |name: &&str| folders.split(':').any(|folder| Path::new(folder).join(name).is_file());
        USUAL.into_iter().find(is_there).map(str::to_owned)
    })
}

/// Opens the editor on a private file in this folder. The editor owns the terminal until it is closed.
///
/// # Errors
/// If the file can't be written.
pub(crate) fn open(command: &str, text: &str, folder: &Path) -> io::Result<Open> {
    let file = write(text, folder)?;
    let (tell, open) = oneshot::channel();
    let command = command.to_owned();
    let work = move || {
        let done = edit(&command, &file);
        // A file that can't be removed is small and in the person's own folder.
        let _ = fs::remove_file(&file);
        let _ = tell.send(done);
    };
    std::thread::Builder::new().name("haft-editor".to_owned()).spawn(work)?;
    Ok(open)
}

fn write(text: &str, folder: &Path) -> io::Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    fs::create_dir_all(folder)?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("message-{}-{number}.md", std::process::id()));
    // A process that died may have left a file of the same number.
    let _ = fs::remove_file(&path);
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path)?;
    file.write_all(text.as_bytes())?;
    Ok(path)
}

/// Waits for the editor; returns the text that it saved.
fn edit(command: &str, file: &Path) -> Result<String, String> {
    // The variable may contain arguments, so a shell splits it, as git does it.
    let status = Command::new("/bin/sh")
        .args(["-c", &format!("{command} \"$1\""), "sh"])
        .arg(file)
        .stdin(Stdio::inherit())
        .status()
        .map_err(|error| format!("the editor `{command}` can't be started: {error}"))?;
    if !status.success() {
        return Err(format!("the editor `{command}` failed ({status}); the text is as it was"));
    }
    let about = fs::metadata(file).map_err(|error| format!("what was edited can't be read: {error}"))?;
    if about.len() > LONGEST {
        return Err(format!(
            "the text has {} bytes, and {LONGEST} are the most; it is as it was",
            about.len()
        ));
    }
    let text = fs::read_to_string(file).map_err(|error| format!("what was edited can't be read: {error}"))?;
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[tokio::test]
    async fn what_is_saved_comes_back_and_the_file_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let edit = |command: &str| open(command, "one", dir.path()).unwrap();
        assert_eq!(edit("printf ' two\\n' >>").await.unwrap().as_deref(), Ok("one two"));
        let failed = edit("false").await.unwrap().unwrap_err();
        assert!(failed.starts_with("the editor `false` failed"), "{failed}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_variables_name_the_editor() {
        let of = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> =
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            command(&pairs)
        };
        assert_eq!(of(&[("EDITOR", "ed"), ("VISUAL", "code --wait")]).as_deref(), Some("code --wait"));
        assert_eq!(of(&[("EDITOR", "ed"), ("VISUAL", " ")]).as_deref(), Some("ed"));
        assert_eq!(of(&[("PATH", "/nowhere")]), None);
    }
}
