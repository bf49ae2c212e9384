//! A pane for each agent of a group, and the traffic on its channels. Takes what happened, and returns rows for any size.

use std::collections::VecDeque;

use super::{
    abbreviate,
    row::{Row, Style, Tint},
};

/// Lines of a pane that are kept.
const KEPT: usize = 200;

/// The narrowest pane beside another one, in columns.
const NARROWEST: usize = 36;

/// The lowest pane: its status and a line.
const LOWEST: usize = 3;

/// Most panes beside each other.
const BESIDE: usize = 4;

/// The state of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Doing {
    #[default]
    NotStarted,
    Idle,
    Works,
    Asks,
    Paused,
    Stopped,
    Failed,
}

impl Doing {
    fn words(self) -> (&'static str, Style) {
        match self {
            Self::NotStarted => ("not started", Style::DIM),
            Self::Idle => ("idle", Style::DIM),
            Self::Works => ("working", Style::tinted(Tint::Good)),
            Self::Asks => ("waits for approval", Style::ASKS),
            Self::Paused => ("paused", Style::tinted(Tint::Asks)),
            Self::Stopped => ("stopped", Style::DIM),
            Self::Failed => ("failed", Style::BAD),
        }
    }
}

/// One agent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pane {
    pub(crate) name: String,
    pub(crate) doing: Doing,
    pub(crate) tokens: u64,
    /// Messages that wait in its inbox.
    pub(crate) waiting: usize,
    lines: VecDeque<Row>,
    /// The text that it writes.
    pub(crate) writes: String,
}

impl Pane {
    /// Adds a line; several, where the text has them.
    pub(crate) fn add(&mut self, text: &str, style: Style) {
        self.lines.extend(text.lines().map(|it| Row::new(it, style)));
        let over = self.lines.len().saturating_sub(KEPT);
        self.lines.drain(..over);
    }

    fn status(&self, columns: usize) -> Row {
        let (words, style) = self.doing.words();
        let mut row = Row::new(&self.name, Style::BOLD).with("  ", Style::PLAIN).with(words, style);
        let mut more = Vec::new();
        if self.tokens > 0 {
            more.push(abbreviate::tokens(self.tokens));
        }
        if self.waiting > 0 {
            more.push(kit::counted(self.waiting, "message") + " waiting");
        }
        for it in more {
            row = row.with(format!("  {it}"), Style::DIM);
        }
        row.cut(columns)
    }

    /// Returns its rows: the status, and as many of the last lines as fit.
    fn rows(&self, columns: usize, lines: usize) -> Vec<Row> {
        let room = lines.saturating_sub(1);
        let mut last: VecDeque<Row> = VecDeque::new();
        let writes: Vec<Row> = self.writes.lines().map(|it| Row::new(it, Style::PLAIN)).collect();
        for line in writes.iter().rev().chain(self.lines.iter().rev()) {
            for row in line.lines(columns).into_iter().rev() {
                if last.len() == room {
                    break;
                }
                last.push_front(row);
            }
        }
        let mut rows = vec![self.status(columns)];
        rows.extend(last);
        rows.resize(lines, Row::default());
        rows
    }
}

/// All agents of a group.
#[derive(Debug, Default)]
pub(crate) struct Panes {
    /// The line above the panes.
    pub(crate) title: Row,
    pub(crate) panes: Vec<Pane>,
    /// Messages on channels, the newest last.
    channels: VecDeque<Row>,
    pub(crate) has_channels: bool,
    /// The keys, at the right end of the first line.
    hint: &'static str,
}

impl Panes {
    /// Creates panes of nobody. `hint` names the keys.
    pub(crate) fn new(hint: &'static str) -> Self {
        Self { hint, ..Self::default() }
    }

    /// Adds a message on a channel.
    pub(crate) fn on_channel(&mut self, channel: &str, from: &str, text: &str) {
        let row = Row::new(channel, Style::tinted(Tint::Name)).with(format!("  {from}: "), Style::DIM);
        self.channels.push_back(row.with(text.lines().collect::<Vec<_>>().join(" "), Style::PLAIN));
        let over = self.channels.len().saturating_sub(KEPT);
        self.channels.drain(..over);
    }

    /// Returns one row for each line of the screen.
    pub(crate) fn rows(&self, columns: usize, lines: usize) -> Vec<Row> {
        let mut rows = vec![self.head(columns)];
        let channels = if self.has_channels { channel_lines(lines) } else { 0 };
        let room = lines.saturating_sub(1 + channels);
        rows.extend(self.body(columns, room));
        rows.resize(1 + room, Row::default());
        if channels > 0 {
            rows.push(rule("channels", columns));
            let shown = channels - 1;
            let from = self.channels.len().saturating_sub(shown);
            let mut traffic: Vec<Row> =
                self.channels.iter().skip(from).map(|it| it.clone().cut(columns)).collect();
            traffic.resize(shown, Row::default());
            rows.extend(traffic);
        }
        rows.truncate(lines);
        rows
    }

    fn head(&self, columns: usize) -> Row {
        let hint = Row::new(self.hint, Style::DIM);
        let room = columns.saturating_sub(hint.width() + 2);
        let title = self.title.clone();
        if room < 20 {
            return title.cut(columns);
        }
        let title = title.cut(room);
        let gap = columns.saturating_sub(title.width() + hint.width());
        title.with(" ".repeat(gap), Style::PLAIN).and(hint)
    }

    fn body(&self, columns: usize, room: usize) -> Vec<Row> {
        let count = self.panes.len();
        if count == 0 || room == 0 {
            return Vec::new();
        }
        let mut beside = (columns / NARROWEST).clamp(1, BESIDE).min(count);
        // As few beside each other as fit below each other with a few lines each.
        while beside > 1
            && room / count.div_ceil(beside - 1) >= 2 * LOWEST
            && columns / beside < 2 * NARROWEST
        {
            beside -= 1;
        }
        let below = count.div_ceil(beside);
        // A line between the panes above each other.
        let height = (room + 1) / below;
        if height <= LOWEST {
            return self.list(columns, room);
        }
        let mut rows = Vec::new();
        for (at, group) in self.panes.chunks(beside).enumerate() {
            if at > 0 {
                rows.push(rule("", columns));
            }
            // The last ones get the lines that are left.
            let height = if at + 1 == below { room.saturating_sub(rows.len()) } else { height - 1 };
            rows.extend(side_by_side(group, beside, columns, height));
        }
        rows
    }

    /// Returns a status line for each agent, where panes don't fit.
    fn list(&self, columns: usize, room: usize) -> Vec<Row> {
        let fits = if self.panes.len() > room { room.saturating_sub(1) } else { room };
        let mut rows: Vec<Row> = self.panes.iter().take(fits).map(|it| it.status(columns)).collect();
        let more = self.panes.len().saturating_sub(fits);
        if more > 0 {
            rows.push(Row::new(format!("and {more} more"), Style::DIM));
        }
        // What is left shows who works.
        let left = room.saturating_sub(rows.len());
        let busy = self.panes.iter().find(|it| matches!(it.doing, Doing::Works | Doing::Asks));
        if let Some(pane) = busy.or(self.panes.first()).filter(|_| left > LOWEST) {
            rows.push(rule("", columns));
            rows.extend(pane.rows(columns, left - 1));
        }
        rows
    }
}

/// Returns how many lines the channels take, their title included.
fn channel_lines(lines: usize) -> usize {
    match lines {
        0..=10 => 0,
        11..=15 => 3,
        _ => (lines / 5).clamp(4, 10),
    }
}

fn rule(title: &str, columns: usize) -> Row {
    let title = if title.is_empty() { String::new() } else { format!(" {title} ") };
    let begin = if title.is_empty() { "" } else { "──" };
    let line = "─".repeat(columns.saturating_sub(begin.chars().count() + title.chars().count()));
    Row::new(format!("{begin}{title}{line}"), Style::DIM).cut(columns)
}

fn side_by_side(panes: &[Pane], beside: usize, columns: usize, height: usize) -> Vec<Row> {
    // A column between two panes for the line.
    let width = (columns + 1) / beside - 1;
    let all: Vec<Vec<Row>> = panes
        .iter()
        .enumerate()
        .map(|(at, pane)| {
            let is_last = at + 1 == beside;
            let own = if is_last { columns.saturating_sub(at * (width + 1)) } else { width };
            pane.rows(own, height)
        })
        .collect();
    (0..height)
        .map(|line| {
            let mut row = Row::default();
            for (at, pane) in all.iter().enumerate() {
                if at > 0 {
                    let gap = (at * (width + 1)).saturating_sub(row.width() + 1);
                    row = row.with(" ".repeat(gap), Style::PLAIN).with("│", Style::DIM);
                }
                row = row.and(pane.get(line).cloned().unwrap_or_default());
            }
            row
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(count: usize) -> Panes {
        let mut panes = Panes::new("q leaves");
        panes.title = Row::new("desk  running", Style::BOLD);
        panes.has_channels = true;
        for at in 0..count {
            let mut pane = Pane { name: format!("agent{at}"), doing: Doing::Works, ..Pane::default() };
            for line in 0..30 {
                pane.add(
                    &format!("line {line} of a text that is a little longer than a narrow pane"),
                    Style::PLAIN,
                );
            }
            panes.panes.push(pane);
        }
        for at in 0..20 {
            panes.on_channel("talk", "ann", &format!("message {at}"));
        }
        panes
    }

    #[test]
    fn every_size_is_filled_and_nothing_is_wider() {
        for (columns, lines) in [(80, 24), (200, 50), (40, 12), (20, 5), (2, 1), (79, 24)] {
            for count in [0, 1, 2, 3, 5, 12, 40] {
                let rows = group(count).rows(columns, lines);
                assert_eq!(rows.len(), lines, "{columns}x{lines} with {count}");
                let widest = rows.iter().map(Row::width).max().unwrap_or(0);
                assert!(widest <= columns.max(1), "{columns}x{lines} with {count}: {widest}");
            }
        }
    }

    #[test]
    fn each_agent_has_a_status_and_its_last_lines_where_they_fit() {
        let text = |count: usize, columns: usize, lines: usize| {
            let rows = group(count).rows(columns, lines);
            rows.iter().map(Row::text).collect::<Vec<_>>().join("\n")
        };
        let small = text(3, 80, 24);
        for part in ["agent0  working", "agent2  working", "line 29", "── channels ", "talk  ann: message 19"]
        {
            assert!(small.contains(part), "{part}\n{small}");
        }
        let tiny = text(12, 40, 12);
        assert!(tiny.contains("agent0  working") && tiny.contains("and 5 more"), "{tiny}");
        let large = text(12, 200, 50);
        assert!((0..12).all(|at| large.contains(&format!("agent{at}  working"))), "{large}");
        assert!(large.contains("message 11") && large.contains('│'), "{large}");
    }
}
