//! Hosts that the proxy refused: names them, the reason, and the grant that they need.

use kit::{net::why_closed, quote::quote, references::inert};

use super::{Known, section};
use crate::proxy::{REFUSAL, Refused};

/// Messages of programs without network, or whose proxy refuses.
pub(super) const NO_NETWORK: &[&str] = &[
    "Network is unreachable",
    "ENETUNREACH",
    "Temporary failure in name resolution",
    "Temporary failure resolving",
    "Could not resolve host",
    "Could not resolve proxy",
    "failed to lookup address information",
    "Name or service not known",
    "getaddrinfo ENOTFOUND",
    "getaddrinfo EAI_AGAIN",
    "CONNECT tunnel failed, response 403",
    "Tunnel connection failed: 403",
    REFUSAL,
];

/// Reports the hosts that were refused, the reason, and the grant that they need.
pub(super) fn refused(known: &Known<'_>) -> impl Iterator<Item = String> {
    let (granted, others): (Vec<&Refused>, Vec<&Refused>) =
        known.refused_hosts.iter().partition(|it| it.private.is_some());
    // A host that was not granted the first time may have been the second time, or the other way round.
    let others: Vec<String> = others
        .into_iter()
        .map(|it| inert(&it.to_string()).into_owned())
        .filter(|it| !granted.iter().any(|one| one.to_string() == *it))
        .collect();
    let hosts: Vec<&str> = others.iter().map(|it| without_port(it)).collect();
    let not_granted =
        (!others.is_empty()).then(|| format!("{} was refused; {}", others.join(", "), grant(&hosts, known)));
    let of_private = granted.into_iter().filter_map(|it| {
        let (with_port, at) = (inert(&it.to_string()).into_owned(), it.private?);
        Some(format!(
            "{with_port} was refused: {} is granted, but is at {at}, which {}; only a grant with the port reaches it: {}",
            it.host,
            why_closed(at),
            grant(&[&with_port], known)
        ))
    });
    not_granted.into_iter().chain(of_private.collect::<Vec<_>>())
}

/// Explains how to grant these hosts.
pub(super) fn grant(hosts: &[&str], known: &Known<'_>) -> String {
    let names: Vec<String> = hosts.iter().map(|it| format!("\"{it}\"")).collect();
    let names = names.join(", ");
    let workspace = known.roots.first().map(|it| it.0.display().to_string()).unwrap_or_default();
    let workspace = quote(&workspace);
    let each: Vec<String> = hosts
        .iter()
        .map(|it| format!("`haft --dir {workspace} grants add {}`", quote(&format!("net {it}"))))
        .collect();
    let each = each.join(" and ");
    match known.tool {
        Some(tool) => {
            let section = section(known);
            format!(
                "a person grants it with {each}, or `net = [{names}]` of `[{section}.{tool}]` in haft.toml"
            )
        }
        None => format!("[?`tool:shell` takes `arg:shell.net`: [{names}]|a person grants it with {each}?]"),
    }
}

fn without_port(host: &str) -> &str {
    host.strip_suffix(":443").or_else(|| host.strip_suffix(":80")).unwrap_or(host)
}
