//! Quoted places in text: finds code, quotes, comments, thoughts and results, in which calls don't run.
//!
//! A model that explains how calls are written puts them into a code fence, into inline code, or onto a line
//! that begins with `>`. A model may also begin with a thought, and one that invents a tool's output puts it
//! between the tags of a result. Calls there must not run. An indented fence counts as a fence, as in a list;
//! an unclosed one extends to the end, as in Markdown.

/// Minimum length of a run of backticks or tildes at the beginning of a line that is a fence.
const FENCE: usize = 3;

/// The tags of a thought, with which an answer may begin, and their closing tags.
const THOUGHTS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];

/// The beginnings of quoted places, wherever they are, and their ends.
const ASIDE: [(&str, &str); 3] =
    [("<!--", "-->"), ("<tool_response>", "</tool_response>"), ("<tool_result>", "</tool_result>")];

/// The length of the longest of these tags.
const TAG: usize = "</tool_response>".len();

/// Follows a text, character by character, and keeps track of quoted places.
#[derive(Debug, Default)]
pub(super) struct Fences {
    /// The open fence: its character and its length.
    open: Option<(char, usize)>,
    line: Line,
    /// The end of the open thought, comment or result.
    aside: Option<&'static str>,
    /// The end of the text so far, as far as it may belong to a tag.
    tag: String,
    /// Whether text other than blanks came before this tag.
    begun: bool,
    /// The names of tools, whose tags are calls and not thoughts.
    tools: Vec<String>,
}

/// The state of the current line.
#[derive(Debug, Default)]
struct Line {
    /// Whether text other than blanks came before the run, or the run has ended.
    begun: bool,
    /// The run of fence characters at the beginning.
    run: Option<(char, usize)>,
    /// Whether the line begins with `>`.
    quote: bool,
    /// Whether text other than blanks follows the run.
    more: bool,
    /// Whether a backtick follows the run: then it is inline code.
    ticked: bool,
    /// The number of backticks that opened the unclosed inline code.
    code: Option<usize>,
    /// The number of backticks right before this place.
    ticks: usize,
}

impl Fences {
    /// Creates a tracker for a model that may write tags with these names to call a tool.
    pub(super) fn new(tools: Vec<String>) -> Self {
        Self { tools, ..Self::default() }
    }

    /// Takes the next character of the text.
    pub(super) fn push(&mut self, c: char) {
        if self.aside.is_some() {
            self.closes(c);
        } else {
            self.push_text(c);
        }
    }

    /// Looks for the end of a thought, a comment or a result; everything else in it is ignored.
    fn closes(&mut self, c: char) {
        self.tag.push(c);
        if self.aside.is_some_and(|close| self.tag.ends_with(close)) {
            self.aside = None;
            self.skip();
        } else if self.tag.len() > 4 * TAG {
            let from = self.tag.char_indices().rev().nth(TAG).map_or(0, |it| it.0);
            self.tag.drain(..from);
        }
    }

    /// Looks for the beginning of a thought, a comment or a result.
    fn opens(&mut self, c: char) {
        if c == '<' && !self.shown() {
            self.begun |= !self.tag.is_empty();
            self.tag = "<".to_owned();
            return;
        }
        if self.tag.is_empty() {
            self.begun |= !c.is_whitespace();
            return;
        }
        self.tag.push(c);
        let thoughts = if self.begun { &[] } else { THOUGHTS.as_slice() };
        let mut all = thoughts.iter().chain(&ASIDE);
        let is_tools =
            |tag: &str| self.tools.iter().any(|it| tag.strip_prefix('<') == Some(&format!("{it}>")));
        if let Some((_, close)) = all.clone().find(|it| it.0 == self.tag && !is_tools(it.0)) {
            self.aside = Some(close);
            self.begun = true;
            self.tag.clear();
        } else if !all.any(|it| it.0.starts_with(&self.tag)) {
            self.begun = true;
            self.tag.clear();
        }
    }

    fn push_text(&mut self, c: char) {
        self.opens(c);
        if c == '\n' {
            self.end_of_line();
            return;
        }
        let line = &mut self.line;
        match &mut line.run {
            None if line.begun => {}
            None if c == '`' || c == '~' => line.run = Some((c, 1)),
            None => {
                line.begun = !c.is_whitespace();
                line.quote = c == '>';
            }
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

    /// Skips a call, which is not text.
    pub(super) fn skip(&mut self) {
        self.line = Line { begun: true, ..Line::default() };
        self.begun = true;
        self.tag.clear();
    }

    /// Returns whether this place is quoted.
    pub(super) fn shown(&self) -> bool {
        self.aside.is_some()
            || self.open.is_some()
            || self.line.quote
            || self.line.is_fence()
            || self.line.code_here().is_some()
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

    /// Returns the open inline code, once the backticks right before this place are counted.
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

    /// Returns the text with all quoted characters as `.`.
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
    fn quotes_comments_thoughts_and_results_are_not_text() {
        assert_eq!(seen("> a\n >b\na > b\nc"), ">..\n >.\na > b\nc");
        assert_eq!(seen("a <!-- b\nc --> d"), "a <!--..\n..... d");
        assert_eq!(seen(" <think>a `b\n<c></think>d"), " <think>....\n...........d");
        assert_eq!(seen("<thinking>a</think>b"), "<thinking>..........");
        assert_eq!(seen("a <think>b</think>"), "a <think>b</think>");
        assert_eq!(seen("a <tool_result>b</tool_result>c"), "a <tool_result>...............c");
        assert_eq!(seen("<<tool_response>é</tool_response>c"), "<<tool_response>.................c");
        assert_eq!(seen("`<!--` a"), "`..... a");
    }

    #[test]
    fn tag_of_a_tool_does_not_begin_a_thought() {
        let mut fences = Fences::new(vec!["think".to_owned()]);
        "<think>".chars().for_each(|c| fences.push(c));
        assert!(!fences.shown());
    }

    #[test]
    fn fences_and_inline_code_are_not_text() {
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
