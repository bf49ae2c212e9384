//! Names of servers' tools as models see them.
//!
//! `server__tool`, in letters, digits, `_` and `-`, at most 64 of them. The same two names always give the
//! same name, whatever else is configured, and no other two do: a name that was altered or cut ends with a
//! hash.

/// Limit of a name, in bytes: every model provider accepts it.
const LONGEST: usize = 64;
/// Bytes of the server's name that stay if the whole is too long.
const SERVER: usize = 20;
/// Length of the hash.
const HASH: usize = 8;
/// The separator between server and tool.
const BETWEEN: &str = "__";

/// Returns the name of this tool of this server.
pub(super) fn called(server: &str, tool: &str) -> String {
    let (clean_server, clean_tool) = (clean(server), clean(tool));
    // The server's name ends at the first `__`: that must hold for every server whose name is kept.
    let is_kept = clean_server == server
        && clean_tool == tool
        && !server.is_empty()
        && !tool.is_empty()
        && !server.contains(BETWEEN)
        && !server.ends_with('_');
    let whole = format!("{clean_server}{BETWEEN}{clean_tool}");
    if is_kept && whole.len() <= LONGEST && !looks_hashed(tool) {
        return whole;
    }
    let hash = blake3::hash(format!("{server}\0{tool}").as_bytes()).to_hex();
    let hash: String = hash.chars().take(HASH).collect();
    let server: String = clean_server.chars().take(SERVER).collect();
    let room = LONGEST - server.len() - BETWEEN.len() - 1 - HASH;
    // Tools of one server mostly differ at the end of their names.
    let tail = clean_tool.get(clean_tool.len().saturating_sub(room)..).unwrap_or_default();
    format!("{server}{BETWEEN}{tail}_{hash}")
}

/// Returns whether a name ends like one with a hash. Such a name gets a hash of its own, so that nobody can
/// imitate another tool's name.
fn looks_hashed(tool: &str) -> bool {
    let end = tool.rsplit_once('_').map(|it| it.1).unwrap_or_default();
    end.len() == HASH && end.bytes().all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(&it))
}

fn clean(name: &str) -> String {
    let keep = |it: char| if it.is_ascii_alphanumeric() || it == '_' || it == '-' { it } else { '_' };
    name.chars().map(keep).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_plain_name_is_kept_and_any_other_has_a_hash() {
        assert_eq!(called("files", "read"), "files__read");
        assert_eq!(called("my-server", "do.it"), format!("my-server__do_it_{}", hash("my-server", "do.it")));
        for (one, other) in [
            (("a", "b__c"), ("a__b", "c")),
            (("a", "_b"), ("a_", "b")),
            (("a", "b.c"), ("a", "b_c")),
            (("é", "x"), ("ü", "x")),
            (("", "x"), ("_", "x")),
        ] {
            assert_ne!(called(one.0, one.1), called(other.0, other.1), "{one:?} {other:?}");
        }
        // An attacker who knows how the hash is made.
        let made = called("a", "b.c");
        let taken = made.strip_prefix("a__").unwrap_or_default();
        assert_ne!(called("a", taken), made);
        let long = called("server", &format!("{}end", "x".repeat(100)));
        assert_eq!(long.len(), 64);
        assert!(long.contains("xxend_"), "{long}");
    }

    fn hash(server: &str, tool: &str) -> String {
        blake3::hash(format!("{server}\0{tool}").as_bytes()).to_hex().chars().take(8).collect()
    }

    proptest! {
        #[test]
        fn names_are_valid_and_unique(pairs in prop::collection::hash_set((".{0,70}", "[a-c_.]{0,4}"), 1..30)) {
            let mut made = HashMap::new();
            for (server, tool) in &pairs {
                let name = called(server, tool);
                prop_assert!(crate::registry::is_name(&name), "{name}");
                prop_assert_eq!(made.insert(name, (server, tool)), None);
            }
        }
    }
}
