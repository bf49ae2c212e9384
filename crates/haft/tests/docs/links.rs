//! Links between pages: each leads to a file and a heading that are there, none leaves `docs/`, and SUMMARY.md has every page.

use std::{collections::HashSet, path::Path};

use super::page::{Page, REPOSITORY};

/// Returns the targets of the links and pictures in a text, code left out.
fn targets(text: &str) -> Vec<String> {
    let mut targets = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        let spans: Vec<&str> = line.split('`').step_by(2).collect();
        let line = spans.join("``");
        targets
            .extend(line.split("](").skip(1).filter_map(|it| it.split_once(')')).map(|it| it.0.to_owned()));
    }
    targets
}

/// Returns the names by which the headings of a page are linked to, as a forge and mdBook make them.
fn anchors(text: &str) -> HashSet<String> {
    let mut is_code = false;
    let mut anchors = HashSet::new();
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let heading = line.trim_start_matches('#');
        if is_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let letters = heading.trim().chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
        let anchor: String =
            letters.map(|it| if it == ' ' { '-' } else { it.to_ascii_lowercase() }).collect();
        assert!(anchors.insert(anchor.clone()), "two headings of a page are linked to as `#{anchor}`");
    }
    anchors
}

#[test]
fn links_lead_to_pages_and_headings_that_are_there() {
    for name in Page::all() {
        let page = Page::read(&name);
        let folder = Path::new(&name).parent().unwrap();
        for target in targets(&page.text) {
            if target.starts_with("https://") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = if path.is_empty() { name.clone() } else { folder.join(path).display().to_string() };
            assert!(
                Path::new(REPOSITORY).join(&file).is_file(),
                "{name} links to `{target}`, which is not there"
            );
            // mdBook knows what lies in `docs/`, and nothing else.
            assert!(name == "README.md" || !path.contains(".."), "{name} links out of docs/: {target}");
            let known = || anchors(&Page::read(&file).text);
            assert!(
                anchor.is_empty() || known().contains(anchor),
                "{name} links to `{target}`: no such heading"
            );
        }
    }
}

#[test]
fn the_summary_has_every_page_once() {
    let mut listed = targets(&Page::read("docs/SUMMARY.md").text);
    let of_docs = Page::all().into_iter().filter_map(|it| it.strip_prefix("docs/").map(str::to_owned));
    let mut pages: Vec<String> = of_docs.filter(|it| it != "SUMMARY.md").collect();
    listed.sort();
    pages.sort();
    assert_eq!(listed, pages);
}

#[test]
fn headings_are_named_as_a_forge_names_them() {
    let names = anchors("# `haft run`: one task\n```sh\n# no heading\n```\n## What's kept, and where?\n");
    assert_eq!(names, HashSet::from(["haft-run-one-task".to_owned(), "whats-kept-and-where".to_owned()]));
    assert_eq!(targets("a [b](c.md#d), `[x](y)` and ![z](i.svg)"), ["c.md#d", "i.svg"]);
}
