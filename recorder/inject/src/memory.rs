//! The library's memory. Where the system has none left, Rust would end the process. Here, recording ends, and what was
//! recorded is written with memory that was set aside.
#![expect(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use stallmap_session::guard;

#[global_allocator]
static ALLOCATOR: GuardedAllocator = GuardedAllocator;

/// Addresses, of which the C library makes a mapping of their own. No page is touched: they cost no memory.
const SPARE: Layout = match Layout::from_size_align(64 << 20, 16) {
    Ok(layout) => layout,
    Err(_) => Layout::new::<u64>(),
};
/// Null before it is set aside and after it was given back.
static SPARE_BLOCK: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// Sets memory aside for the case that there is none. Once.
pub(crate) fn set_aside() {
    if SPARE_BLOCK.load(Ordering::Acquire).is_null() {
        // SAFETY: the layout has a size.
        let block = unsafe { System.alloc(SPARE) };
        let set = SPARE_BLOCK.compare_exchange(null_mut(), block, Ordering::AcqRel, Ordering::Acquire);
        if set.is_err() && !block.is_null() {
            // SAFETY: the allocator gave it for this layout, and no other thread knows it.
            unsafe { System.dealloc(block, SPARE) };
        }
    }
}

struct GuardedAllocator;

impl GuardedAllocator {
    /// Allocates, for a second time with what was set aside.
    fn try_twice(allocate: impl Fn() -> *mut u8) -> *mut u8 {
        let block = allocate();
        if !block.is_null() {
            return block;
        }
        let spare = SPARE_BLOCK.swap(null_mut(), Ordering::AcqRel);
        if !spare.is_null() {
            // SAFETY: the allocator gave it for this layout, and the exchange gave it to this thread alone.
            unsafe { System.dealloc(spare, SPARE) };
            guard::memory_ran_out();
        }
        // Another thread may have given it back.
        allocate()
    }
}

// SAFETY: every call goes to the system's allocator with the arguments as they came.
unsafe impl GlobalAlloc for GuardedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by this function's contract.
        Self::try_twice(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by this function's contract.
        Self::try_twice(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: by this function's contract. A block that could not grow stays as it is.
        Self::try_twice(|| unsafe { System.realloc(block, layout, size) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: by this function's contract.
        unsafe { System.dealloc(block, layout) };
    }
}
