//! Loop detection between members: messages that go to and fro while nothing else changes.

use std::collections::BTreeMap;

/// Counts the exchanges between members since something else happened.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    /// For each pair, in the order of their ids: whose message came last, and how often that changed.
    pairs: BTreeMap<(String, String), (String, usize)>,
    /// How many messages each member sent and got since the last change of anything.
    flow: BTreeMap<String, (usize, usize)>,
}

/// Members that only answer each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Looping {
    pub(super) members: Vec<String>,
    pub(super) exchanges: usize,
}

impl Exchanges {
    /// Counts a message that a member got from another one. Returns who loops, once `most` exchanges are reached.
    pub(super) fn delivered(&mut self, from: &str, to: &str, most: usize) -> Option<Looping> {
        let pair = if from < to { (from, to) } else { (to, from) };
        let pair = (pair.0.to_owned(), pair.1.to_owned());
        self.flow.entry(from.to_owned()).or_default().0 += 1;
        self.flow.entry(to.to_owned()).or_default().1 += 1;
        let counted = self.pairs.entry(pair.clone()).or_insert_with(|| (from.to_owned(), 0));
        if counted.0 != from {
            from.clone_into(&mut counted.0);
            counted.1 += 1;
        }
        // An exchange is a message and its answer.
        let turns = counted.1;
        if turns >= most.saturating_mul(2).saturating_sub(1) {
            self.changed(std::slice::from_ref(&pair.0));
            return Some(Looping { members: vec![pair.0, pair.1], exchanges: turns.div_ceil(2) });
        }
        self.circle(most)
    }

    /// Returns the members of a longer circle: three or more that each sent and got far more than a pair may.
    fn circle(&mut self, most: usize) -> Option<Looping> {
        let most = most.saturating_mul(2);
        let goes_round = |it: &(&String, &(usize, usize))| it.1.0 >= most && it.1.1 >= most;
        let members: Vec<String> = self.flow.iter().filter(goes_round).map(|it| it.0.clone()).collect();
        if members.len() < 3 {
            return None;
        }
        *self = Self::default();
        Some(Looping { members, exchanges: most })
    }

    /// Something else changed through these members: what they exchanged before no longer counts.
    pub(super) fn changed(&mut self, members: &[String]) {
        self.pairs.retain(|pair, _| !members.contains(&pair.0) && !members.contains(&pair.1));
        self.flow.clear();
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn two_members_that_only_answer_each_other_are_found_after_n_exchanges() {
        let mut all = Exchanges::default();
        let mut found = Vec::new();
        for at in 0..6 {
            let (from, to) = if at % 2 == 0 { ("a", "b") } else { ("b", "a") };
            found.push(all.delivered(from, to, 3));
        }
        assert!(found.iter().take(5).all(Option::is_none), "{found:?}");
        let members = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(found.pop().unwrap(), Some(Looping { members, exchanges: 3 }));
    }

    #[test]
    fn messages_in_one_direction_and_exchanges_with_a_change_between_are_no_loop() {
        let mut all = Exchanges::default();
        assert!((0..100).all(|_| all.delivered("a", "b", 3).is_none()));
        for _ in 0..20 {
            assert_eq!(all.delivered("b", "a", 3), None);
            assert_eq!(all.delivered("a", "b", 3), None);
            all.changed(&["b".to_owned()]);
        }
    }

    #[test]
    fn a_circle_of_three_is_found_too() {
        let mut all = Exchanges::default();
        let circle = ["a", "b", "c"];
        let found = circle
            .iter()
            .zip(circle.iter().cycle().skip(1))
            .cycle()
            .take(200)
            .find_map(|(from, to)| all.delivered(from, to, 3));
        assert_eq!(found.unwrap().members, circle);
    }
}
