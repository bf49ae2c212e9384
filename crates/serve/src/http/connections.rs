//! HTTP connection limits: caps open connections per token and evicts the idle ones.
//!
//! A connection that has shown no token yet is a stranger's. Strangers are many where somebody means ill, so a new one
//! takes the place of the oldest of whoever has the most; guests are never sent away for a stranger.

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
    strangers_at_most: usize,
}

#[derive(Default)]
struct Table {
    next: u64,
    known: usize,
    /// In the order in which they came.
    strangers: BTreeMap<u64, (IpAddr, CancellationToken)>,
}

/// One connection.
pub(super) struct Guest {
    guests: Arc<Connections>,
    number: u64,
    /// It has to leave.
    pub(super) leave: CancellationToken,
}

impl Connections {
    pub(super) fn new(at_most: usize, strangers_at_most: usize) -> Arc<Self> {
        Arc::new(Self { table: Mutex::default(), at_most, strangers_at_most })
    }

    /// Lets a connection in; none when all places are taken by guests that are known.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<Guest> {
        let mut table = self.table();
        if table.known >= self.at_most {
            return None;
        }
        if table.strangers.len() >= self.strangers_at_most
            || table.known + table.strangers.len() >= self.at_most
        {
            table.send_one_away();
        }
        let number = table.next;
        table.next += 1;
        let leave = CancellationToken::new();
        table.strangers.insert(number, (peer, leave.clone()));
        Some(Guest { guests: Arc::clone(self), number, leave })
    }

    /// There is no room on this machine: a stranger has to leave.
    pub(super) fn make_room(&self) {
        self.table().send_one_away();
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn send_one_away(&mut self) {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for (peer, _) in self.strangers.values() {
            *counts.entry(*peer).or_default() += 1;
        }
        let most = counts.values().copied().max().unwrap_or_default();
        let crowded = |peer: &IpAddr| counts.get(peer) == Some(&most);
        let oldest = self.strangers.iter().find(|(_, (peer, _))| crowded(peer)).map(|(number, _)| *number);
        if let Some((_, leave)) = oldest.and_then(|number| self.strangers.remove(&number)) {
            leave.cancel();
        }
    }
}

impl Guest {
    /// It has shown that it may be here.
    pub(super) fn is_known(&self) {
        let mut table = self.guests.table();
        if table.strangers.remove(&self.number).is_some() {
            table.known += 1;
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut table = self.guests.table();
        // Who was sent away is in neither, and its token says so.
        if table.strangers.remove(&self.number).is_none() && !self.leave.is_cancelled() {
            table.known = table.known.saturating_sub(1);
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
    fn strangers_make_room_for_strangers_and_guests_stay() {
        let guests = Connections::new(4, 3);
        let good = guests.enter(B).unwrap();
        good.is_known();
        let other = guests.enter(B).unwrap();
        let crowd: Vec<Guest> = (0..2).map(|_| guests.enter(A).unwrap()).collect();
        let newest = guests.enter(A).unwrap();
        assert!(crowd.first().is_some_and(|it| it.leave.is_cancelled()), "the oldest of the many");
        assert!(!other.leave.is_cancelled() && !good.leave.is_cancelled() && !newest.leave.is_cancelled());
    }

    #[test]
    fn a_house_full_of_guests_lets_nobody_in_until_one_leaves() {
        let guests = Connections::new(2, 2);
        let mut known: Vec<Guest> = (0..2).map(|_| guests.enter(A).unwrap()).collect();
        known.iter().for_each(Guest::is_known);
        assert!(guests.enter(B).is_none());
        known.pop();
        let stranger = guests.enter(B).unwrap();
        let second = guests.enter(B).unwrap();
        assert!(stranger.leave.is_cancelled() && !second.leave.is_cancelled());
        drop(stranger);
        drop(second);
        known.clear();
        assert_eq!(guests.table().known, 0);
    }
}
