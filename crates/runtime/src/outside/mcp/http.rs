//! How is a server reached that has an address?

use kit::{Fault, Kind};
use rmcp::{RoleClient, service::RunningService};

use super::{connect::Wanted, handler::Handler};

/// A live connection to the server at this address.
///
/// # Errors
/// When it can't be reached, or does not speak MCP.
pub(super) async fn connect(
    wanted: &Wanted<'_>,
    url: &str,
) -> Result<RunningService<RoleClient, Handler>, Fault> {
    Err(Fault::new(
        Kind::Unavailable,
        format!("`{}` is at {url}, and no address can be reached yet", wanted.server.name),
    ))
}
