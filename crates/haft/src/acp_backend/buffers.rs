//! The texts of files in the editor, with what is not saved yet.

use std::{path::Path, sync::OnceLock, time::Duration};

use kit::files::Buffers;
use parking_lot::Mutex;
use serve::acp::{Editor, v1::SessionId};

/// Timeout of the editor's answer for one file.
const TIMEOUT: Duration = Duration::from_secs(2);

/// After so many timeouts in a row, haft sends the editor no further requests.
const GIVE_UP: usize = 3;

/// The editor behind a session.
pub(super) struct InEditor {
    editor: Editor,
    session: SessionId,
    late: Mutex<usize>,
    noted: OnceLock<()>,
}

impl InEditor {
    /// Returns `None` if the editor does not let files be read.
    pub(super) fn of(editor: &Editor, session: &SessionId) -> Option<Self> {
        let late = Mutex::default();
        let noted = OnceLock::new();
        editor.reads_files().then(|| Self { editor: editor.clone(), session: session.clone(), late, noted })
    }
}

impl Buffers for InEditor {
    fn text(&self, path: &Path) -> Option<String> {
        if *self.late.lock() >= GIVE_UP {
            self.noted.get_or_init(|| {
                tracing::warn!(
                    "the editor does not answer `fs/read_text_file`; files are read from the disk"
                );
            });
            return None;
        }
        let text = self.editor.read_text_file(&self.session, path, TIMEOUT);
        let mut late = self.late.lock();
        match text {
            Ok(text) => {
                *late = 0;
                Some(text)
            }
            // After an error, the file is read from the disk.
            Err(fault) if fault.kind == kit::Kind::Timeout => {
                *late += 1;
                None
            }
            Err(_) => None,
        }
    }
}
