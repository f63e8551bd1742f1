//! Tests of event lists with their expected rows.

use stallmap_schema::id::OpId;
use stallmap_schema::word::{Direction, OpKind, Phase};

use super::super::message::{OpBeginning, OpEnding};
use super::super::ops;
use super::*;

fn at(ordinal: u64) -> EventMoment {
    EventMoment { time_ns: 1000 + ordinal.cast_signed(), ordinal, op_id: None }
}

/// A float32 tensor at an offset in a storage of 64 bytes.
fn seen(storage: u64, offset: u64, sizes: &[i64], strides: &[i64]) -> SeenTensor {
    SeenTensor {
        direction: Some(Direction::In),
        position: 0,
        element: 0,
        argument: None,
        base: None,
        device_id: 0,
        storage_address: Address(storage),
        storage_bytes: 64,
        address: Address(storage + offset),
        dtype: "float32",
        element_bytes: 4,
        is_parameter: false,
        sizes: sizes.to_vec(),
        strides: strides.to_vec(),
    }
}

fn reported() -> LiveStorages {
    let mut storages = LiveStorages::default();
    storages.set_reported();
    storages
}

/// (storage, is_free, ordinal, origin) of the storage rows.
fn lives(rows: &[RecordedRow]) -> Vec<(u64, bool, u64, StorageOrigin)> {
    let life = |row: &RecordedRow| match row {
        RecordedRow::Storage(row) => Some((row.storage_id.0, row.is_free, row.ordinal, row.origin)),
        _ => None,
    };
    rows.iter().filter_map(life).collect()
}

fn tensors(rows: &[RecordedRow]) -> Vec<&Tensor> {
    rows.iter().filter_map(|row| if let RecordedRow::Tensor(row) = row { Some(row) } else { None }).collect()
}

fn argument(
    storages: &mut LiveStorages,
    seen: &SeenTensor,
    ordinal: u64,
    rows: &mut Vec<RecordedRow>,
) -> Option<TensorId> {
    storages.tensor(seen, None, TensorSight::Argument, at(ordinal), rows)
}

#[test]
fn an_address_that_is_reused_is_another_storage_and_another_tensor() {
    let (mut storages, mut rows) = (reported(), Vec::new());
    let tensor = seen(4096, 0, &[4, 4], &[4, 1]);
    storages.allocated(0, Address(4096), 512, at(1), &mut rows);
    let first = argument(&mut storages, &tensor, 1, &mut rows);
    assert_eq!(argument(&mut storages, &tensor, 2, &mut rows), first);
    storages.freed(Address(4096), at(3), &mut rows);
    storages.allocated(0, Address(4096), 512, at(3), &mut rows);
    assert_ne!(argument(&mut storages, &tensor, 3, &mut rows), first);
    let allocator = StorageOrigin::Allocator;
    assert_eq!(lives(&rows), [(1, false, 1, allocator), (1, true, 3, allocator), (2, false, 3, allocator)]);
    assert_eq!(tensors(&rows).iter().map(|tensor| tensor.storage_id.0).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn views_of_a_storage_are_tensors_of_their_own() {
    let (mut storages, mut rows) = (reported(), Vec::new());
    storages.allocated(0, Address(4096), 512, at(0), &mut rows);
    for (offset, sizes, strides) in
        [(0, [4, 4], [4, 1]), (0, [4, 4], [1, 4]), (16, [3, 4], [4, 1]), (0, [4, 4], [0, 1])]
    {
        argument(&mut storages, &seen(4096, offset, &sizes, &strides), 0, &mut rows);
    }
    let found: Vec<_> = tensors(&rows).iter().map(|row| (row.span_bytes, row.is_contiguous)).collect();
    assert_eq!(found, [(64, true), (64, false), (48, true), (16, false)]);
    assert!(tensors(&rows).iter().all(|row| row.storage_id == StorageId(1)));
}

#[test]
fn a_tensor_born_before_recording_lives_from_the_first_launch_until_its_free() {
    let (mut storages, mut rows) = (reported(), Vec::new());
    argument(&mut storages, &seen(4096, 0, &[4], &[1]), 7, &mut rows);
    storages.freed(Address(4096), at(9), &mut rows);
    let tensor = StorageOrigin::Tensor;
    assert_eq!(lives(&rows), [(1, false, 0, tensor), (1, true, 9, tensor)]);
}

#[test]
fn an_allocation_ends_what_it_overlaps() {
    let (mut storages, mut rows) = (reported(), Vec::new());
    argument(&mut storages, &seen(4096, 0, &[4], &[1]), 1, &mut rows);
    argument(&mut storages, &seen(8192, 0, &[4], &[1]), 1, &mut rows);
    storages.allocated(0, Address(4096 + 32), 512, at(5), &mut rows);
    assert_eq!(
        lives(&rows)[2..],
        [(1, true, 5, StorageOrigin::Tensor), (3, false, 5, StorageOrigin::Allocator)]
    );
}

#[test]
fn without_reports_results_live_from_the_launch_before_their_op() {
    let (mut storages, mut rows) = (LiveStorages::default(), Vec::new());
    let mut result = |bytes, ordinal, is_fresh| {
        let seen = SeenTensor { storage_bytes: bytes, ..seen(4096, 0, &[4], &[1]) };
        let sight = TensorSight::Result { begin: at(ordinal), is_fresh };
        storages.tensor(&seen, None, sight, at(ordinal + 1), &mut rows)
    };
    let first = result(64, 3, true);
    assert_eq!(result(64, 5, false), first);
    assert_ne!(result(128, 7, false), first);
    result(128, 9, true);
    let tensor = StorageOrigin::Tensor;
    let expected = [(1, false, 3), (1, true, 7), (2, false, 7), (2, true, 9), (3, false, 9)];
    assert_eq!(lives(&rows), expected.map(|(id, is_free, ordinal)| (id, is_free, ordinal, tensor)));
}

#[test]
fn tensors_without_elements_have_no_storage() {
    let (mut storages, mut rows) = (reported(), Vec::new());
    assert_eq!(argument(&mut storages, &seen(0, 0, &[4], &[1]), 1, &mut rows), None);
    assert_eq!(argument(&mut storages, &seen(4096, 0, &[0, 4], &[4, 1]), 1, &mut rows), None);
    assert_eq!(rows, []);
}

#[test]
fn a_name_is_recorded_when_it_is_news() {
    let (mut storages, mut rows) = (reported(), Vec::new());
    let tensor = SeenTensor { is_parameter: true, ..seen(4096, 0, &[4], &[1]) };
    argument(&mut storages, &tensor, 0, &mut rows);
    let name = TensorRole { name: Some("h.2.weight"), role: "parameter", tensor: tensor.clone() };
    storages.name(&name, at(0), &mut rows);
    storages.name(&name, at(1), &mut rows);
    argument(&mut storages, &tensor, 2, &mut rows);
    let names: Vec<_> = rows
        .iter()
        .filter_map(
            |row| if let RecordedRow::TensorName(row) = row { Some(row.name.as_deref()) } else { None },
        )
        .collect();
    assert_eq!(names, [None, Some("h.2.weight")]);
}

#[test]
fn an_op_has_its_arguments_its_results_and_their_bases() {
    let (mut storages, mut rows) = (reported(), Vec::new());
    storages.allocated(0, Address(4096), 512, at(0), &mut rows);
    let view =
        SeenTensor { base: Some(0), direction: Some(Direction::Out), ..seen(4096, 0, &[2, 2], &[1, 2]) };
    let begin = OpBeginning {
        kind: OpKind::Torch,
        name: "aten::t.default",
        phase: Phase::Forward,
        step: 0,
        sequence_number: Some(4),
        autograd_node: None,
        forward_op_id: None,
        module_path: None,
        pystates_hash: None,
        tensors: vec![seen(4096, 0, &[2, 2], &[2, 1])],
    };
    let running = ops::begin(OpId(9), 2, &begin, at(1), &mut storages, &mut rows);
    let end = OpEnding { op_id: OpId(9), tensors: vec![view.clone(), view] };
    ops::end(running, &end, at(2), &mut storages, &mut rows);
    let rows_of_tensors = tensors(&rows);
    assert_eq!(rows_of_tensors.len(), 2);
    assert_eq!((rows_of_tensors[0].op_id, rows_of_tensors[0].base_tensor_id), (None, None));
    assert_eq!(
        (rows_of_tensors[1].op_id, rows_of_tensors[1].base_tensor_id),
        (Some(OpId(9)), Some(TensorId(1)))
    );
    let parts: Vec<_> = rows
        .iter()
        .filter_map(|row| {
            if let RecordedRow::OpTensor(row) = row { Some((row.direction, row.tensor_id.0)) } else { None }
        })
        .collect();
    assert_eq!(parts, [(Direction::In, 1), (Direction::Out, 2), (Direction::Out, 2)]);
    assert!(matches!(rows.last(), Some(RecordedRow::OpEnd(row)) if row.end_ns == 1002), "{rows:?}");
}

#[test]
fn a_live_block_is_found_by_any_address_in_it() {
    let (mut storages, mut rows) = (reported(), Vec::new());
    storages.allocated(0, Address(0x1000), 64, at(0), &mut rows);
    let found = [0xfff, 0x1000, 0x103f, 0x1040].map(|address| storages.block_at(address));
    assert_eq!(found, [None, Some((0x1000, 64)), Some((0x1000, 64)), None]);
    storages.freed(Address(0x1000), at(1), &mut rows);
    assert_eq!(storages.block_at(0x1000), None);
}
