//! The structures of the Arrow C data interface, and their release.

use std::ffi::{c_char, c_int, c_void};

/// The reference of Arrow arrays.
pub const REFERENCE: &str = "apportion.placement.keys.arrow";

#[repr(C)]
pub struct Schema {
    pub format: *const c_char,
    pub name: *const c_char,
    pub metadata: *const c_char,
    pub flags: i64,
    pub n_children: i64,
    pub children: *mut *mut Schema,
    pub dictionary: *mut Schema,
    pub release: Option<unsafe extern "C" fn(*mut Schema)>,
    pub private_data: *mut c_void,
}

#[repr(C)]
pub struct Array {
    pub length: i64,
    pub null_count: i64,
    pub offset: i64,
    pub n_buffers: i64,
    pub n_children: i64,
    pub buffers: *mut *const u8,
    pub children: *mut *mut Array,
    pub dictionary: *mut Array,
    pub release: Option<unsafe extern "C" fn(*mut Array)>,
    pub private_data: *mut c_void,
}

#[repr(C)]
pub struct Stream {
    pub get_schema: unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int,
    pub get_next: unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int,
    pub get_last_error: unsafe extern "C" fn(*mut Stream) -> *const c_char,
    pub release: Option<unsafe extern "C" fn(*mut Stream)>,
    pub private_data: *mut c_void,
}

/// A structure with a release callback, which is null after it has been called.
pub trait Released {
    /// # Safety
    /// No code uses its parts afterwards.
    unsafe fn release(&mut self);
}

impl Released for Schema {
    unsafe fn release(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the callback is the producer's own. It is called once, because it sets itself to null.
            unsafe { release(self) }
        }
    }
}

impl Released for Array {
    unsafe fn release(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: as above.
            unsafe { release(self) }
        }
    }
}

/// A structure that a stream handed over. Dropping it releases it.
pub struct Taken<T: Released>(pub Box<T>);

impl<T: Released> Drop for Taken<T> {
    fn drop(&mut self) {
        // SAFETY: the structure goes, so its holder no longer uses its parts.
        unsafe { self.0.release() }
    }
}
