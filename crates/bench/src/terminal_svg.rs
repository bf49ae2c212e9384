//! A terminal's screen as an SVG picture: the text stays text, every letter keeps its column, whatever the font.

use std::fmt::Write as _;
use std::num::NonZeroU16;

use vt100::{Cell, Color, Parser};

/// The size of a letter's box and the margin around all of them, in pixels.
const WIDTH: f64 = 8.4;
const HEIGHT: f64 = 18.0;
const PADDING: f64 = 14.0;
const BAR: f64 = 30.0;

/// Colours for a dark background; the first eight, then the bright ones.
const COLOURS: [&str; 16] = [
    "#3b4048", "#f07178", "#98c379", "#e5c07b", "#61afef", "#c792ea", "#56c8d8", "#d7dae0", "#7f8794",
    "#ff8b92", "#b5e39a", "#ffd68a", "#82c4ff", "#ddb3ff", "#7fe3f0", "#ffffff",
];
const GROUND: &str = "#1d2026";
const EDGE: &str = "#2a2e36";
const TEXT: &str = "#d7dae0";
const FAINT: &str = "#8b93a1";

/// The style of one letter.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Look {
    fill: String,
    ground: Option<String>,
    bold: bool,
    italic: bool,
    underline: bool,
}

/// Draws these lines of a terminal, with escape sequences in them, at this many columns.
pub fn picture(title: &str, captured: &str, columns: u16) -> String {
    let lines: Vec<&str> = captured.trim_end().lines().collect();
    let rows = u16::try_from(lines.len()).unwrap_or(u16::MAX).max(1);
    let at_least_one = |it: u16| NonZeroU16::new(it).unwrap_or(NonZeroU16::MIN);
    let mut parser = Parser::new(at_least_one(rows), at_least_one(columns), 0);
    parser.process(lines.join("\r\n").as_bytes());
    let width = f64::from(columns) * WIDTH + 2.0 * PADDING;
    let height = f64::from(rows) * HEIGHT + BAR + PADDING;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         role=\"img\" aria-label=\"{title}\" font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" \
         font-size=\"14\">\n<title>{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{GROUND}\" stroke=\"{EDGE}\"/>\n",
        title = escaped(title),
    );
    for (at, fill) in ["#f07178", "#e5c07b", "#98c379"].iter().enumerate() {
        let x = PADDING + 6.0 + at as f64 * 18.0;
        let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"15\" r=\"5\" fill=\"{fill}\"/>");
    }
    let _ = writeln!(
        svg,
        "<text x=\"50%\" y=\"20\" text-anchor=\"middle\" fill=\"{FAINT}\">{}</text>",
        escaped(title)
    );
    for row in 0..rows {
        draw(&mut svg, &parser, row, columns);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Draws one row, in runs of letters with the same style.
fn draw(svg: &mut String, parser: &Parser, row: u16, columns: u16) {
    let mut run: Option<(u16, u16, String, Look)> = None;
    for column in 0..columns {
        let Some(cell) = parser.screen().cell(row, column).filter(|it| !it.is_wide_continuation()) else {
            continue;
        };
        let cells = if cell.is_wide() { 2 } else { 1 };
        let letter = if cell.has_contents() { cell.contents() } else { " " };
        let look = look(cell);
        match &mut run {
            // Only plain letters are as wide as their cells in every font.
            Some((_, length, text, same)) if *same == look && letter.is_ascii() && text.is_ascii() => {
                *length += cells;
                text.push_str(letter);
            }
            _ => {
                if let Some(done) = run.replace((column, cells, letter.to_owned(), look)) {
                    write_run(svg, row, &done);
                }
            }
        }
    }
    if let Some(last) = run {
        write_run(svg, row, &last);
    }
}

fn write_run(svg: &mut String, row: u16, (column, cells, text, look): &(u16, u16, String, Look)) {
    let x = PADDING + f64::from(*column) * WIDTH;
    let top = BAR + f64::from(row) * HEIGHT;
    let width = f64::from(*cells) * WIDTH;
    if let Some(ground) = &look.ground {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{HEIGHT}\" fill=\"{ground}\"/>"
        );
    }
    if text.trim().is_empty() {
        return;
    }
    let mut style = String::new();
    if look.bold {
        style.push_str(" font-weight=\"700\"");
    }
    if look.italic {
        style.push_str(" font-style=\"italic\"");
    }
    if look.underline {
        style.push_str(" text-decoration=\"underline\"");
    }
    // Consecutive blanks would be drawn as one: each run between blanks is placed by itself.
    let y = top + 13.0;
    let mut rest = text.as_str();
    let mut column = f64::from(*column);
    while !rest.is_empty() {
        let blanks = rest.len() - rest.trim_start().len();
        column += blanks as f64;
        rest = rest.trim_start();
        let (shown, after) = rest.split_at(rest.find("  ").unwrap_or(rest.len()));
        // A letter that is not ASCII has a run of its own.
        let cells = if shown.is_ascii() { shown.len() as f64 } else { f64::from(*cells) };
        let shown = shown.trim_end();
        if !shown.is_empty() {
            let length = if shown.is_ascii() { shown.len() as f64 } else { cells };
            let (x, length) = (PADDING + column * WIDTH, length * WIDTH);
            let fill = &look.fill;
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\" fill=\"{fill}\"{style}>{}</text>",
                escaped(shown)
            );
        }
        column += cells;
        rest = after;
    }
}

fn look(cell: &Cell) -> Look {
    let (mut fill, mut ground) = (colour(cell.fgcolor()), colour(cell.bgcolor()));
    if cell.inverse() {
        (fill, ground) = (ground.or(Some(GROUND.to_owned())), fill.or(Some(TEXT.to_owned())));
    }
    let plain = if cell.dim() { FAINT } else { TEXT };
    Look {
        fill: fill.unwrap_or_else(|| plain.to_owned()),
        ground,
        bold: cell.bold(),
        italic: cell.italic(),
        underline: cell.underline(),
    }
}

/// Returns a terminal's colour; `None` for the default.
fn colour(colour: Color) -> Option<String> {
    match colour {
        Color::Default => None,
        Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
        Color::Idx(index) => Some(match COLOURS.get(usize::from(index)) {
            Some(known) => (*known).to_owned(),
            None if index >= 232 => {
                let grey = 8 + 10 * (index - 232);
                format!("#{grey:02x}{grey:02x}{grey:02x}")
            }
            None => {
                let of = |part: u8| if part == 0 { 0 } else { 55 + 40 * part };
                let index = index - 16;
                format!("#{:02x}{:02x}{:02x}", of(index / 36), of(index / 6 % 6), of(index % 6))
            }
        }),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_keep_their_columns_and_colours() {
        let svg = picture("a <b>", "  plain  \x1b[31mred\x1b[0m\n\x1b[1;32m+ x\x1b[0m ✓y", 20);
        for part in [
            "<title>a &lt;b&gt;</title>",
            ">a &lt;b&gt;</text>",
            &format!(
                "<text x=\"{:.1}\" y=\"43.0\" textLength=\"42.0\" fill=\"{TEXT}\">plain</text>",
                PADDING + 2.0 * WIDTH
            ),
            &format!(
                "<text x=\"{:.1}\" y=\"43.0\" textLength=\"25.2\" fill=\"{}\">red</text>",
                PADDING + 9.0 * WIDTH,
                "#f07178"
            ),
            "fill=\"#98c379\" font-weight=\"700\">+ x</text>",
            // A character that a font may draw wider has a run of its own.
            ">✓</text>",
            &format!(
                "<text x=\"{:.1}\" y=\"61.0\" textLength=\"8.4\" fill=\"{TEXT}\">y</text>",
                PADDING + 5.0 * WIDTH
            ),
        ] {
            assert!(svg.contains(part), "{part} is not in:\n{svg}");
        }
    }

    #[test]
    fn colours_of_all_three_kinds_are_drawn() {
        for (sequence, shown) in [
            ("38;5;9", "#ff8b92"),
            ("38;5;196", "#ff0000"),
            ("38;5;255", "#eeeeee"),
            ("38;2;1;2;3", "#010203"),
        ] {
            let svg = picture("x", &format!("\x1b[{sequence}mx"), 10);
            assert!(svg.contains(&format!("fill=\"{shown}\">x<")), "{sequence}: {svg}");
        }
        let svg = picture("x", "\x1b[7mx", 10);
        assert!(
            svg.contains(&format!("height=\"{HEIGHT}\" fill=\"{TEXT}\""))
                && svg.contains(&format!("fill=\"{GROUND}\">x<")),
            "{svg}"
        );
    }
}
