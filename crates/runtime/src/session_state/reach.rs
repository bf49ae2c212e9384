//! Network reach of a session's calls: the hosts that their processes and their requests may contact.

use std::sync::Arc;

use kit::{
    Address, Kinds, Touches,
    net::{Allowed, HostPattern, Line, Net, Reach as Range, host_of, says_private, split_port, with_port},
    procs::Procs,
};
use policy::{Policy, Want, Web, grants::SessionGrants};

use crate::execution::Execution;

/// The hosts that a call names, and how far it may reach them.
pub(crate) struct CallHosts {
    /// [`Want::Net`] and [`Want::Web`].
    pub(crate) wants: Vec<Want>,
    /// Those of them at which a process of the session listens. Nobody is asked about them, and the machine's own port of
    /// the same number is never meant.
    pub(crate) session_ports: Vec<String>,
    /// Whether it may look at the open web.
    pub(crate) web: Web,
    /// The address that it looks at, where a model named one.
    pub(crate) address: Address,
    /// A person was asked about this very call.
    pub(crate) approved: bool,
}

impl CallHosts {
    /// Does it look at the open web?
    pub(crate) fn looks(&self) -> bool {
        self.wants.iter().any(|it| matches!(it, Want::Web { .. }))
    }

    /// May it, and where it is redirected, look at all that is public? Not if it asks a server that the session started:
    /// the model may have written what that one answers, and so compose any address.
    fn opens_web(&self) -> bool {
        self.looks() && self.web >= if self.has_session_ports() { Web::Public } else { Web::Known }
    }

    /// Does it reach a server that the session itself started?
    fn has_session_ports(&self) -> bool {
        !self.session_ports.is_empty()
    }

    /// Did a person answer a question about this host?
    fn was_asked_about(&self, want: &Want, policy: &Policy) -> bool {
        let is_of_session = want.host().is_some_and(|host| self.session_ports.iter().any(|it| it == host));
        self.approved && !is_of_session && policy.asks(want)
    }

    /// Does what it reads on the web name addresses for later calls? An answer to an address that the model composed, and
    /// nobody saw, may repeat what the model put into it; so may a server that the session started.
    pub(crate) fn names_addresses(&self) -> bool {
        self.looks()
            && !self.has_session_ports()
            && (self.approved || self.wants.iter().any(|it| matches!(it, Want::Web { known: true, .. })))
    }
}

/// What calls of a session reach.
pub(crate) struct Reach<'a> {
    pub(super) execution: &'a Execution,
    pub(super) grants: &'a SessionGrants,
    pub(super) policy: Policy,
    pub(super) line: Arc<Line>,
}

impl Reach<'_> {
    /// What the processes of a call are started with.
    pub(crate) fn procs(&self, touches: &Touches, call: &CallHosts) -> Procs {
        let Self { execution, policy, .. } = self;
        // What starts nothing need not know which hosts a person granted.
        if !touches.kinds().covers(Kinds::RUN) {
            return execution.of_call(touches, &[]);
        }
        let mut granted = self.grants.hosts();
        let asked_about = |want: &Want| call.was_asked_about(want, policy);
        if !call.looks() {
            // What nobody was asked about opens no door behind which only this machine is.
            let unasked = call.wants.iter().filter(|it| !asked_about(it));
            let unasked: Vec<&str> = unasked.filter_map(Want::host).collect();
            return execution.of_session_call(touches, &granted, &unasked);
        }
        granted.extend(self.grants.hosts_to_look_at());
        granted.extend(policy.hosts.iter().cloned());
        // What is shown is not chosen by whoever looks: it runs apart, and reaches what the call itself may look at. Of private
        // hosts that is the one that was asked for: what others are allowed, a page has no business with.
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

    /// How a call reaches the network: what the configuration and grants name, what it was approved for, and what is
    /// open to all that only look.
    pub(crate) fn net(&self, call: &CallHosts) -> Net {
        if call.wants.is_empty() {
            return Net::new(self.line.clone(), Allowed::default());
        }
        // Where a request is redirected counts with the address that was asked for.
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
            // What nobody was asked about opens no door behind which only this machine is.
            Want::Net(host) | Want::Web { host, .. } if call.was_asked_about(want, &self.policy) => {
                it.and(host)
            }
            Want::Net(host) => it.and_public(host),
            // To look is open or asked about; it is no leave to speak.
            _ => it,
        };
        let net = Net::new(self.line.clone(), call.wants.iter().fold(allowed, of_call));
        if call.has_session_ports() { net.and_session_ports(self.execution.ports().clone()) } else { net }
    }
}
