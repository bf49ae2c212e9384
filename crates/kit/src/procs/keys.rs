//! Key names, and the bytes that a terminal sends for them.

/// The encoding of cursor keys that a program expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cursor {
    /// The normal encoding.
    Normal,
    /// The encoding after a program such as vi requested "application cursor keys".
    Application,
}

/// Returns the bytes that a terminal sends for a key, by the names of `tmux send-keys` (`Enter`, `Escape`,
/// `Up`, `F5`, `C-c`, `M-x`, `S-Up`, `BTab`, …). Any other text is typed as it is.
pub fn typed(key: &str, cursor: Cursor) -> Vec<u8> {
    named(key, cursor).unwrap_or_else(|| key.as_bytes().to_vec())
}

/// The modifiers of a key.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Modifiers {
    shift: bool,
    meta: bool,
    control: bool,
}

fn named(key: &str, cursor: Cursor) -> Option<Vec<u8>> {
    let mut modifiers = Modifiers::default();
    let mut rest = key;
    if let Some(caret) = key.strip_prefix('^').filter(|it| it.chars().count() == 1) {
        modifiers.control = true;
        rest = caret;
    }
    loop {
        let (which, after) = match rest.as_bytes() {
            [b'C' | b'c', b'-', _, ..] => (&mut modifiers.control, rest.get(2..)?),
            [b'M' | b'm', b'-', _, ..] => (&mut modifiers.meta, rest.get(2..)?),
            [b'S' | b's', b'-', _, ..] => (&mut modifiers.shift, rest.get(2..)?),
            _ => break,
        };
        *which = true;
        rest = after;
    }
    let plain = special(rest, modifiers, cursor).or_else(|| character(rest, modifiers))?;
    let escape: &[u8] = if modifiers.meta && !plain.starts_with(b"\x1b[1;") { b"\x1b" } else { b"" };
    Some([escape, &plain].concat())
}

/// Returns the bytes of a named key.
fn special(name: &str, modifiers: Modifiers, cursor: Cursor) -> Option<Vec<u8>> {
    let sent: &[u8] = match name.to_ascii_lowercase().as_str() {
        "enter" | "return" => b"\r",
        "escape" | "esc" => b"\x1b",
        "tab" if modifiers.shift => b"\x1b[Z",
        "tab" => b"\t",
        "btab" => b"\x1b[Z",
        "space" if modifiers.control => b"\0",
        "space" => b" ",
        "bspace" | "backspace" => b"\x7f",
        "up" => return Some(moving('A', modifiers, cursor)),
        "down" => return Some(moving('B', modifiers, cursor)),
        "right" => return Some(moving('C', modifiers, cursor)),
        "left" => return Some(moving('D', modifiers, cursor)),
        "home" => return Some(moving('H', modifiers, cursor)),
        "end" => return Some(moving('F', modifiers, cursor)),
        "ic" | "insert" => return Some(numbered(2, modifiers)),
        "dc" | "delete" | "del" => return Some(numbered(3, modifiers)),
        "pageup" | "pgup" | "ppage" => return Some(numbered(5, modifiers)),
        "pagedown" | "pgdn" | "npage" => return Some(numbered(6, modifiers)),
        other => return function(other, modifiers),
    };
    Some(sent.to_vec())
}

/// Encodes Shift, Alt and Control as one number; 1 is none of them.
fn modifier(modifiers: Modifiers) -> u8 {
    1 + u8::from(modifiers.shift) + 2 * u8::from(modifiers.meta) + 4 * u8::from(modifiers.control)
}

fn moving(letter: char, modifiers: Modifiers, cursor: Cursor) -> Vec<u8> {
    match (modifier(modifiers), cursor) {
        (1, Cursor::Normal) => format!("\x1b[{letter}"),
        (1, Cursor::Application) => format!("\x1bO{letter}"),
        (modifiers, _) => format!("\x1b[1;{modifiers}{letter}"),
    }
    .into_bytes()
}

fn numbered(number: u8, modifiers: Modifiers) -> Vec<u8> {
    // Alt alone is encoded as an escape before the key.
    match modifier(Modifiers { meta: false, ..modifiers }) {
        1 => format!("\x1b[{number}~"),
        modifiers => format!("\x1b[{number};{modifiers}~"),
    }
    .into_bytes()
}

fn function(name: &str, modifiers: Modifiers) -> Option<Vec<u8>> {
    let number: u8 = name.strip_prefix('f')?.parse().ok()?;
    let letter = match number {
        1 => 'P',
        2 => 'Q',
        3 => 'R',
        4 => 'S',
        5 => return Some(numbered(15, modifiers)),
        6..=10 => return Some(numbered(number + 11, modifiers)),
        11 | 12 => return Some(numbered(number + 12, modifiers)),
        _ => return None,
    };
    Some(match modifier(Modifiers { meta: false, ..modifiers }) {
        1 => format!("\x1bO{letter}").into_bytes(),
        modifiers => format!("\x1b[1;{modifiers}{letter}").into_bytes(),
    })
}

/// Returns the bytes of one character with modifiers. Without any, it is text and not a key name.
fn character(text: &str, modifiers: Modifiers) -> Option<Vec<u8>> {
    let mut characters = text.chars();
    let (Some(only), None) = (characters.next(), characters.next()) else { return None };
    if modifiers == Modifiers::default() {
        return None;
    }
    if !modifiers.control {
        let shifted = if modifiers.shift { only.to_ascii_uppercase() } else { only };
        return Some(shifted.to_string().into_bytes());
    }
    let control = match only.to_ascii_uppercase() {
        letter @ '@'..='_' => u8::try_from(letter).ok()? & 0x1f,
        ' ' => 0,
        '?' => 0x7f,
        '/' => 0x1f,
        _ => return None,
    };
    Some(vec![control])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_sends_what_a_terminal_sends() {
        let expected: &[(&str, &[u8])] = &[
            ("Enter", b"\r"),
            ("Escape", b"\x1b"),
            ("Tab", b"\t"),
            ("BTab", b"\x1b[Z"),
            ("S-Tab", b"\x1b[Z"),
            ("Space", b" "),
            ("BSpace", b"\x7f"),
            ("Up", b"\x1b[A"),
            ("Left", b"\x1b[D"),
            ("Home", b"\x1b[H"),
            ("S-Up", b"\x1b[1;2A"),
            ("C-Right", b"\x1b[1;5C"),
            ("M-Left", b"\x1b[1;3D"),
            ("DC", b"\x1b[3~"),
            ("PageUp", b"\x1b[5~"),
            ("NPage", b"\x1b[6~"),
            ("F1", b"\x1bOP"),
            ("F5", b"\x1b[15~"),
            ("F10", b"\x1b[21~"),
            ("F12", b"\x1b[24~"),
            ("C-c", b"\x03"),
            ("C-d", b"\x04"),
            ("c-C", b"\x03"),
            ("^C", b"\x03"),
            ("C-[", b"\x1b"),
            ("C-Space", b"\0"),
            ("C-\\", b"\x1c"),
            ("M-x", b"\x1bx"),
            ("C-M-a", b"\x1b\x01"),
            ("M-Enter", b"\x1b\r"),
        ];
        for (key, sent) in expected {
            assert_eq!(typed(key, Cursor::Normal), *sent, "{key}");
        }
        assert_eq!(typed("Down", Cursor::Application), b"\x1bOB");
        assert_eq!(typed("S-Down", Cursor::Application), b"\x1b[1;2B");
    }

    #[test]
    fn text_that_is_not_a_key_is_typed_as_it_is() {
        for text in ["ls", "ls -la", "q", ":wq", "C-", "C-xyz", "é", "F99", "-", "^", "^^^", "", "s-"] {
            assert_eq!(typed(text, Cursor::Normal), text.as_bytes(), "{text}");
        }
    }
}
