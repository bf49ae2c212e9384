//! Permission for package hosts: which may be contacted, and who allowed it.

use kit::{
    Fault,
    effect::{Effect, Scope, host_matches},
    quote::quote,
};
use policy::{Approve, Rule};

use super::{Script, list};
use crate::{
    approve::{Request, Verdict},
    execution::{Asker, Execution},
};

/// Asks the person once whether they allow the missing hosts.
async fn allows(
    asker: &Asker,
    execution: &Execution,
    script: &Script,
    file: &str,
    lacking: &[String],
) -> bool {
    let mut said = asker.said.lock().await;
    if let Some(allowed) = said.get(lacking) {
        return *allowed;
    }
    let offers: Vec<Effect> = lacking.iter().cloned().map(Effect::Net).collect();
    let rule = Rule {
        name: "net",
        about: lacking.join(", "),
        says: "a host is contacted only after approval".to_owned(),
        offers: offers.clone(),
        firm: false,
    };
    let request = Request {
        call: None,
        agent: None,
        tool: file.to_owned(),
        rule,
        arguments: list(script),
        effects: vec![format!("fetch the packages it needs: {}", list(script))],
        changes: Vec::new(),
        offers: offers.clone(),
    };
    let verdict = asker.approver.approve(request).await;
    let allowed = matches!(verdict, Verdict::Yes(_));
    if verdict == Verdict::Yes(Scope::Project) {
        for effect in &offers {
            if let Err(fault) = execution.grants().keep(effect, None, "cli").await {
                tracing::warn!("what was allowed is not kept: {fault}");
            }
        }
    }
    said.insert(lacking.to_vec(), allowed);
    allowed
}

/// Returns the hosts that may be contacted to create an environment: the needed ones, and all other granted
/// ones, as an index may refer to any host.
pub(super) async fn permit(
    execution: &Execution,
    script: &Script,
    file: &str,
    needed: Vec<String>,
    granted: Vec<String>,
) -> Result<Vec<String>, Fault> {
    let is_granted = |host: &String| granted.iter().any(|it| covers(it, host));
    let lacking: Vec<String> = needed.iter().filter(|it| !is_granted(it)).cloned().collect();
    let allowed = lacking.is_empty()
        || match (execution.approve(), execution.asker()) {
            (Approve::Auto, _) => true,
            (Approve::Ask | Approve::AskEdits, Some(asker)) => {
                allows(asker, execution, script, file, &lacking).await
            }
            (Approve::Ask | Approve::AskEdits, None) | (Approve::Never, _) => false,
        };
    if !allowed {
        let hosts = lacking.join(" and ");
        let what =
            format!("the packages of {file} ({}) come from {hosts}, which nobody granted", list(script));
        return Err(Fault::denied(what).next(how_to_grant(execution, &lacking)));
    }
    Ok(granted.into_iter().chain(needed).collect())
}

/// Returns whether a grant of this pattern covers a host that is contacted by HTTPS unless it has another
/// port.
pub(super) fn covers(pattern: &str, host: &str) -> bool {
    host_matches(pattern, host) || host_matches(pattern, &format!("{host}:443"))
}

/// Returns the steps by which a person grants these hosts.
pub(super) fn how_to_grant(execution: &Execution, hosts: &[String]) -> String {
    let workspace = quote(&execution.workspace().display().to_string());
    let commands: Vec<String> =
        hosts.iter().map(|it| format!("`haft --dir {workspace} grants add 'net {it}'`")).collect();
    format!(
        "A person can grant {}: {}, or `[net] allow = {}` in their haft.toml. It counts from the next call on.",
        if hosts.len() == 1 { "it" } else { "them" },
        commands.join(" and "),
        serde_json::json!(hosts),
    )
}

/// Returns the message if hosts were refused while packages were fetched.
pub(super) fn refused(execution: &Execution, refused: &[String], reach: &[String]) -> String {
    let is_private = |it: &&String| reach.iter().any(|granted| covers(granted, it));
    let (private, other): (Vec<_>, Vec<_>) = refused.iter().partition(is_private);
    let mut said = Vec::new();
    if !private.is_empty() {
        let hosts: Vec<&str> = private.iter().map(|it| it.as_str()).collect();
        said.push(format!(
            "{} is at an address that is not public, so it is reached only where it is granted with its port.",
            hosts.join(", ")
        ));
    }
    if !other.is_empty() {
        let hosts: Vec<&str> = other.iter().map(|it| it.as_str()).collect();
        said.push(format!("{} was refused.", hosts.join(", ")));
    }
    said.push(how_to_grant(execution, refused));
    said.join("\n")
}

/// Returns a fingerprint of the grants.
pub(super) fn fingerprint(execution: &Execution) -> String {
    let mut granted = execution.lasting_hosts();
    granted.sort();
    format!("{granted:?} {:?}", execution.approve())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_covers_a_host_with_and_without_the_port_of_https() {
        for (pattern, host) in [
            ("pypi.org", "pypi.org"),
            ("pypi.org:443", "pypi.org"),
            ("pypi.org", "pypi.org:443"),
            ("*", "pypi.org"),
            ("localhost:3141", "localhost:3141"),
        ] {
            assert!(covers(pattern, host), "{pattern} {host}");
        }
        for (pattern, host) in
            [("pypi.org:80", "pypi.org"), ("pypi.org:443", "pypi.org:8443"), ("x", "pypi.org")]
        {
            assert!(!covers(pattern, host), "{pattern} {host}");
        }
    }
}
