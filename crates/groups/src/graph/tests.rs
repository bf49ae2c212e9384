#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use proptest::prelude::*;

use super::*;

fn names(name: &str) -> Names {
    Names { name: name.to_owned(), is_privileged: false }
}

/// Members `a`, `b`, … in one graph, each with its own channel.
fn topology(members: &[&str]) -> (Topology, String) {
    let mut all = Topology::default();
    let graph = all.add_graph(0);
    for member in members {
        all.add_member(&graph, member, names(member), None).unwrap();
        all.add_channel(&graph, member, Channel::default()).unwrap();
        all.set_edge(member, member, Direction::Listen, true).unwrap();
    }
    (all, graph)
}

#[test]
fn removing_the_bridge_splits_a_graph_and_the_largest_part_keeps_the_id() {
    let (mut all, graph) = topology(&["a", "b", "c", "d"]);
    for sender in ["b", "c"] {
        all.set_edge(sender, "a", Direction::Send, true).unwrap();
    }
    all.set_edge("c", "d", Direction::Send, true).unwrap();
    all.add_wire("d", Wire::to("a")).unwrap();
    let delta = all.set_edge("c", "d", Direction::Send, false).unwrap();
    assert_eq!((delta.kind, delta.old_graph_ids.as_slice()), (Change::Split, &[graph.clone()][..]));
    assert_eq!(delta.new_graph_ids.len(), 2);
    assert_eq!(all.graph_of("a").unwrap().0, &graph);
    let (other, small) = all.graph_of("d").unwrap();
    assert_ne!(other, &graph);
    assert_eq!(small.channels.keys().collect::<Vec<_>>(), ["d"]);
    assert_eq!(small.wires_of("d"), [Wire::to("a")], "wires go with their source");
    assert!(delta.affected.contains("a") && delta.affected.contains("d"));
}

#[test]
fn a_parent_link_keeps_two_members_together_without_a_channel() {
    let (mut all, graph) = topology(&["a"]);
    all.add_member(&graph, "child", names("child"), Some("a")).unwrap();
    assert_eq!(all.remove_channel(&graph, "a").unwrap().kind, Change::Nothing);
    assert_eq!((all.parent_of("child"), all.depth_of("child")), (Some("a"), 1));
    all.remove_member("a").unwrap();
    assert_eq!(all.parent_of("child"), None);
}

#[test]
fn connecting_two_graphs_merges_them_unless_names_collide_or_the_cap_is_reached() {
    let (mut all, one) = topology(&["a", "b"]);
    let other = all.add_graph(2);
    all.add_member(&other, "c", names("c"), None).unwrap();
    assert_eq!(all.connect("a", "c", "talk"), Err(Broken::Full(3, 2)));
    all.graphs.get_mut(&other).unwrap().cap = 3;
    all.add_channel(&other, "a", Channel::default()).unwrap();
    assert_eq!(all.connect("a", "c", "talk"), Err(Broken::Collide(vec!["a".to_owned()])));
    all.remove_channel(&other, "a").unwrap();
    let delta = all.connect("a", "c", "talk").unwrap();
    assert_eq!((delta.kind, delta.new_graph_ids), (Change::Merge, vec![one.clone()]));
    assert_eq!(all.graphs.len(), 1);
    let graph = &all.graphs[&one];
    assert_eq!((graph.cap, graph.listeners("talk").collect::<Vec<_>>()), (3, vec!["c"]));
    assert!(graph.is_full());
    assert_eq!(all.add_member(&one, "d", names("d"), None), Err(Broken::Full(3, 3)));
    let third = all.add_graph(0);
    all.add_member(&third, "a2", names("a"), None).unwrap();
    assert!(matches!(all.connect("b", "a2", "x"), Err(Broken::IsMember { .. })), "names stay unique");
}

#[test]
fn root_listens_to_every_channel_and_all_others_may_report_to_it() {
    let (mut all, graph) = topology(&["a", "b", "root"]);
    all.assign_root("root").unwrap();
    let graph = &all.graphs[&graph];
    assert_eq!(graph.listens("root").collect::<Vec<_>>(), ["a", "b", REPORT, "root"]);
    assert_eq!(graph.senders(REPORT).collect::<Vec<_>>(), ["a", "b"]);
    assert!(all.is_privileged("root") && !all.is_privileged("a"));
}

#[test]
fn targets_are_ids_first_and_then_names_of_the_own_graph() {
    let (mut all, graph) = topology(&["a"]);
    all.add_member(&graph, "w_1", names("worker"), Some("a")).unwrap();
    let far = all.add_graph(0);
    all.add_member(&far, "x", names("far"), None).unwrap();
    assert_eq!(all.resolve("a", "worker").unwrap(), "w_1");
    assert_eq!(all.resolve("a", "w_1").unwrap(), "w_1");
    let unknown = all.resolve("a", "far").unwrap_err().to_string();
    assert!(unknown.contains("'far'") && unknown.ends_with("there are: a, worker"), "{unknown}");
    assert_eq!(all.resolve("nobody", "a"), Err(Unresolved::Caller));
    assert!(matches!(all.add_member(&graph, "w_2", names("worker"), None), Err(Broken::IsMember { .. })));
}

#[test]
fn the_same_wire_twice_is_one_and_removing_a_member_removes_wires_to_it() {
    let (mut all, graph) = topology(&["a", "b"]);
    let id = all.add_wire("a", Wire::to("b")).unwrap();
    assert_eq!(all.add_wire("a", Wire::to("b")).unwrap(), id);
    assert_eq!(all.graphs[&graph].wires_of("a").len(), 1);
    assert!(all.remove_wire("a", &id).unwrap() && !all.remove_wire("a", &id).unwrap());
    all.add_wire("a", Wire::to("b")).unwrap();
    all.remove_member("b").unwrap();
    assert!(all.graphs.values().all(|it| it.wires_of("a").is_empty()));
}

proptest! {
    /// After any changes each member is in exactly one graph, each graph is connected, edges name channels of
    /// their own graph, and no graph is beyond its cap.
    #[test]
    fn random_changes_keep_every_graph_connected(steps in prop::collection::vec((0..7u8, 0..8usize, 0..8usize), 1..60)) {
        let (mut all, graph) = topology(&["m0", "m1"]);
        all.graphs.get_mut(&graph).unwrap().cap = 7;
        for (kind, one, other) in steps {
            let (a, b) = (format!("m{one}"), format!("m{other}"));
            let home = all.graph_of(&a).map(|it| it.0.clone());
            let _: Option<()> = match kind {
                0 => {
                    let id = home.unwrap_or_else(|| all.add_graph(7));
                    all.add_member(&id, &b, names(&b), Some(&a)).ok()
                }
                1 => all.remove_member(&a).map(drop).ok(),
                2 => home.and_then(|it| all.add_channel(&it, &b, Channel::default()).ok()),
                3 => home.and_then(|it| all.remove_channel(&it, &b).map(drop).ok()),
                4 => all.set_edge(&a, &b, Direction::Send, true).map(drop).ok(),
                5 => all.set_edge(&a, &b, Direction::Listen, false).map(drop).ok(),
                _ => all.connect(&a, &b, &format!("c{one}{other}")).map(drop).ok(),
            };
            all.graphs.retain(|_, it| !it.members.is_empty());
            let listed: Vec<&String> = all.graphs.values().flat_map(|it| &it.members).collect();
            let unique: BTreeSet<&String> = listed.iter().copied().collect();
            prop_assert_eq!(listed.len(), unique.len());
            prop_assert_eq!(unique, all.names.keys().collect::<BTreeSet<_>>());
            for graph in all.graphs.values() {
                prop_assert!(graph.cap == 0 || graph.members.len() <= graph.cap);
                for (member, edges) in graph.listen.iter().chain(&graph.send) {
                    prop_assert!(graph.members.contains(member));
                    prop_assert!(edges.iter().all(|it| graph.channels.contains_key(it)));
                }
                prop_assert!(graph.parents.iter().all(|it| graph.members.contains(it.0) && graph.members.contains(it.1)));
            }
        }
    }
}
