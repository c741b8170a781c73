//! Keys as bytes: the twin of `placement/keys/key_bytes.py`. Its docstring is the rule.
//!
//! Promises: plain `str`, `bytes` and `int` are read without a call into Python, ASCII and bytes without a copy. The
//! reference reads or refuses all other keys, so its errors are the errors.

use std::ops::Deref;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyInt, PyString};

use crate::text;

pub const MAX_KEY_BYTES: usize = 65_536;

/// The bytes of one key, borrowed from the key if it stores them.
pub enum KeyBytes<'a, 'py> {
    Borrowed(&'a [u8]),
    Number([u8; 8]),
    Made(Bound<'py, PyBytes>),
}

impl<'a, 'py> KeyBytes<'a, 'py> {
    /// Read a key. Errors are those of the reference.
    #[inline]
    pub fn of(key: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = key.cast_exact::<PyString>() {
            match text::ascii(text) {
                Some(data) if data.len() <= MAX_KEY_BYTES => return Ok(KeyBytes::Borrowed(data)),
                Some(_) => return asked(key),
                None => return of_wide_text(text),
            }
        }
        if let Ok(data) = key.cast_exact::<PyBytes>() {
            let data = data.as_bytes();
            return if data.len() <= MAX_KEY_BYTES { Ok(KeyBytes::Borrowed(data)) } else { asked(key) };
        }
        match key.cast_exact::<PyInt>() {
            Ok(number) => of_number(number),
            Err(_) => asked(key),
        }
    }
}

impl Deref for KeyBytes<'_, '_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            KeyBytes::Borrowed(data) => data,
            KeyBytes::Number(data) => data,
            KeyBytes::Made(data) => data.as_bytes(),
        }
    }
}

fn of_wide_text<'a, 'py>(text: &'a Bound<'py, PyString>) -> PyResult<KeyBytes<'a, 'py>> {
    match text.encode_utf8() {
        Ok(data) if data.as_bytes().len() <= MAX_KEY_BYTES => Ok(KeyBytes::Made(data)),
        _ => asked(text),
    }
}

fn of_number<'a, 'py>(number: &'a Bound<'py, PyInt>) -> PyResult<KeyBytes<'a, 'py>> {
    match number.extract::<i64>() {
        Ok(value) => Ok(KeyBytes::Number(value.to_le_bytes())),
        Err(_) => asked(number),
    }
}

/// Ask the reference: a rare key need not be fast.
#[cold]
fn asked<'a, 'py>(key: &'a Bound<'py, PyAny>) -> PyResult<KeyBytes<'a, 'py>> {
    static KEY_BYTES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let reference = KEY_BYTES.import(key.py(), "apportion.placement.keys.key_bytes", "key_bytes")?;
    Ok(KeyBytes::Made(reference.call1((key,))?.cast_into::<PyBytes>()?))
}
