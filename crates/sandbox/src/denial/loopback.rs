//! Refused connections to loopback: finds the port, and the grant that it needs.

use kit::net::{loopback, split_port, with_port};

use super::{Known, grant};

/// Messages of programs when no server listens at their target.
const REFUSED: &[&str] = &[
    "Connection refused",
    "connection refused",
    "ECONNREFUSED",
    "ConnectionRefusedError",
    "Couldn't connect to server",
    "Could not connect to server",
];

/// Explains a refused connection to loopback. Python's message has no address; a message with another address
/// is not about loopback.
pub(super) fn refused(line: &str, known: &Known<'_>) -> Option<String> {
    if !REFUSED.iter().any(|it| line.contains(it)) {
        return None;
    }
    let words =
        line.split(|it: char| it.is_whitespace() || "'\"`(),;/=".contains(it)).filter(|it| !it.is_empty());
    let words: Vec<&str> = words.map(|it| it.trim_end_matches([':', '.'])).collect();
    let named = words.iter().position(|it| !loopback(place(it).0).is_empty());
    if named.is_none() && !line.contains("ConnectionRefusedError") {
        return None;
    }
    // A tool file has a loopback interface of its own.
    let own = if known.tool.is_some() { "" } else { OWN_SERVER };
    let after = named.map_or(&[][..], |at| words.get(at..).unwrap_or_default());
    let by_word = || {
        let port = after.iter().position(|it| it.eq_ignore_ascii_case("port"))?;
        after.get(port + 1)?.parse().ok()
    };
    let (host, port) = after.first().map_or(("127.0.0.1", None), |it| place(it));
    let Some(port) = port.or_else(by_word) else {
        let grant = grant(&["127.0.0.1:PORT"], known);
        return Some(format!(
            "no process of this session listens there, and this machine's own loopback is closed to commands: {grant}{own}"
        ));
    };
    let at = with_port(host.trim_matches(['[', ']']), port);
    if known.granted_ports.contains(&port) {
        return Some(format!(
            "{at} is granted, but nothing listens there, on this machine or in this session"
        ));
    }
    let grant = grant(&[&at], known);
    Some(format!(
        "no process of this session listens at {at}, and this machine's own loopback is closed to commands: {grant}{own}"
    ))
}

/// Explains a port at which haft itself listens inside the sandbox. Most programs name no port.
pub(super) fn taken(line: &str, known: &Known<'_>) -> Option<String> {
    let is_taken =
        ["Address already in use", "address already in use", "EADDRINUSE"].iter().any(|it| line.contains(it));
    let ports: Vec<String> = known.granted_ports.iter().map(u16::to_string).collect();
    (is_taken && !ports.is_empty()).then(|| {
        format!(
            "this may be because granted ports lead to this machine, so no command can listen at them: {}; take another port",
            ports.join(", ")
        )
    })
}

/// Splits a host and its port as programs print them: Node puts no brackets around an IPv6 address.
fn place(word: &str) -> (&str, Option<u16>) {
    match word.strip_prefix("::1:").map(str::parse) {
        Some(Ok(port)) => ("::1", Some(port)),
        _ => split_port(word),
    }
}

/// The hint that a server of the session needs no grant.
const OWN_SERVER: &str = "; a server that a command of this session leaves running needs no grant";

#[cfg(test)]
mod tests {
    #![expect(clippy::panic, reason = "tests")]

    use kit::{procs::Exit, references::in_own_names};

    use super::super::{Known, denials};

    #[test]
    fn refused_connection_to_loopback_names_the_port_and_what_reaches_it() {
        for (said, place) in [
            (
                "curl: (7) Failed to connect to 127.0.0.1 port 8080 after 0 ms: Couldn't connect to server",
                "127.0.0.1:8080",
            ),
            (
                "curl: (7) Failed to connect to localhost port 80 after 1 ms: Could not connect to server",
                "localhost:80",
            ),
            (
                "curl: (7) Failed to connect to ::1 port 80 after 1 ms: Could not connect to server",
                "[::1]:80",
            ),
            ("Connecting to 127.0.0.1:8080... failed: Connection refused.", "127.0.0.1:8080"),
            ("Error: connect ECONNREFUSED ::1:3000", "[::1]:3000"),
            ("Error: connect ECONNREFUSED 127.0.0.1:3000", "127.0.0.1:3000"),
            ("dial tcp [::1]:5432: connect: connection refused", "[::1]:5432"),
            (
                "psql: error: connection to server at \"127.0.0.1\", port 5432 failed: Connection refused",
                "127.0.0.1:5432",
            ),
            ("Could not connect to Redis at 127.0.0.1:6379: Connection refused", "127.0.0.1:6379"),
            ("urllib3: http://localhost:8000/x: Connection refused", "localhost:8000"),
            ("ConnectionRefusedError: [Errno 111] Connection refused", "127.0.0.1:PORT"),
        ] {
            let lines = denials(Exit::Code(7), said, &Known::default());
            let [line] = lines.as_slice() else { panic!("{said}: {lines:?}") };
            assert!(
                line.starts_with("sandbox: rule `net`: no process of this session listens "),
                "{said}: {line}"
            );
            let grant = format!("`shell` takes `net`: [\"{place}\"]");
            assert!(in_own_names(line).contains(&grant), "{said}: {line}");
        }
        for said in
            ["ssh: connect to host example.org port 22: Connection refused", "test connection refused ... ok"]
        {
            assert_eq!(denials(Exit::Code(1), said, &Known::default()), Vec::<String>::new(), "{said}");
        }
        let known = Known { granted_ports: &[8080], ..Known::default() };
        let said = denials(Exit::Code(7), "connect ECONNREFUSED 127.0.0.1:8080", &known);
        assert_eq!(
            said,
            [
                "sandbox: rule `net`: 127.0.0.1:8080 is granted, but nothing listens there, on this machine or in this session"
            ]
        );
    }

    #[test]
    fn port_that_is_taken_is_explained_only_where_ports_are_forwarded() {
        let said = "OSError: [Errno 98] Address already in use";
        assert_eq!(denials(Exit::Code(1), said, &Known::default()), Vec::<String>::new());
        let known = Known { granted_ports: &[3000, 5432], ..Known::default() };
        let lines = denials(Exit::Code(1), said, &known);
        let [line] = lines.as_slice() else { panic!("{lines:?}") };
        assert!(line.ends_with("no command can listen at them: 3000, 5432; take another port"), "{line}");
    }
}
