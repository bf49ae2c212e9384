//! Compiled bytecode of the host script.
//!
//! Compiling takes longer than starting Python, so haft stores the bytecode in the state folder, which no
//! tool can reach. A process provides it before it has run any tool's code, and haft gives it only to the
//! same interpreter.

use std::{
    fs,
    path::{Path, PathBuf},
};

use kit::base64;

use store::{create_folder, replace_file};

use super::host::version;
use crate::execution::Execution;

/// The stored bytecode for one interpreter.
pub(crate) struct Compiled {
    /// Its file; none, for an interpreter that commands may change.
    path: Option<PathBuf>,
}

impl Compiled {
    /// Returns the bytecode for this interpreter. An interpreter that commands may change gets none, as it
    /// may produce other bytecode tomorrow.
    pub(super) fn of(execution: &Execution, interpreter: &str) -> Self {
        let state = execution.state().filter(|_| !execution.may_change(Path::new(interpreter)));
        // `PATH` decides what a name means.
        let path = execution.variable("PATH").unwrap_or_default();
        let name = blake3::hash(format!("{interpreter}\0{path}").as_bytes()).to_hex();
        Self::at(state.map(|state| state.join("tools/compiled").join(name.as_str())))
    }

    /// Returns the bytecode in this file.
    fn at(path: Option<PathBuf>) -> Self {
        Self { path }
    }

    /// Returns whether haft stores bytecode for this interpreter.
    pub(super) fn is_stored(&self) -> bool {
        self.path.is_some()
    }

    /// Returns the version of Python that compiled it, and the bytecode: two pieces, as `boot.py` reads them.
    /// Both are empty if there is none.
    pub(super) fn pieces(&self) -> Vec<u8> {
        let kept = self.path.as_ref().and_then(|path| fs::read(path).ok());
        let whole = kept.as_deref().and_then(|kept| {
            let (seal, pieces) = kept.split_at_checked(SEAL)?;
            (seal == self::seal(pieces).as_bytes()).then_some(pieces)
        });
        whole.map_or_else(|| pieces(b"", b""), <[u8]>::to_vec)
    }

    /// Stores base64-encoded bytecode, with the version of Python that compiled it.
    pub(super) fn keep(&self, compiled_by: &str, code: &str) {
        let (Some(path), Some(code)) = (&self.path, base64::decoded(code)) else { return };
        let pieces = pieces(compiled_by.as_bytes(), &code);
        let whole = [seal(&pieces).as_bytes(), &pieces].concat();
        let folder = path.parent().map_or(Ok(()), create_folder);
        if let Err(error) = folder.and_then(|()| replace_file(path, &whole)) {
            tracing::debug!("the host's code is not kept in `{}`: {error}", path.display());
        }
    }
}

/// Length of the checksum.
const SEAL: usize = 64;

/// Returns the checksum, which shows that a file is complete and belongs to this script: Python may crash on
/// any other bytecode.
fn seal(pieces: &[u8]) -> String {
    blake3::Hasher::new().update(version().as_bytes()).update(pieces).finalize().to_hex().to_string()
}

fn pieces(compiled_by: &[u8], code: &[u8]) -> Vec<u8> {
    let mut pieces = Vec::with_capacity(16 + compiled_by.len() + code.len());
    for piece in [compiled_by, code] {
        pieces.extend(format!("{:08}", piece.len()).into_bytes());
        pieces.extend(piece);
    }
    pieces
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn only_complete_bytecode_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below").join("code");
        let compiled = Compiled::at(Some(path.clone()));
        assert_eq!(compiled.pieces(), b"0000000000000000");
        compiled.keep("3.11", "Zm9v");
        assert_eq!(compiled.pieces(), b"000000043.1100000003foo");
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() = b'x';
        fs::write(&path, bytes).unwrap();
        assert_eq!(compiled.pieces(), b"0000000000000000");
        assert!(!Compiled::at(None).is_stored());
    }
}
