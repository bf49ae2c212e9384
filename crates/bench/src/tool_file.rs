//! A tool file in Python, as users write them.

/// The file of the tool `shout`, which FastMCP's server has as well.
const SHOUT: &str = include_str!("../peers/shout.py");

/// The line of a tool file that says that the tool touches nothing.
const TOUCHES_NOTHING: &str = "touches = []\n";

/// The lines of a tool file that is a program as well: it reads its parameters from standard input.
const PROGRAM: &str = r#"
import asyncio, json, sys

if __name__ == "__main__":
    print(asyncio.run(execute(json.load(sys.stdin))))
"#;

/// Returns the file of a tool of this name, which says a text louder and touches nothing.
pub(crate) fn shout(name: &str) -> String {
    named(name) + TOUCHES_NOTHING
}

/// Returns the file of a tool of this name that is a program as well, and does not say what it touches.
pub(crate) fn shout_program(name: &str) -> String {
    named(name) + PROGRAM
}

fn named(name: &str) -> String {
    SHOUT.replace("\"shout\"", &format!("\"{name}\""))
}
