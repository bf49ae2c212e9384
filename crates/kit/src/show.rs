//! Showing a file to the model, and recording the view.
//!
//! A line counts as seen only if the model got all of it: not when it was cut, and not when it holds a secret
//! that will be masked in the answer.

use std::{collections::HashSet, ops::Range};

use crate::{
    Cx, Fault,
    anchor::{Rendered, render},
    edit::Plan,
    files::{Identity, Location},
    seen::{self, Rows},
    text::Text,
};

impl Cx {
    /// Renders rows of a file, each with its anchor, and records that the model saw them.
    pub fn show(&self, location: &Location, text: &Text, rows: &Rows) -> Rendered {
        let rendered = self.rendered(text, rows);
        self.views().showed(&location.absolute(), text, &rendered.shown);
        rendered
    }

    /// Like [`show`](Self::show), beside the answer to an edit: anchors of an earlier read keep their meaning.
    pub fn show_also(&self, location: &Location, text: &Text, rows: &Rows) -> Rendered {
        let rendered = self.rendered(text, rows);
        self.views().also_showed(&location.absolute(), text, &rendered.shown);
        rendered
    }

    fn rendered(&self, text: &Text, rows: &Rows) -> Rendered {
        let mut rendered = render(text, rows);
        // Mostly there is no secret in the whole text, so the lines need not be searched one by one.
        if !self.services().mask.find(&rendered.text).is_empty() {
            self.hide_secrets(&mut rendered.shown, text);
        }
        rendered
    }

    /// Records that the model saw these lines of a file too large to keep; `None` stands for a line that it
    /// saw only in part.
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

    /// Refuses an edit that would leave a part of a secret alone: redaction would no longer recognize it.
    /// Only the lines that the edit touches are checked.
    ///
    /// # Errors
    /// [`Kind::Denied`](crate::Kind::Denied).
    pub fn keep_secrets_whole(&self, plan: &Plan) -> Result<(), Fault> {
        let lines = |text: &Text, rows: &Range<usize>| {
            rows.clone()
                .filter_map(|row| text.line(row).map(|line| line.into_owned() + "\n"))
                .collect::<String>()
        };
        let old: String = plan.regions().iter().map(|(rows, _)| lines(plan.before(), rows)).collect();
        let new: String = plan.regions().iter().map(|(_, rows)| lines(&plan.text, rows)).collect();
        self.keep_secrets_whole_in(&old, &new)
    }

    /// Like [`keep_secrets_whole`](Self::keep_secrets_whole), for a text that replaces another.
    ///
    /// # Errors
    /// [`Kind::Denied`](crate::Kind::Denied).
    pub fn keep_secrets_whole_in(&self, old: &str, new: &str) -> Result<(), Fault> {
        /// Minimum length of a piece; shorter ones reveal nothing, and occur in ordinary text.
        const PIECE: usize = 8;
        let secrets: HashSet<&str> =
            self.services().mask.find(old).into_iter().filter_map(|range| old.get(range)).collect();
        if secrets.is_empty() {
            return Ok(());
        }
        let mut rest = String::with_capacity(new.len());
        let mut from = 0;
        for hit in self.services().mask.find(new) {
            rest.push_str(new.get(from..hit.start).unwrap_or_default());
            rest.push('\n');
            from = hit.end;
        }
        rest.push_str(new.get(from..).unwrap_or_default());
        let stands_alone = |secret: &&str| {
            let letters: Vec<char> = secret.chars().collect();
            let mut pieces =
                letters.windows(PIECE.min(letters.len())).map(|piece| piece.iter().collect::<String>());
            pieces.any(|piece| rest.contains(&piece) && !old_outside_has(old, secret, &piece))
        };
        if secrets.iter().any(stands_alone) {
            return Err(Fault::denied(
                "the edit would cut a secret in pieces, which would then be shown (rule `secrets`)",
            )
            .next("Replace or delete the whole line, by its anchor.".to_owned()));
        }
        Ok(())
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

/// Returns whether this piece was in the old text, apart from the secret.
fn old_outside_has(old: &str, secret: &str, piece: &str) -> bool {
    old.split(secret).any(|part| part.contains(piece))
}

impl From<&Identity> for seen::Identity {
    fn from(identity: &Identity) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "only compared")]
        let modified = identity.modified_ns as u64;
        Self([identity.device, identity.inode, identity.size, modified])
    }
}
