//! An MCP server with fake tools, on standard input and output: for tests from outside the process.

#[path = "../tests/mcp/fake.rs"]
mod fake;

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve::mcp_stdio(
        fake::FakeBackend::default(),
        serve::About::new("Only for tests.\nEvery tool does what its name says."),
    ))
}
