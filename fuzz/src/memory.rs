//! The bytes that are allocated, counted, with a limit for one piece of work.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

#[global_allocator]
static COUNTED: Counted = Counted;

// Of each thread: a parser works on one, and tests of several run at once.
thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static BEFORE: Cell<usize> = const { Cell::new(0) };
    static LIMIT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Calls `work`, during which at most `bytes` more may be live than before. An allocation beyond that ends the process at
/// once, before it can take the machine's memory.
pub(crate) fn within<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let before = LIVE.get();
    BEFORE.set(before);
    LIMIT.set(before.saturating_add(bytes));
    let result = work();
    LIMIT.set(usize::MAX);
    result
}

/// The system's allocator with a count.
struct Counted;

impl Counted {
    fn add(bytes: usize) {
        let live = LIVE.get().saturating_add(bytes);
        LIVE.set(live);
        let limit = LIMIT.get();
        if live > limit {
            // Memory that is allocated from here on is the report's.
            LIMIT.set(usize::MAX);
            let before = BEFORE.get();
            let (live, allowed) = (live.saturating_sub(before), limit.saturating_sub(before));
            eprintln!("memory: {live} bytes are live for this input, allowed are {allowed}");
            std::process::abort();
        }
    }

    /// Memory that another thread allocated was never counted here.
    fn take(bytes: usize) {
        LIVE.set(LIVE.get().saturating_sub(bytes));
    }
}

#[expect(
    unsafe_code,
    reason = "an allocator is unsafe by its trait; every call is the system's with the same arguments"
)]
// SAFETY: each method passes its arguments on to `System`, which keeps the contract of the trait.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size());
        // SAFETY: the caller's promises are those that `System` asks for.
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
