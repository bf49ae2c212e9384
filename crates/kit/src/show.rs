//! What is the model shown of a file, and is it remembered?
//!
//! A line counts as seen only if the model got all of it: not when it was cut, and not
//! when it holds a secret that will be hidden on the way out.

use crate::{
    Cx,
    anchor::{Rendered, render},
    files::{Identity, Location},
    seen::{self, Rows},
    text::Text,
};

impl Cx {
    /// Shows rows of a file, each with its anchor, and remembers that the model saw them.
    pub fn show(&self, location: &Location, text: &Text, rows: &Rows) -> Rendered {
        let mut rendered = render(text, rows);
        // Mostly there is no secret anywhere in it, and the lines need not be looked at one by one.
        if !self.services().mask.find(&rendered.text).is_empty() {
            self.hide_secrets(&mut rendered.shown, text);
        }
        self.views().showed(&location.absolute(), text, &rendered.shown);
        rendered
    }

    /// Remembers that the model saw these lines of a file too large to keep; `None`
    /// stands for a line that it saw only in part.
    pub fn showed_of_large(
        &self,
        location: &Location,
        identity: &Identity,
        total: Option<usize>,
        first: usize,
        lines: &[Option<String>],
    ) {
        let (file, identity) = (location.absolute(), seen::Identity::from(identity));
        let in_full = |line: &&str| self.services().mask.find(line).is_empty();
        let lines: Vec<Option<&str>> = lines.iter().map(|line| line.as_deref().filter(in_full)).collect();
        let mut first = first;
        for run in lines.chunk_by(|one, next| one.is_some() == next.is_some()) {
            let seen: Vec<&str> = run.iter().copied().flatten().collect();
            if !seen.is_empty() {
                self.views().showed_window(&file, &identity, total, first, &seen);
            }
            first += run.len();
        }
    }

    fn hide_secrets(&self, shown: &mut Rows, text: &Text) {
        let holds_secret =
            |row: &usize| text.line(*row).is_some_and(|line| !self.services().mask.find(&line).is_empty());
        let hidden: Vec<usize> = shown.iter().filter(holds_secret).collect();
        for row in hidden {
            shown.remove(row..row + 1);
        }
    }
}

impl From<&Identity> for seen::Identity {
    fn from(identity: &Identity) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "only compared")]
        let modified = identity.modified_ns as u64;
        Self([identity.device, identity.inode, identity.size, modified])
    }
}
