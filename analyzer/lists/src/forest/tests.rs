//! Manual forests: grouping of equal tensors, selection, and conservation.

use proptest::prelude::*;

use super::prune::{ForestPicture, TensorChoice};
use super::read::{ForestTensor, TensorRelation};
use super::svg::{DrawingTarget, draw};
use super::tree::{RelationKind, TensorForest};
use super::{dot, export};

fn tensor(tensor_id: u64, base: Option<u64>, name: &str, samples: f64) -> ForestTensor {
    ForestTensor {
        id: tensor_id,
        base_tensor_id: base,
        name: name.into(),
        samples,
        ..ForestTensor::default()
    }
}

fn relation(source: u64, target: u64, kind: &str) -> TensorRelation {
    TensorRelation {
        source,
        target,
        kind: kind.into(),
        op: Some(format!("aten::{kind}")),
        line: None,
        calls: 1,
    }
}

fn choice(top: usize) -> TensorChoice {
    TensorChoice { top, tensor: None }
}

/// Two steps of a program that copies a transposed weight.
fn steps() -> TensorForest {
    let tensors = [
        tensor(1, None, "weight", 5.0),
        tensor(3, None, "copy", 50.0),
        tensor(5, None, "copy", 40.0),
        tensor(6, None, "other", 1.0),
        tensor(2, Some(1), "transposed", 0.0),
        tensor(4, Some(3), "row", 0.0),
        tensor(7, Some(5), "row", 0.0),
    ];
    let relations = [relation(2, 3, "copy"), relation(2, 5, "copy"), relation(6, 1, "in_place")];
    TensorForest::from_tensors(&tensors, &relations, vec![("(elsewhere)".into(), 4.0)], false)
}

fn names(picture: &ForestPicture) -> Vec<&str> {
    picture.nodes.iter().map(|node| node.tensor.name.as_str()).collect()
}

#[test]
fn equal_tensors_are_one() {
    let forest = steps();
    let copy = forest.nodes.iter().find(|node| node.tensor.name == "copy").unwrap();
    assert_eq!((copy.count, copy.samples, copy.tensor_ids.as_slice()), (2, 90.0, [3, 5].as_slice()));
    let edge = forest.edges.iter().find(|edge| edge.kind == RelationKind::Copy).unwrap();
    assert_eq!(edge.calls, 2);
    assert!((forest.total() - 100.0).abs() < 1e-9);
}

#[test]
fn what_has_other_views_is_another() {
    let tensors = [
        tensor(1, None, "copy", 9.0),
        tensor(2, None, "copy", 1.0),
        tensor(3, Some(2), "row", 0.0),
        tensor(4, Some(2), "row", 0.0),
    ];
    let forest = TensorForest::from_tensors(&tensors, &[], Vec::new(), false);
    let counts: Vec<usize> = forest.nodes.iter().map(|node| node.count).collect();
    assert_eq!((counts, forest.nodes[1].tree_samples), (vec![1, 1, 2], 1.0));
}

#[test]
fn the_way_to_the_costliest_goes_through_copies() {
    let picture = steps().choose(&choice(1)).unwrap();
    assert_eq!(names(&picture), ["copy", "weight", "transposed"]);
    assert_eq!(picture.blamed, [true; 3]);
    assert_eq!(picture.hidden, (1, 1.0));
    assert_eq!(picture.hidden_views[0], (2, 0.0));
    assert!(picture.edges.iter().all(|edge| picture.is_blamed(edge)));
}

#[test]
fn tensors_without_samples_are_shown() {
    let tensors = [tensor(1, None, "weight", 0.0), tensor(2, Some(1), "row", 0.0), tensor(3, None, "x", 0.0)];
    let forest = TensorForest::from_tensors(&tensors, &[], Vec::new(), false);
    assert_eq!(names(&forest.choose(&choice(9)).unwrap()), ["weight", "row", "x"]);
    assert_eq!(forest.choose(&choice(1)).unwrap().hidden.0, 1);
}

#[test]
fn trees_are_found_by_a_part_of_a_name() {
    let named = |name: &str| TensorChoice { top: 9, tensor: Some(name.into()) };
    let forest = steps();
    assert_eq!(names(&forest.choose(&named("TRANS")).unwrap()), ["weight", "transposed"]);
    assert_eq!(names(&forest.choose(&named("6")).unwrap()), ["other"]);
    assert!(forest.choose(&named("nothing")).is_none());
}

#[test]
fn names_cannot_become_markup() {
    let evil = "</title><script>alert('1')</script>\"\u{1b}";
    let forest = TensorForest::from_tensors(&[tensor(1, None, evil, 1.0)], &[], Vec::new(), false);
    let picture = forest.choose(&choice(1)).unwrap();
    for text in [draw(&picture, DrawingTarget::File), draw(&picture, DrawingTarget::Page)] {
        assert!(!text.contains("<script") && !text.contains('\u{1b}'), "{text}");
    }
    assert!(dot::dot(&picture).contains("alert('1')</script>\\\""));
}

#[test]
fn bases_in_a_circle_are_trees_of_their_own() {
    let tensors = [tensor(1, Some(2), "one", 1.0), tensor(2, Some(1), "two", 2.0)];
    let forest = TensorForest::from_tensors(&tensors, &[], Vec::new(), false);
    let picture = forest.choose(&choice(5)).unwrap();
    assert_eq!(names(&picture), ["one", "two"]);
    assert!((picture.total - 3.0).abs() < 1e-9);
}

proptest! {
    #[test]
    fn nothing_is_lost(
        bases in proptest::collection::vec((0..40_u64, 0..6_u64, 0.0..9.0), 1..40),
        copies in proptest::collection::vec((0..40_u64, 0..40_u64), 0..20),
        top in 1..12_usize,
    ) {
        let tensors: Vec<ForestTensor> = bases
            .into_iter()
            .zip(0..)
            .map(|((base, name, samples), id)| {
                tensor(id, (base < id).then_some(base), &name.to_string(), samples)
            })
            .collect();
        let relations: Vec<TensorRelation> = copies.into_iter().map(|(a, b)| relation(a, b, "copy")).collect();
        let expected = 3.0 + tensors.iter().map(|tensor| tensor.samples).sum::<f64>();
        let forest = TensorForest::from_tensors(&tensors, &relations, vec![("(elsewhere)".into(), 3.0)], false);
        let picture = forest.choose(&choice(top)).unwrap();
        let hidden: f64 = picture.hidden_views.iter().map(|views| views.1).sum::<f64>() + picture.hidden.1;
        let shown: f64 = picture.nodes.iter().map(|node| node.samples).sum();
        prop_assert!((shown + hidden + 3.0 - expected).abs() < 1e-6);
        let count: usize = picture.nodes.iter().map(|node| node.count).sum::<usize>()
            + picture.hidden_views.iter().map(|views| views.0).sum::<usize>() + picture.hidden.0;
        prop_assert_eq!(count, tensors.len());
        let roots: f64 =
            picture.nodes.iter().filter(|node| node.base.is_none()).map(|node| node.tree_samples).sum();
        prop_assert!((roots + picture.hidden.1 + 3.0 - expected).abs() < 1e-6);
        prop_assert!(picture.nodes.iter().enumerate().all(|(index, node)| node.base.is_none_or(|base| base < index)));
        prop_assert!(draw(&picture, DrawingTarget::File).ends_with("</svg>\n"));
        let batch = export::batch(&picture).unwrap();
        prop_assert!(batch.num_rows() >= picture.nodes.len());
    }
}
