//! The UTF-8 bytes of a `str`, without a copy if the object has them already.
//!
//! `PyUnicode_AsUTF8AndSize` costs nothing for ASCII. For other text it leaves a copy on the object for life, which a
//! million keys would feel. The stable ABI cannot say whether a `str` is ASCII. The flag is therefore read from the
//! object's header, at its place in this version of CPython. A test on known strings confirms the place first. If the
//! place is not known, every `str` is encoded into new bytes: slower, and as right.

use std::ffi::c_char;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// In `PyASCIIObject` the object's head, a length and a hash stand before the flags.
const FLAGS_OFFSET: usize = size_of::<ffi::PyObject>() + 2 * size_of::<ffi::Py_ssize_t>();
const LAST_KNOWN_MINOR: u8 = 14;

/// `compact` and `ascii` stand after the 2 bits of `interned` and the 3 of `kind`, in CPython 3.11 to 3.14.
const FLAGS: u32 = 0b11 << 5;

/// All bits set: no header has that.
const UNKNOWN: u32 = u32::MAX;
/// The bits that mean "compact and ASCII", once they are known.
static COMPACT_ASCII: AtomicU32 = AtomicU32::new(UNKNOWN);

/// Return the bytes of an ASCII `str`, borrowed from it. None if it is not ASCII, or if that is not known.
#[inline]
pub fn ascii<'a>(text: &'a Bound<'_, PyString>) -> Option<&'a [u8]> {
    // SAFETY: it is a `str`. Either the place is known to hold the flags, or no flags match.
    if !unsafe { has_flags(text.as_ptr(), wanted()) } {
        return None;
    }
    let mut length: ffi::Py_ssize_t = 0;
    // SAFETY: `text` is a `str`. Its bytes are immutable and live as long as it. For ASCII this cannot fail.
    unsafe {
        let start: *const c_char = ffi::PyUnicode_AsUTF8AndSize(text.as_ptr(), &mut length);
        Some(slice::from_raw_parts(start.cast(), length as usize))
    }
}

/// Return the flags that mean "compact and ASCII", for a caller that tests many strings.
#[inline]
pub fn wanted() -> u32 {
    COMPACT_ASCII.load(Relaxed)
}

/// Return whether the place of the flags is known.
pub fn is_known() -> bool {
    wanted() != UNKNOWN
}

/// Return whether a `str` has all of these flags.
///
/// # Safety
/// It is a `str`.
#[inline(always)]
pub unsafe fn has_flags(text: *mut ffi::PyObject, wanted: u32) -> bool {
    // SAFETY: as the caller says. The header is longer than this.
    let flags = unsafe { text.cast::<u8>().add(FLAGS_OFFSET).cast::<u32>().read() };
    flags & wanted == wanted
}

/// Learn whether this interpreter keeps the flags at the known place. The flags must tell known strings apart.
pub fn learn_layout(py: Python<'_>) {
    let version = py.version_info();
    if version.major == 3 && version.minor <= LAST_KNOWN_MINOR {
        COMPACT_ASCII.store(FLAGS, Relaxed);
        if !tells_apart(py) {
            COMPACT_ASCII.store(UNKNOWN, Relaxed);
        }
    }
}

fn tells_apart(py: Python<'_>) -> bool {
    let both = |text| [PyString::new(py, text), PyString::intern(py, text)];
    ["", "k", "tenant-42"].into_iter().flat_map(both).all(|text| ascii(&text).is_some())
        && ["é", "clé", "節", "𝄞"].into_iter().flat_map(both).all(|text| ascii(&text).is_none())
}
