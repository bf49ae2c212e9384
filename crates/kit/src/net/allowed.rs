//! Hosts that a call may contact.

use super::ip_rules::{HostPattern, Reach};

/// The hosts that a call may speak to.
#[derive(Debug, Clone, Default)]
pub struct Allowed {
    web: bool,
    hosts: Vec<(HostPattern, Reach)>,
}

impl Allowed {
    /// Also what is on the open web: requests without a body that only read, at any public address.
    #[must_use]
    pub fn and_web(self) -> Self {
        Self { web: true, ..self }
    }

    /// What this grant names, as far as it reaches: `host`, `host:port`, `*.example.org`, `*`.
    #[must_use]
    pub fn and(mut self, grant: &str) -> Self {
        let pattern = HostPattern::parse(grant);
        let reach = pattern.reach();
        self.hosts.push((pattern, reach));
        self
    }

    /// What this grant names, at public addresses only: what nobody was asked about.
    #[must_use]
    pub fn and_public(mut self, grant: &str) -> Self {
        self.hosts.push((HostPattern::parse(grant), Reach::Public));
        self
    }

    /// How far this host may be reached. `looks`: by a request that only reads, and sends no body.
    pub fn reach(&self, host: &str, port: u16, looks: bool) -> Option<Reach> {
        let granted = self.hosts.iter().filter(|(it, _)| it.fits(host, port)).map(|(_, reach)| *reach).max();
        granted.max((self.web && looks).then_some(Reach::Public))
    }
}
