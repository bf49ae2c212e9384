//! Tables in Markdown, as opposed to tables for layout.

use dom_query::NodeRef;

/// Maximum number of columns.
const COLUMNS: usize = 60;

/// Maximum number of rows.
const ROWS: usize = 100_000;

/// Maximum bytes of repeated cells in a table.
const REPEATS: usize = 1 << 20;

/// Maximum length of a text that is repeated in each row that a cell spans.
const REPEATED: usize = 120;

/// A table of data: its caption, and its rows.
pub(super) struct Rows<'a> {
    caption: Option<NodeRef<'a>>,
    rows: Vec<Vec<NodeRef<'a>>>,
}

/// Returns the rows of a table; `None`, if it is for layout only.
pub(super) fn rows<'a>(table: &NodeRef<'a>) -> Option<Rows<'a>> {
    if matches!(&*table.attr_or("role", ""), "presentation" | "none") {
        return None;
    }
    let mut found = Rows { caption: None, rows: Vec::new() };
    for part in table.children_it(false) {
        if part.has_name("caption") {
            found.caption = Some(part);
        } else if part.has_name("tr") {
            found.rows.push(cells(&part));
        } else {
            found.rows.extend(part.children_it(false).filter(|it| it.has_name("tr")).map(|it| cells(&it)));
        }
    }
    found.rows.retain(|it| !it.is_empty());
    found.rows.truncate(ROWS);
    let is_wide = found.rows.iter().any(|it| it.len() > 1);
    let holds_pages = ["table", "pre", "h1", "h2", "h3", "form", "article"];
    let arranges =
        |cell: &NodeRef<'_>| cell.descendants_it().any(|it| holds_pages.iter().any(|name| it.has_name(name)));
    let is_data = is_wide && !found.rows.iter().flatten().any(arranges);
    is_data.then_some(found)
}

fn cells<'a>(row: &NodeRef<'a>) -> Vec<NodeRef<'a>> {
    row.children_it(false).filter(|it| it.has_name("td") || it.has_name("th")).take(COLUMNS).collect()
}

/// Converts the table, with its caption before it. The first row is its head.
pub(super) fn write(table: &Rows<'_>, mut text: impl FnMut(&NodeRef<'_>) -> String) -> Vec<String> {
    let mut lines: Vec<Vec<String>> = Vec::new();
    // Cells that span down from rows above, by column: the number of rows, and the text.
    let mut above: Vec<(usize, String)> = Vec::new();
    let mut left = REPEATS;
    for row in &table.rows {
        let mut line: Vec<String> = Vec::new();
        for cell in row {
            reach_down(&mut above, &mut line, &mut left);
            let content = text(cell).replace('|', "\\|");
            let spans = |name| cell.attr(name).and_then(|it| it.trim().parse::<usize>().ok()).unwrap_or(1);
            let (wide, tall) = (spans("colspan").clamp(1, COLUMNS), spans("rowspan").clamp(1, 1_000));
            for at in 0..wide {
                if line.len() >= COLUMNS {
                    break;
                }
                let shown = if at == 0 { content.as_str() } else { "" };
                if tall > 1 {
                    above.resize(above.len().max(line.len() + 1), (0, String::new()));
                    if let Some(slot) = above.get_mut(line.len()) {
                        *slot = (
                            tall - 1,
                            if shown.len() <= REPEATED { shown.to_owned() } else { String::new() },
                        );
                    }
                }
                line.push(shown.to_owned());
            }
        }
        reach_down(&mut above, &mut line, &mut left);
        if line.iter().any(|it| !it.is_empty()) {
            lines.push(line);
        }
    }
    let mut columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    // Empty last columns were made by spans.
    while columns > 1 && lines.iter().all(|it| it.get(columns - 1).is_none_or(String::is_empty)) {
        columns -= 1;
    }
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        out.push('|');
        for column in 0..columns {
            out.push_str(&format!(" {} |", line.get(column).map_or("", String::as_str)));
        }
        out.push('\n');
        if at == 0 {
            out.push('|');
            out.push_str(&" --- |".repeat(columns));
            out.push('\n');
        }
    }
    let caption = table.caption.as_ref().map(&mut text).filter(|it| !it.is_empty());
    caption.into_iter().chain((!out.is_empty()).then(|| out.trim_end().to_owned())).collect()
}

/// Fills in cells that span down from above.
fn reach_down(above: &mut [(usize, String)], line: &mut Vec<String>, may_repeat: &mut usize) {
    while let Some((rows, shown)) = above.get_mut(line.len()).filter(|it| it.0 > 0) {
        *rows -= 1;
        let shown = if shown.len() <= *may_repeat { shown.clone() } else { String::new() };
        *may_repeat -= shown.len();
        line.push(shown);
    }
}
