//! Native stacks of launches that no op explains: return addresses in libraries, named when the recording is finalized.
//!
//! The unwinder reads tables of libraries in memory. It runs under the lock of the loader's list, which no library leaves
//! meanwhile, and reads nothing outside of the thread's own stack.
#![expect(unsafe_code, reason = "reads the stack and the tables of libraries as memory")]

mod libraries;

use std::arch::asm;
use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::{c_int, c_void};

use framehop::{CacheNative, FrameAddress, UnwindRegsNative, Unwinder as _};
use stallmap_schema::capture::recording::NativeAddress;
use stallmap_schema::hash;
use stallmap_schema::id::NativeStack;
use stallmap_schema::word::LossKind;

use crate::guard::guard;
use crate::session;
use libraries::LoadedLibraries;

/// Frames of a stack that are recorded.
const MAX_FRAMES: usize = 256;
/// Stacks of a thread whose rows are known to be written.
const MAX_STACKS: usize = 1 << 16;
/// Attempts to find the list of libraries unchanged.
const MAX_ATTEMPTS: usize = 3;

/// The start of a walk: an instruction and the registers there.
#[derive(Clone, Copy)]
struct WalkStart {
    instruction: u64,
    stack_pointer: u64,
    registers: UnwindRegsNative,
}

/// The unwinder of one thread.
struct StackWalker {
    libraries: LoadedLibraries,
    cache: CacheNative<framehop::MayAllocateDuringUnwind>,
    /// End of the thread's stack.
    stack_end: u64,
    /// The session's generation, the stacks and the libraries that it has rows of.
    generation: usize,
    stacks: HashSet<u64>,
    written: HashSet<u64>,
    /// Addresses of the stack that is walked.
    addresses: Vec<u64>,
}

/// The result of a walk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WalkEnd {
    /// The list of libraries has changed since it was read.
    Changed,
    Complete,
    /// The rest of the stack cannot be read.
    Broken,
}

thread_local! {
    static WALKER: RefCell<Option<Box<StackWalker>>> = const { RefCell::new(None) };
}

/// Records the native stack of this thread. `None` where the recording has none, and where it cannot be read.
pub fn of_thread() -> Option<NativeStack> {
    session::config().filter(|config| config.native_stacks)?;
    let start = WalkStart::here();
    let walk = |walker: &RefCell<Option<Box<StackWalker>>>| {
        // An allocation of this library's may not come back here.
        let mut walker = walker.try_borrow_mut().ok()?;
        walker.get_or_insert_with(|| Box::new(StackWalker::new())).stack(start)
    };
    WALKER.try_with(walk).ok().flatten()
}

impl WalkStart {
    #[cfg(target_arch = "x86_64")]
    #[expect(clippy::inline_always, reason = "the registers are those of the caller, which goes on")]
    #[inline(always)]
    fn here() -> Self {
        let (instruction, stack_pointer, frame_pointer): (u64, u64, u64);
        // SAFETY: reads registers.
        unsafe {
            asm!(
                "lea {}, [rip]", "mov {}, rsp", "mov {}, rbp",
                out(reg) instruction, out(reg) stack_pointer, out(reg) frame_pointer,
                options(nomem, nostack, preserves_flags)
            );
        }
        let registers = UnwindRegsNative::new(instruction, stack_pointer, frame_pointer);
        Self { instruction, stack_pointer, registers }
    }

    #[cfg(target_arch = "aarch64")]
    #[expect(clippy::inline_always, reason = "the registers are those of the caller, which goes on")]
    #[inline(always)]
    fn here() -> Self {
        let (instruction, stack_pointer, frame_pointer, link): (u64, u64, u64, u64);
        // SAFETY: reads registers.
        unsafe {
            asm!(
                "adr {}, .", "mov {}, sp", "mov {}, x29", "mov {}, x30",
                out(reg) instruction, out(reg) stack_pointer, out(reg) frame_pointer, out(reg) link,
                options(nomem, nostack, preserves_flags)
            );
        }
        let registers = UnwindRegsNative::new(link, stack_pointer, frame_pointer);
        Self { instruction, stack_pointer, registers }
    }
}

impl StackWalker {
    fn new() -> Self {
        Self {
            libraries: LoadedLibraries::default(),
            cache: CacheNative::new_in(),
            stack_end: stack_end().unwrap_or(0),
            generation: session::generation(),
            stacks: HashSet::new(),
            written: HashSet::new(),
            addresses: Vec::with_capacity(MAX_FRAMES),
        }
    }

    fn stack(&mut self, start: WalkStart) -> Option<NativeStack> {
        let mut end = WalkEnd::Changed;
        for _ in 0..MAX_ATTEMPTS {
            end = self.walk(start);
            if end != WalkEnd::Changed {
                break;
            }
            self.libraries = LoadedLibraries::list();
        }
        if end != WalkEnd::Complete {
            session::lose(LossKind::Op, "the end of a native stack cannot be read", 1, self.last_library());
        }
        let own = self.addresses.iter().take_while(|address| self.libraries.is_own(**address)).count();
        let addresses = self.addresses.get(own..).filter(|addresses| !addresses.is_empty())?;
        if self.generation != session::generation() || self.stacks.len() >= MAX_STACKS {
            self.generation = session::generation();
            self.stacks.clear();
            self.written.clear();
        }
        let bytes: Vec<u8> =
            addresses.iter().chain([&self.libraries.version()]).flat_map(|word| word.to_le_bytes()).collect();
        let stack = hash::checksum(&bytes);
        if self.stacks.insert(stack) {
            record(NativeStack(stack), addresses, &self.libraries, &mut self.written);
        }
        Some(NativeStack(stack))
    }

    /// Walks the stack under the lock of the loader's list.
    fn walk(&mut self, start: WalkStart) -> WalkEnd {
        let mut walk = (self, start, WalkEnd::Changed);
        // SAFETY: the callback gets what is passed here, while it lives.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut walk).cast()) };
        walk.2
    }

    fn unwind(&mut self, start: WalkStart) -> WalkEnd {
        let stack = start.stack_pointer..self.stack_end;
        let mut read = |address: u64| {
            let is_inside = stack.contains(&address) && stack.end - address >= 8;
            // SAFETY: the word lies in the used part of this thread's stack.
            is_inside.then(|| unsafe { (address as *const u64).read_unaligned() }).ok_or(())
        };
        self.addresses.clear();
        let unwinder = &self.libraries.unwinder;
        let mut frames = unwinder.iter_frames(start.instruction, start.registers, &mut self.cache, &mut read);
        while self.addresses.len() < MAX_FRAMES {
            match frames.next() {
                Ok(Some(frame)) => self.addresses.push(FrameAddress::address_for_lookup(frame)),
                Ok(None) => return WalkEnd::Complete,
                Err(_) => break,
            }
        }
        WalkEnd::Broken
    }

    /// File of the outermost frame that was found.
    fn last_library(&self) -> Option<String> {
        let library = self.libraries.at(*self.addresses.last()?)?;
        Some(library.path.clone())
    }
}

/// The loader calls it once for each library, with its lock held. The first call does everything.
extern "C" fn visit(info: *mut libc::dl_phdr_info, _bytes: usize, data: *mut c_void) -> c_int {
    guard((), || {
        // SAFETY: the loader gives its facts, and `data` is what [`StackWalker::walk`] passes.
        let (info, walk) = unsafe { (&*info, &mut *data.cast::<(&mut StackWalker, WalkStart, WalkEnd)>()) };
        if walk.0.libraries.version() == libraries::version(info) {
            walk.2 = walk.0.unwind(walk.1);
        }
    });
    1
}

/// Writes the rows of a stack, and those of libraries that have none.
fn record(
    native_stack: NativeStack,
    addresses: &[u64],
    libraries: &LoadedLibraries,
    written: &mut HashSet<u64>,
) {
    for (depth, address) in (0..).zip(addresses) {
        let library = libraries.at(*address);
        if let Some(library) = library.filter(|library| written.insert(library.id)) {
            session::emit(library.row());
        }
        let offset = library.map_or(0, |library| address.wrapping_sub(library.bias));
        session::emit(NativeAddress {
            native_stack,
            depth,
            library: library.map(|library| library.id),
            offset,
        });
    }
}

/// End of this thread's stack.
fn stack_end() -> Option<u64> {
    // SAFETY: the calls fill the attributes and the numbers, which live here.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return None;
        }
        let (mut start, mut bytes) = (std::ptr::null_mut(), 0);
        let code = libc::pthread_attr_getstack(&raw const attributes, &raw mut start, &raw mut bytes);
        libc::pthread_attr_destroy(&raw mut attributes);
        (code == 0).then(|| (start.addr() + bytes) as u64)
    }
}
