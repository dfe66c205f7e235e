//! Settings of the C library's allocator.

/// Minimum size of a large block, in bytes. This is glibc's initial threshold, before it adjusts the threshold dynamically.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BYTES: libc::c_int = 128 << 10;

/// Makes the allocator map each block of 128 KiB or more separately, so that freeing it returns the memory to the host.
///
/// By default glibc raises this threshold to the size of freed blocks, up to 32 MiB, and keeps twice as much free at the end of
/// each of its heaps: after some large model answers, a process held more than 100 MiB that it did not use. A no-op with another
/// C library.
pub fn give_back_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "a call of the C library without a safe wrapper")]
    // SAFETY: sets a number in the allocator, under its lock. Only values out of range are refused, and this one is in range.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
    }
}
