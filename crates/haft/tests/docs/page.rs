//! Markdown pages as a reader follows them: fenced blocks in order, each with the comments that stand above it.
//!
//! A block is run, loaded or parsed by its language. An HTML comment directly above it says more:
//!
//! - `<!-- not run: REASON -->`: the block is shown only.
//! - `<!-- file: PATH -->`: the block is the content of this file, in the workspace or below `~`.
//! - `<!-- copy of: PATH -->`: the block is the text of this file of the repository.
//! - `<!-- exit: CODE -->`: the last command of the block ends with this code.
//! - `<!-- server: TEXT -->`: the block goes on in the background once it has printed this text.
//! - `<!-- setup` … `-->`: a script that runs before the next block, which the reader does not see.

use std::{fs, ops::Range, path::Path};

/// A page of the documentation.
pub(crate) struct Page {
    /// Its path in the repository.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) steps: Vec<Step>,
}

pub(crate) enum Step {
    Setup(String),
    Block(Block),
}

#[derive(Debug, Default)]
pub(crate) struct Block {
    /// The line of its opening fence, from 1.
    pub(crate) line: usize,
    pub(crate) language: String,
    pub(crate) text: String,
    /// The range of its text in the page.
    pub(crate) range: Range<usize>,
    pub(crate) not_run: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) copy_of: Option<String>,
    pub(crate) exit: i32,
    pub(crate) server: Option<String>,
}

/// The beginning of a page that is generated from the program.
pub(crate) const GENERATED: &str = "<!-- generated: ";

/// The folder of the repository.
pub(crate) const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

impl Page {
    pub(crate) fn read(name: &str) -> Self {
        let path = Path::new(REPOSITORY).join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let steps = steps(name, &text);
        Self { name: name.to_owned(), text, steps }
    }

    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.steps.iter().filter_map(|step| match step {
            Step::Block(block) => Some(block),
            Step::Setup(_) => None,
        })
    }

    pub(crate) fn is_generated(&self) -> bool {
        self.text.starts_with(GENERATED)
    }

    /// Returns every page there is: README.md and all of `docs/`.
    pub(crate) fn all() -> Vec<String> {
        let mut names = vec!["README.md".to_owned()];
        let entries = fs::read_dir(Path::new(REPOSITORY).join("docs")).unwrap();
        let files = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
        names.extend(files.filter(|it| it.ends_with(".md")).map(|it| format!("docs/{it}")));
        names.sort();
        names
    }
}

fn steps(name: &str, text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut block = Block::default();
    let mut is_told = false;
    let mut prose = "";
    let mut at = 0;
    let mut lines = text.split_inclusive('\n').enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        let begin = at;
        at += line.len();
        let number = index + 1;
        let wrong = |what: &str| -> ! { panic!("{name}:{number}: {what}: {line}") };
        if let Some(script) = line.strip_prefix("<!-- setup") {
            let mut all = script.to_owned();
            while !all.trim_end().ends_with("-->") {
                let (_, line) = lines.next().unwrap_or_else(|| wrong("the comment has no end"));
                at += line.len();
                all.push_str(line);
            }
            steps.push(Step::Setup(all.trim_end().trim_end_matches("-->").to_owned()));
        } else if let Some(comment) = line.strip_prefix("<!--") {
            let Some(comment) = comment.trim_end().strip_suffix("-->") else {
                wrong("the comment does not end on its line")
            };
            is_told |= block.told(comment.trim()).unwrap_or_else(|| wrong("no such comment"));
        } else if let Some(language) = line.strip_prefix("```") {
            block.line = number;
            block.language = language.trim().to_owned();
            let start = at;
            loop {
                let (_, line) = lines.next().unwrap_or_else(|| wrong("the block has no end"));
                if line.trim_end() == "```" {
                    block.range = start..at;
                    at += line.len();
                    break;
                }
                at += line.len();
            }
            block.text = text[block.range.clone()].to_owned();
            if block.language.is_empty() {
                wrong("the block names no language");
            }
            steps.push(Step::Block(std::mem::take(&mut block)));
            is_told = false;
        } else if !line.trim().is_empty() {
            if is_told {
                wrong("a comment about a block stands directly above it, and here is none");
            }
            if line.trim_start().starts_with("```") {
                wrong("a fence stands at the margin");
            }
            let is_list = prose.starts_with(['-', '*']) || prose.starts_with(|it: char| it.is_ascii_digit());
            let after_blank = text[..begin].ends_with("\n\n");
            if line.starts_with("    ") && after_blank && !is_list {
                wrong("code is fenced, not indented");
            }
            if !line.starts_with(' ') {
                prose = line;
            }
        }
    }
    assert!(!is_told, "{name}: its last comment is about no block");
    steps
}

impl Block {
    /// Takes what a comment says; tells whether that is about this block. Nothing, if it says nothing that is known.
    fn told(&mut self, comment: &str) -> Option<bool> {
        // The mark of a generated page is about all of it.
        if comment.starts_with("generated: ") {
            return Some(false);
        }
        let (what, value) = comment.split_once(": ")?;
        let value = value.trim().to_owned();
        match what {
            "not run" => self.not_run = Some(value),
            "file" => self.file = Some(value),
            "copy of" => self.copy_of = Some(value),
            "exit" => self.exit = value.parse().ok()?,
            "server" => self.server = Some(value),
            _ => return None,
        }
        Some(true)
    }
}

#[test]
fn a_page_is_read_as_its_reader_sees_it() {
    let text = "# A\n\n<!-- setup\ntrue\n-->\n<!-- exit: 2 -->\n```console\n$ x\ny\n```\n\n- a\n\n    text\n";
    let steps = steps("a.md", text);
    let [Step::Setup(script), Step::Block(block)] = &steps[..] else { panic!("{} steps", steps.len()) };
    assert_eq!(script.trim(), "true");
    assert_eq!((block.line, block.language.as_str(), block.exit), (7, "console", 2));
    assert_eq!((block.text.as_str(), &text[block.range.clone()]), ("$ x\ny\n", "$ x\ny\n"));
}

#[test]
fn a_comment_that_says_nothing_known_is_refused() {
    for text in [
        "<!-- not-run: typo -->\n```sh\ntrue\n```\n",
        "<!-- exit: 1 -->\nprose\n",
        "```\nx\n```\n",
        "a\n\n    indented code\n",
        "- a\n  ```sh\n  x\n  ```\n",
        "```sh\nno end\n",
    ] {
        assert!(std::panic::catch_unwind(|| steps("a.md", text)).is_err(), "{text}");
    }
}
