//! What does a server look like from outside the process? One with tools that are
//! only there to be tested, on standard input and output.

#[path = "../tests/mcp/fake.rs"]
mod fake;

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(serve::mcp_stdio(
        fake::FakeBackend::default(),
        serve::About::new("Only for tests.\nEvery tool does what its name says."),
    ))
}
