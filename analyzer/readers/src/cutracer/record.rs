//! One line of a trace, with the fields of all kinds.

use std::collections::HashMap;
use std::io::Read;
use std::rc::Rc;

use crate::error::ReadResult;
use crate::formats::decimal::integer;
use crate::formats::json::JsonStream;
use stallmap_schema::word::{AccessKind, Space};

use super::instruction::TracedInstruction;

/// Lanes of a warp.
const LANES: usize = 32;
/// NVBit's numbers of address spaces.
const LOCAL: i64 = 1;
const GLOBAL: i64 = 3;
const SHARED: i64 = 4;

/// A line.
#[derive(Default)]
pub(super) struct TraceLine {
    pub(super) kind: String,
    pub(super) kernel: TracedKernel,
    pub(super) record: WarpRecord,
    pub(super) launch: Option<i64>,
    pub(super) stack: Option<String>,
    pub(super) frames: Vec<String>,
    /// Keys that are not read.
    pub(super) unknown: Vec<String>,
}

/// A kernel, as metadata and events describe it.
#[derive(Default)]
pub(super) struct TracedKernel {
    pub(super) name: Option<Rc<str>>,
    pub(super) checksum: Option<Rc<str>>,
    pub(super) grid: Option<[u32; 3]>,
    pub(super) block: Option<[u32; 3]>,
    pub(super) registers: Option<u32>,
    pub(super) stream: Option<u64>,
    /// SASS by the number of the instruction.
    pub(super) instructions: HashMap<i64, Rc<str>>,
}

/// A record of one warp.
#[derive(Default)]
pub(super) struct WarpRecord {
    pub(super) launch: Option<i64>,
    pub(super) block: Option<[u64; 3]>,
    pub(super) warp: Option<u64>,
    pub(super) pc: Option<u32>,
    pub(super) opcode: Option<i64>,
    pub(super) mask: Option<u32>,
    pub(super) addresses: Vec<Option<u64>>,
    pub(super) sass: Option<Rc<str>>,
    space: Option<i64>,
    bytes: Option<i64>,
    is_load: Option<bool>,
}

impl TraceLine {
    /// Reads a line.
    pub(super) fn read(json: &mut JsonStream<impl Read>) -> ReadResult<Self> {
        let mut line = Self::default();
        json.object(|json, key| line.field(json, key))?;
        Ok(line)
    }

    fn field(&mut self, json: &mut JsonStream<impl Read>, key: &str) -> ReadResult<()> {
        match key {
            "type" => self.kind = json.scalar()?.unwrap_or_default(),
            "mangled_name" => self.kernel.name = json.scalar()?.map(Into::into),
            // The mangled name goes before a name for people.
            "kernel_name" => {
                let name = json.scalar()?.map(Into::into);
                self.kernel.name = self.kernel.name.take().or(name);
            }
            "kernel_checksum" => self.kernel.checksum = json.scalar()?.map(Into::into),
            "grid" => self.kernel.grid = json.extent()?,
            "block" => self.kernel.block = json.extent()?,
            "nregs" => self.kernel.registers = json.integer()?.and_then(|count| u32::try_from(count).ok()),
            "stream_id" => self.kernel.stream = number(json.scalar()?),
            "instructions" => json.object(|json, opcode| self.kernel.instruction(json, opcode))?,
            "kernel_launch_id" => self.launch = json.integer()?,
            "callstack_id" => self.stack = json.scalar()?,
            "frames" => json.array(|json| {
                self.frames.extend(json.scalar()?);
                Ok(())
            })?,
            "ctx" | "timestamp" | "trace_index" | "ipoint" | "source" | "cluster_dim" | "sm_family"
            | "shmem" | "values" | "regs" | "unmangled_name" => json.skip()?,
            _ => self.record.field(json, key, &mut self.unknown)?,
        }
        Ok(())
    }
}

impl TracedKernel {
    fn instruction(&mut self, json: &mut JsonStream<impl Read>, opcode: &str) -> ReadResult<()> {
        let mut sass = None;
        json.object(|json, key| {
            if key == "sass" {
                sass = json.scalar()?;
                return Ok(());
            }
            json.skip()
        })?;
        if let Some((opcode, sass)) = integer(opcode).zip(sass) {
            self.instructions.insert(opcode, sass.into());
        }
        Ok(())
    }
}

impl WarpRecord {
    fn field(
        &mut self,
        json: &mut JsonStream<impl Read>,
        key: &str,
        unknown: &mut Vec<String>,
    ) -> ReadResult<()> {
        match key {
            "grid_launch_id" => self.launch = json.integer()?,
            "cta" => {
                let sizes = json.integers()?.into_iter().map(u64::try_from).collect::<Result<Vec<_>, _>>();
                self.block = sizes.ok().and_then(|sizes| sizes.try_into().ok());
            }
            "warp" => self.warp = number(json.scalar()?),
            "pc" => self.pc = number(json.scalar()?).and_then(|pc| u32::try_from(pc).ok()),
            "opcode_id" => self.opcode = json.integer()?,
            "active_mask" => self.mask = number(json.scalar()?).and_then(|mask| u32::try_from(mask).ok()),
            "addrs" => json.array(|json| {
                let address = number(json.scalar()?);
                if self.addresses.len() < LANES {
                    self.addresses.push(address);
                }
                Ok(())
            })?,
            "sass" => self.sass = json.scalar()?.map(Into::into),
            "mem_space" => self.space = json.integer()?,
            "access_size" => self.bytes = json.integer()?,
            "is_load" => {
                let text = json.scalar()?;
                self.is_load = text.map(|text| text == "true" || text == "1");
            }
            _ => {
                unknown.push(key.to_owned());
                json.skip()?;
            }
        }
        Ok(())
    }

    /// The access by the fields of a record with values, which has no SASS.
    pub(super) fn instruction(&self) -> Result<TracedInstruction, &'static str> {
        let space = match self.space {
            Some(LOCAL) => Space::Local,
            Some(GLOBAL) => Space::Global,
            Some(SHARED) => Space::Shared,
            _ => return Err("requests whose address space is not known"),
        };
        let is_load = self.is_load.ok_or("requests without SASS and direction")?;
        let bytes = self.bytes.and_then(|bytes| u8::try_from(bytes).ok()).filter(|bytes| *bytes > 0);
        let kind = if is_load { AccessKind::Read } else { AccessKind::Write };
        Ok(TracedInstruction { kind, space, bytes: bytes.ok_or("requests without SASS and size")? })
    }
}

/// A number as decimal or hexadecimal text.
fn number(text: Option<String>) -> Option<u64> {
    let text = text?;
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
