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
        self.hide_secrets(&mut rendered.shown, |row| text.line(row).map(std::borrow::Cow::into_owned));
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
        for (index, line) in lines.iter().enumerate() {
            if let Some(line) = line
                && self.services().mask.find(line).is_empty()
            {
                self.views().showed_window(
                    &file,
                    &identity,
                    total,
                    first + index,
                    std::slice::from_ref(line),
                );
            }
        }
    }

    fn hide_secrets(&self, shown: &mut Rows, line: impl Fn(usize) -> Option<String>) {
        let hidden: Vec<usize> = shown
            .iter()
            .filter(|row| line(*row).is_some_and(|line| !self.services().mask.find(&line).is_empty()))
            .collect();
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
