//! overlayfs: a command writes to an upper folder in a mount namespace of its own; at its end the changes are
//! applied to the real folder, and what they replace is moved aside.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::Engine;
use crate::batch::Outcome;

/// The attribute of an upper folder that hides the lower one.
const OPAQUE: &str = "user.overlay.opaque";

/// An overlay for each command.
#[derive(Debug)]
pub struct Overlay {
    folder: PathBuf,
    beside: PathBuf,
    runs: u64,
}

impl Overlay {
    /// Makes the folder for upper folders and before-images beside the folder.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(folder: PathBuf) -> Outcome<Self> {
        let beside = folder.with_extension("overlay");
        fs::create_dir(&beside)?;
        Ok(Self { folder, beside, runs: 0 })
    }
}

impl Engine for Overlay {
    fn name(&self) -> &'static str {
        "overlayfs, applied at the end"
    }

    fn lacks(&self) -> &'static str {
        "others see changes only at the end (servers, editors, two commands at once); rename of folders (EXDEV); hard links; a write copies the whole file"
    }

    fn run(&mut self, command: &str) -> Outcome<Duration> {
        let began = Instant::now();
        let room = self.beside.join(self.runs.to_string());
        self.runs += 1;
        let (upper, images) = (room.join("upper"), room.join("images"));
        for folder in [&upper, &images, &room.join("work")] {
            fs::create_dir_all(folder)?;
        }
        let script = "mount -t overlay overlay -o \"userxattr,lowerdir=$1,upperdir=$2/upper,workdir=$2/work\" \"$1\" \
             && cd \"$1\" && exec bash -c \"$3\"";
        let ran = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "bash", "-c", script, "bash"])
            .arg(&self.folder)
            .arg(&room)
            .arg(command)
            .stdin(Stdio::null())
            .output()?;
        if !ran.status.success() {
            return Err(String::from_utf8_lossy(&ran.stderr).into_owned().into());
        }
        apply(&upper, &self.folder, &images, &mut 0)?;
        Ok(began.elapsed())
    }

    fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Applies what is in an upper folder; what was there gets a name in `images`.
fn apply(upper: &Path, lower: &Path, images: &Path, number: &mut u64) -> io::Result<()> {
    for entry in fs::read_dir(upper)? {
        let entry = entry?;
        let (from, to) = (entry.path(), lower.join(entry.file_name()));
        let about = entry.metadata()?;
        let is_removed = about.file_type().is_char_device() && about.rdev() == 0;
        let there = to.symlink_metadata().ok();
        let replaces =
            !about.is_dir() || is_opaque(&from) || !there.as_ref().is_some_and(fs::Metadata::is_dir);
        if replaces && there.is_some() {
            fs::rename(&to, images.join(number.to_string()))?;
            *number += 1;
        }
        if is_removed {
            continue;
        }
        if replaces { fs::rename(&from, &to)? } else { apply(&from, &to, images, number)? }
    }
    Ok(())
}

fn is_opaque(folder: &Path) -> bool {
    let mut value = [0_u8; 1];
    rustix::fs::getxattr(folder, OPAQUE, &mut value).is_ok_and(|length| length == 1 && value == *b"y")
}
