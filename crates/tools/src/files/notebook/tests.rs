//! Tests: edits of notebooks are applied where they were meant, and leave the rest unchanged.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use expect_test::expect;
use kit::testing::TestWorkspace;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::files::{notebook_edit::NotebookEdit, notebook_read::NotebookRead};

/// A notebook as Jupyter writes it: indented by one space, letters unescaped, names sorted, a line break at the end.
const NOTEBOOK: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "aaaa0001",
   "metadata": {},
   "source": [
    "# Größe\n",
    "of things"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 3,
   "id": "aaaa0002",
   "metadata": {
    "tags": [ "keep",   "this" ]
   },
   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": [
      "\u001b[31mred\u001b[0m\n",
      " 1%\r100%\n"
     ]
    },
    {
     "data": {
      "image/png": "iVBORw0KGgoAAAANSUhEUg==",
      "text/plain": [
       "<Figure>"
      ]
     },
     "metadata": {},
     "output_type": "display_data"
    }
   ],
   "source": [
    "x = 1\n",
    "print(x)"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": null,
   "id": "aaaa0003",
   "metadata": {},
   "outputs": [
    {
     "ename": "ValueError",
     "evalue": "bad",
     "output_type": "error",
     "traceback": [
      "\u001b[0;31mTraceback\u001b[0m",
      "ValueError: bad"
     ]
    }
   ],
   "source": []
  }
 ],
 "metadata": {
  "kernelspec": {
   "display_name": "Python 3",
   "name": "python3"
  }
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

fn test_ws() -> TestWorkspace {
    let test_ws = TestWorkspace::empty();
    std::fs::write(test_ws.path().join("a.ipynb"), NOTEBOOK).unwrap();
    test_ws
}

fn text(test_ws: &TestWorkspace) -> String {
    String::from_utf8(test_ws.bytes("a.ipynb")).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "it is made where it is given")]
fn edit(test_ws: &TestWorkspace, edits: Value) -> String {
    test_ws.says::<NotebookEdit>(&json!({"path": "a.ipynb", "edits": edits}))
}

fn read(test_ws: &TestWorkspace) -> String {
    test_ws.says::<NotebookRead>(&json!({"path": "a.ipynb"}))
}

/// Returns the removed and added lines.
fn difference(before: &str, after: &str) -> String {
    let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let head = before.iter().zip(&after).take_while(|(one, other)| one == other).count();
    let tail = before[head..]
        .iter()
        .rev()
        .zip(after[head..].iter().rev())
        .take_while(|(one, other)| one == other)
        .count();
    let gone = before[head..before.len() - tail].iter().map(|it| format!("-{it}\n"));
    let come = after[head..after.len() - tail].iter().map(|it| format!("+{it}\n"));
    gone.chain(come).collect()
}

#[test]
fn a_notebook_is_read_cell_by_cell_with_its_outputs_in_short() {
    expect![[r##"
        a.ipynb: nbformat 4.5, python3, 3 cells
        [0:HASH] markdown aaaa0001
        # Größe
        of things
        [1:HASH] code aaaa0002 run 3
        x = 1
        print(x)
        => stdout
        red
        100%
        => display image/png, 16 bytes
        <Figure>
        [2:HASH] code aaaa0003
        => error ValueError: bad
        Traceback
        ValueError: bad"##]]
    .assert_eq(&without_hashes(&read(&test_ws())));
    let cells =
        test_ws().says::<NotebookRead>(&json!({"path": "a.ipynb", "cells": ["aaaa0001"], "outputs": false}));
    assert!(cells.ends_with("markdown aaaa0001\n# Größe\nof things"), "{cells}");
    let page = test_ws().says::<NotebookRead>(&json!({"path": "a.ipynb", "offset": 1, "limit": 1}));
    assert!(page.ends_with("<Figure>\n[1 more cells; next: offset 2]"), "{page}");
}

#[test]
fn a_long_notebook_is_shown_in_pages_and_a_long_source_is_not_seen_in_full() {
    let cell = |source: &str| {
        json!({"cell_type": "code", "execution_count": null, "metadata": {}, "outputs": [
        {"name": "stdout", "output_type": "stream", "text": "o".repeat(9_000)}], "source": source})
    };
    let mut cells: Vec<Value> = (0..40).map(|at| cell(&format!("{at}\n").repeat(900))).collect();
    cells.push(cell(&"x".repeat(40_000)));
    let test_ws = TestWorkspace::empty();
    let whole = json!({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4});
    std::fs::write(test_ws.path().join("a.ipynb"), whole.to_string()).unwrap();
    let first = read(&test_ws);
    assert!(first.len() < 56_000, "{}", first.len());
    assert!(first.contains("\n[6952 of 9000 bytes left out]\n"));
    let next: usize = first.rsplit_once("next: offset ").unwrap().1.trim_end_matches(']').parse().unwrap();
    let page = test_ws.says::<NotebookRead>(&json!({"path": "a.ipynb", "offset": next}));
    assert!(page.contains(&format!("\n[{next}:")), "{next}");
    let last = test_ws.says::<NotebookRead>(&json!({"path": "a.ipynb", "cells": ["40"]}));
    assert!(
        last.contains("[7232 more bytes; all of it: json_read pointer /cells/40/source]"),
        "{}",
        last.len()
    );
    assert!(last.contains("=> stdout\nooo") && !last.contains("left out"));
    let said = edit(&test_ws, json!([{"cell": 40, "source": "y"}]));
    assert!(said.starts_with("stale: this session has not seen cell 40"), "{}", said.len());
}

fn without_hashes(shown: &str) -> String {
    let line = |line: &str| match (line.starts_with('['), line.split_once(':'), line.split_once(']')) {
        (true, Some((index, _)), Some((_, rest))) => format!("{index}:HASH]{rest}"),
        _ => line.to_owned(),
    };
    shown.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_source_is_replaced_and_nothing_else() {
    let test_ws = test_ws();
    read(&test_ws);
    let said = edit(&test_ws, json!([{"cell": 1, "source": "y = \"ü\"\nprint(y)\n"}]));
    expect![[r#"
        Updated a.ipynb: cell 1 replaced
        [1:HASH] code aaaa0002 run 3
        Outputs are kept from before the change; `clear_outputs`: true drops them."#]]
    .assert_eq(&without_hashes(&said));
    expect![[r#"
        -    "x = 1\n",
        -    "print(x)"
        +    "y = \"ü\"\n",
        +    "print(y)\n"
    "#]]
    .assert_eq(&difference(NOTEBOOK, &text(&test_ws)));
}

#[test]
fn outputs_go_when_they_are_to() {
    let test_ws = test_ws();
    let edits = json!([{"cell": "aaaa0002", "old": "x = 1", "new": "x = 2"}]);
    let said =
        test_ws.says::<NotebookEdit>(&json!({"path": "a.ipynb", "edits": edits, "clear_outputs": true}));
    assert_eq!(without_hashes(&said), "Updated a.ipynb: cell 1 changed\n[1:HASH] code aaaa0002");
    let after: Value = serde_json::from_str(&text(&test_ws)).unwrap();
    assert_eq!(after["cells"][1]["outputs"], json!([]));
    assert_eq!(after["cells"][1]["execution_count"], json!(null));
    assert!(text(&test_ws).contains("\"tags\": [ \"keep\",   \"this\" ]"));
    let said = edit(&test_ws, json!([{"cell": 2, "action": "clear"}]));
    assert!(said.starts_with("Updated a.ipynb: cell 2 cleared of outputs\n"), "{said}");
}

#[test]
fn cells_are_inserted_in_the_order_of_the_edits_moved_and_deleted() {
    let test_ws = test_ws();
    read(&test_ws);
    let said = edit(
        &test_ws,
        json!([
            {"cell": 0, "action": "insert_after", "source": "one"},
            {"cell": 0, "action": "insert_after", "source": "two", "type": "markdown"},
            {"cell": 2, "action": "move", "before": 0},
            {"cell": 1, "action": "delete"},
            {"action": "insert_after", "source": "last", "type": "raw"},
        ]),
    );
    assert!(
        said.starts_with(
            "Updated a.ipynb: code cell inserted, markdown cell inserted, cell 2 moved, cell 1 deleted, raw cell inserted\n"
        ),
        "{said}"
    );
    let after: Value = serde_json::from_str(&text(&test_ws)).unwrap();
    let cells: Vec<String> = after["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| format!("{} {}", it["cell_type"].as_str().unwrap(), it["source"]))
        .collect();
    assert_eq!(
        cells,
        [
            "code []",
            "markdown [\"# Größe\\n\",\"of things\"]",
            "code [\"one\"]",
            "markdown [\"two\"]",
            "raw [\"last\"]"
        ]
    );
    assert_eq!(after["cells"][2]["id"].as_str().unwrap().len(), 8);
    assert_eq!(after["cells"][3].as_object().unwrap().len(), 4, "a markdown cell has no outputs");
    expect![[r#"
        +  {
        +   "cell_type": "code",
        +   "execution_count": null,
        +   "id": "ID",
        +   "metadata": {},
        +   "outputs": [],
        +   "source": [
        +    "one"
        +   ]
        +  },
    "#]]
    .assert_eq(&{
        let test_ws = super::tests::test_ws();
        edit(&test_ws, json!([{"cell": "aaaa0002", "action": "insert_before", "source": "one"}]));
        let after: Value = serde_json::from_str(&text(&test_ws)).unwrap();
        let id = after["cells"][1]["id"].as_str().unwrap().to_owned();
        difference_of_insert(&text(&test_ws)).replace(&id, "ID")
    });
}

/// Returns the text that was inserted before the second cell.
fn difference_of_insert(after: &str) -> String {
    let at = after.find("   \"id\": \"aaaa0002\"").unwrap();
    let second = after[..at].rfind("  {\n").unwrap();
    let first = NOTEBOOK.find("  {\n   \"cell_type\": \"code\"").unwrap();
    assert_eq!(after[..first], NOTEBOOK[..first]);
    assert_eq!(after[second..], NOTEBOOK[first..]);
    after[first..second].lines().map(|it| format!("+{it}\n")).collect()
}

#[test]
fn a_cell_of_another_type_has_what_that_type_has() {
    let test_ws = test_ws();
    read(&test_ws);
    edit(&test_ws, json!([{"cell": 1, "type": "markdown"}, {"cell": 0, "type": "code"}]));
    let after: Value = serde_json::from_str(&text(&test_ws)).unwrap();
    let names = |at: usize| after["cells"][at].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(0), ["cell_type", "execution_count", "id", "metadata", "outputs", "source"]);
    assert_eq!(names(1), ["cell_type", "id", "metadata", "source"]);
    assert!(text(&test_ws).contains("[ \"keep\",   \"this\" ]"));
    edit(&test_ws, json!([{"cell": 1, "type": "code"}, {"cell": 0, "type": "markdown"}]));
    read(&test_ws);
    let back: Value = serde_json::from_str(&text(&test_ws)).unwrap();
    let before: Value = serde_json::from_str(NOTEBOOK).unwrap();
    assert_eq!(back["cells"][0], before["cells"][0]);
}

#[test]
fn a_cell_that_changed_since_it_was_shown_is_refused_and_shown() {
    let test_ws = test_ws();
    expect![[r#"
        stale: this session has not seen cell 1 of `a.ipynb` in full; nothing was written
        This is the cell now; make the call again if it is meant.
        [1:HASH] code aaaa0002 run 3
        x = 1
        print(x)"#]]
    .assert_eq(&without_hashes(&edit(&test_ws, json!([{"cell": 1, "source": "z"}]))));
    std::fs::write(test_ws.path().join("a.ipynb"), NOTEBOOK.replace("x = 1", "x = 7")).unwrap();
    let change = json!([{"cell": 0, "action": "insert_before", "source": "n"}, {"cell": 1, "source": "z"}]);
    expect![[r#"
        stale: edits[1]: cell 1 of `a.ipynb` has changed since it was shown; nothing was written
        This is the cell now; make the call again if it is meant.
        [1:HASH] code aaaa0002 run 3
        x = 7
        print(x)"#]]
    .assert_eq(&without_hashes(&edit(&test_ws, change.clone())));
    assert!(!text(&test_ws).contains("\"n\""));
    let said = edit(&test_ws, change);
    assert!(said.starts_with("Updated a.ipynb: code cell inserted, cell 1 replaced\n"), "{said}");
}

#[test]
fn a_cell_that_moved_since_it_was_shown_is_found() {
    let test_ws = test_ws();
    let shown = read(&test_ws);
    let hash = shown.lines().find_map(|it| it.strip_prefix("[1:")).unwrap()[..4].to_owned();
    let mut moved: Value = serde_json::from_str(NOTEBOOK).unwrap();
    let cell = json!({"cell_type": "markdown", "id": "new", "metadata": {}, "source": "new"});
    moved["cells"].as_array_mut().unwrap().insert(0, cell);
    let moved = serde_json::to_string_pretty(&moved).unwrap();
    for name in [json!(1), json!(format!("1:{hash}")), json!("aaaa0002")] {
        std::fs::write(test_ws.path().join("a.ipynb"), &moved).unwrap();
        let said = edit(&test_ws, json!([{"cell": name, "source": "here"}]));
        assert!(said.starts_with("Updated a.ipynb: cell 2 replaced"), "{name}: {said}");
        let after: Value = serde_json::from_str(&text(&test_ws)).unwrap();
        assert_eq!(after["cells"][2]["source"], json!(["here"]));
        std::fs::write(test_ws.path().join("a.ipynb"), NOTEBOOK).unwrap();
        read(&test_ws);
    }
    std::fs::write(test_ws.path().join("a.ipynb"), NOTEBOOK.replace("aaaa0002", "other")).unwrap();
    let said = edit(&test_ws, json!([{"cell": 1, "source": "z"}]));
    assert!(said.starts_with("stale: cell 1 of `a.ipynb` is not what was shown there any more"), "{said}");
}

#[test]
fn an_index_that_an_edit_of_its_own_shifted_is_not_taken_at_its_word() {
    let test_ws = test_ws();
    read(&test_ws);
    let said = edit(&test_ws, json!([{"cell": 1, "action": "insert_before", "source": "n"}]));
    assert!(said.ends_with("\nOther cells have new indexes: 1-2 are now 2-3."), "{said}");
    // If sent before that answer was read, 1 means the cell that is 2 now.
    let change = json!([{"cell": 2, "source": "z"}]);
    let said = edit(&test_ws, change.clone());
    assert!(said.starts_with("stale: cells of `a.ipynb` have new indexes since cell 2 was shown"), "{said}");
    assert!(said.ends_with("x = 1\nprint(x)"), "{said}");
    assert!(edit(&test_ws, change).starts_with("Updated"));
    assert!(edit(&test_ws, json!([{"cell": "aaaa0003", "source": "z"}])).starts_with("Updated"));
    assert!(edit(&test_ws, json!([{"cell": 0, "source": "z"}])).starts_with("Updated"));
}

#[test]
fn impossible_edits_change_nothing_or_are_reported_beside_the_others() {
    let test_ws = test_ws();
    for (edits, says) in [
        (json!([]), "bad_args: `edits` is empty"),
        (json!([{"cell": 9, "source": "x"}]), "not_found: `a.ipynb` has no cell 9: its cells are 0 to 2"),
        (json!([{"cell": "nope", "source": "x"}]), "not_found: `a.ipynb` has no cell with the id `nope`"),
        (json!([{"cell": 1, "old": "q", "new": "x"}]), "not_found: `old` is not in cell 1"),
        (json!([{"cell": 1, "old": "x", "new": "y"}]), "ambiguous: `old` occurs 2 times in cell 1"),
        (json!([{"cell": 1, "old": "x = 1\n"}]), "bad_args: missing field `new`"),
        (json!([{"source": "x"}]), "bad_args: missing field `cell`"),
        (json!([{"cell": 1}]), "bad_args: missing field `source`"),
        (json!([{"cell": 0, "action": "move", "before": 0}]), "bad_args: cell 0 can't stand before itself"),
        (json!([{"cell": -1, "source": "x"}]), "bad_args: "),
    ] {
        let said = edit(&test_ws, edits);
        assert!(said.starts_with(says), "{said}");
        assert_eq!(text(&test_ws), NOTEBOOK);
    }
    let edits = json!([{"cell": 1, "old": "q", "new": "x"}, {"cell": 1, "old": "x = 1", "new": "x = 2"}]);
    let said = test_ws.says::<NotebookEdit>(&json!({"path": "a.ipynb", "edits": edits, "best_effort": true}));
    assert!(
        said.starts_with("Updated a.ipynb: cell 1 changed\nedits[0] failed: `old` is not in cell 1"),
        "{said}"
    );
    assert!(text(&test_ws).contains("x = 2"));
}

#[test]
fn files_that_are_not_notebooks_are_refused() {
    let test_ws = TestWorkspace::new(
        "//- a.txt\nx\n//- old.ipynb\n{\"nbformat\": 3, \"worksheets\": []}\n//- bad.ipynb\n{\"nbformat\": 4, \"cells\": [1]}\n\
         //- not.ipynb\n[1,]\n//- twice.ipynb\n{\"nbformat\": 4, \"cells\": [{\"cell_type\": \"raw\", \"source\": \"\", \"source\": \"\"}]}\n",
    );
    for (path, says) in [
        ("a.txt", "bad_args: File must be a Jupyter notebook (.ipynb): `a.txt`"),
        (
            "old.ipynb",
            "bad_args: `old.ipynb` is a notebook of format 3; only format 4 is read and changed\n`jupyter nbconvert",
        ),
        ("bad.ipynb", "bad_args: `bad.ipynb` is not a notebook: cell 0 is not an object"),
        ("not.ipynb", "bad_args: `not.ipynb` is not a notebook: it is not JSON"),
        ("twice.ipynb", "bad_args: `twice.ipynb` is not a notebook: cell 0 has `source` 2 times"),
        ("gone.ipynb", "not_found: `gone.ipynb` does not exist"),
    ] {
        let said = test_ws.says::<NotebookRead>(&json!({"path": path}));
        assert!(said.starts_with(says), "{said}");
    }
}

#[test]
fn a_notebook_is_written_as_it_was_written() {
    let cell = |source: &str| format!("{{\"cell_type\":\"raw\",\"metadata\":{{}},\"source\":{source}}}");
    let compact = |cells: &str| {
        format!("{{\"cells\":[{cells}],\"metadata\":{{}},\"nbformat\":4,\"nbformat_minor\":2}}")
    };
    let test_ws = TestWorkspace::empty();
    let put = |text: &str| std::fs::write(test_ws.path().join("a.ipynb"), text).unwrap();
    put(&compact(&cell("\"\\u00e9\"")));
    let edits = json!([{"cell": 0, "old": "é", "new": "ü😀"}, {"action": "insert_after", "source": "b", "type": "raw"}]);
    edit(&test_ws, edits);
    let cells = format!("{},{}", cell("\"\\u00fc\\ud83d\\ude00\""), cell("\"b\""));
    assert_eq!(text(&test_ws), compact(&cells));
    // Without any cell, with CRLF, a tab, and no line break at the end.
    put("\u{feff}{\r\n\t\"cells\": [],\r\n\t\"nbformat\": 4,\r\n\t\"nbformat_minor\": 4\r\n}");
    edit(&test_ws, json!([{"action": "insert_before", "source": "b\nc", "type": "raw"}]));
    assert_eq!(
        text(&test_ws),
        "\u{feff}{\r\n\t\"cells\": [\r\n\t\t{\r\n\t\t\t\"cell_type\": \"raw\",\r\n\t\t\t\"metadata\": {},\r\n\t\t\t\"source\": [\r\n\t\t\t\t\"b\\n\",\r\n\t\t\t\t\"c\"\r\n\t\t\t]\r\n\t\t}\r\n\t],\r\n\t\"nbformat\": 4,\r\n\t\"nbformat_minor\": 4\r\n}"
    );
    edit(&test_ws, json!([{"cell": 0, "action": "delete"}]));
    assert!(text(&test_ws).starts_with("\u{feff}{\r\n\t\"cells\": [],\r\n"), "{}", text(&test_ws));
}

/// Generates a cell.
fn any_cell() -> impl Strategy<Value = (u8, String)> {
    (0u8..3, "[a-c\\n\"\\\\é😀 \t]{0,12}")
}

fn any_notebook() -> impl Strategy<Value = (Vec<(u8, String)>, u8)> {
    (proptest::collection::vec(any_cell(), 1..7), 0u8..4)
}

/// Formats a notebook in one of four styles.
fn written((cells, way): &(Vec<(u8, String)>, u8)) -> String {
    let cells: Vec<Value> = cells
        .iter()
        .enumerate()
        .map(|(at, (kind, source))| {
            let lines: Vec<&str> = source.split_inclusive('\n').collect();
            let source = if way % 2 == 0 { json!(lines) } else { json!(source) };
            let id = format!("cell-{at}");
            match kind {
                0 => json!({"cell_type": "code", "execution_count": at, "id": id, "metadata": {"n": [1, 2]},
                    "outputs": [{"name": "stdout", "output_type": "stream", "text": ["o\n"]}], "source": source}),
                1 => json!({"cell_type": "markdown", "id": id, "metadata": {}, "source": source}),
                _ => json!({"cell_type": "raw", "id": id, "metadata": {}, "source": source}),
            }
        })
        .collect();
    let whole = json!({"cells": cells, "metadata": {"a": {"b": 1.50}}, "nbformat": 4, "nbformat_minor": 5});
    if *way < 2 { serde_json::to_string_pretty(&whole).unwrap() + "\n" } else { whole.to_string() }
}

/// Returns the text of each cell in the file.
fn raw_cells(text: &str) -> Vec<String> {
    let notebook = super::Notebook::parse("a.ipynb", text).unwrap();
    notebook.cells.iter().map(|it| text[it.range.clone()].to_owned()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cells_that_are_not_meant_stay_byte_for_byte(
        notebook in any_notebook(),
        ops in proptest::collection::vec((0u8..5, 0usize..7, "[a-c\\né\"]{0,8}"), 1..5),
    ) {
        let before = written(&notebook);
        let test_ws = TestWorkspace::empty();
        std::fs::write(test_ws.path().join("a.ipynb"), &before).unwrap();
        read(&test_ws);
        let count = notebook.0.len();
        let mut touched = vec![false; count];
        let mut gone = vec![false; count];
        let edits: Vec<Value> = ops.iter().map(|(op, cell, source)| {
            let cell = cell % count;
            match op {
                0 => { touched[cell] = true; json!({"cell": cell, "source": source}) }
                1 => json!({"cell": cell, "action": "insert_before", "source": source}),
                2 => json!({"cell": cell, "action": "insert_after", "source": source, "type": "markdown"}),
                3 => { gone[cell] = true; json!({"cell": cell, "action": "delete"}) }
                _ => json!({"cell": cell, "action": "move"}),
            }
        }).collect();
        let said = edit(&test_ws, json!(edits));
        let after = text(&test_ws);
        if said.starts_with("bad_args") {
            // An edit of a cell that an earlier one deleted.
            prop_assert_eq!(&after, &before);
            return Ok(());
        }
        prop_assert!(said.starts_with("Updated") || said.starts_with("Nothing changed"), "{}", said);
        let (was, is) = (raw_cells(&before), raw_cells(&after));
        for at in 0..count {
            if !gone[at] && !touched[at] {
                prop_assert!(is.contains(&was[at]), "cell {} of {}", at, after);
            }
        }
        let head = before.find("\"cells\"").unwrap();
        prop_assert_eq!(&after[..head], &before[..head]);
        let tail = &before[before.rfind("\"metadata\"").unwrap()..];
        prop_assert!(after.ends_with(tail));
        // The requirements of Jupyter's own schema for each cell.
        let whole: Value = serde_json::from_str(&after).unwrap();
        for cell in whole["cells"].as_array().unwrap() {
            let is_code = cell["cell_type"] == "code";
            prop_assert_eq!(cell.get("outputs").is_some(), is_code);
            prop_assert_eq!(cell.get("execution_count").is_some(), is_code);
            prop_assert!(cell["id"].is_string() && cell["metadata"].is_object());
        }
    }

    #[test]
    fn an_edit_and_its_opposite_give_the_same_bytes(notebook in any_notebook(), at in 0usize..7, source in "[a-c\\né\"]{1,8}") {
        let before = written(&notebook);
        let test_ws = TestWorkspace::empty();
        std::fs::write(test_ws.path().join("a.ipynb"), &before).unwrap();
        read(&test_ws);
        let at = at % notebook.0.len();
        edit(&test_ws, json!([{"cell": at, "action": "insert_before", "source": source}]));
        edit(&test_ws, json!([{"cell": at, "action": "delete"}]));
        prop_assert_eq!(&text(&test_ws), &before);
        read(&test_ws);
        edit(&test_ws, json!([{"cell": at, "source": source}]));
        edit(&test_ws, json!([{"cell": at, "source": notebook.0[at].1}]));
        prop_assert_eq!(&text(&test_ws), &before);
    }
}

#[test]
fn shown_cells_are_known_in_another_process() {
    let test_ws = test_ws();
    read(&test_ws);
    test_ws.cx().shelf().clear();
    let said = edit(&test_ws, json!([{"cell": 1, "source": "z"}]));
    assert!(said.starts_with("Updated a.ipynb: cell 1 replaced"), "{said}");
    // A cell that a refusal showed counts as seen.
    let test_ws = self::test_ws();
    let change = json!([{"cell": 1, "source": "z"}]);
    assert!(edit(&test_ws, change.clone()).starts_with("stale: "));
    test_ws.cx().shelf().clear();
    let said = edit(&test_ws, change);
    assert!(said.starts_with("Updated a.ipynb: cell 1 replaced"), "{said}");
}
