//! Files of random cases, and changes behind a session's back.

use std::ops::Range;

/// A small random number generator (splitmix64), so that a seed reproduces a case.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    /// Creates the generator of one case of a run.
    pub(super) fn new(seed: u64, case: u64) -> Self {
        let mut dice = Self(seed ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.0;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        it ^ (it >> 31)
    }

    /// Returns a number below `end`; 0 if that is 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or(0).checked_rem(end).unwrap_or(0)
    }

    /// Returns true with this probability.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns one of these.
    pub(super) fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> Option<&'a T> {
        of.get(self.below(of.len())).copied()
    }

    /// Returns some rows of `within`, `most` at most; none only if it is empty.
    pub(super) fn rows(&mut self, within: Range<usize>, most: usize) -> Range<usize> {
        let start = within.start + self.below(within.len());
        let length = 1 + self.below(most.min(within.end.saturating_sub(start)));
        start..(start + length).min(within.end)
    }
}

/// The kind of the lines of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// No two are equal.
    Words,
    /// Half of them are lines that occur all over code.
    Code,
    /// Five lines, repeated.
    Handful,
    /// Braces and blank lines.
    Braces,
    /// At most three lines.
    Tiny,
}

impl Kind {
    /// All kinds.
    pub(super) const ALL: [Self; 5] = [Self::Words, Self::Code, Self::Handful, Self::Braces, Self::Tiny];

    /// Returns its name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::Code => "code",
            Self::Handful => "handful",
            Self::Braces => "braces",
            Self::Tiny => "tiny",
        }
    }
}

/// The encoding of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    Utf8,
    Utf16Le,
    Utf16Be,
    Latin1,
}

/// A line that keeps its identity through outside changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) id: usize,
    pub(super) text: String,
    pub(super) crlf: bool,
}

/// A file as this harness sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sheet {
    pub(super) lines: Vec<Line>,
    pub(super) script: Script,
    pub(super) mark: bool,
    pub(super) ended: bool,
}

/// Makes files and changes them.
pub(super) struct World<'a> {
    pub(super) dice: &'a mut Dice,
    pub(super) kind: Kind,
    next_id: usize,
}

impl<'a> World<'a> {
    pub(super) fn new(dice: &'a mut Dice, kind: Kind) -> Self {
        Self { dice, kind, next_id: 0 }
    }

    /// A new file.
    pub(super) fn sheet(&mut self) -> Sheet {
        let script = match self.dice.below(6) {
            0 => Script::Utf16Le,
            1 => Script::Utf16Be,
            2 => Script::Latin1,
            _ => Script::Utf8,
        };
        let wide = matches!(script, Script::Utf16Le | Script::Utf16Be);
        let mark = wide || script == Script::Utf8 && self.dice.chance(20);
        let count = if self.kind == Kind::Tiny { self.dice.below(4) } else { 4 + self.dice.below(40) };
        let endings = self.dice.below(3);
        let lines = (0..count)
            .map(|_| {
                let text = self.text();
                self.line(text, endings)
            })
            .collect();
        let mut sheet = Sheet { lines, script, mark, ended: self.dice.chance(75) };
        sheet.settle();
        sheet
    }

    fn line(&mut self, text: String, endings: usize) -> Line {
        self.next_id += 1;
        let crlf = match endings {
            0 => false,
            1 => true,
            _ => self.dice.chance(50),
        };
        Line { id: self.next_id, text, crlf }
    }

    /// Returns a text that no line has had.
    pub(super) fn fresh(&mut self) -> String {
        self.next_id += 1;
        let indent = self.dice.pick(&["", "  ", "\t"]).unwrap_or_default();
        format!("{indent}fresh {}", self.next_id)
    }

    fn text(&mut self) -> String {
        const CODE: [&str; 12] = [
            "",
            "}",
            "    }",
            "\t}",
            "    return None;",
            "else {",
            "    end",
            "// ---",
            "#[test]",
            "naïve café",
            "    x += 1;",
            "    ",
        ];
        const HANDFUL: [&str; 5] = ["a", "b", "alpha beta", "", "  a"];
        const BRACES: [&str; 6] = ["{", "}", "    }", "\t}", "", "é {"];
        let common = |dice: &mut Dice, of: &[&'static str]| dice.pick(of).unwrap_or_default().to_owned();
        match self.kind {
            Kind::Handful => common(self.dice, &HANDFUL),
            Kind::Braces => common(self.dice, &BRACES),
            Kind::Code if self.dice.chance(50) => common(self.dice, &CODE),
            Kind::Tiny if self.dice.chance(50) => common(self.dice, &HANDFUL),
            Kind::Words | Kind::Code | Kind::Tiny => {
                self.next_id += 1;
                let word = self.dice.pick(&["let", "naïve", "call", "    if"]).unwrap_or_default();
                format!("{word} v{} = {}", self.next_id, self.dice.below(100))
            }
        }
    }

    /// Changes the file as another program would, often at the lines `focus`.
    pub(super) fn change(&mut self, sheet: &mut Sheet, focus: &[usize]) {
        for _ in 0..1 + self.dice.below(4) {
            self.change_once(sheet, focus);
        }
        sheet.settle();
    }

    fn change_once(&mut self, sheet: &mut Sheet, focus: &[usize]) {
        let count = sheet.lines.len();
        let focused = sheet.lines.iter().position(|line| focus.contains(&line.id));
        let at = match focused {
            Some(row) if self.dice.chance(40) => (row + self.dice.below(5)).saturating_sub(2).min(count),
            _ => self.dice.below(count + 1),
        };
        let block = if at < count { self.dice.rows(at..count, 4) } else { at..at };
        match self.dice.below(9) {
            0 | 1 => {
                let new: Vec<Line> = (0..1 + self.dice.below(3)).map(|_| self.new_line()).collect();
                sheet.lines.splice(at..at, new);
            }
            2 | 3 => drop(sheet.lines.drain(block)),
            4 => {
                let moved: Vec<Line> = sheet.lines.drain(block).collect();
                let to = self.dice.below(sheet.lines.len() + 1);
                sheet.lines.splice(to..to, moved);
            }
            5 => {
                let copies: Vec<Line> = sheet.lines.get(block.clone()).unwrap_or_default().to_vec();
                let copies: Vec<Line> =
                    copies.into_iter().map(|line| self.renewed(line.text, line.crlf)).collect();
                let to = if self.dice.chance(50) { block.end } else { self.dice.below(count + 1) };
                sheet.lines.splice(to..to, copies);
            }
            6 => self.rewrite(sheet, block, |_, text| format!("    {text}")),
            7 => {
                let meant = focused.filter(|_| self.dice.chance(60)).map_or(block, |row| row..row + 1);
                self.rewrite(sheet, meant, |world, _| world.new_text());
            }
            _ => {
                let other = self.dice.below(count);
                if at < count {
                    sheet.lines.swap(at, other);
                }
            }
        }
        if self.dice.chance(5) {
            sheet.ended = !sheet.ended;
        }
    }

    fn rewrite(&mut self, sheet: &mut Sheet, rows: Range<usize>, new: impl Fn(&mut Self, &str) -> String) {
        for line in sheet.lines.get_mut(rows).unwrap_or_default() {
            let text = new(self, &line.text);
            *line = self.renewed(text, line.crlf);
        }
    }

    fn renewed(&mut self, text: String, crlf: bool) -> Line {
        self.next_id += 1;
        Line { id: self.next_id, text, crlf }
    }

    fn new_line(&mut self) -> Line {
        let text = self.new_text();
        self.line(text, 2)
    }

    fn new_text(&mut self) -> String {
        if self.dice.chance(60) { self.fresh() } else { self.text() }
    }
}

impl Sheet {
    /// Restores an invariant: a blank last line consists only of its ending, so it has one.
    fn settle(&mut self) {
        self.ended |= self.lines.last().is_none_or(|line| line.text.is_empty());
    }

    /// Returns the bytes of the file.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let lines = self.lines.iter().enumerate();
        let pieces: Vec<(String, bool, bool)> = lines
            .map(|(row, line)| (line.text.clone(), line.crlf, self.ended || row + 1 < self.lines.len()))
            .collect();
        self.written(&pieces)
    }

    /// Encodes lines in the file's encoding, each with whether it ends in CRLF and whether it ends at all.
    pub(super) fn written(&self, lines: &[(String, bool, bool)]) -> Vec<u8> {
        let mut text = String::new();
        if self.mark {
            text.push('\u{feff}');
        }
        for (line, crlf, ended) in lines {
            text.push_str(line);
            text.push_str(match (ended, crlf) {
                (false, _) => "",
                (true, true) => "\r\n",
                (true, false) => "\n",
            });
        }
        match self.script {
            Script::Utf8 => text.into_bytes(),
            Script::Utf16Le => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Script::Utf16Be => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            Script::Latin1 => text.chars().filter_map(|it| u8::try_from(it).ok()).collect(),
        }
    }

    /// Decodes bytes in the file's encoding: lines, whether they end in CRLF, whether they end at all.
    pub(super) fn read(&self, bytes: &[u8]) -> Vec<(String, bool, bool)> {
        let wide = |unit: fn([u8; 2]) -> u16| {
            let (pairs, _) = bytes.as_chunks::<2>();
            String::from_utf16_lossy(&pairs.iter().map(|pair| unit(*pair)).collect::<Vec<_>>())
        };
        let text = match self.script {
            Script::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
            Script::Utf16Le => wide(u16::from_le_bytes),
            Script::Utf16Be => wide(u16::from_be_bytes),
            Script::Latin1 => bytes.iter().copied().map(char::from).collect(),
        };
        let text = if self.mark { text.strip_prefix('\u{feff}').unwrap_or(&text) } else { &text };
        let line = |line: &str| match line.strip_suffix('\n') {
            None => (line.to_owned(), false, false),
            Some(line) => match line.strip_suffix('\r') {
                Some(line) => (line.to_owned(), true, true),
                None => (line.to_owned(), false, true),
            },
        };
        text.split_inclusive('\n').map(line).collect()
    }

    /// Returns the texts of the lines.
    pub(super) fn texts(&self) -> Vec<&str> {
        self.lines.iter().map(|line| line.text.as_str()).collect()
    }

    /// Returns the text as a model would copy it: with plain line feeds.
    pub(super) fn joined(&self) -> String {
        let mut joined = self.texts().join("\n");
        if self.ended && !self.lines.is_empty() {
            joined.push('\n');
        }
        joined
    }
}
