//! The person's own instructions for all agents: `AGENTS.md` in haft's configuration folder.

use std::{fs::File, io::Read, path::Path};

use kit::escape::visible;
use runtime::Runtime;

/// The file in the configuration folder.
const FILE: &str = "AGENTS.md";

/// Maximum length of the instructions in the prompt, in bytes.
const LONGEST: usize = 32 << 10;

/// The person's instructions for all agents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Own {
    text: String,
    /// The size of the file in bytes, if it exceeds the limit.
    longer: Option<u64>,
    /// The reason why the file is not used, or only in part.
    note: Option<String>,
}

impl Own {
    /// Reads the instructions, if there are any. Symlinks are followed, as the folder belongs to the person.
    /// Secrets are masked. Blocks.
    pub(super) fn read(runtime: &Runtime) -> Self {
        let path = runtime.config().join(FILE);
        match read(&path) {
            Ok(None) => Self::default(),
            Ok(Some((bytes, size))) => {
                let text = String::from_utf8_lossy(&bytes);
                let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
                let longer = (size > LONGEST as u64).then_some(size);
                let text = text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default().trim();
                let text = runtime.masked(&visible(text).0).into_owned();
                let note = longer.map(|it| {
                    format!("{} has {it} bytes; its first {LONGEST} are sent to the model", path.display())
                });
                Self { text, longer, note }
            }
            Err(why) => {
                Self { note: Some(format!("{} is not used: {why}", path.display())), ..Self::default() }
            }
        }
    }

    /// Returns the section of the prompt; empty without instructions.
    pub(super) fn section(&self) -> String {
        let Self { text, longer, .. } = self;
        if text.is_empty() {
            return String::new();
        }
        let text = text.replace("</own_instructions", "< /own_instructions");
        let cut = longer.map_or_else(String::new, |it| format!("\n[cut here; the file has {it} bytes]"));
        format!(
            "The person's own instructions for all projects, from their {FILE}. What they say in the conversation counts \
             more; what a project's file says counts less.\n<own_instructions>\n{text}{cut}\n</own_instructions>"
        )
    }

    /// Returns the notice for the person.
    pub(super) fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }
}

/// Returns the beginning of the file and its size, or `None` if there is no such file.
fn read(path: &Path) -> Result<Option<(Vec<u8>, u64)>, String> {
    let about = match std::fs::metadata(path) {
        Ok(about) => about,
        // A dangling symlink is a mistake, and not a missing file.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !path.is_symlink() => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    // Other files, such as pipes, may have no end.
    if !about.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|it| it.take(LONGEST as u64 + 4).read_to_end(&mut bytes));
    read.map_err(|error| error.to_string())?;
    Ok(Some((bytes, about.len())))
}
