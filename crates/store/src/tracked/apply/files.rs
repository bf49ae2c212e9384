//! Regular files of an undo: linked, replaced by their image, or written in place.

use std::{fs, io, path::Path};

use kit::{
    deliberate_faults::killed_at,
    files::copy_with_holes,
    tracking::{BeforeImage, Metadata, Node},
};

use super::{
    super::{
        Entry,
        fold::reason,
        folder::{Spot, node_at},
        log::Keep,
    },
    Step, Work, plain, set_owner,
};

impl Work<'_> {
    /// Brings a path to a regular file's state.
    pub(super) fn file(
        &mut self,
        number: usize,
        entry: &Entry,
        path: &Path,
        now: &Node,
        before: Metadata,
    ) -> io::Result<Step> {
        let is_content_same = self.holds_content(entry, path, now, &before);
        if let Node::File(about) = now
            && is_content_same
            && about.mode == before.mode
            && about.owner == before.owner
            && holds_attributes(entry, path)
        {
            return Ok(Step::Same);
        }
        if let Some(why) = self.changed_since(number, entry, path, now) {
            return Ok(Step::Left(why));
        }
        let step = self.bring(entry, path, now, before, is_content_same)?;
        if matches!(step, Step::Done(_)) {
            self.restore_attributes(entry, path);
        }
        Ok(step)
    }

    /// Brings a path to a regular file's content, owner, mode and time.
    fn bring(
        &mut self,
        entry: &Entry,
        path: &Path,
        now: &Node,
        before: Metadata,
        is_content_same: bool,
    ) -> io::Result<Step> {
        let has_file = matches!(now, Node::File(_));
        match &entry.kept {
            _ if is_content_same => self.metadata(entry, path, &before),
            BeforeImage::Metadata if has_file => self.metadata(entry, path, &before),
            BeforeImage::Length => match now {
                Node::File(about) if about.size >= before.size => {
                    self.log.before(path, Keep::Copy, entry.attributes.is_some())?;
                    killed_at("undo-recorded-path");
                    Spot::at(path)?.write()?.set_len(before.size)?;
                    finish(&Spot::at(path)?, &before)?;
                    Ok(Step::Done(format!("restored {} (cut to its {} bytes)", self.name(path), before.size)))
                }
                _ => Ok(Step::Left("only its length was kept, as it was opened for appending".to_owned())),
            },
            BeforeImage::Linked(image) | BeforeImage::Copied(image) => {
                self.content(entry, path, now, before, *image)
            }
            BeforeImage::Not(why) => {
                Ok(Step::Left(format!("what it held before is not kept: {}", reason(why))))
            }
            BeforeImage::Nothing | BeforeImage::Metadata => {
                Ok(Step::Left("what it held before is not kept".to_owned()))
            }
        }
    }

    /// Returns whether the file has its content of before the call already.
    fn holds_content(&self, entry: &Entry, path: &Path, now: &Node, before: &Metadata) -> bool {
        let Node::File(about) = now else { return false };
        // The file itself is back, and it was not written by the call: the tracker copies it before that.
        if let BeforeImage::Linked(number) = &entry.kept
            && about.identity == before.identity
            && about.size == before.size
            && matches!(node_at(&self.images.join(number.to_string())), Ok(Node::Absent))
        {
            return true;
        }
        if about.size != before.size || about.modified != before.modified {
            return false;
        }
        let (BeforeImage::Linked(number) | BeforeImage::Copied(number)) = &entry.kept else { return true };
        let image = self.images.join(number.to_string());
        match node_at(&image) {
            Ok(Node::File(kept)) => kept.identity == about.identity || same(&image, path, before.size),
            // The image has been put back.
            Ok(Node::Absent) => true,
            Ok(_) | Err(_) => false,
        }
    }

    fn metadata(&mut self, entry: &Entry, path: &Path, before: &Metadata) -> io::Result<Step> {
        self.log.before(path, Keep::Metadata, entry.attributes.is_some())?;
        killed_at("undo-recorded-path");
        finish(&Spot::at(path)?, before)?;
        Ok(Step::Done(format!("restored the permissions and the time of {}", self.name(path))))
    }

    /// Puts back a content from its image.
    fn content(
        &mut self,
        entry: &Entry,
        path: &Path,
        now: &Node,
        before: Metadata,
        number: u64,
    ) -> io::Result<Step> {
        let image = self.images.join(number.to_string());
        let restored = Step::Done(match now {
            Node::Absent => format!("restored {} (removed by {})", self.name(path), self.plan.call),
            _ => format!("restored {} ({} bytes)", self.name(path), before.size),
        });
        let kept = match node_at(&image)? {
            Node::File(kept) => kept,
            Node::Absent => match self.other_name(entry, path, &before) {
                Some(other) => {
                    self.link(path, now, &other)?;
                    return Ok(restored);
                }
                None => return Ok(Step::Left("what it held before has been pruned".to_owned())),
            },
            _ => return Ok(Step::Left("the copy of what it held before is damaged".to_owned())),
        };
        let is_linked = matches!(entry.kept, BeforeImage::Linked(_));
        let kept_of = entry.kept_of.unwrap_or(before);
        let is_whole = (kept.size, kept.modified) == (kept_of.size, kept_of.modified)
            || (kept.identity == before.identity && self.was_left(&kept));
        if kept.size < before.size || (is_linked && !is_whole) {
            return Ok(Step::Left(
                "the copy of what it held before was changed by another program".to_owned(),
            ));
        }
        // The system refused its removal: the file is its own image.
        if matches!(now, Node::File(about) if about.identity == kept.identity) {
            if kept.size > before.size {
                // It was appended to before.
                self.log.before(path, Keep::Copy, entry.attributes.is_some())?;
                Spot::at(path)?.write()?.set_len(before.size)?;
            }
            let step = self.metadata(entry, path, &before)?;
            Spot::at(&image)?.remove()?;
            return Ok(step);
        }
        // A process that has it open would go on with a file that nobody sees.
        if let Node::File(about) = now
            && (about.links > 1 || entry.is_open)
            && about.identity == before.identity
        {
            self.log.before(path, Keep::Copy, entry.attributes.is_some())?;
            killed_at("undo-recorded-path");
            copy(&image, &Spot::at(path)?.write()?, before.size)?;
            if entry.is_open {
                let (name, call) = (self.name(path), &self.plan.call);
                self.report.notes.push(format!(
                    "{name} was still open for writing when {call} ended: its process may write to it again"
                ));
            }
            killed_at("undo-written-path");
            finish(&Spot::at(path)?, &before)?;
            return Ok(restored);
        }
        if before.links > 1
            && let Some(other) = self.other_name(entry, path, &before)
        {
            self.link(path, now, &other)?;
            return Ok(restored);
        }
        self.log.before(path, Keep::Link, false)?;
        killed_at("undo-recorded-path");
        if !matches!(now, Node::Absent | Node::File(_))
            && let Some(step) = self.clear(path, now)?
        {
            return Ok(step);
        }
        self.replace(path, (&image, number), &kept, &before)?;
        killed_at("undo-written-path");
        Ok(restored)
    }

    /// Returns whether the call left a file in this state under some name.
    fn was_left(&self, about: &Metadata) -> bool {
        self.settled.left.iter().any(|it| {
            matches!(&it.node, Some(Node::File(left))
                if (left.identity, left.size, left.modified) == (about.identity, about.size, about.modified))
        })
    }

    /// Returns whether an image is that of several names.
    fn is_shared(&self, number: u64) -> bool {
        let has_it = |it: &&Entry| matches!(it.kept, BeforeImage::Linked(of) | BeforeImage::Copied(of) if of == number);
        self.fold.entries.iter().filter(has_it).nth(1).is_some()
    }

    /// Moves the image to the path, or a copy of it where that is another file system or another name needs it, too.
    fn replace(
        &self,
        path: &Path,
        (image, number): (&Path, u64),
        kept: &Metadata,
        before: &Metadata,
    ) -> io::Result<()> {
        let spot = Spot::at(path)?;
        let of_image = Spot::at(image)?;
        if kept.links == 1 && !self.is_shared(number) {
            if kept.size > before.size {
                of_image.write()?.set_len(before.size)?;
            }
            finish(&of_image, before)?;
            match of_image.rename_over(&spot) {
                Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
                done => return done,
            }
        }
        let name = format!(".haft-undo-{}", image.file_name().and_then(|it| it.to_str()).unwrap_or_default());
        let fresh = path.with_file_name(name);
        let of_fresh = Spot::at(&fresh)?;
        match of_fresh.remove() {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let written = (|| {
            copy(image, &of_fresh.create()?, before.size)?;
            let attributes = of_image.attributes()?;
            if !attributes.is_empty() {
                of_fresh.set_attributes(&attributes)?;
            }
            finish(&of_fresh, before)?;
            of_fresh.rename_over(&spot)
        })();
        if written.is_err() {
            let _ = of_fresh.remove();
        }
        written
    }

    /// Returns another name of the same file, if it holds what this path is to hold.
    fn other_name(&self, entry: &Entry, path: &Path, before: &Metadata) -> Option<std::path::PathBuf> {
        // Those of later segments are put back already.
        let others = self.fold.entries.iter().filter(|it| it.segment >= entry.segment);
        others
            .filter(|it| matches!(&it.node, Node::File(about) if about.identity == before.identity))
            .map(|it| self.actual(it, entry.segment))
            .filter(|it| it != path)
            .find(|it| {
                matches!(node_at(it), Ok(Node::File(about))
                    if (about.size, about.modified, about.mode) == (before.size, before.modified, before.mode))
            })
    }

    /// Gives a path the extended attributes that it had. Where that fails, the report says so.
    pub(super) fn restore_attributes(&mut self, entry: &Entry, path: &Path) {
        if let Some(attributes) = &entry.attributes
            && let Err(error) = Spot::at(path).and_then(|it| it.set_attributes(attributes))
        {
            let name = self.name(path);
            self.report.left.push(format!("{name}: its extended attributes: {}", plain(&error)));
        }
    }

    fn link(&mut self, path: &Path, now: &Node, other: &Path) -> io::Result<()> {
        self.log.before(path, Keep::Link, false)?;
        killed_at("undo-recorded-path");
        if !matches!(now, Node::Absent) {
            Spot::at(path)?.remove()?;
        }
        Spot::at(other)?.link_to(&Spot::at(path)?)
    }
}

/// Gives a file its owner, mode and time.
pub(super) fn finish(spot: &Spot<'_>, before: &Metadata) -> io::Result<()> {
    set_owner(spot, before)?;
    spot.set_mode(before.mode)?;
    spot.set_modified(before.modified)
}

/// Copies the first `size` bytes of an image into a file.
pub(super) fn copy(image: &Path, to: &fs::File, size: u64) -> io::Result<()> {
    to.set_len(0)?;
    if copy_with_holes(&Spot::at(image)?.read()?, to, size)? != size {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

/// Returns whether a path has the extended attributes that it had, as far as they are recorded.
fn holds_attributes(entry: &Entry, path: &Path) -> bool {
    entry
        .attributes
        .as_ref()
        .is_none_or(|wanted| Spot::at(path).and_then(|it| it.attributes()).is_ok_and(|held| held == *wanted))
}

/// Returns whether two files begin with the same bytes.
pub(super) fn same(one: &Path, other: &Path, size: u64) -> bool {
    let compare = || -> io::Result<bool> {
        let mut one = io::BufReader::with_capacity(1 << 16, io::Read::take(Spot::at(one)?.read()?, size));
        let mut other = io::BufReader::with_capacity(1 << 16, io::Read::take(Spot::at(other)?.read()?, size));
        loop {
            let (left, right) = (io::BufRead::fill_buf(&mut one)?, io::BufRead::fill_buf(&mut other)?);
            let length = left.len().min(right.len());
            if left.get(..length) != right.get(..length) {
                return Ok(false);
            }
            if length == 0 {
                return Ok(left.len() == right.len());
            }
            io::BufRead::consume(&mut one, length);
            io::BufRead::consume(&mut other, length);
        }
    };
    compare().unwrap_or(false)
}
