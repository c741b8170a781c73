//! Hints to the processor: fetch memory that will be read soon.

/// Fetch the line of memory at an address, if there is one. Any address will do.
#[inline(always)]
pub fn fetch<T>(start: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this kind has the instruction, and it reads nothing: it is a hint about any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(start.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = start;
}
