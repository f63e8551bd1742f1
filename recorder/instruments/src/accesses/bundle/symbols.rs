//! Variables of a module: addresses, contents, and the parts of them that become rows.
#![expect(unsafe_code, reason = "calls of the CUDA driver")]

use std::ffi::CString;

use stallmap_sys::cuda::DriverHandle;

use super::PageBytes;
use super::ranges::PageRanges;
use stallmap_session::gpu::device;

/// A variable in the memory of a loaded module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleVariable {
    /// Mangled name.
    pub name: String,
    /// Its address.
    pub address: u64,
    /// Its bytes.
    pub bytes: usize,
}

/// The variables of a module, and how many the driver did not find.
pub fn find(module: DriverHandle, variables: &[(String, u64)]) -> (Vec<ModuleVariable>, u64) {
    let found: Vec<ModuleVariable> = variables.iter().filter_map(|(name, _)| locate(module, name)).collect();
    let missing = (variables.len() - found.len()) as u64;
    (found, missing)
}

fn locate(module: DriverHandle, name: &str) -> Option<ModuleVariable> {
    let c_name = CString::new(name).ok()?;
    let (mut address, mut bytes) = (0, 0);
    // SAFETY: the launch that is beginning says that the module is loaded. The outputs outlive the call.
    let code = unsafe {
        (device::driver()?.module_get_global)(&raw mut address, &raw mut bytes, module, c_name.as_ptr())
    };
    (code == 0 && bytes > 0).then(|| ModuleVariable { name: name.to_owned(), address, bytes })
}

/// The pages that variables touch.
pub fn pages(symbols: &[ModuleVariable]) -> PageRanges {
    let mut pages = PageRanges::default();
    for symbol in symbols {
        pages.add_bytes(symbol.address, symbol.bytes as u64);
    }
    pages
}

/// A part of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariablePart {
    /// Offset of the part in the variable.
    pub offset: usize,
    /// Its bytes.
    pub bytes: usize,
    /// Its content before, followed by zeros.
    pub before: PageBytes,
    /// Its content now, if that is different.
    pub after: Option<PageBytes>,
}

/// The parts of a variable that held `before` and holds `after`.
pub fn parts(before: &[u8], after: &[u8]) -> impl Iterator<Item = VariablePart> {
    const BYTES: usize = size_of::<PageBytes>();
    before.chunks(BYTES).zip(after.chunks(BYTES)).zip((0..).step_by(BYTES)).map(
        |((before, after), offset)| VariablePart {
            offset,
            bytes: before.len(),
            before: padded(before),
            after: (before != after).then(|| padded(after)),
        },
    )
}

fn padded(bytes: &[u8]) -> PageBytes {
    let mut page = [0; size_of::<PageBytes>()];
    if let Some(start) = page.get_mut(..bytes.len()) {
        start.copy_from_slice(bytes);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_pages_padded_with_zeros() {
        let before = vec![1_u8; 4096 + 3];
        let mut after = before.clone();
        after[4097] = 2;
        let parts: Vec<VariablePart> = parts(&before, &after).collect();
        assert_eq!(
            parts.iter().map(|part| (part.offset, part.bytes)).collect::<Vec<_>>(),
            [(0, 4096), (4096, 3)]
        );
        assert_eq!((parts[0].after, parts[1].before[..4].to_vec()), (None, vec![1, 1, 1, 0]));
        assert_eq!(parts[1].after.unwrap()[..4], [1, 2, 1, 0]);
    }
}
