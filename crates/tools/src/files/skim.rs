//! `skim`: shows some lines of a file.

use kit::{
    files::Start,
    prelude::*,
    seen::{LARGE, Rows},
};

use super::{open, page};

/// Maximum number of lines that are shown.
const MOST: usize = 500;

/// Show some lines of a file, as `LINE:HASH|text`: for a quick look where you know the line numbers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Skim {
    /// File, relative to the workspace or absolute.
    pub(crate) path: String,
    /// First line, from 1.
    pub(crate) start: usize,
    /// Last line; at most 500 lines are shown. Default: start + 499.
    #[serde(default)]
    pub(crate) end: Option<usize>,
}

impl Tool for Skim {
    const NAME: &str = "skim";
    const AT_MOST: Kinds = Kinds::READ;

    fn touches(&self) -> Touches {
        Touches::read(&self.path)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        cx.blocking(move |cx| self.skim(cx)).await
    }
}

impl Skim {
    fn skim(&self, cx: &Cx) -> Result<Output, Fault> {
        let Self { path, start, end } = self;
        let end = end.unwrap_or_else(|| start.saturating_add(MOST - 1));
        if *start == 0 || end < *start {
            return Err(Fault::bad_args(format!(
                "lines {start} to {end} are not a range; lines are counted from 1"
            )));
        }
        let file = cx.files().open(path)?;
        if file.identity.size > LARGE as u64 {
            let count = (end - start + 1).min(MOST);
            return page::of_large(cx, path, &file, Start::Line(start - 1), count);
        }
        let opened = open::text_of(file, path)?;
        let total = opened.text.line_count();
        if *start > total {
            return Err(Fault::bad_args(format!("there is no line {start}: `{path}` has {total} lines")));
        }
        let last = end.min(total).min(start - 1 + MOST);
        let mut rows = Rows::new();
        rows.add(start - 1..last);
        let shown = cx.show(opened.location(), &opened.text, &rows).text;
        Ok(Output::page(format!("[lines {start}-{last} of {total} total]\n{shown}")))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use kit::testing::TestWorkspace;
    use serde_json::json;

    use super::*;

    #[test]
    fn shows_the_range_and_the_total() {
        let test_ws = TestWorkspace::new("//- a\none\ntwo\nthree\n");
        expect![[r#"
            [lines 2-3 of 3 total]
            2:f4|two
            3:f8|three"#]]
        .assert_eq(&test_ws.says::<Skim>(&json!({"path": "a", "start": 2, "end": 9})));
        expect!["bad_args: there is no line 4: `a` has 3 lines"]
            .assert_eq(&test_ws.says::<Skim>(&json!({"path": "a", "start": 4})));
        expect!["bad_args: lines 3 to 2 are not a range; lines are counted from 1"]
            .assert_eq(&test_ws.says::<Skim>(&json!({"path": "a", "start": 3, "end": 2})));
    }

    #[test]
    fn shows_at_most_five_hundred_lines() {
        let test_ws = TestWorkspace::new(&format!("//- a\n{}", "x\n".repeat(900)));
        let text = test_ws.says::<Skim>(&json!({"path": "a", "start": 11, "end": 900}));
        assert!(text.starts_with("[lines 11-510 of 900 total]\n11:"), "{text}");
        assert_eq!(text.lines().count(), 501);
    }
}
