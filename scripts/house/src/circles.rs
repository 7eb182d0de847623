//! Circles in a graph, of files or of rooms, and an order where there are none.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;

use petgraph::algo::{astar, tarjan_scc};
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;

use crate::arrows::Arrow;
use crate::tree::House;

/// Names, and between them arrows that say where they come from.
pub(crate) struct Graph(DiGraph<String, String>);

impl Graph {
    /// The files of a crate. `folder` stands before their names in the text of an arrow.
    pub(crate) fn of_files(house: &House, arrows: &[Arrow], folder: &str) -> Self {
        Self::new(house, arrows, folder, str::to_owned)
    }

    /// The rooms of a crate: the folders and the single files in the folder of its root.
    pub(crate) fn of_rooms(house: &House, arrows: &[Arrow], folder: &str) -> Self {
        Self::new(house, arrows, folder, room)
    }

    fn new(house: &House, arrows: &[Arrow], folder: &str, name: fn(&str) -> String) -> Self {
        let names: BTreeSet<_> = house.files.iter().map(|file| name(file)).collect();
        let mut graph = DiGraph::new();
        let nodes: BTreeMap<_, _> = names.into_iter().map(|name| (name.clone(), graph.add_node(name))).collect();
        let mut ordered: Vec<_> = arrows.iter().collect();
        ordered.sort_by_key(|arrow| (&house.files[arrow.from], &house.files[arrow.to]));
        for arrow in ordered {
            let (from, to) = (nodes[&name(&house.files[arrow.from])], nodes[&name(&house.files[arrow.to])]);
            if from != to && graph.find_edge(from, to).is_none() {
                let said = format!("{folder}{}:{} names {}", house.files[arrow.from], arrow.line, arrow.path);
                graph.add_edge(from, to, said);
            }
        }
        Self(graph)
    }

    /// The names among which there are circles, and circles that show every arrow between them.
    /// Empty if there is no circle.
    pub(crate) fn circles(&self, kind: &str) -> String {
        let mut text = String::new();
        for knot in tarjan_scc(&self.0).into_iter().filter(|knot| knot.len() > 1) {
            let mut members: Vec<_> = knot.iter().map(|&node| self.0[node].as_str()).collect();
            members.sort_unstable();
            let _ = writeln!(text, "{} {kind} name each other in circles: {}", members.len(), members.join(", "));
            for circle in self.circles_of(&knot) {
                let names: Vec<_> = circle.iter().map(|&node| self.0[node].as_str()).collect();
                let _ = writeln!(text, "  {}", names.join(" -> "));
                for arrow in steps(&circle).filter_map(|(from, to)| self.0.find_edge(from, to)) {
                    let _ = writeln!(text, "    {}", self.0[arrow]);
                }
            }
        }
        text
    }

    /// The shortest circle through each arrow, without circles that show no arrow that the others
    /// don't.
    fn circles_of(&self, knot: &[NodeIndex]) -> Vec<Vec<NodeIndex>> {
        let inside: HashSet<_> = knot.iter().copied().collect();
        let mut circles = BTreeSet::new();
        for edge in self.0.edge_references().filter(|edge| inside.contains(&edge.source())) {
            let goal = edge.source();
            if let Some((_, way)) = astar(&self.0, edge.target(), |node| node == goal, |_| 1, |_| 0) {
                let first = (0..way.len()).min_by_key(|&at| way[at]).unwrap_or(0);
                let circle: Vec<_> = (0..=way.len()).map(|step| way[(first + step) % way.len()]).collect();
                circles.insert((circle.len(), circle));
            }
        }
        let mut shown = HashSet::new();
        let mut kept = Vec::new();
        for (_, circle) in circles {
            if steps(&circle).filter(|step| shown.insert(*step)).count() > 0 {
                kept.push(circle);
            }
        }
        kept
    }

    /// Every name with those that it names. These stand before it, unless both are in a circle.
    pub(crate) fn layers(&self) -> String {
        // Tarjan's algorithm gives a component after those that it leads to.
        let mut depth_of = BTreeMap::new();
        for knot in tarjan_scc(&self.0) {
            let below = knot.iter().flat_map(|&node| self.0.neighbors(node)).filter_map(|to| depth_of.get(&to));
            let depth = below.max().map_or(0, |depth| depth + 1);
            depth_of.extend(knot.into_iter().map(|node| (node, depth)));
        }
        let mut nodes: Vec<_> = self.0.node_indices().collect();
        nodes.sort_by_key(|node| (depth_of[node], *node));
        let mut text = String::new();
        for node in nodes {
            let mut named: Vec<_> = self.0.neighbors(node).map(|to| self.0[to].as_str()).collect();
            named.sort_unstable();
            let _ = writeln!(text, "{}", format!("{}: {}", self.0[node], named.join(", ")).trim_end());
        }
        text
    }

    /// Every arrow, by name.
    pub(crate) fn arrows(&self) -> String {
        let mut text = String::new();
        for edge in self.0.edge_references() {
            let _ = writeln!(text, "{} -> {}  {}", self.0[edge.source()], self.0[edge.target()], edge.weight());
        }
        text
    }
}

fn steps(circle: &[NodeIndex]) -> impl Iterator<Item = (NodeIndex, NodeIndex)> {
    circle.windows(2).map(|pair| (pair[0], pair[1]))
}

/// The room of a file. A file outside the root's folder is in a room of its own folder's name.
fn room(file: &str) -> String {
    match file.split_once('/') {
        Some(("..", _)) => file.rsplit_once('/').map_or(file, |(folder, _)| folder).to_owned(),
        Some((folder, _)) => folder.to_owned(),
        None => file.trim_end_matches(".rs").to_owned(),
    }
}
