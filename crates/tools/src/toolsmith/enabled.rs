//! The list in `enabled.json`.
//!
//! The list is a person's file: a change affects one name, and all other text stays as it is.

use jsonc_parser::{
    ParseOptions,
    cst::{CstArray, CstInputValue, CstNode, CstRootNode},
};
use kit::{
    Cx, Fault, Kind,
    files::{Before, Loaded, Proposal},
    text::Content,
};

/// Maximum size of a list that is changed.
const LARGEST: u64 = 1 << 20;

/// The outcome for the list.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// It is correct.
    Done,
    /// It is not a list of names, so it was not changed.
    NotAList,
}

/// A planned change of the list, if one is needed.
pub(super) struct Planned<'a> {
    path: &'a str,
    before: Option<Loaded>,
    content: Option<Content>,
    listing: Listing,
}

impl Planned<'_> {
    /// Returns the change, for a review together with others.
    pub(super) fn proposal(&self) -> Option<Proposal<'_>> {
        let content = self.content.as_ref()?;
        Some(Proposal::Save { path: self.path, before: self.before(), content })
    }

    /// Makes the change.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn land(self, cx: &Cx) -> Result<Listing, Fault> {
        if let Some(content) = &self.content {
            cx.files().save(self.path, self.before(), content)?;
        }
        Ok(self.listing)
    }

    fn before(&self) -> Before<'_> {
        self.before.as_ref().map_or(Before::Absent, Before::Was)
    }
}

/// Plans to add `name` to the list at `path`; creates a missing list.
///
/// # Errors
/// Those of the disk.
pub(super) fn adding<'a>(cx: &Cx, path: &'a str, name: &str) -> Result<Planned<'a>, Fault> {
    let Some((before, root)) = read(cx, path)? else {
        let text =
            serde_json::to_string_pretty(&[name]).map_err(|error| Fault::bug(error.to_string()))? + "\n";
        let content = Some(text.into_bytes().into());
        return Ok(Planned { path, before: None, content, listing: Listing::Done });
    };
    let text = root.and_then(|root| appended(&root, name));
    let listing = if text.is_some() { Listing::Done } else { Listing::NotAList };
    let content = text.filter(|it| *it.as_bytes() != *before.bytes).map(|it| it.into_bytes().into());
    Ok(Planned { path, before: Some(before), content, listing })
}

/// Returns the text of a list of enabled tools with `name` added and all else unchanged; `None` if it is not a list.
pub fn with_enabled(text: &str, name: &str) -> Option<String> {
    appended(&CstRootNode::parse(text, &ParseOptions::default()).ok()?, name)
}

fn appended(root: &CstRootNode, name: &str) -> Option<String> {
    let list = names_of(root)?;
    if !list.elements().iter().any(|it| is_name(it, name)) {
        list.append(CstInputValue::String(name.to_owned()));
    }
    Some(root.to_string())
}

/// Plans to remove `name` from the list at `path`, if it is on it.
///
/// # Errors
/// Those of the disk.
pub(super) fn removing<'a>(cx: &Cx, path: &'a str, name: &str) -> Result<Planned<'a>, Fault> {
    let read = read(cx, path)?;
    let without = read.as_ref().and_then(|(_, root)| root.as_ref()).and_then(|root| {
        let list = names_of(root)?;
        let there: Vec<CstNode> = list.elements().into_iter().filter(|it| is_name(it, name)).collect();
        let is_there = !there.is_empty();
        there.into_iter().for_each(CstNode::remove);
        is_there.then(|| root.to_string())
    });
    let content = without.map(|it| it.into_bytes().into());
    Ok(Planned { path, before: read.map(|(before, _)| before), content, listing: Listing::Done })
}

/// Loads the file, and parses it if it is JSON; `None` if the file does not exist.
fn read(cx: &Cx, path: &str) -> Result<Option<(Loaded, Option<CstRootNode>)>, Fault> {
    let loaded = match cx.files().load(path, LARGEST) {
        Ok(loaded) => loaded,
        Err(fault) if fault.kind == Kind::NotFound => return Ok(None),
        Err(fault) => return Err(fault),
    };
    let text = std::str::from_utf8(&loaded.bytes).ok();
    let root = text.and_then(|text| CstRootNode::parse(text, &ParseOptions::default()).ok());
    Ok(Some((loaded, root)))
}

fn names_of(root: &CstRootNode) -> Option<CstArray> {
    root.value()?.as_array()
}

fn is_name(node: &CstNode, name: &str) -> bool {
    node.as_string_lit().and_then(|it| it.decoded_value().ok()).is_some_and(|it| it == name)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use kit::{Touch, Touches, testing::TestWorkspace};

    use super::*;

    const PATH: &str = ".haft/tools/enabled.json";

    fn text(test_ws: &TestWorkspace) -> String {
        String::from_utf8(test_ws.bytes(PATH)).unwrap()
    }

    fn add(test_ws: &TestWorkspace) -> Listing {
        adding(&cx(test_ws), PATH, "x").unwrap().land(&cx(test_ws)).unwrap()
    }

    fn cx(test_ws: &TestWorkspace) -> Cx {
        test_ws.cx_for(&Touches::none().and(Touch::Tool("x".to_owned())))
    }

    #[test]
    fn a_name_is_added_and_taken_off_in_the_form_the_list_has() {
        for (before, after) in [
            ("[]", "[\"x\"]"),
            ("[\"a\", \"b\"]\n", "[\"a\", \"b\", \"x\"]\n"),
            ("[\n\t\"a\",\n\t\"b\"\n]\n", "[\n\t\"a\",\n\t\"b\",\n\t\"x\"\n]\n"),
        ] {
            let test_ws = TestWorkspace::new(&format!("//- {PATH}\n{before}"));
            assert_eq!(add(&test_ws), Listing::Done);
            assert_eq!(text(&test_ws), after);
            assert_eq!(add(&test_ws), Listing::Done);
            assert_eq!(text(&test_ws), after, "it is there already");
            removing(&cx(&test_ws), PATH, "x").unwrap().land(&cx(&test_ws)).unwrap();
            assert_eq!(text(&test_ws), before);
        }
    }

    #[test]
    fn a_list_that_is_made_has_the_new_name_alone() {
        let test_ws = TestWorkspace::empty();
        add(&test_ws);
        assert_eq!(text(&test_ws), "[\n  \"x\"\n]\n");
    }

    #[test]
    fn values_that_are_not_lists_are_left_alone() {
        for before in ["{\"a\": 1}", "[\"a\"", "\u{0}"] {
            let test_ws = TestWorkspace::new(&format!("//- {PATH}\n{before}"));
            assert_eq!(add(&test_ws), Listing::NotAList);
            removing(&cx(&test_ws), PATH, "x").unwrap().land(&cx(&test_ws)).unwrap();
            assert_eq!(text(&test_ws), before);
        }
    }
}
