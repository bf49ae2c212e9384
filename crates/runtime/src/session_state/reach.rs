//! Network reach of a session's calls: the hosts that their processes and their requests may contact.

use std::sync::Arc;

use kit::{
    Address, Kinds, Touches,
    net::{
        Allowed, Connector, HostPattern, Net, Reach as Range, host_of, says_private, split_port, with_port,
    },
    procs::Procs,
};
use policy::{Policy, Want, Web, grants::SessionGrants};

use crate::execution::Execution;

/// The hosts that a call names, and how it may reach them.
pub(crate) struct CallHosts {
    /// The [`Want::Net`] and [`Want::Web`] of the call.
    pub(crate) wants: Vec<Want>,
    /// The hosts of them where a process of the session listens. They need no question, and never mean the
    /// machine's own port of that number.
    pub(crate) session_ports: Vec<String>,
    /// How it may read the open web.
    pub(crate) web: Web,
    /// The address that it reads, if a model named one.
    pub(crate) address: Address,
    /// Whether a person approved this call.
    pub(crate) approved: bool,
}

impl CallHosts {
    /// Returns whether it reads the open web.
    pub(crate) fn looks(&self) -> bool {
        self.wants.iter().any(|it| matches!(it, Want::Web { .. }))
    }

    /// Returns whether it may read every public address, also after a redirect. It may not if it contacts a
    /// server that the session started: the model may have written that server's answers, and so compose any
    /// address.
    fn opens_web(&self) -> bool {
        self.looks() && self.web >= if self.has_session_ports() { Web::Public } else { Web::Known }
    }

    /// Returns whether it contacts a server that the session started.
    fn has_session_ports(&self) -> bool {
        !self.session_ports.is_empty()
    }

    /// Returns whether a person answered a question about this host.
    fn was_asked_about(&self, want: &Want, policy: &Policy) -> bool {
        let is_of_session = want.host().is_some_and(|host| self.session_ports.iter().any(|it| it == host));
        self.approved && !is_of_session && policy.asks(want)
    }

    /// Returns whether its web results name addresses for later calls. A result from an address that the
    /// model composed, and that nobody saw, may repeat what the model put into it; so may a server that the
    /// session started.
    pub(crate) fn names_addresses(&self) -> bool {
        self.looks()
            && !self.has_session_ports()
            && (self.approved || self.wants.iter().any(|it| matches!(it, Want::Web { known: true, .. })))
    }
}

/// The network reach of a session's calls.
pub(crate) struct Reach<'a> {
    pub(super) execution: &'a Execution,
    pub(super) grants: &'a SessionGrants,
    pub(super) policy: Policy,
    pub(super) connector: Arc<Connector>,
}

impl Reach<'_> {
    /// Returns the process starter of a call.
    pub(crate) fn procs(&self, touches: &Touches, call: &CallHosts, id: &str) -> Procs {
        let Self { policy, .. } = self;
        let execution = self.execution.working_for(Some(id));
        // A call without processes doesn't need the granted hosts.
        if !touches.kinds().covers(Kinds::RUN) {
            return execution.of_call(touches, &[]);
        }
        let mut granted = self.grants.hosts();
        let asked_about = |want: &Want| call.was_asked_about(want, policy);
        if !call.looks() {
            // Hosts that nobody was asked about are reached at public addresses only.
            let unasked = call.wants.iter().filter(|it| !asked_about(it));
            let unasked: Vec<&str> = unasked.filter_map(Want::host).collect();
            return execution.of_session_call(touches, &granted, &unasked);
        }
        granted.extend(self.grants.hosts_to_look_at());
        granted.extend(policy.hosts.iter().cloned());
        // The caller does not choose what a page loads, so the page runs in its own sandbox and reaches what
        // the call itself may read. Of private hosts that is only the one that a person approved: a page must
        // not use other grants.
        let mut public: Vec<String> = granted.clone();
        if call.opens_web() {
            public.push("*".to_owned());
        }
        let asked = call.wants.iter().filter(|it| asked_about(it)).filter_map(Want::host);
        let mut origins: Vec<String> = Vec::new();
        for host in asked {
            let is_private = says_private(split_port(host).0);
            if is_private { &mut origins } else { &mut public }.push(host.to_owned());
        }
        if let Address::Plain(url) = &call.address
            && !call.has_session_ports()
            && let Ok((host, port)) = host_of(url)
        {
            let allows = |it: &String| {
                let pattern = HostPattern::parse(it);
                pattern.reach() == Range::Anywhere && pattern.fits(&host, port)
            };
            if granted.iter().any(allows) {
                origins.push(with_port(&host, port));
            }
        }
        execution.of_browser(&origins, &public, call.has_session_ports()).of_call(touches, &[])
    }

    /// Returns the call's network access: configured and granted hosts, those that it was approved for, and
    /// those that are open to reading.
    pub(crate) fn net(&self, call: &CallHosts) -> Net {
        if call.wants.is_empty() {
            return Net::new(self.connector.clone(), Allowed::default());
        }
        // A redirect counts as a part of the approved request.
        let open = if call.opens_web() { Allowed::default().and_web() } else { Allowed::default() };
        let mut granted = self.grants.hosts();
        if call.looks() {
            granted.extend(self.grants.hosts_to_look_at());
        }
        let allowed = self.policy.hosts.iter().chain(&granted).fold(open, |it, host| it.and(host));
        let of_call = |it: Allowed, want: &Want| match want {
            Want::Web { host, .. } if call.web == Web::Known && !says_private(split_port(host).0) => {
                it.and_public(host)
            }
            // Hosts that nobody was asked about are reached at public addresses only.
            Want::Net(host) | Want::Web { host, .. } if call.was_asked_about(want, &self.policy) => {
                it.and(host)
            }
            Want::Net(host) => it.and_public(host),
            // Reading is open or was approved; that does not permit sending.
            _ => it,
        };
        let net = Net::new(self.connector.clone(), call.wants.iter().fold(allowed, of_call));
        if call.has_session_ports() { net.and_session_ports(self.execution.ports().clone()) } else { net }
    }
}
