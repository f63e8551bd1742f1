//! Records of a profile: dispatches, copies and calls.

use std::collections::BTreeMap;
use std::io::Read;

use crate::error::ReadResult;
use crate::formats::json::JsonStream;
use crate::model::TraceCall;

/// A record of any kind: a dispatch, a copy or a call.
#[derive(Default)]
pub(super) struct RocprofRecord {
    /// The number of its kind, and that of its operation in the kind.
    pub(super) kind: Option<i64>,
    pub(super) operation: Option<i64>,
    pub(super) thread: Option<i64>,
    pub(super) correlation: Option<i64>,
    pub(super) begin_ns: Option<i64>,
    pub(super) end_ns: Option<i64>,
    pub(super) bytes: Option<i64>,
    pub(super) stream: Option<i64>,
    pub(super) queue: Option<i64>,
    pub(super) agents: [Option<i64>; 2],
    pub(super) kernel: Option<i64>,
    /// The number of a dispatch: those of one graph share the correlation of its launch.
    pub(super) dispatch: Option<i64>,
    pub(super) workgroup: Option<[u32; 3]>,
    /// Work-items, not blocks.
    pub(super) items: Option<[u32; 3]>,
}

/// A call, with the numbers that name its function.
pub(super) struct RocprofCall {
    pub(super) call: TraceCall,
    pub(super) correlation: Option<i64>,
    pub(super) kind: Option<i64>,
    pub(super) operation: Option<i64>,
}

impl RocprofRecord {
    pub(super) fn read(json: &mut JsonStream<impl Read>) -> ReadResult<Self> {
        let mut record = Self::default();
        json.object(|json, key| record.field(json, key))?;
        Ok(record)
    }

    pub(super) fn field(&mut self, json: &mut JsonStream<impl Read>, key: &str) -> ReadResult<()> {
        match key {
            "kind" => self.kind = json.integer()?,
            "operation" => self.operation = json.integer()?,
            "thread_id" => self.thread = json.integer()?,
            "correlation_id" => self.correlation = member(json, "internal")?,
            "start_timestamp" => self.begin_ns = json.integer()?,
            "end_timestamp" => self.end_ns = json.integer()?,
            "bytes" => self.bytes = json.integer()?,
            "stream_id" => self.stream = member(json, "handle")?,
            "queue_id" => self.queue = member(json, "handle")?,
            "agent_id" | "dst_agent_id" => self.agents[0] = member(json, "handle")?,
            "src_agent_id" => self.agents[1] = member(json, "handle")?,
            "kernel_id" => self.kernel = json.integer()?,
            "dispatch_id" => self.dispatch = json.integer()?,
            "workgroup_size" => self.workgroup = extent(json)?,
            "grid_size" => self.items = extent(json)?,
            "dispatch_info" => json.object(|json, key| self.field(json, key))?,
            _ => json.skip()?,
        }
        Ok(())
    }

    /// True without a kernel, a time and a number.
    pub(super) fn is_empty(&self) -> bool {
        [self.kernel, self.dispatch, self.begin_ns, self.end_ns].iter().all(Option::is_none)
    }

    pub(super) fn time_ns(&self) -> Option<(i64, i64)> {
        self.begin_ns.zip(self.end_ns).filter(|(begin, end)| begin <= end)
    }

    /// Blocks: the tool counts the work-items of all of them.
    pub(super) fn blocks(&self) -> Option<[u32; 3]> {
        let ([x, y, z], [width, height, depth]) = self.items.zip(self.workgroup)?;
        Some([x.div_ceil(width), y.div_ceil(height), z.div_ceil(depth)])
    }

    /// The number of a dispatch, else that of its launch: true for the former.
    pub(super) fn identity(&self) -> Option<(bool, i64)> {
        self.dispatch.map(|number| (true, number)).or(self.correlation.map(|number| (false, number)))
    }

    pub(super) fn call(&self) -> Option<RocprofCall> {
        let (begin_ns, end_ns) = self.time_ns()?;
        let call = TraceCall { thread: self.thread?.unsigned_abs(), begin_ns, end_ns };
        Some(RocprofCall { call, correlation: self.correlation, kind: self.kind, operation: self.operation })
    }
}

/// An integer in an object.
pub(super) fn member(json: &mut JsonStream<impl Read>, name: &str) -> ReadResult<Option<i64>> {
    let mut found = None;
    json.object(|json, key| {
        if key != name {
            return json.skip();
        }
        found = json.integer()?;
        Ok(())
    })?;
    Ok(found)
}

/// The sizes x, y and z of an object. None if one is not positive.
fn extent(json: &mut JsonStream<impl Read>) -> ReadResult<Option<[u32; 3]>> {
    let mut sizes = BTreeMap::new();
    json.object(|json, key| {
        let size = json.integer()?.and_then(|size| u32::try_from(size).ok()).filter(|size| *size > 0);
        sizes.extend(size.map(|size| (key.to_owned(), size)));
        Ok(())
    })?;
    let size = |name: &str| sizes.get(name).copied();
    Ok(size("x").zip(size("y")).zip(size("z")).map(|((x, y), z)| [x, y, z]))
}
