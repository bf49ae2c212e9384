//! Lending: the supervisor of a quiet command holds the command's files, so that haft has one file open for it, its socket.
//!
//! haft holds the files of the commands that were active last itself. A further command has the one that was quiet for
//! longest give its files to its supervisor, which gives all of them back as soon as there is something to read or one
//! has ended. haft closes its own copies only when the supervisor has confirmed, so nothing is lost if either ends
//! meanwhile.

use std::{
    collections::VecDeque,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use super::{client::most_awake, control::Shared};

/// The most files that one command lends.
pub(super) const MOST: usize = 8;

/// A file of a command that its supervisor can hold while there is nothing to read from it.
pub trait Lendable: Send + Sync {
    /// Returns a copy of the file; `None` when it is not needed any more.
    fn file(&self) -> Option<OwnedFd>;

    /// Closes haft's own file: the supervisor has the copy.
    fn release(&self);

    /// Takes the file back: there is something to read, or its end.
    fn resume(&self, file: OwnedFd);

    /// The supervisor has ended, and the file with it.
    fn lost(&self);
}

/// The files of one command.
#[derive(Default)]
pub(super) struct Lending {
    files: Vec<Arc<dyn Lendable>>,
    place: Place,
}

/// The place of a command's files.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// haft has them.
    #[default]
    Here,
    /// These, by their bits, are on the way to the supervisor.
    Going(u32),
    /// The supervisor has these.
    There(u32),
}

/// The commands whose files haft has, the one that was quiet for longest first.
static AWAKE: Mutex<VecDeque<Weak<Shared>>> = Mutex::new(VecDeque::new());

/// Counts a command as active, and has others lend their files if there are too many.
pub(super) fn count_awake(command: &Arc<Shared>) {
    let mut quiet = Vec::new();
    {
        let mut awake = AWAKE.lock();
        awake.push_back(Arc::downgrade(command));
        while awake.len() > most_awake() {
            quiet.extend(awake.pop_front().and_then(|it| it.upgrade()));
        }
    }
    for command in quiet {
        tokio::spawn(async move { command.lend().await });
    }
}

impl Lending {
    pub(super) fn add(&mut self, file: Arc<dyn Lendable>) {
        if self.files.len() < MOST {
            self.files.push(file);
        }
    }

    /// Returns copies of the files that are to be lent, and their bits; none, if they are lent already.
    pub(super) fn go(&mut self) -> (u32, Vec<OwnedFd>) {
        if self.place != Place::Here {
            return (0, Vec::new());
        }
        let (mut which, mut copies) = (0, Vec::new());
        for (at, file) in self.files.iter().enumerate() {
            if let Some(copy) = file.file() {
                which |= 1 << at;
                copies.push(copy);
            }
        }
        if which != 0 {
            self.place = Place::Going(which);
        }
        (which, copies)
    }

    /// Records that the supervisor has the files, and closes haft's own.
    pub(super) fn gone(&mut self) {
        let Place::Going(which) = self.place else { return };
        self.place = Place::There(which);
        self.those(which).for_each(|it| it.release());
    }

    /// Records that the files were not sent.
    pub(super) fn not_sent(&mut self) {
        self.place = Place::Here;
    }

    /// Takes the files back from the supervisor. Returns whether it had them.
    pub(super) fn back(&mut self, which: u32, files: Vec<OwnedFd>) -> bool {
        let Place::There(lent) = std::mem::take(&mut self.place) else { return false };
        let mut files = files.into_iter();
        for (at, lendable) in self.files.iter().enumerate().filter(|it| lent & (1 << it.0) != 0) {
            match files.next().filter(|_| which & (1 << at) != 0) {
                Some(file) => lendable.resume(file),
                // haft had too many files open to take it.
                None => lendable.lost(),
            }
        }
        true
    }

    /// Ends the lending with the supervisor.
    pub(super) fn end(&mut self) {
        if let Place::There(which) = std::mem::take(&mut self.place) {
            self.those(which).for_each(|it| it.lost());
        }
        self.files = Vec::new();
    }

    fn those(&self, which: u32) -> impl Iterator<Item = &Arc<dyn Lendable>> {
        self.files.iter().enumerate().filter(move |it| which & (1 << it.0) != 0).map(|it| it.1)
    }
}

/// Borrows files to send them.
pub(super) fn borrowed(files: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    files.iter().map(AsFd::as_fd).collect()
}
