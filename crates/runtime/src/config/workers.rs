//! `[workers]`: how haft reaches the engine through which work goes to other machines.

use std::path::PathBuf;

use serde_json::json;

use super::keys::{Fallback::*, declare::section};

/// The default of `lease_seconds`.
pub const LEASE_SECONDS: u64 = 15;

section! {
    /// `[workers]`: how haft reaches the engine. Only the person's own file counts.
    #[derive(Default, Eq)]
    #[serde(default)]
    pub struct WorkersSection, merged whole {
        /// The engine through which work goes to other machines (`engine`): keys, TLS, leases.
        "[workers]" {
            /// File with the seed of your nkey, for a NATS server that asks for one. Absolute, or below ~.
            nkey: Option<PathBuf> {
                example: r#""~/.config/haft/team.nk""#,
                default: Words("none"),
                workspace: OwnFile,
            }
            /// File with the certificate authority of the NATS server, as PEM. Absolute, or below ~.
            ca: Option<PathBuf> {
                example: r#""~/.config/haft/nats-ca.pem""#,
                default: Words("the system's"),
                workspace: OwnFile,
            }
            /// Length of a lease: the work of a worker that is gone is settled after this time. The same for
            /// all senders and workers of an engine.
            lease_seconds: Option<u64> {
                unit: "seconds",
                range: 1..=300,
                example: "15",
                default: Value(|| json!(LEASE_SECONDS)),
                workspace: OwnFile,
            }
            /// Tool files whose calls may run on a worker (`haft call --on`): all that they use is in the workspace.
            /// Those of `shell` and `python` always may.
            movable: Vec<String> {
                example: r#"["render", "measure"]"#,
                default: Words("none"),
                workspace: OwnFile,
            }
            /// Servers of a NATS cluster that keep each record. What is stored already keeps its number.
            replicas: Option<u64> {
                range: 1..=5,
                example: "3",
                default: Value(|| json!(1)),
                workspace: OwnFile,
            }
        }
    }
}
