//! README.md and docs/: every command runs, every example loads, every link leads somewhere, generated pages are current.
//!
//! `UPDATE_EXPECT=1` writes generated pages anew, and puts what commands print now where a page shows something else.

mod architecture;
mod generated;
mod guarantees;
mod links;
mod messages;
mod outcome;
mod page;
mod promises;
mod reader;
mod wording;

use std::io::Write as _;

use page::Page;
use reader::Reader;

/// The maximum number of blocks that are shown without being run.
const NOT_RUN: usize = 16;

/// A test for each page, so that they run beside each other; with the programs that its commands need.
macro_rules! pages {
    ($($name:ident: $path:literal $([$($program:ident),+])?,)*) => {
        const PAGES: &[&str] = &[$($path),*];

        $(#[test]
        fn $name() {
            $(kit::needs!($($program),+);)?
            Reader::follows($path);
        })*
    };
}

pages! {
    readme: "README.md",
    introduction: "docs/README.md",
    summary: "docs/SUMMARY.md",
    quickstart: "docs/quickstart.md",
    clients: "docs/clients.md",
    acp: "docs/acp.md",
    terminal: "docs/terminal.md",
    triggers: "docs/triggers.md",
    models: "docs/models.md",
    tools: "docs/tools.md",
    writing_tools: "docs/writing-tools.md" [Python],
    hooks: "docs/hooks.md",
    groups: "docs/groups.md",
    many_machines: "docs/many-machines.md",
    profiles: "docs/profiles.md",
    agents_messages: "docs/messages.md",
    mcp_servers: "docs/mcp-servers.md",
    configuration: "docs/configuration.md",
    cli: "docs/cli.md",
    web_and_secrets: "docs/web-and-secrets.md",
    security: "docs/security.md" [Curl],
    http: "docs/http.md",
    serve: "docs/serve.md",
    undo_and_journal: "docs/undo-and-journal.md",
    run_json: "docs/run-json.md",
    embedding: "docs/embedding.md",
    troubleshooting: "docs/troubleshooting.md",
    glossary: "docs/glossary.md",
    seeds: "docs/seeds.md",
}

#[test]
fn every_page_has_a_test() {
    let mut tested = PAGES.to_vec();
    tested.sort_unstable();
    assert_eq!(tested, Page::all());
}

#[test]
fn few_blocks_are_not_run_and_each_says_why() {
    let mut lines = Vec::new();
    for name in PAGES {
        for block in Page::read(name).blocks() {
            if let Some(why) = &block.not_run {
                lines.push(format!("{name}:{}: {why}", block.line));
            }
        }
    }
    // Past the capture of the test runner: a person is to see it when all is well, too.
    let told = format!("{} blocks of the documentation are not run:\n{}\n", lines.len(), lines.join("\n"));
    std::io::stderr().write_all(told.as_bytes()).unwrap();
    assert!(lines.len() <= NOT_RUN, "at most {NOT_RUN}: {told}");
}
