//! Hints to the processor: what will be read soon may be fetched now.

/// Have a line of memory fetched, if there is one there; any address will do.
#[inline(always)]
pub fn fetch<T>(start: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every such processor has this, and it reads nothing: it is a hint about any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(start.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = start;
}
