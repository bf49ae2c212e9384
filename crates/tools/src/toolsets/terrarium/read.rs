//! `read` as KohakuTerrarium has it: lines from an offset that is counted from 0.

use kit::{
    files::Start,
    prelude::*,
    seen::{LARGE, Rows},
    text::Text,
};

use super::guard;
use crate::{files::page, media};

/// Default number of lines, and maximum bytes.
const LINES: usize = 2_000;
const BYTES: usize = page::BYTES;

/// Maximum size of a picture or PDF.
const PICTURE: u64 = 20 << 20;

/// Read a file: text with line numbers, a picture to look at, the text of a PDF by pages.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
// The fields have defaults so that a missing one gets that toolset's own message.
#[schemars(extend("required" = ["path"]))]
pub(crate) struct Read {
    /// File to read.
    #[serde(default)]
    path: String,
    /// Lines, or pages of a PDF, to skip.
    #[serde(default)]
    offset: usize,
    /// Most lines, or pages.
    limit: Option<usize>,
}

impl Tool for Read {
    const NAME: &str = "read";
    const AT_MOST: Kinds = Kinds::READ;

    fn touches(&self) -> Touches {
        Touches::read(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| self.read(cx)).await
    }
}

impl Read {
    fn read(&self, cx: &Cx) -> Result<Output, Fault> {
        let Self { path, offset, limit } = self;
        if path.is_empty() {
            return Err(Fault::bad_args("No path provided"));
        }
        if *limit == Some(0) {
            return Err(Fault::bad_args("limit must be a positive integer"));
        }
        let file = cx.files().open(path).map_err(|fault| guard::in_words(path, fault))?;
        let head = file.head(8 * 1024).unwrap_or_default();
        if Text::parse(head.as_slice()).is_err() && file.identity.size <= PICTURE {
            let bytes = file.load(path, PICTURE)?.bytes;
            let page = i64::try_from(*offset).unwrap_or(i64::MAX).saturating_add(1);
            let seen = media::read(cx, path, &bytes, Some(page), *limit);
            return seen.unwrap_or_else(|| Err(guard::binary(path, &head)));
        }
        let limit = limit.unwrap_or(LINES);
        if file.identity.size > LARGE as u64 {
            return page::of_large(cx, path, &file, Start::Line(*offset), limit);
        }
        let opened = crate::files::open::text_of(file, path).map_err(|_| guard::binary(path, &head))?;
        let text = &opened.text;
        let total = text.line_count();
        if *offset > 0 && *offset >= total {
            return Err(Fault::bad_args(format!(
                "offset {offset} is past the end: {path} has {total} lines"
            )));
        }
        let mut shown = String::new();
        let mut end = *offset;
        let mut full = false;
        while end < total && end - offset < limit {
            let line = format!("{:6}→{}\n", end + 1, text.line(end).unwrap_or_default());
            if shown.len() + line.len() > BYTES && end > *offset {
                full = true;
                break;
            }
            shown.push_str(&line);
            end += 1;
        }
        let mut rows = Rows::new();
        rows.add(*offset..end);
        cx.show(opened.location(), text, &rows);
        if full {
            shown.push_str(&format!(
                "[Output truncated at {BYTES} bytes. Use offset/limit to read specific sections.]\n"
            ));
        }
        if end < total {
            shown.push_str(&format!(
                "... (showing lines {}-{end} of {total}. Use offset/limit to read more.)",
                offset + 1
            ));
        }
        Ok(Output::page(if total == 0 { "(empty file)" } else { shown.trim_end_matches('\n') }))
    }
}
