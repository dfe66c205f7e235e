//! An allocator that counts allocated bytes, with a limit for one operation.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

#[global_allocator]
static COUNTED: Counted = Counted;

// Per thread: a parser uses one thread, and several tests run concurrently.
thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static BEFORE: Cell<usize> = const { Cell::new(0) };
    static LIMIT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Calls `work`, which may hold at most `bytes` additional bytes at any time. An allocation beyond that aborts the process
/// immediately, before it can exhaust the machine's memory.
pub(crate) fn within<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let before = LIVE.get();
    BEFORE.set(before);
    LIMIT.set(before.saturating_add(bytes));
    let result = work();
    LIMIT.set(usize::MAX);
    result
}

/// The system allocator with a counter.
struct Counted;

impl Counted {
    fn add(bytes: usize) {
        let live = LIVE.get().saturating_add(bytes);
        LIVE.set(live);
        let limit = LIMIT.get();
        if live > limit {
            // The report may allocate without a limit.
            LIMIT.set(usize::MAX);
            let before = BEFORE.get();
            let (live, allowed) = (live.saturating_sub(before), limit.saturating_sub(before));
            eprintln!("memory: {live} bytes are live for this input, allowed are {allowed}");
            std::process::abort();
        }
    }

    /// Memory from another thread was never counted here, so the count saturates at zero.
    fn take(bytes: usize) {
        LIVE.set(LIVE.get().saturating_sub(bytes));
    }
}

#[expect(
    unsafe_code,
    reason = "an allocator is unsafe by its trait; every call is the system's with the same arguments"
)]
// SAFETY: each method forwards its arguments to `System`, which fulfils the contract of the trait.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size());
        // SAFETY: the caller fulfils the requirements of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Self::take(layout.size());
        // SAFETY: as above; the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::add(size);
        Self::take(layout.size());
        // SAFETY: as above; the pointer came from `System`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
