//! The scratchpad of a session: named sections of text, shared by the tools that have it and by tool files.

use crate::{Cx, Fault, Kind, Touches};

/// Prefix of the keys of sections, among the notes of a session.
const PREFIX: &str = "scratchpad ";

/// Limits: bytes of a section, sections of a session, characters of a name.
const BYTES: usize = 64 << 10;
const SECTIONS: usize = 64;
const NAME: usize = 64;

/// The scratchpad of a session, for one call. May block.
pub struct Pad<'a>(pub &'a Cx);

impl Pad<'_> {
    /// Returns the touches of a call that changes it.
    pub fn touches() -> Touches {
        Touches::session("scratchpad")
    }

    /// Returns the text of a section.
    ///
    /// # Errors
    /// When its name is invalid, or it can't be read.
    pub fn get(&self, section: &str) -> Result<Option<String>, Fault> {
        self.0.notes().get(&key(section)?)
    }

    /// Returns the names of the sections, in their order.
    ///
    /// # Errors
    /// When they can't be read.
    pub fn sections(&self) -> Result<Vec<String>, Fault> {
        let keys = self.0.notes().keys(PREFIX)?;
        Ok(keys.iter().filter_map(|it| it.strip_prefix(PREFIX)).map(str::to_owned).collect())
    }

    /// Writes a text into a section, or appends it. Returns the new size in bytes.
    ///
    /// # Errors
    /// [`Kind::TooBig`] for too many sections or bytes; when its name is invalid, or it can't be written.
    pub fn put(&self, section: &str, text: String, append: bool) -> Result<usize, Fault> {
        let key = key(section)?;
        let sections = self.sections()?;
        if sections.len() >= SECTIONS && !sections.iter().any(|it| it == section) {
            return Err(Fault::new(Kind::TooBig, format!("there are {SECTIONS} sections already"))
                .next("Clear one that is done with."));
        }
        let name = section.to_owned();
        let kept = self.0.notes().change(
            &key,
            Box::new(move |before| {
                let text = match before.filter(|it| append && !it.is_empty()) {
                    Some(before) if before.ends_with('\n') => before + &text,
                    Some(before) => format!("{before}\n{text}"),
                    None => text,
                };
                if text.len() > BYTES {
                    let what =
                        format!("section `{name}` would have {} bytes; {BYTES} is the most", text.len());
                    return Err(
                        Fault::new(Kind::TooBig, what).next("Keep what matters, or begin another section.")
                    );
                }
                Ok(Some(text))
            }),
        )?;
        Ok(kept.map_or(0, |it| it.len()))
    }

    /// Empties a section; returns whether it held anything.
    ///
    /// # Errors
    /// When its name is invalid, or it can't be written.
    pub fn clear(&self, section: &str) -> Result<bool, Fault> {
        let key = key(section)?;
        let was_there = self.0.notes().get(&key)?.is_some();
        self.0.notes().put(&key, None)?;
        Ok(was_there)
    }
}

fn key(section: &str) -> Result<String, Fault> {
    let fits = (1..=NAME).contains(&section.chars().count()) && !section.contains(char::is_control);
    if !fits {
        let shown: String = format!("{section:?}").chars().take(2 * NAME).collect();
        return Err(Fault::bad_args(format!("{shown} can't be the name of a section"))
            .next(format!("It has 1 to {NAME} characters, all in one line.")));
    }
    Ok(format!("{PREFIX}{section}"))
}
