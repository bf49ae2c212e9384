//! The fonts of this machine, read into memory once: a confined worker can't open files.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use resvg::usvg::fontdb::{Database, Source};

/// Maximum bytes of fonts that are kept.
const MOST: u64 = 40 << 20;

/// Families with the letters of many languages, the best first.
const WIDE: [&str; 5] = ["DejaVu Sans", "Noto Sans", "Liberation Sans", "Arial", "Helvetica"];

/// Reads the fonts, for later drawings.
pub(in crate::media) fn prepare() {
    all();
}

/// Returns the fonts of this machine, as far as they were read.
pub(super) fn all() -> Arc<Database> {
    static FONTS: OnceLock<Arc<Database>> = OnceLock::new();
    FONTS.get_or_init(|| Arc::new(load())).clone()
}

fn load() -> Database {
    let mut found = Database::new();
    found.load_system_fonts();
    let mut fonts = Database::new();
    let mut left = MOST;
    for file in files(&found) {
        let length = fs::metadata(&file).map_or(u64::MAX, |it| it.len());
        if let Some(less) = left.checked_sub(length)
            && let Ok(data) = fs::read(&file)
        {
            left = less;
            fonts.load_font_data(data);
        }
    }
    // A missing family is replaced by an existing one.
    if let Some(family) = family(&fonts) {
        fonts.set_serif_family(&family);
        fonts.set_sans_serif_family(&family);
        fonts.set_monospace_family(&family);
        fonts.set_cursive_family(&family);
        fonts.set_fantasy_family(family);
    }
    fonts
}

/// Returns the files of the fonts, the wide families first, then small files before large ones.
fn files(found: &Database) -> Vec<PathBuf> {
    let mut ranks: BTreeMap<&Path, usize> = BTreeMap::new();
    for face in found.faces() {
        let Source::File(path) = &face.source else { continue };
        let name = face.families.first().map_or("", |(name, _)| name.as_str());
        let rank = WIDE.iter().position(|it| *it == name).unwrap_or(WIDE.len());
        let known = ranks.entry(path).or_insert(rank);
        *known = rank.min(*known);
    }
    let mut files: Vec<(usize, u64, PathBuf)> = ranks
        .into_iter()
        .map(|(path, rank)| (rank, fs::metadata(path).map_or(u64::MAX, |it| it.len()), path.to_owned()))
        .collect();
    files.sort();
    files.into_iter().map(|(_, _, path)| path).collect()
}

/// Returns the family with the most letters, by its name; or any.
fn family(fonts: &Database) -> Option<String> {
    let names = || fonts.faces().filter_map(|face| face.families.first()).map(|(name, _)| name);
    let known = |name: &&str| names().any(|it| it == name);
    WIDE.iter().find(|it| known(it)).map(|it| (*it).to_owned()).or_else(|| names().next().cloned())
}
