//! Locators: the common interface of hash functions and of boundaries in order.

use pyo3::prelude::*;

use crate::hash::Hasher;
use crate::key::KeyBytes;
use crate::refusal::refusal;

/// Turns keys into positions, of a circle or among boundaries.
pub trait Locator: Sync {
    /// Return whether text and bytes are keys here.
    fn takes_bytes(&self) -> bool;

    /// Return whether integers are keys here. They come as the 8 bytes of a key.
    fn takes_numbers(&self) -> bool;

    /// Return whether the locator works without the interpreter, in any thread.
    fn is_native(&self) -> bool;

    /// Put the positions of keys into the room, one each. The keys are of a kind that the locator takes.
    fn locate(&self, keys: impl Iterator<Item: AsRef<[u8]>> + Clone, room: &mut [u64]);

    /// Return the position of the bytes of a key.
    fn position_with(&self, py: Python<'_>, data: &[u8]) -> PyResult<u64>;

    /// Return the position of any key. Errors are those of the reference.
    fn position_of(&self, key: &Bound<'_, PyAny>) -> PyResult<u64>;

    /// Return the reference's error for an object that is no key here.
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
