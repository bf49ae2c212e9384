//! HTTP connection limits: caps open connections, and evicts unauthenticated ones.
//!
//! A connection counts as unauthenticated until a request on it has shown a valid token. An attacker can open
//! many of those, so a new one evicts the oldest of the address that has the most; authenticated connections
//! are never evicted.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

/// All connections.
pub(super) struct Connections {
    table: Mutex<Table>,
    at_most: usize,
    unauthenticated_at_most: usize,
}

#[derive(Default)]
struct Table {
    next: u64,
    authenticated: usize,
    /// By their number, oldest first.
    unauthenticated: BTreeMap<u64, (IpAddr, CancellationToken)>,
}

/// One connection.
pub struct Connection {
    connections: Arc<Connections>,
    number: u64,
    /// Cancelled when the connection is evicted: it has to close.
    pub(super) closed: CancellationToken,
}

impl Connections {
    pub(super) fn new(at_most: usize, unauthenticated_at_most: usize) -> Arc<Self> {
        Arc::new(Self { table: Mutex::default(), at_most, unauthenticated_at_most })
    }

    /// Registers a connection; `None` if authenticated ones have reached the limit.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<Connection> {
        let mut table = self.table();
        if table.authenticated >= self.at_most {
            return None;
        }
        if table.unauthenticated.len() >= self.unauthenticated_at_most
            || table.authenticated + table.unauthenticated.len() >= self.at_most
        {
            table.evict_oldest();
        }
        let number = table.next;
        table.next += 1;
        let closed = CancellationToken::new();
        table.unauthenticated.insert(number, (peer, closed.clone()));
        Some(Connection { connections: Arc::clone(self), number, closed })
    }

    /// Evicts an unauthenticated connection, because the machine has no descriptor left.
    pub(super) fn evict_one(&self) {
        self.table().evict_oldest();
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn evict_oldest(&mut self) {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for (peer, _) in self.unauthenticated.values() {
            *counts.entry(*peer).or_default() += 1;
        }
        let most = counts.values().copied().max().unwrap_or_default();
        let crowded = |peer: &IpAddr| counts.get(peer) == Some(&most);
        let oldest =
            self.unauthenticated.iter().find(|(_, (peer, _))| crowded(peer)).map(|(number, _)| *number);
        if let Some((_, closed)) = oldest.and_then(|number| self.unauthenticated.remove(&number)) {
            closed.cancel();
        }
    }
}

impl Connection {
    /// Marks it as authenticated.
    pub fn has_authenticated(&self) {
        let mut table = self.connections.table();
        if table.unauthenticated.remove(&self.number).is_some() {
            table.authenticated += 1;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        // An evicted one is in neither set, and its token is cancelled.
        if table.unauthenticated.remove(&self.number).is_none() && !self.closed.is_cancelled() {
            table.authenticated = table.authenticated.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn new_connection_evicts_the_oldest_unauthenticated_one() {
        let connections = Connections::new(4, 3);
        let good = connections.enter(B).unwrap();
        good.has_authenticated();
        let other = connections.enter(B).unwrap();
        let crowd: Vec<Connection> = (0..2).map(|_| connections.enter(A).unwrap()).collect();
        let newest = connections.enter(A).unwrap();
        assert!(crowd.first().is_some_and(|it| it.closed.is_cancelled()), "the oldest of the many");
        assert!(!other.closed.is_cancelled() && !good.closed.is_cancelled() && !newest.closed.is_cancelled());
    }

    #[test]
    fn connection_limit_rejects_new_peers() {
        let connections = Connections::new(2, 2);
        let mut known: Vec<Connection> = (0..2).map(|_| connections.enter(A).unwrap()).collect();
        known.iter().for_each(Connection::has_authenticated);
        assert!(connections.enter(B).is_none());
        known.pop();
        let stranger = connections.enter(B).unwrap();
        let second = connections.enter(B).unwrap();
        assert!(stranger.closed.is_cancelled() && !second.closed.is_cancelled());
        drop(stranger);
        drop(second);
        known.clear();
        assert_eq!(connections.table().authenticated, 0);
    }
}
