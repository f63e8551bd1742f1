//! The libraries of the process, as the loader lists them.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;

use framehop::{ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, Unwinder as _, UnwinderNative};
use stallmap_schema::capture::recording::NativeLibrary;
use stallmap_schema::hash;

use crate::guard::guard;

/// Type of the notes that hold build ids.
const BUILD_ID_NOTE: u32 = 3;
/// Maximum bytes of a build id.
const MAX_BUILD_ID_BYTES: usize = 64;

/// Bytes of a library in memory. Valid while the library is loaded.
type LoadedBytes = &'static [u8];

/// The libraries of the process at one moment.
#[derive(Default)]
pub(super) struct LoadedLibraries {
    /// In the order of their addresses.
    libraries: Vec<MappedLibrary>,
    pub(super) unwinder: UnwinderNative<LoadedBytes, MayAllocateDuringUnwind>,
    version: u64,
}

/// One library or program.
pub(super) struct MappedLibrary {
    /// Its identity in the process.
    pub(super) id: u64,
    pub(super) path: String,
    /// Distance of its addresses in memory from those in its file.
    pub(super) bias: u64,
    build_id: Option<String>,
    range: Range<u64>,
    /// Its index of functions, by which the unwinder finds its tables.
    index: Option<LoadedBytes>,
    is_own: bool,
}

/// A number of the loader's list, which changes with it: libraries loaded and unloaded so far. Never 0.
pub(super) fn version(info: &libc::dl_phdr_info) -> u64 {
    (info.dlpi_adds << 32) ^ info.dlpi_subs
}

impl LoadedLibraries {
    /// Reads the loader's list.
    pub(super) fn list() -> Self {
        let mut list = Self::default();
        // SAFETY: the callback gets the list, which lives here.
        unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut list).cast()) };
        list.libraries.sort_by_key(|library| library.range.start);
        list
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The library that holds an address.
    pub(super) fn at(&self, address: u64) -> Option<&MappedLibrary> {
        let index = self.libraries.partition_point(|library| library.range.start <= address);
        self.libraries.get(index.checked_sub(1)?).filter(|library| library.range.contains(&address))
    }

    /// True for code of the recorder.
    pub(super) fn is_own(&self, address: u64) -> bool {
        self.at(address).is_some_and(|library| library.is_own)
    }
}

impl MappedLibrary {
    pub(super) fn row(&self) -> NativeLibrary {
        let index = self.index.filter(|_| self.build_id.is_none());
        NativeLibrary {
            library: self.id,
            path: self.path.clone(),
            build_id: self.build_id.clone(),
            index_hash: index.map(|index| format!("{:016x}", hash::content_hash(index))),
        }
    }
}

extern "C" fn add(info: *mut libc::dl_phdr_info, _bytes: usize, data: *mut c_void) -> c_int {
    guard((), || {
        // SAFETY: the loader gives its facts, and `data` is the list of [`LoadedLibraries::list`].
        let (info, list) = unsafe { (&*info, &mut *data.cast::<LoadedLibraries>()) };
        list.version = version(info);
        // SAFETY: the headers are the library's, which is loaded.
        if let Some((library, module)) = unsafe { read(info) } {
            list.libraries.push(library);
            list.unwinder.add_module(module);
        }
    });
    0
}

/// # Safety
/// The loader's facts are of a library that is loaded.
unsafe fn read(info: &libc::dl_phdr_info) -> Option<(MappedLibrary, Module<LoadedBytes>)> {
    if info.dlpi_phdr.is_null() {
        return None;
    }
    // SAFETY: by this function's contract.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let bias = info.dlpi_addr;
    let parts = |kind: u32| headers.iter().filter(move |header| header.p_type == kind);
    let memory = |header: &libc::Elf64_Phdr| {
        let start = bias.wrapping_add(header.p_vaddr);
        start..start.saturating_add(header.p_memsz)
    };
    let loaded: Vec<Range<u64>> = parts(libc::PT_LOAD).map(memory).collect();
    let range = loaded.iter().map(|part| part.start).min()?..loaded.iter().map(|part| part.end).max()?;
    // SAFETY: loaded parts of a library can be read.
    let bytes = |part: &Range<u64>| unsafe {
        std::slice::from_raw_parts(
            part.start as *const u8,
            usize::try_from(part.end - part.start).unwrap_or(0),
        )
    };
    let holds = |part: &Range<u64>| {
        loaded.iter().find(|whole| whole.start <= part.start && part.end <= whole.end).cloned()
    };
    let index = parts(libc::PT_GNU_EH_FRAME).map(memory).find(|part| holds(part).is_some());
    // The tables lie where the index says, in front of it or behind it in its part.
    let tables = index.as_ref().and_then(|index| {
        let start = tables_at(bytes(index), index.start)?;
        let whole = holds(&(start..start.checked_add(1)?))?;
        Some(start..whole.end)
    });
    let mut notes = parts(libc::PT_NOTE).map(memory).filter(|part| holds(part).is_some());
    let build_id = notes.find_map(|part| build_id(bytes(&part)));
    // SAFETY: the loader's names are C texts.
    let path = (!info.dlpi_name.is_null()).then(|| unsafe { CStr::from_ptr(info.dlpi_name) });
    let path = path.map_or_else(String::new, |path| path.to_string_lossy().into_owned());
    let path = if path.is_empty() { program() } else { path };
    let identity = format!("{path}\0{}", build_id.as_deref().unwrap_or_default());
    let in_file = |part: &Range<u64>| part.start.wrapping_sub(bias)..part.end.wrapping_sub(bias);
    let sections = ExplicitModuleSectionInfo {
        eh_frame_svma: tables.as_ref().map(in_file),
        eh_frame: tables.as_ref().map(bytes),
        eh_frame_hdr_svma: index.as_ref().map(in_file),
        eh_frame_hdr: index.as_ref().map(bytes),
        ..ExplicitModuleSectionInfo::default()
    };
    let module = Module::new(String::new(), range.clone(), bias, sections);
    let library = MappedLibrary {
        id: hash::checksum(identity.as_bytes()),
        path,
        bias,
        build_id,
        is_own: range.contains(&(add as *const () as u64)),
        range,
        index: index.as_ref().map(bytes),
    };
    Some((library, module))
}

/// The address that an index of functions gives for their tables. `None` for an index of another kind than linkers write.
fn tables_at(index: &[u8], address: u64) -> Option<u64> {
    /// A distance of 32 bits from the word that holds it.
    const RELATIVE: u8 = 0x1b;
    let (&[version, encoding, _, _], rest) = index.split_first_chunk::<4>()?;
    let distance = i64::from(i32::from_le_bytes(*rest.first_chunk()?));
    (version == 1 && encoding == RELATIVE).then(|| address.wrapping_add(4).wrapping_add_signed(distance))
}

/// The build id among notes, in hexadecimal.
fn build_id(mut notes: &[u8]) -> Option<String> {
    while let Some((head, rest)) = notes.split_first_chunk::<12>() {
        let word = |at: usize| Some(u32::from_le_bytes(*head.get(at..)?.first_chunk()?));
        let (name_bytes, content_bytes, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let (name, rest) = rest.split_at_checked(name_bytes.checked_next_multiple_of(4)?)?;
        let content = rest.get(..content_bytes)?;
        if kind == BUILD_ID_NOTE && name == b"GNU\0" && content_bytes <= MAX_BUILD_ID_BYTES {
            return Some(hash::hexadecimal(content));
        }
        notes = rest.get(content_bytes.checked_next_multiple_of(4)?..)?;
    }
    None
}

/// The program's file.
fn program() -> String {
    std::fs::read_link("/proc/self/exe")
        .map_or_else(|_| String::new(), |path| path.to_string_lossy().into_owned())
}
