//! Memory of bundled launches: pages before each, and after it where the capture has their content.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::index::{column, wrong};
use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::UInt64Type;
use datafusion::common::HashMap;
use datafusion::error::Result;
use stallmap_schema::hash::content_hash;
use stallmap_schema::tables::replay::PAGE_BYTES as PAGE;
use stallmap_tables::captured::CapturedTable;

use super::PAGE_BYTES;
use super::elements::ElementType;

/// Columns of `bundle_page`.
const COLUMNS: [&str; 6] =
    ["kernel_id", "address", "content_id", "hash_after", "content_after_id", "written_content_id"];

/// A page of a bundled launch.
#[derive(Clone, Copy, Debug)]
struct BundledPage {
    address: u64,
    before: u64,
    /// True if the launch writes it.
    is_written: bool,
    after: Option<u64>,
}

/// The bundles of a capture, without the contents of their pages.
#[derive(Debug, Default)]
pub(crate) struct BundledMemory {
    pages: HashMap<u64, Vec<BundledPage>>,
    /// The element type of each tensor that has a known one.
    types: HashMap<u64, (ElementType, Arc<str>)>,
    content: Option<Arc<CapturedTable>>,
}

impl BundledMemory {
    /// Reads the bundles and the tensors of a capture.
    pub(crate) fn read(
        page: &CapturedTable,
        content: &Arc<CapturedTable>,
        tensor: &CapturedTable,
    ) -> Result<Self> {
        if page.rows() == 0 {
            return Ok(Self::default());
        }
        let (rows, hashes) = (page.read(&COLUMNS)?, content.read(&["content_id", "hash"])?);
        let contents = column::<UInt64Type>(&hashes, "content_id")?.values().iter().copied();
        let hashes = column::<UInt64Type>(&hashes, "hash")?.values().iter().copied();
        let by_hash: HashMap<u64, u64> = hashes.zip(contents).collect();
        let number = |name| column::<UInt64Type>(&rows, name);
        let (kernels, addresses, before) = (number("kernel_id")?, number("address")?, number("content_id")?);
        let hash_after = number("hash_after")?;
        let after = [number("content_after_id")?, number("written_content_id")?];
        let mut pages = HashMap::<u64, Vec<BundledPage>>::new();
        for row in 0..rows.num_rows() {
            let hash = hash_after.is_valid(row).then(|| hash_after.value(row));
            let recorded = after.iter().find(|ids| ids.is_valid(row)).map(|ids| ids.value(row));
            let page = BundledPage {
                address: addresses.value(row),
                before: before.value(row),
                is_written: hash.is_some(),
                after: recorded.or_else(|| by_hash.get(&hash?).copied()),
            };
            pages.entry(kernels.value(row)).or_default().push(page);
        }
        Ok(Self { pages, types: types(tensor)?, content: Some(Arc::clone(content)) })
    }

    /// True if a launch has a bundle.
    pub(super) fn holds(&self, kernel_id: u64) -> bool {
        self.pages.contains_key(&kernel_id)
    }

    /// The element type of a tensor, with its name.
    pub(super) fn element_type(&self, tensor_id: u64) -> Option<&(ElementType, Arc<str>)> {
        self.types.get(&tensor_id)
    }

    /// The most bytes that the memory of a launch takes.
    pub(super) fn memory_bytes(&self, kernel_id: u64) -> usize {
        let pages = self.pages.get(&kernel_id).map_or(&[][..], Vec::as_slice);
        pages.iter().map(|page| 1 + usize::from(page.after.is_some())).sum::<usize>() * (PAGE + 64)
    }

    /// The memory of a launch.
    pub(super) fn memory(&self, kernel_id: u64) -> Result<ValuedMemory> {
        let pages = self.pages.get(&kernel_id).map_or(&[][..], Vec::as_slice);
        let wanted: BTreeSet<u64> =
            pages.iter().flat_map(|page| [Some(page.before), page.after]).flatten().collect();
        let wanted: Vec<u64> = wanted.into_iter().collect();
        let mut contents = HashMap::new();
        if let Some(content) = &self.content {
            let zeros = [0; PAGE];
            let zeros_hash = content_hash(&zeros);
            content.read_groups_of(&["content_id", "hash", "bytes"], ("content_id", &wanted), |batch| {
                let (ids, hashes) =
                    (column::<UInt64Type>(batch, "content_id")?, column::<UInt64Type>(batch, "hash")?);
                let bytes = bytes(batch)?;
                for row in (0..batch.num_rows()).filter(|&row| wanted.binary_search(&ids.value(row)).is_ok())
                {
                    let page = bytes.value(row);
                    // `redact` replaces contents by zeros, and no hash by that of zeros.
                    let is_redacted = page == zeros && hashes.value(row) != zeros_hash;
                    contents.insert(ids.value(row), (!is_redacted).then(|| Box::from(page)));
                }
                Ok(())
            })?;
        }
        Ok(ValuedMemory {
            pages: pages.iter().map(|page| (page.address / PAGE_BYTES, *page)).collect(),
            contents,
        })
    }
}

fn bytes(batch: &RecordBatch) -> Result<&arrow::array::BinaryArray> {
    batch.column_by_name("bytes").and_then(|bytes| bytes.as_binary_opt::<i32>()).ok_or_else(|| wrong("bytes"))
}

fn types(tensor: &CapturedTable) -> Result<HashMap<u64, (ElementType, Arc<str>)>> {
    let rows = tensor.read(&["tensor_id", "dtype"])?;
    let tensors = column::<UInt64Type>(&rows, "tensor_id")?;
    let names = rows.column_by_name("dtype").and_then(|names| names.as_string_opt::<i32>());
    let names = names.ok_or_else(|| wrong("dtype"))?;
    let known = tensors.values().iter().zip(names).filter_map(|(&tensor_id, name)| {
        let name = name?;
        Some((tensor_id, (ElementType::from_dtype(name)?, name.into())))
    });
    Ok(known.collect())
}

/// Memory of one bundled launch.
#[derive(Default)]
pub(super) struct ValuedMemory {
    /// By address, in pages.
    pages: HashMap<u64, BundledPage>,
    /// Contents of pages. None for a redacted one.
    contents: HashMap<u64, Option<Box<[u8]>>>,
}

/// Reason that memory has no content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryGap {
    NotBundled,
    NotRecorded,
    Redacted,
}

impl ValuedMemory {
    /// Bytes before the launch.
    pub(super) fn before(&self, address: u64, bytes: u64) -> Result<&[u8], MemoryGap> {
        let page = self.pages.get(&(address / PAGE_BYTES)).ok_or(MemoryGap::NotBundled)?;
        self.content(page.before, address, bytes)
    }

    /// Bytes after the launch.
    pub(super) fn after(&self, address: u64, bytes: u64) -> Result<&[u8], MemoryGap> {
        let page = self.pages.get(&(address / PAGE_BYTES)).ok_or(MemoryGap::NotBundled)?;
        let content = if page.is_written { page.after.ok_or(MemoryGap::NotRecorded)? } else { page.before };
        self.content(content, address, bytes)
    }

    fn content(&self, content: u64, address: u64, bytes: u64) -> Result<&[u8], MemoryGap> {
        let content = self.contents.get(&content).ok_or(MemoryGap::NotBundled)?;
        let content = content.as_deref().ok_or(MemoryGap::Redacted)?;
        let offset = usize::try_from(address % PAGE_BYTES).unwrap_or(usize::MAX);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        content.get(offset..offset.saturating_add(bytes)).ok_or(MemoryGap::NotBundled)
    }

    /// True if the launch writes the page of an address.
    pub(super) fn is_written(&self, address: u64) -> bool {
        self.pages.get(&(address / PAGE_BYTES)).is_some_and(|page| page.is_written)
    }

    /// The addresses of pages that the launch writes.
    pub(super) fn written(&self) -> impl Iterator<Item = u64> {
        self.pages.values().filter(|page| page.is_written).map(|page| page.address)
    }

    pub(super) fn bytes(&self) -> usize {
        self.contents.len() * (PAGE + 64) + self.pages.len() * 64
    }
}
