//! Ends of the process that run no handlers: `_exit`, `_Exit` and `quick_exit`.
//!
//! Forked workers end so, and Python's `os._exit`. What is recorded and not written yet would be gone: the counts of
//! launches that are read late, and rows of the last moments. The first two functions are found by the loaded objects in
//! tables of addresses, where functions of this file take their place. A thread that waits from the start then writes
//! everything: a signal's handler, which may have interrupted any lock's owner, may call them.
//!
//! `exit` is replaced the same way: glibc before 2.41 runs the handlers of threads that call it at once side by side, and frees
//! a block of them while another thread is in one. A program alone has too few handlers for that. So the first thread ends it.
#![expect(unsafe_code, reason = "tables of the dynamic linker, futexes")]
#![expect(clippy::cast_possible_truncation, reason = "addresses of a 64-bit process")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use goblin::elf64::dynamic::{DT_JMPREL, DT_PLTRELSZ, DT_RELA, DT_RELASZ, DT_STRTAB, DT_SYMTAB, Dyn};
use goblin::elf64::program_header::{PT_DYNAMIC, PT_GNU_RELRO, PT_LOAD};
use goblin::elf64::reloc::{self, Rela};
use goblin::elf64::sym::Sym;

use crate::guard::guard_always;

/// Longest time for which an end waits: a kernel that never ends has counts that nothing can read.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Kinds of table entries that hold a function's address.
#[cfg(target_arch = "x86_64")]
const ADDRESSES: [u32; 2] = [reloc::R_X86_64_JUMP_SLOT, reloc::R_X86_64_GLOB_DAT];
#[cfg(target_arch = "aarch64")]
const ADDRESSES: [u32; 2] = [reloc::R_AARCH64_JUMP_SLOT, reloc::R_AARCH64_GLOB_DAT];

/// The process whose thread waits, 0 before. A child of a fork has another number, and one of `vfork` the same memory.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Set once: forked children have the functions too.
static IS_PLACED: AtomicBool = AtomicBool::new(false);
static STATE: AtomicU32 = AtomicU32::new(RUNNING);
const RUNNING: u32 = 0;
const ENDING: u32 = 1;
const WRITTEN: u32 = 2;

unsafe extern "C" {
    fn __cxa_at_quick_exit(handler: extern "C" fn(*mut c_void), object: *mut c_void) -> c_int;
}

/// Writes everything before the process ends in one of these ways.
pub(super) fn watch() {
    // A forked child has the state of its parent.
    STATE.store(RUNNING, Ordering::Release);
    let body = || {
        wait_while(RUNNING, None);
        guard_always(super::finish);
        STATE.store(WRITTEN, Ordering::Release);
        wake();
    };
    // Without it such an end loses what it lost before.
    if std::thread::Builder::new().name("stallmap-exit".into()).spawn(body).is_err() {
        return;
    }
    PROCESS.store(std::process::id(), Ordering::Release);
    if !IS_PLACED.swap(true, Ordering::AcqRel) {
        // SAFETY: the functions live as long as the process, and do not unwind.
        unsafe {
            __cxa_at_quick_exit(before_end, null_mut());
            libc::dl_iterate_phdr(Some(place), null_mut());
        }
    }
}

/// `exit`, which one thread of a process does. Further ones wait, as they do in newer glibc.
extern "C" fn end_once(status: c_int) -> ! {
    /// The process and the thread that ends it.
    static ENDING: AtomicU64 = AtomicU64::new(0);
    // SAFETY: a question without arguments.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) }.cast_unsigned();
    let own = (u64::from(std::process::id()) << 32) | thread;
    let known = ENDING.load(Ordering::Acquire);
    let is_first = (known >> 32) != (own >> 32)
        && ENDING.compare_exchange(known, own, Ordering::AcqRel, Ordering::Acquire).is_ok();
    // A handler may call `exit` again. It may also wait for a thread that does.
    if !is_first && known != own {
        std::thread::sleep(MAX_WAIT);
    }
    // SAFETY: ends the process. The table of this library is left as it is.
    unsafe { libc::exit(status) }
}

extern "C" fn before_end(_: *mut c_void) {
    write_all();
}

extern "C" fn end(status: c_int) -> ! {
    write_all();
    // SAFETY: ends the process. The table of this library is left as it is.
    unsafe { libc::_exit(status) }
}

/// Lets the thread write everything. May be called in a signal's handler.
fn write_all() {
    if PROCESS.load(Ordering::Acquire) != std::process::id() {
        return;
    }
    let asked = STATE.compare_exchange(RUNNING, ENDING, Ordering::AcqRel, Ordering::Acquire);
    if asked.is_ok() {
        wake();
    }
    let begin = Instant::now();
    while STATE.load(Ordering::Acquire) == ENDING {
        let Some(left) = MAX_WAIT.checked_sub(begin.elapsed()) else { return };
        wait_while(ENDING, Some(left));
    }
}

/// Waits while the state is this one, not longer than a time.
fn wait_while(state: u32, most: Option<Duration>) {
    let time = most.map(|most| libc::timespec {
        tv_sec: most.as_secs().cast_signed(),
        tv_nsec: most.subsec_nanos().into(),
    });
    while STATE.load(Ordering::Acquire) == state {
        let limit = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the word and the time outlive the call.
        unsafe { libc::syscall(libc::SYS_futex, STATE.as_ptr(), libc::FUTEX_WAIT, state, limit) };
        if time.is_some() {
            return;
        }
    }
}

fn wake() {
    // SAFETY: the word is a static.
    unsafe { libc::syscall(libc::SYS_futex, STATE.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// Puts [`end`] and [`end_once`] in the tables of one loaded object.
unsafe extern "C" fn place(info: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: the linker describes an object that is loaded, and stays so during the call.
    unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        let base = info.dlpi_addr as usize;
        if let Some(object) = LoadedObject::read(base, headers) {
            object.place();
        }
    }
    0
}

/// The tables of a loaded object.
struct LoadedObject<'a> {
    base: usize,
    headers: &'a [libc::Elf64_Phdr],
    relocations: [(usize, usize); 2],
    symbols: *const Sym,
    names: *const c_char,
}

impl<'a> LoadedObject<'a> {
    /// The object at an address, unless it is this library or has no tables.
    ///
    /// # Safety
    /// The headers are those of a loaded object.
    unsafe fn read(base: usize, headers: &'a [libc::Elf64_Phdr]) -> Option<Self> {
        let own = end as *const () as usize;
        let holds = |header: &libc::Elf64_Phdr| {
            let begin = base + header.p_vaddr as usize;
            header.p_type == PT_LOAD && (begin..begin + header.p_memsz as usize).contains(&own)
        };
        let dynamic = headers.iter().find(|header| header.p_type == PT_DYNAMIC)?;
        if headers.iter().any(holds) {
            return None;
        }
        let count = dynamic.p_memsz as usize / size_of::<Dyn>();
        // SAFETY: the linker keeps the table in memory while the object is loaded.
        let entries =
            unsafe { std::slice::from_raw_parts((base + dynamic.p_vaddr as usize) as *const Dyn, count) };
        let value =
            |tag: u64| entries.iter().find(|entry| entry.d_tag == tag).map(|entry| entry.d_val as usize);
        // glibc has added the base to addresses, but not in every object.
        let address = |tag: u64| value(tag).map(|found| if found < base { base + found } else { found });
        let table =
            |tag: u64, size: u64| (address(tag).unwrap_or(0), value(size).unwrap_or(0) / size_of::<Rela>());
        Some(Self {
            base,
            headers,
            relocations: [table(DT_JMPREL, DT_PLTRELSZ), table(DT_RELA, DT_RELASZ)],
            symbols: address(DT_SYMTAB)? as *const Sym,
            names: address(DT_STRTAB)? as *const c_char,
        })
    }

    /// # Safety
    /// The object is loaded.
    unsafe fn place(&self) {
        for (begin, count) in self.relocations.into_iter().filter(|(begin, _)| *begin != 0) {
            // SAFETY: the object says that its table has so many entries.
            let entries = unsafe { std::slice::from_raw_parts(begin as *const Rela, count) };
            for entry in
                entries.iter().filter(|entry| ADDRESSES.contains(&((entry.r_info & 0xffff_ffff) as u32)))
            {
                // SAFETY: the entry names a symbol of the object's table, and that a name that ends with a zero.
                let name = unsafe {
                    let symbol = &*self.symbols.add((entry.r_info >> 32) as usize);
                    CStr::from_ptr(self.names.add(symbol.st_name as usize))
                };
                let function = match name.to_bytes() {
                    b"_exit" | b"_Exit" => end,
                    b"exit" => end_once,
                    _ => continue,
                };
                // SAFETY: the entry holds the address of a function of this type.
                unsafe { self.put(self.base + entry.r_offset as usize, function) };
            }
        }
    }

    /// # Safety
    /// At the address lies the table's entry of a function like the new one.
    unsafe fn put(&self, address: usize, function: extern "C" fn(c_int) -> !) {
        // SAFETY: a question without arguments in memory.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.cast_unsigned() as usize;
        let page_of = |address: usize| address / page_bytes * page_bytes;
        let page = page_of(address);
        // The linker protects whole pages only.
        let is_protected = self.headers.iter().any(|header| {
            let begin = self.base + header.p_vaddr as usize;
            let protected = page_of(begin)..page_of(begin + header.p_memsz as usize);
            header.p_type == PT_GNU_RELRO && protected.contains(&address)
        });
        let allow = |rights: c_int| {
            // SAFETY: only the rights of a page of data change, and other threads only read it.
            !is_protected || unsafe { libc::mprotect(page as *mut c_void, page_bytes, rights) } == 0
        };
        if allow(libc::PROT_READ | libc::PROT_WRITE) {
            // SAFETY: by this function's contract. Other threads read the old address or the new one.
            unsafe { AtomicUsize::from_ptr(address as *mut usize) }
                .store(function as *const () as usize, Ordering::Release);
            allow(libc::PROT_READ);
        }
    }
}
