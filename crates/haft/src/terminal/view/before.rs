//! Messages of an earlier process, as rows.

use agent::{CUT_OFF, Message};

use super::{
    super::{
        abbreviate,
        calls::ended,
        markdown::{Look, Markdown},
        row::{Row, Style},
    },
    TITLE, title,
};

/// Returns the messages of an earlier process as rows, with an empty row after them.
pub(crate) fn rows_before(said: &[Message], look: Look) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut tools = false;
    for message in said {
        let is_tool = matches!(message, Message::Tool { .. });
        // Calls stand together.
        if !(rows.is_empty() || tools && is_tool) {
            rows.push(Row::default());
        }
        tools = is_tool;
        rows.extend(said_before(message, look));
    }
    rows.push(Row::default());
    rows
}

/// Returns the rows of one message.
pub(crate) fn said_before(message: &Message, look: Look) -> Vec<Row> {
    match message {
        Message::Person { text, attached } => {
            let mut rows =
                Row::new(format!("> {}", text.replace('\n', "\n  ")), Style::BOLD).lines(look.columns);
            rows.extend(
                attached.iter().map(|it| Row::new(format!("  [{it}]"), Style::DIM).cut(look.columns)),
            );
            rows
        }
        Message::Model { text, cut_off } => {
            let mut markdown = Markdown::default();
            let mut rows = markdown.push(text, look);
            rows.extend(markdown.end(look));
            if *cut_off {
                rows.extend(Row::new(CUT_OFF, Style::ASKS).lines(look.columns));
            }
            rows
        }
        Message::Tool { tool, title: arguments, ok, exit, line, ms, .. } => {
            let arguments = serde_json::from_str(arguments).unwrap_or_else(|_| arguments.clone().into());
            let how = abbreviate::how_of_line(*ok, *exit, line);
            let telling = abbreviate::summary(line, *ok, TITLE);
            ended(0, &title(tool, &arguments), &how, &abbreviate::ms(*ms), &telling, look.columns)
        }
        Message::Note { text } => Row::new(format!("! {text}"), Style::ASKS).lines(look.columns),
    }
}
