//! Where a key stands: what a hash function and boundaries in order have in common.

use pyo3::prelude::*;

use crate::hash::Hasher;
use crate::key::KeyBytes;
use crate::refusal::refusal;

/// Keys to positions: of a circle, or among boundaries.
pub trait Locator: Sync {
    /// Whether text and bytes are keys here.
    fn takes_bytes(&self) -> bool;

    /// Whether integers are, which come as the 8 bytes of a key.
    fn takes_numbers(&self) -> bool;

    /// Whether it works without the interpreter, in any thread.
    fn is_native(&self) -> bool;

    /// Put the positions of keys, of the kind that is taken, into as much room.
    fn locate(&self, keys: impl Iterator<Item: AsRef<[u8]>> + Clone, room: &mut [u64]);

    /// The position of the bytes of a key.
    fn position_with(&self, py: Python<'_>, data: &[u8]) -> PyResult<u64>;

    /// The position of any key; the error is the reference's.
    fn position_of(&self, key: &Bound<'_, PyAny>) -> PyResult<u64>;

    /// The reference's error for what is no key here.
    fn refusal<'py>(&self, py: Python<'py>, key: Bound<'py, PyAny>) -> PyErr;
}

impl Locator for Hasher {
    #[inline(always)]
    fn takes_bytes(&self) -> bool {
        true
    }

    #[inline(always)]
    fn takes_numbers(&self) -> bool {
        true
    }

    fn is_native(&self) -> bool {
        !matches!(self, Hasher::Python(..))
    }

    #[inline]
    fn locate(&self, keys: impl Iterator<Item: AsRef<[u8]>> + Clone, room: &mut [u64]) {
        self.positions(keys, room);
    }

    #[inline]
    fn position_with(&self, py: Python<'_>, data: &[u8]) -> PyResult<u64> {
        self.position_with(py, data)
    }

    #[inline]
    fn position_of(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        self.position_with(key.py(), &KeyBytes::of(key)?)
    }

    fn refusal<'py>(&self, py: Python<'py>, key: Bound<'py, PyAny>) -> PyErr {
        refusal(py, "apportion.placement.keys.key_bytes", "key_bytes", (key,))
    }
}
