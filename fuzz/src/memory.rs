//! The bytes that are allocated, counted, with a limit for one piece of work.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

#[global_allocator]
static COUNTED: Counted = Counted;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static BEFORE: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Calls `work`, during which at most `bytes` more may be live than before. An allocation beyond that ends the process at
/// once, before it can take the machine's memory.
pub(crate) fn within<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let before = LIVE.load(Relaxed);
    BEFORE.store(before, Relaxed);
    LIMIT.store(before.saturating_add(bytes), Relaxed);
    let result = work();
    LIMIT.store(usize::MAX, Relaxed);
    result
}

/// The system's allocator with a count.
struct Counted;

impl Counted {
    fn add(bytes: usize) {
        let live = LIVE.fetch_add(bytes, Relaxed).saturating_add(bytes);
        let limit = LIMIT.load(Relaxed);
        if live > limit {
            // Memory that is allocated from here on is the report's.
            LIMIT.store(usize::MAX, Relaxed);
            let before = BEFORE.load(Relaxed);
            let (live, allowed) = (live.saturating_sub(before), limit.saturating_sub(before));
            eprintln!("memory: {live} bytes are live for this input, allowed are {allowed}");
            std::process::abort();
        }
    }

    fn take(bytes: usize) {
        LIVE.fetch_sub(bytes, Relaxed);
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
