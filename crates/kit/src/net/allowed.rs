//! Hosts that a call may contact.

use super::ip_rules::{HostPattern, Reach};

/// The hosts that a call may contact.
#[derive(Debug, Clone, Default)]
pub struct Allowed {
    web: bool,
    hosts: Vec<(HostPattern, Reach)>,
}

impl Allowed {
    /// Also allows the open web: requests without a body that only read, at any public address.
    #[must_use]
    pub fn and_web(self) -> Self {
        Self { web: true, ..self }
    }

    /// Adds a grant, at any address that it covers: `host`, `host:port`, `*.example.org`, `*`.
    #[must_use]
    pub fn and(mut self, grant: &str) -> Self {
        let pattern = HostPattern::parse(grant);
        let reach = pattern.reach();
        self.hosts.push((pattern, reach));
        self
    }

    /// Adds a grant at public addresses only: for hosts that no person was asked about.
    #[must_use]
    pub fn and_public(mut self, grant: &str) -> Self {
        self.hosts.push((HostPattern::parse(grant), Reach::Public));
        self
    }

    /// Returns how far this host may be reached. `looks`: by a request that only reads, and sends no body.
    pub fn reach(&self, host: &str, port: u16, looks: bool) -> Option<Reach> {
        let granted = self.hosts.iter().filter(|(it, _)| it.fits(host, port)).map(|(_, reach)| *reach).max();
        granted.max((self.web && looks).then_some(Reach::Public))
    }
}
