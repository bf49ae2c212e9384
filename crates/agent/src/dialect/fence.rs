//! Is this place of a text one where something is only shown: a code fence, or code within a line?
//!
//! A model that explains how calls are written puts them there, and they must not run. An indented fence counts as one,
//! as in a list; a fence that is never closed reaches to the end, as it does in Markdown.

/// From here on a run of backticks or tildes at the beginning of a line is a fence.
const FENCE: usize = 3;

/// Follows a text, character by character.
#[derive(Debug, Default)]
pub(super) struct Fences {
    /// The fence that is open: its character and its length.
    open: Option<(char, usize)>,
    line: Line,
}

/// What is known of the line.
#[derive(Debug, Default)]
struct Line {
    /// Something other than blanks was there before the run, or there is a run and it is over.
    begun: bool,
    /// The run of fence characters that it begins with.
    run: Option<(char, usize)>,
    /// Something other than blanks follows the run.
    more: bool,
    /// A backtick follows the run: then it is code within the line.
    ticked: bool,
    /// How many backticks opened the code within the line that is not closed yet.
    code: Option<usize>,
    /// How many backticks stand right before this place.
    ticks: usize,
}

impl Fences {
    /// Takes the next character of the text.
    pub(super) fn push(&mut self, c: char) {
        if c == '\n' {
            self.end_of_line();
            return;
        }
        let line = &mut self.line;
        match &mut line.run {
            None if line.begun => {}
            None if c == '`' || c == '~' => line.run = Some((c, 1)),
            None => line.begun = !c.is_whitespace(),
            Some((mark, many)) if !line.begun && *mark == c => *many += 1,
            Some(_) => {
                line.begun = true;
                line.more |= !c.is_whitespace();
                line.ticked |= c == '`';
            }
        }
        if c == '`' {
            line.ticks += 1;
        } else {
            line.code = line.code_here();
            line.ticks = 0;
        }
    }

    /// Something that is no text stood here.
    pub(super) fn skip(&mut self) {
        self.line = Line { begun: true, ..Line::default() };
    }

    /// Is what stands here only shown?
    pub(super) fn shown(&self) -> bool {
        self.open.is_some() || self.line.is_fence() || self.line.code_here().is_some()
    }

    fn end_of_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let Some((mark, many)) = line.run else { return };
        if !line.is_fence() {
            return;
        }
        match self.open {
            None if mark == '`' && line.ticked => {}
            None => self.open = Some((mark, many)),
            Some((other, least)) if other == mark && many >= least && !line.more => self.open = None,
            Some(_) => {}
        }
    }
}

impl Line {
    fn is_fence(&self) -> bool {
        self.run.is_some_and(|(_, many)| many >= FENCE)
    }

    /// The code within the line that is open here, once the backticks right before are counted.
    fn code_here(&self) -> Option<usize> {
        match (self.ticks, self.code) {
            (0, code) => code,
            (ticks, None) => Some(ticks),
            (ticks, Some(open)) if ticks == open => None,
            (_, open) => open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text with everything that is only shown as `.`.
    fn seen(text: &str) -> String {
        let mut fences = Fences::default();
        text.chars()
            .map(|c| {
                let shown = fences.shown() && c != '\n';
                fences.push(c);
                if shown { '.' } else { c }
            })
            .collect()
    }

    #[test]
    fn fences_and_code_within_a_line_are_told_from_text() {
        assert_eq!(seen("a `b` c"), "a `.. c");
        assert_eq!(seen("a ``b`c`` d"), "a `...... d");
        assert_eq!(seen("a ` b\nc"), "a `..\nc");
        assert_eq!(seen("```rust\nx\n```\ny"), "`......\n.\n...\ny");
        assert_eq!(seen("  ~~~\nx\n````\n~~~~\ny"), "  ~~~\n.\n....\n....\ny");
        assert_eq!(seen("````\n```\n````\ny"), "`...\n...\n....\ny");
        assert_eq!(seen("```x``` y\nz"), "`........\nz");
        assert_eq!(seen("it's ~ 3\nx"), "it's ~ 3\nx");
    }
}
