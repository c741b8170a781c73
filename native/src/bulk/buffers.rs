//! Keys in buffers of one dimension: NumPy's arrays, `array.array`, memory views. The rule is in the reference.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::chunk::{Chunk, Integer, Rows};
use super::flat::{Flat, Origin};

/// Take hold of the buffer of a memory view. The reference has found that its items are keys.
pub fn opened<'py>(view: &Bound<'py, PyAny>) -> PyResult<Flat<'py>> {
    let buffer = PyUntypedBuffer::get(view)?;
    let (&[len], &[stride], None) = (buffer.shape(), buffer.strides(), buffer.suboffsets()) else {
        return Err(PyRuntimeError::new_err("a view of keys must have one dimension, in one piece of memory"));
    };
    let rows = Rows { start: buffer.buf_ptr().cast_const().cast(), stride };
    let Some(chunk) = chunk_of(buffer.format().to_bytes(), buffer.item_size(), rows) else {
        return Err(PyRuntimeError::new_err("a view of keys must have a known format"));
    };
    Ok(Flat::of(Origin::Buffer(view.clone(), buffer), [(len, chunk)]))
}

fn chunk_of(format: &[u8], width: usize, rows: Rows) -> Option<Chunk> {
    let (kind, before) = format.split_last()?;
    let is_swapped = match before.first() {
        Some(b'>' | b'!') => cfg!(target_endian = "little"),
        Some(b'<') => cfg!(target_endian = "big"),
        _ => false,
    };
    match kind {
        b's' => Some(Chunk::Bytes(rows, width)),
        b'w' => Some(Chunk::Text(rows, width / 4, is_swapped)),
        b'b' | b'h' | b'i' | b'l' | b'q' | b'n' | b'B' | b'H' | b'I' | b'L' | b'Q' | b'N' => {
            let integer = Integer { width, is_signed: kind.is_ascii_lowercase(), is_swapped };
            matches!(width, 1 | 2 | 4 | 8).then_some(Chunk::Integers(rows, integer))
        }
        _ => None,
    }
}
