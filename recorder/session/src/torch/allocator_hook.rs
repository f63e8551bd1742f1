//! Hook of every allocation and free of PyTorch's caching allocator, without a compiled extension.
//!
//! The allocator (libc10_cuda) reports each block that it gives out or takes back to PyTorch's own memory profiler
//! (libc10), profiler running or not, by an imported function: `c10::reportMemoryUsageToProfiler(void* ptr,
//! int64_t alloc_size, size_t total_allocated, size_t total_reserved, c10::Device)`. Imports are called through a slot
//! in the importing library's global offset table. [`install`] puts stallmap's function into that slot in every loaded
//! library. It calls the original, runs on the allocating thread under the allocator's lock, and must be short.
#![expect(
    unsafe_code,
    reason = "reads the loaded libraries' ELF structures and writes to their offset tables"
)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use stallmap_schema::id::Address;

use super::calls::allocator_event;
use crate::guard::guard;

const SYMBOL: &CStr = c"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";
const LIBRARY: &CStr = c"libc10.so";
/// `c10::DeviceType::CUDA`.
const CUDA: i8 = 1;

/// `c10::Device`: passed by value in one register.
#[repr(C)]
#[derive(Clone, Copy)]
struct TorchDevice {
    kind: i8,
    index: i8,
}

type ReportAllocation = unsafe extern "C" fn(*mut c_void, i64, usize, usize, TorchDevice);

static ORIGINAL: AtomicUsize = AtomicUsize::new(0);
static INSTALLED: Mutex<usize> = Mutex::new(0);

/// Hooks the allocator in every library that is loaded now. Returns the number of slots. Later calls change nothing.
pub fn install() -> usize {
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if *installed == 0 {
        *installed = hook();
    }
    *installed
}

fn hook() -> usize {
    // SAFETY: both names are C strings. RTLD_NOLOAD loads nothing.
    let original = unsafe {
        let library = libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if library.is_null() { std::ptr::null_mut() } else { libc::dlsym(library, SYMBOL.as_ptr()) }
    };
    if original.is_null() {
        return 0;
    }
    ORIGINAL.store(original as usize, Ordering::Release);
    redirect(SYMBOL, report as *mut c_void)
}

unsafe extern "C" fn report(
    ptr: *mut c_void,
    bytes: i64,
    allocated: usize,
    reserved: usize,
    device: TorchDevice,
) {
    if device.kind == CUDA {
        guard((), || allocator_event(device.index.into(), Address(ptr as u64), bytes));
    }
    let original = ORIGINAL.load(Ordering::Acquire);
    if original != 0 {
        // SAFETY: `original` is the address of the function of this type that the slot was meant for.
        let original = unsafe { std::mem::transmute::<usize, ReportAllocation>(original) };
        // SAFETY: the arguments are the caller's own.
        unsafe { original(ptr, bytes, allocated, reserved, device) };
    }
}

/// Makes every loaded library that imports `symbol` call `target`; the number of slots.
fn redirect(symbol: &'static CStr, target: *mut c_void) -> usize {
    let mut redirection = SymbolRedirection { symbol, target, count: 0 };
    // SAFETY: the callback has the type that is asked for, and `redirection` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut redirection).cast()) };
    redirection.count
}

struct SymbolRedirection {
    symbol: &'static CStr,
    target: *mut c_void,
    count: usize,
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid description, and `data` is what `redirect` passed.
    let (info, redirection) = unsafe { (&*info, &mut *data.cast::<SymbolRedirection>()) };
    guard((), || {
        if let Some(library) = LoadedLibrary::read(info) {
            library.redirect(redirection);
        }
    });
    0
}

/// Imports of a loaded library.
struct LoadedLibrary {
    base: usize,
    symbols: *const ElfSymbol,
    names: *const c_char,
    /// (address, bytes) of the relocations of calls and of other pointers.
    relocations: [(usize, usize); 2],
    /// Page range that the loader made read-only after relocation.
    read_only: std::ops::Range<usize>,
}

#[repr(C)]
struct ElfSymbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// Elf64_Rela, its info field as the two halves that it has on little-endian machines.
#[repr(C)]
struct ElfRelocation {
    offset: usize,
    kind: u32,
    symbol: u32,
    addend: i64,
}

#[repr(C)]
struct ElfDynamic {
    tag: i64,
    value: u64,
}

const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
/// GLOB_DAT and JUMP_SLOT.
#[cfg(target_arch = "aarch64")]
const SLOT_KINDS: [u32; 2] = [1025, 1026];
/// GLOB_DAT and JUMP_SLOT.
#[cfg(not(target_arch = "aarch64"))]
const SLOT_KINDS: [u32; 2] = [6, 7];

impl LoadedLibrary {
    fn read(info: &libc::dl_phdr_info) -> Option<Self> {
        let base = usize::try_from(info.dlpi_addr).ok()?;
        if info.dlpi_phdr.is_null() {
            return None;
        }
        // SAFETY: the loader's description of a loaded library: so many headers stand there.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let place = |kind| {
            let header = headers.iter().find(|header| header.p_type == kind)?;
            let start = base.checked_add(usize::try_from(header.p_vaddr).ok()?)?;
            Some(start..start.checked_add(usize::try_from(header.p_memsz).ok()?)?)
        };
        let dynamic = place(libc::PT_DYNAMIC)?;
        let mut values = [0_usize; 24];
        let mut entry = dynamic.start as *const ElfDynamic;
        while (entry as usize) < dynamic.end {
            // SAFETY: within the library's dynamic section.
            let ElfDynamic { tag, value } = unsafe { entry.read() };
            if tag == 0 {
                break;
            }
            if let Some(slot) = usize::try_from(tag).ok().and_then(|tag| values.get_mut(tag)) {
                *slot = usize::try_from(value).ok()?;
            }
            // SAFETY: the loop ends at the section's end.
            entry = unsafe { entry.add(1) };
        }
        // The loader relocates these in place, but not in every library (the kernel's own one).
        let value =
            |tag: i64| usize::try_from(tag).ok().and_then(|tag| values.get(tag).copied()).unwrap_or(0);
        let address = |tag| match value(tag) {
            0 => 0,
            address if address < base => base + address,
            address => address,
        };
        (value(DT_SYMTAB) != 0 && value(DT_STRTAB) != 0).then(|| Self {
            base,
            symbols: address(DT_SYMTAB) as *const ElfSymbol,
            names: address(DT_STRTAB) as *const c_char,
            relocations: [(address(DT_JMPREL), value(DT_PLTRELSZ)), (address(DT_RELA), value(DT_RELASZ))],
            read_only: place(libc::PT_GNU_RELRO).unwrap_or(0..0),
        })
    }

    fn redirect(&self, redirection: &mut SymbolRedirection) {
        for &(address, bytes) in self.relocations.iter().filter(|&&(address, _)| address != 0) {
            let count = bytes / size_of::<ElfRelocation>();
            // SAFETY: the library's dynamic section says that so many bytes of relocations stand there.
            let relocations = unsafe { std::slice::from_raw_parts(address as *const ElfRelocation, count) };
            for relocation in
                relocations.iter().filter(|relocation| self.is_import(relocation, redirection.symbol))
            {
                let slot = self.base.wrapping_add(relocation.offset);
                redirection.count += usize::from(self.write(slot, redirection.target));
            }
        }
    }

    fn is_import(&self, relocation: &ElfRelocation, symbol: &CStr) -> bool {
        let index = relocation.symbol as usize;
        if index == 0 || !SLOT_KINDS.contains(&relocation.kind) {
            return false;
        }
        // SAFETY: relocations name symbols of the library's own symbol table.
        let name = unsafe { (*self.symbols.add(index)).name } as usize;
        // SAFETY: symbols name C strings in the library's own string table.
        unsafe { CStr::from_ptr(self.names.add(name)) == symbol }
    }

    /// Writes a slot, in a page that is made writable for that where the loader made it read-only.
    fn write(&self, slot: usize, target: *mut c_void) -> bool {
        let is_read_only = self.read_only.contains(&slot);
        if is_read_only && !protect(slot, libc::PROT_READ | libc::PROT_WRITE) {
            return false;
        }
        // SAFETY: the slot is a pointer of the library's offset table, aligned and now writable. A call that runs at
        // the same time reads the old or the new function.
        unsafe { AtomicPtr::from_ptr(slot as *mut *mut c_void) }.store(target, Ordering::Release);
        !is_read_only || protect(slot, libc::PROT_READ)
    }
}

fn protect(slot: usize, protection: c_int) -> bool {
    // SAFETY: asks for a constant.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    // SAFETY: the page holds the slot, which is mapped. An error changes nothing.
    unsafe { libc::mprotect((slot & !(page - 1)) as *mut c_void, page, protection) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn another_parent() -> libc::pid_t {
        -7
    }

    #[test]
    fn an_imported_function_is_replaced_where_it_is_called() {
        // SAFETY: has no preconditions.
        let before = unsafe { libc::getppid() };
        assert!(redirect(c"getppid", another_parent as *mut c_void) > 0);
        // SAFETY: has no preconditions.
        assert_eq!((before > 0, unsafe { libc::getppid() }), (true, -7));
    }

    #[test]
    fn without_pytorch_there_is_nothing_to_hook() {
        assert_eq!(install(), 0);
    }
}
