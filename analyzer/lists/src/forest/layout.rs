//! Layered layout of a graph: positions of nodes in layers, and the points of edges.
//!
//! Edges lead to the right. An edge over several layers passes a point in each, which reserves room for it. Within a
//! layer, nodes are ordered by the mean of their neighbours, and moved as near to it as possible.

/// Passes over the layers, there and back.
const SWEEPS: usize = 12;
/// Between nodes of a layer.
const GAP: f64 = 14.0;
/// Height of an edge that passes a layer.
const PASS_HEIGHT: f64 = 16.0;

/// Positions of nodes and edges.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ForestLayout {
    /// Each node's layer, and its middle from the top.
    pub(super) nodes: Vec<(usize, f64)>,
    /// Per edge, layers and heights between its ends, in the given direction.
    pub(super) edges: Vec<Vec<(usize, f64)>>,
    /// Layers.
    pub(super) layers: usize,
    /// Total height.
    pub(super) height: f64,
}

/// A graph in layers, with a vertex for each layer that an edge passes.
struct LayeredGraph {
    /// Per vertex, its layer.
    layer: Vec<usize>,
    /// Per vertex, its height.
    height: Vec<f64>,
    /// Per vertex, its neighbours in the adjacent layers.
    linked: Vec<Vec<usize>>,
    /// Vertices of each layer from the top.
    rows: Vec<Vec<usize>>,
    /// Per vertex, its middle.
    middle: Vec<f64>,
}

/// Lays out nodes of these heights, joined by edges from left to right. Edges from a node to itself have no points.
pub(super) fn layout(heights: &[f64], edges: &[(usize, usize)]) -> ForestLayout {
    let forward = without_circles(heights.len(), edges);
    let layer = layers(heights.len(), &forward);
    let mut graph = LayeredGraph::from_heights(heights, layer);
    let passed: Vec<Vec<usize>> =
        forward.iter().map(|&(source, target)| graph.join(source, target)).collect();
    graph.order();
    graph.settle();
    let top =
        (0..graph.layer.len()).map(|v| graph.middle[v] - graph.height[v] / 2.0).fold(f64::MAX, f64::min);
    let bottom =
        (0..graph.layer.len()).map(|v| graph.middle[v] + graph.height[v] / 2.0).fold(f64::MIN, f64::max);
    let place = |vertex: usize| (graph.layer[vertex], graph.middle[vertex] - top);
    let edges = edges.iter().zip(&forward).zip(&passed).map(|((edge, forward), passed)| {
        let mut points: Vec<(usize, f64)> = passed.iter().map(|&vertex| place(vertex)).collect();
        if edge != forward {
            points.reverse();
        }
        points
    });
    ForestLayout {
        edges: edges.collect(),
        nodes: (0..heights.len()).map(place).collect(),
        layers: graph.rows.len(),
        height: if heights.is_empty() { 0.0 } else { bottom - top },
    }
}

/// The edges, with those that would close a cycle reversed.
fn without_circles(nodes: usize, edges: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut after = vec![Vec::new(); nodes];
    for (place, &(source, target)) in edges.iter().enumerate() {
        after[source].push((place, target));
    }
    let mut turned = edges.to_vec();
    // 0: not seen, 1: on the way that is being followed, 2: done.
    let mut state = vec![0_u8; nodes];
    for start in 0..nodes {
        let mut way = vec![(start, 0)];
        while let Some((node, next)) = way.pop() {
            if next == 0 && state[node] != 0 {
                continue;
            }
            state[node] = 1;
            let Some(&(place, target)) = after[node].get(next) else {
                state[node] = 2;
                continue;
            };
            way.push((node, next + 1));
            match state[target] {
                0 => way.push((target, 0)),
                1 if target != node => turned[place] = (target, node),
                _ => {}
            }
        }
    }
    turned
}

/// Each node's layer: right of all its sources. A node without sources is directly left of its targets.
fn layers(nodes: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut layer = vec![0_usize; nodes];
    // As there are no circles, a longest way has fewer edges than there are nodes.
    for _ in 0..nodes {
        let mut changed = false;
        for &(source, target) in edges.iter().filter(|(source, target)| source != target) {
            if layer[target] <= layer[source] {
                layer[target] = layer[source] + 1;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let is_source = |node: usize| !edges.iter().any(|&(source, target)| target == node && source != node);
    for node in (0..nodes).filter(|&node| is_source(node)) {
        let after = edges.iter().filter(|&&(source, target)| source == node && target != node);
        if let Some(first) = after.map(|&(_, target)| layer[target]).min() {
            layer[node] = first.saturating_sub(1);
        }
    }
    layer
}

impl LayeredGraph {
    fn from_heights(heights: &[f64], layer: Vec<usize>) -> Self {
        let mut rows = vec![Vec::new(); layer.iter().max().map_or(0, |last| last + 1)];
        for (node, &layer) in layer.iter().enumerate() {
            rows[layer].push(node);
        }
        let count = heights.len();
        Self {
            layer,
            height: heights.to_vec(),
            linked: vec![Vec::new(); count],
            rows,
            middle: vec![0.0; count],
        }
    }

    /// Joins two nodes. Returns the vertices between them.
    fn join(&mut self, source: usize, target: usize) -> Vec<usize> {
        let (mut last, mut passed) = (source, Vec::new());
        if source == target {
            return passed;
        }
        for layer in self.layer[source] + 1..self.layer[target] {
            let vertex = self.layer.len();
            self.layer.push(layer);
            self.height.push(PASS_HEIGHT);
            self.linked.push(Vec::new());
            self.middle.push(0.0);
            self.rows[layer].push(vertex);
            self.link(last, vertex);
            passed.push(vertex);
            last = vertex;
        }
        self.link(last, target);
        passed
    }

    fn link(&mut self, one: usize, other: usize) {
        self.linked[one].push(other);
        self.linked[other].push(one);
    }

    /// Orders each layer by the positions of its vertices' neighbours.
    fn order(&mut self) {
        self.stack();
        for sweep in 0..SWEEPS {
            for place in 0..self.rows.len() {
                let layer = if sweep % 2 == 0 { place } else { self.rows.len() - 1 - place };
                let mut keys: Vec<(f64, usize, usize)> = self.rows[layer]
                    .iter()
                    .enumerate()
                    .map(|(rank, &vertex)| (self.wish(vertex), rank, vertex))
                    .collect();
                keys.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                self.rows[layer] = keys.into_iter().map(|(.., vertex)| vertex).collect();
                self.stack_layer(layer);
            }
        }
    }

    /// The mean of a vertex's neighbours, or its position without any.
    fn wish(&self, vertex: usize) -> f64 {
        let linked = &self.linked[vertex];
        let sum: f64 = linked.iter().map(|&other| self.middle[other]).sum();
        if linked.is_empty() { self.middle[vertex] } else { sum / linked.len() as f64 }
    }

    fn stack(&mut self) {
        (0..self.rows.len()).for_each(|layer| self.stack_layer(layer));
    }

    /// Stacks a layer's vertices around the middle.
    fn stack_layer(&mut self, layer: usize) {
        let whole: f64 = self.rows[layer].iter().map(|&vertex| self.height[vertex] + GAP).sum();
        let mut top = -whole / 2.0;
        for &vertex in &self.rows[layer] {
            self.middle[vertex] = top + self.height[vertex] / 2.0;
            top += self.height[vertex] + GAP;
        }
    }

    /// Moves vertices to their neighbours' mean, as near as the layer allows.
    fn settle(&mut self) {
        for sweep in 0..SWEEPS {
            for place in 0..self.rows.len() {
                let layer = if sweep % 2 == 0 { place } else { self.rows.len() - 1 - place };
                self.settle_layer(layer);
            }
        }
    }

    fn settle_layer(&mut self, layer: usize) {
        // Minus the room of those above, the positions nearest to the wishes increase: an isotonic regression, which
        // merges neighbours in the wrong order into their mean.
        let (mut room, mut offsets) = (0.0, Vec::new());
        let mut blocks: Vec<(f64, usize)> = Vec::new();
        for (rank, &vertex) in self.rows[layer].iter().enumerate() {
            if let Some(&above) = rank.checked_sub(1).and_then(|above| self.rows[layer].get(above)) {
                room += f64::midpoint(self.height[above], self.height[vertex]) + GAP;
            }
            offsets.push(room);
            blocks.push((self.wish(vertex) - room, 1));
            while let [.., (above, above_count), (below, below_count)] = blocks[..]
                && above > below
            {
                let count = above_count + below_count;
                let mean = (above * above_count as f64 + below * below_count as f64) / count as f64;
                blocks.truncate(blocks.len() - 2);
                blocks.push((mean, count));
            }
        }
        let places = blocks.iter().flat_map(|&(place, count)| std::iter::repeat_n(place, count));
        for ((&vertex, offset), place) in self.rows[layer].iter().zip(offsets).zip(places) {
            self.middle[vertex] = place + offset;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn layer(layout: &ForestLayout, node: usize) -> usize {
        layout.nodes[node].0
    }

    #[test]
    fn what_leads_to_a_node_is_left_of_it() {
        let layout = layout(&[20.0; 5], &[(0, 1), (1, 2), (0, 2), (3, 2), (4, 4)]);
        assert_eq!((0..5).map(|node| layer(&layout, node)).collect::<Vec<_>>(), [0, 1, 2, 1, 0]);
        assert_eq!(layout.edges[2].len(), 1, "the edge over a layer passes it");
        assert_eq!(layout.edges[0], []);
    }

    #[test]
    fn circles_end() {
        let layout = layout(&[20.0; 3], &[(0, 1), (1, 2), (2, 0)]);
        assert_eq!((0..3).map(|node| layer(&layout, node)).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(layout.edges[2].len(), 1);
    }

    proptest! {
        #[test]
        fn nodes_never_overlap(
            heights in proptest::collection::vec(10.0..80.0, 1..24),
            ends in proptest::collection::vec((0..24_usize, 0..24_usize), 0..50),
        ) {
            let edges: Vec<(usize, usize)> =
                ends.into_iter().map(|(a, b)| (a % heights.len(), b % heights.len())).collect();
            let layout = layout(&heights, &edges);
            for one in 0..heights.len() {
                let (layer, middle) = layout.nodes[one];
                prop_assert!(layer < layout.layers);
                prop_assert!(middle - heights[one] / 2.0 > -1e-6);
                prop_assert!(middle + heights[one] / 2.0 < layout.height + 1e-6);
                for other in (0..one).filter(|&other| layout.nodes[other].0 == layer) {
                    let apart = (layout.nodes[other].1 - middle).abs();
                    prop_assert!(apart > f64::midpoint(heights[one], heights[other]) + GAP - 1e-6);
                }
            }
        }

        #[test]
        fn edges_pass_every_layer_between_their_ends(
            ends in proptest::collection::vec((0..12_usize, 0..12_usize), 0..30),
        ) {
            let layout = layout(&[20.0; 12], &ends);
            for ((source, target), passed) in ends.into_iter().zip(&layout.edges) {
                let (one, other) = (layer(&layout, source), layer(&layout, target));
                prop_assert!(source == target || one != other);
                prop_assert_eq!(passed.len(), one.abs_diff(other).saturating_sub(1));
            }
        }
    }
}
