//! The sandbox layout as a profile of macOS's `sandbox-exec`.
//!
//! `sandbox-exec` applies the text of a Seatbelt profile to the keeper. macOS has no private folders: paths
//! that a layout would hide or make private are forbidden instead, and temporary files go into a folder that
//! haft creates.

use std::{fmt::Write, path::Path};

use super::layout::{Access, Mount, What};

/// Returns the profile for a keeper with these mounts. `scratch` is the folder for its commands' temporary files.
pub fn profile(mounts: &[Mount], home: Option<&Path>, scratch: &Path) -> String {
    let mut text = String::from(HEAD);
    let mut rule = |verb: &str, operation: &str, path: &Path| {
        // Writing to a text can't fail.
        let _ = writeln!(text, "({verb} {operation} (subpath {}))", quoted(path));
    };
    if let Some(home) = home {
        rule("deny", "file-read*", home);
    }
    // A later rule takes precedence over an earlier one, and the mounts are ordered parents first.
    for mount in mounts {
        match &mount.what {
            What::Bind { access: Access::Read, .. } => {
                rule("allow", "file-read*", &mount.at);
                rule("deny", "file-write*", &mount.at);
            }
            What::Bind { access: Access::Write, .. } => {
                rule("allow", "file-read*", &mount.at);
                rule("allow", "file-write*", &mount.at);
            }
            What::Hidden { .. } => {
                rule("deny", "file-read*", &mount.at);
                rule("deny", "file-write*", &mount.at);
            }
            What::Bind { access: Access::Device, .. }
            | What::Overlay { .. }
            | What::Pinned
            | What::Private { .. }
            | What::Link(_)
            | What::Text(_)
            | What::Processes
            | What::Terminals => {}
        }
    }
    rule("allow", "file-read*", scratch);
    rule("allow", "file-write*", scratch);
    text
}

/// The beginning of every profile: read the system, write and reach nothing, see only one's own processes.
const HEAD: &str = r#"(version 1)
(deny default)
(allow process-fork process-exec)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow pseudo-tty)
(allow file-ioctl (regex #"^/dev/tty"))
(allow file-read* (subpath "/"))
(deny file-read* (subpath "/Users") (subpath "/private/var/root") (subpath "/Volumes"))
(allow file-read-metadata)
(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))
(allow file-write* (regex #"^/dev/ttys[0-9]+$"))
(allow network* (local ip "localhost:*"))
(deny network-outbound)
(allow network-outbound (remote ip "localhost:*"))
"#;

/// Quotes a path as a Seatbelt string.
fn quoted(path: &Path) -> String {
    let mut text = String::from("\"");
    for letter in path.to_string_lossy().chars() {
        if letter == '"' || letter == '\\' {
            text.push('\\');
        }
        text.push(letter);
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_deeper_mounts_come_later() {
        let mounts = [
            Mount {
                at: "/Users/a/ws".into(),
                what: What::Bind { from: "/Users/a/ws".into(), access: Access::Write },
            },
            Mount {
                at: "/Users/a/ws/.git/hooks".into(),
                what: What::Bind { from: "/Users/a/ws/.git/hooks".into(), access: Access::Read },
            },
            Mount { at: "/Users/a/ws/.ssh".into(), what: What::Hidden { folder: true, shut: false } },
        ];
        let text = profile(&mounts, Some(Path::new("/Users/a")), Path::new("/private/tmp/\"x\""));
        let rules = text.strip_prefix(HEAD).unwrap_or_default();
        assert_eq!(
            rules.lines().collect::<Vec<_>>(),
            [
                r#"(deny file-read* (subpath "/Users/a"))"#,
                r#"(allow file-read* (subpath "/Users/a/ws"))"#,
                r#"(allow file-write* (subpath "/Users/a/ws"))"#,
                r#"(allow file-read* (subpath "/Users/a/ws/.git/hooks"))"#,
                r#"(deny file-write* (subpath "/Users/a/ws/.git/hooks"))"#,
                r#"(deny file-read* (subpath "/Users/a/ws/.ssh"))"#,
                r#"(deny file-write* (subpath "/Users/a/ws/.ssh"))"#,
                r#"(allow file-read* (subpath "/private/tmp/\"x\""))"#,
                r#"(allow file-write* (subpath "/private/tmp/\"x\""))"#,
            ]
        );
    }

    #[test]
    fn only_loopback_is_reachable() {
        let (_, after) = HEAD.split_once("(deny network-outbound)").unwrap_or_default();
        assert_eq!(after.trim(), r#"(allow network-outbound (remote ip "localhost:*"))"#);
        assert!(HEAD.starts_with("(version 1)\n(deny default)\n"));
    }
}
