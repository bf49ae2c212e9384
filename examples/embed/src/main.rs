//! An agent in a program of one's own. Its model is a script, so it needs no key.

use std::{error::Error, path::Path, process::ExitCode};

use haft::{AgentBuilder, agent::Event, kit::Fault};

const MODEL: &str = concat!("script:", env!("CARGO_MANIFEST_DIR"), "/script.jsonl");

fn main() -> Result<ExitCode, Box<dyn Error>> {
    if let Some(code) = haft::keeper() {
        return Ok(code);
    }
    let dir = std::env::temp_dir().join("haft-embed");
    std::fs::create_dir_all(&dir)?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work(&dir))?;
    Ok(ExitCode::SUCCESS)
}

async fn work(dir: &Path) -> Result<(), Fault> {
    let show = |event| match event {
        Event::Text { text } => print!("{text}"),
        Event::Called { tool, arguments, .. } => println!("\n> {tool} {arguments}"),
        Event::Answered { text, .. } => println!("{text}"),
        _ => {}
    };
    let mut agent = AgentBuilder::new(dir).model(MODEL).on_event(show).open().await?;
    let outcome = agent.run("write a script that greets, and run it").await?;
    println!("\n{} steps in session {}", outcome.steps, agent.session());
    agent.close().await
}
