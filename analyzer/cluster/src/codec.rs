//! Leaves as bytes. All other operators are the engine's own.

use std::io::Cursor;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::common::{internal_err, plan_datafusion_err, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SessionState, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use prost::Message as _;
use stallmap::session::resources::SessionResources;
use stallmap_fleet::{FleetExec, LeafOrder};

use crate::messages::LeafMessage;
use crate::prefix::AllowedPrefix;
use crate::skips::SkipBook;

/// Maximum captures that an executor reads at the same time for one leaf.
const MAX_PARTITIONS: u32 = 1024;

/// Writes the leaves of one query.
#[derive(Debug)]
pub(crate) struct LeafWriter {
    /// The query's id, by which executors note what they skip.
    pub(crate) query: String,
    /// The choices that change answers.
    pub(crate) resources: SessionResources,
}

impl PhysicalExtensionCodec for LeafWriter {
    fn try_decode(
        &self,
        _: &[u8],
        _: &[Arc<dyn ExecutionPlan>],
        _: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        internal_err!("a scheduler reads no leaves")
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(leaf) = node.downcast_ref::<FleetExec>() else {
            return internal_err!("`{}` cannot run on an executor", node.name());
        };
        let order = leaf.order()?;
        let (addresses, names) = order.captures.into_iter().unzip();
        let message = LeafMessage {
            query: self.query.clone(),
            sql: order.sql,
            table: order.table,
            addresses,
            names,
            facts: stream(&order.facts.schema(), Some(&order.facts))?,
            schema: stream(&order.schema, None)?,
            partitions: u32::try_from(order.partitions).unwrap_or(MAX_PARTITIONS),
            cost_from: self.resources.cost_from.word().to_owned(),
            recomputes: !self.resources.reads_stored,
        };
        message.encode(bytes).map_err(|error| DataFusionError::External(Box::new(error)))
    }
}

/// Reads leaves, and refuses those over captures outside of a prefix.
#[derive(Clone, Debug)]
pub(crate) struct LeafReader {
    /// Stallmap's functions, and no tables.
    pub(crate) state: Arc<SessionState>,
    pub(crate) prefix: AllowedPrefix,
    pub(crate) resources: SessionResources,
    pub(crate) skips: Arc<SkipBook>,
}

impl LeafReader {
    fn read(&self, message: LeafMessage) -> Result<FleetExec> {
        for address in &message.addresses {
            self.prefix.check(address).map_err(|error| DataFusionError::External(Box::new(error)))?;
        }
        let (schema, _) = rows(&message.schema)?;
        let (_, facts) = rows(&message.facts)?;
        let facts = facts.unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(&schema)));
        let captures_len = message.addresses.len();
        if facts.num_rows() != captures_len || message.names.len() != captures_len {
            return plan_err!("a leaf has {captures_len} captures and {} rows of facts", facts.num_rows());
        }
        let partitions = message.partitions.clamp(1, MAX_PARTITIONS) as usize;
        let mut resources = self.resources.clone();
        resources.memory_bytes = resources.memory_bytes.map(|bytes| bytes / partitions);
        resources.cost_from =
            message.cost_from.parse().map_err(|error: String| plan_datafusion_err!("{error}"))?;
        resources.reads_stored = !message.recomputes;
        let captures = message.addresses.into_iter().zip(message.names).collect();
        let LeafMessage { sql, table, query, .. } = message;
        let order = LeafOrder { sql, table, captures, facts, schema, partitions };
        Ok(order.exec(&self.state, resources, self.skips.of_query(&query)))
    }
}

impl PhysicalExtensionCodec for LeafReader {
    fn try_decode(
        &self,
        bytes: &[u8],
        _: &[Arc<dyn ExecutionPlan>],
        _: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let message =
            LeafMessage::decode(bytes).map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(Arc::new(self.read(message)?))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        _: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        internal_err!("an executor sends no leaves: `{}`", node.name())
    }
}

/// Rows as an Arrow stream.
fn stream(schema: &SchemaRef, rows: Option<&RecordBatch>) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
    rows.into_iter().try_for_each(|rows| writer.write(rows))?;
    writer.into_inner()
}

/// The columns and the first batch of an Arrow stream.
fn rows(bytes: &[u8]) -> Result<(SchemaRef, Option<RecordBatch>), ArrowError> {
    let mut reader = StreamReader::try_new(Cursor::new(bytes), None)?;
    let first = reader.next().transpose()?;
    Ok((reader.schema(), first))
}
