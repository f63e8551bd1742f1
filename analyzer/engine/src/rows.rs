//! Requests with their targets, one row each: the rows of `access_tensor`.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, PrimitiveBuilder, RecordBatch, RecordBatchOptions, StringArray, UInt32Array,
};
use arrow::compute::take;
use arrow::datatypes::{SchemaRef, UInt32Type, UInt64Type};
use datafusion::error::Result;

use super::access::AccessBatch;
use super::request::TouchedMemory;
use super::resolve::{AddressResolver, AddressTarget, LaneShare};

/// Turns batches of `memory_access` into batches of `access_tensor`.
#[derive(Debug)]
pub(super) struct AccessTensorRows {
    resolver: AddressResolver,
    schema: SchemaRef,
    shares: Vec<LaneShare>,
}

/// The columns that the engine adds, while they grow.
#[derive(Default)]
struct AddedColumns {
    rows: Vec<u32>,
    targets: Vec<AddressTarget>,
    masks: Vec<u32>,
    touched: Vec<TouchedMemory>,
}

impl AccessTensorRows {
    pub(super) fn new(resolver: AddressResolver, schema: SchemaRef) -> Self {
        Self { resolver, schema, shares: Vec::new() }
    }

    /// The rows of a batch.
    pub(super) fn convert(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let accesses = AccessBatch::new(batch)?;
        let wants = |name: &str| self.schema.field_with_name(name).is_ok();
        let measures = wants("sectors") || wants("unique_bytes");
        let mut added = AddedColumns::default();
        for (row, number) in (0..batch.num_rows()).zip(0..) {
            let request = accesses.request(row);
            if accesses.is_global(row) {
                self.resolver.move_to(accesses.kernel_id[row]);
                self.resolver.resolve(&request, &mut self.shares);
            } else {
                self.shares.clear();
                self.shares
                    .push(LaneShare { target: AddressTarget::NotGlobal, lane_mask: request.lane_mask });
            }
            for share in &self.shares {
                added.rows.push(number);
                added.targets.push(share.target);
                added.masks.push(share.lane_mask);
                if measures {
                    added.touched.push(request.touched_in(share.lane_mask));
                }
            }
        }
        self.assemble(batch, added)
    }

    fn assemble(&self, batch: &RecordBatch, added: AddedColumns) -> Result<RecordBatch> {
        let count = added.rows.len();
        let rows = (count != batch.num_rows()).then(|| UInt32Array::from(added.rows));
        let columns: Result<Vec<ArrayRef>> = self
            .schema
            .fields()
            .iter()
            .map(|field| match (batch.column_by_name(field.name()), &rows) {
                _ if field.name() == "lane_mask" => Ok(Arc::new(UInt32Array::from(added.masks.clone())) as _),
                (Some(column), None) => Ok(Arc::clone(column)),
                (Some(column), Some(rows)) => Ok(take(column, rows, None)?),
                (None, _) => Ok(self.added(field.name(), &added.targets, &added.masks, &added.touched)),
            })
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns?, &options)?)
    }

    fn added(
        &self,
        name: &str,
        targets: &[AddressTarget],
        masks: &[u32],
        touched: &[TouchedMemory],
    ) -> ArrayRef {
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let ids = targets.iter().map(|&target| AddressResolver::ids(self.resolver.index(), target));
        match name {
            "target" => words(targets.iter().map(|target| target.text())),
            "storage_id" => numbers(ids.map(|(storage, ..)| storage)),
            "tensor_id" => numbers(ids.map(|(_, tensor, _)| tensor)),
            "allocation_id" => numbers(ids.map(|(.., allocation)| allocation)),
            "lane_count" => small_numbers(masks.iter().map(|mask| mask.count_ones())),
            "sectors" => small_numbers(touched.iter().map(|touched| small(touched.sectors))),
            _ => small_numbers(touched.iter().map(|touched| small(touched.unique_bytes))),
        }
    }
}

/// A column of a few different texts.
pub(super) fn words<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    let mut known: Vec<&str> = Vec::new();
    let code = |value: &'a str| {
        let place = known.iter().position(|known| *known == value).unwrap_or_else(|| {
            known.push(value);
            known.len() - 1
        });
        u8::try_from(place).unwrap_or(u8::MAX)
    };
    let codes: Vec<u8> = values.map(code).collect();
    Arc::new(DictionaryArray::new(codes.into(), Arc::new(StringArray::from(known))))
}

fn numbers(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    let mut builder = PrimitiveBuilder::<UInt64Type>::new();
    values.for_each(|value| builder.append_option(value));
    Arc::new(builder.finish())
}

pub(super) fn small_numbers(values: impl Iterator<Item = u32>) -> ArrayRef {
    let mut builder = PrimitiveBuilder::<UInt32Type>::new();
    values.for_each(|value| builder.append_value(value));
    Arc::new(builder.finish())
}
