//! The one setting of the C library's allocator.

/// Large blocks are of at least so many bytes: where the C library begins, before it moves the bound by itself.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BYTES: libc::c_int = 128 << 10;

/// Has the allocator map blocks of 128 KiB and more each by itself, so that the host has them back when they are freed.
///
/// glibc raises this bound to the size of what is freed, up to 32 MiB, and keeps twice as much free at the end of each of
/// its heaps: after some large answers of a model, a process held more than 100 MiB that it did not use. A no-op with
/// another C library.
pub fn give_back_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "a call of the C library without a safe wrapper")]
    // SAFETY: sets a number in the allocator, under its lock. It refuses only what is out of range, which this is not.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
    }
}
