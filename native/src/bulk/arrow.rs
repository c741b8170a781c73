//! Keys in Arrow arrays, through the C data interface: the twin of `placement/keys/arrow.py`. Its docstring is the
//! rule.
//!
//! Nothing is copied. A capsule releases its own content, so the capsule is held. Arrays taken out of a stream are
//! released here.

use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;
use std::slice;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::arrow_abi::{Array, REFERENCE, Released, Schema, Stream, Taken};
use super::chunk::{Chunk, Data, Integer, Rows};
use super::flat::{Flat, Origin};
use crate::refusal::refusal;

const MAX_ROWS: i64 = (1 << 31) - 1;
const MOST_BUFFERS: i64 = 1 << 20;
const EXTENSION: &[u8] = b"ARROW:extension:name";

/// Take the two capsules of an array, its schema and its values, or the capsule of a stream.
pub fn opened<'py>(source: &Bound<'py, PyAny>) -> PyResult<Flat<'py>> {
    let py = source.py();
    let Ok(pair) = source.cast::<PyTuple>() else {
        return of_stream(source);
    };
    let (schema, array) = (pair.get_item(0)?, pair.get_item(1)?);
    // SAFETY: capsules of these names hold these structures, and are held as long as the chunks are.
    let (chunk, is_text) = unsafe {
        let described = &*pointer::<Schema>(&schema, c"arrow_schema")?;
        let kind = kind_of(py, described)?;
        (chunk_of(py, &kind, &*pointer::<Array>(&array, c"arrow_array")?, 0)?, is_text(&kind))
    };
    Ok(Flat::of(Origin::Arrow(vec![schema, array], Vec::new(), is_text), chunk))
}

fn of_stream<'py>(capsule: &Bound<'py, PyAny>) -> PyResult<Flat<'py>> {
    let py = capsule.py();
    let stream = pointer::<Stream>(capsule, c"arrow_array_stream")?;
    // SAFETY: a capsule of this name holds a stream, and the caller holds the capsule during this call.
    if unsafe { (*stream).release.is_none() } {
        return Err(refusal(py, REFERENCE, "refuse_stream", ("it was read before",)));
    }
    // SAFETY: as above; the function is the stream's own.
    let schema: Taken<Schema> = unsafe { taken(py, stream, (*stream).get_schema)? };
    // SAFETY: the schema is the stream's.
    let kind = unsafe { kind_of(py, &schema.0)? };
    let (mut arrays, mut chunks, mut start) = (Vec::new(), Vec::new(), 0);
    loop {
        // SAFETY: as above.
        let array: Taken<Array> = unsafe { taken(py, stream, (*stream).get_next)? };
        if array.0.release.is_none() {
            return Ok(Flat::of(Origin::Arrow(vec![capsule.clone()], arrays, is_text(&kind)), chunks));
        }
        // SAFETY: the array is held as long as the chunks are.
        let chunk = unsafe { chunk_of(py, &kind, &array.0, start)? };
        start += chunk.as_ref().map_or(0, |(len, _)| *len);
        chunks.extend(chunk);
        arrays.push(array);
    }
}

/// Return the pointer in a capsule. The interpreter raises `ValueError` for any other object or name.
fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<*mut T> {
    // SAFETY: the call checks that the object is a capsule of this name.
    let found = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()) };
    if found.is_null() { Err(PyErr::fetch(capsule.py())) } else { Ok(found.cast()) }
}

/// Let a stream fill a structure. The interpreter is unlocked, because the stream may wait for a thread that needs it.
///
/// # Safety
/// The stream is there, and the function is its own.
unsafe fn taken<T: Released>(
    py: Python<'_>,
    stream: *mut Stream,
    function: unsafe extern "C" fn(*mut Stream, *mut T) -> c_int,
) -> PyResult<Taken<T>> {
    // A structure of zeros has no release callback.
    let mut room: Box<MaybeUninit<T>> = Box::new(MaybeUninit::zeroed());
    let (from, into) = (Address(stream), Address(room.as_mut_ptr()));
    // SAFETY: as the caller says; there is room for the structure.
    let code = py.detach(move || unsafe { function(from.get(), into.get()) });
    if code != 0 {
        // SAFETY: as the caller says; the text stays until the next call, and may be null.
        let reason = unsafe {
            let text = ((*stream).get_last_error)(stream);
            if text.is_null() { c"it says no reason" } else { CStr::from_ptr(text) }
        };
        return Err(refusal(py, REFERENCE, "refuse_stream", (reason.to_string_lossy(),)));
    }
    // SAFETY: pointers, numbers and callbacks may all be null. They are zeros, or the stream has filled them in.
    Ok(Taken(unsafe { room.assume_init() }))
}

struct Address<T>(*mut T);

impl<T> Address<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

// SAFETY: only the thread that made it uses it, and that thread unlocks the interpreter meanwhile.
unsafe impl<T> Send for Address<T> {}

/// Return the format of the values, if they are keys.
///
/// # Safety
/// The schema keeps to the format.
unsafe fn kind_of(py: Python<'_>, schema: &Schema) -> PyResult<String> {
    if schema.release.is_none() {
        let expected = "that of a schema not yet released";
        return Err(refusal(py, REFERENCE, "refuse_array", ("release callback of the schema", 0, expected)));
    }
    // SAFETY: as the caller says: a text that ends in NUL, and metadata.
    let (kind, extension) = unsafe {
        let kind = if schema.format.is_null() { c"" } else { CStr::from_ptr(schema.format) };
        (kind.to_string_lossy().into_owned(), extension_of(schema.metadata.cast()))
    };
    let check = py.import(REFERENCE)?.getattr("check_type")?;
    check.call1((&kind, !schema.dictionary.is_null(), extension))?;
    Ok(kind)
}

/// Return whether values of a format are text, and not bytes or numbers.
fn is_text(kind: &str) -> bool {
    matches!(kind, "u" | "U" | "vu")
}

/// Return the name of the extension type in the metadata of a schema. Metadata are pairs of texts, each after its
/// length.
///
/// # Safety
/// The metadata keep to the format, or are null.
unsafe fn extension_of(metadata: *const u8) -> Option<String> {
    if metadata.is_null() {
        return None;
    }
    let mut rest = metadata;
    // SAFETY: as the caller says, and so below.
    let pairs = unsafe { number(&mut rest) };
    let mut extension = None;
    for _ in 0..pairs {
        // SAFETY: the fields of a literal are read in their order.
        let (name, value) = unsafe { (text(&mut rest), text(&mut rest)) };
        if name == EXTENSION {
            extension = Some(String::from_utf8_lossy(value).into_owned());
        }
    }
    extension
}

/// # Safety
/// There is a number.
unsafe fn number(rest: &mut *const u8) -> i32 {
    // SAFETY: as the caller says.
    unsafe {
        let found = rest.cast::<[u8; 4]>().read();
        *rest = rest.add(4);
        i32::from_ne_bytes(found)
    }
}

/// # Safety
/// There is a text after its length.
unsafe fn text<'a>(rest: &mut *const u8) -> &'a [u8] {
    // SAFETY: as the caller says.
    unsafe {
        let size = number(rest).max(0) as usize;
        let found = slice::from_raw_parts(*rest, size);
        *rest = rest.add(size);
        found
    }
}

/// Return the number of keys of an array, and their chunk; none for an empty array. A fault of the whole array is
/// raised.
///
/// # Safety
/// The array keeps to the format, as far as this function does not check it.
unsafe fn chunk_of(py: Python<'_>, kind: &str, array: &Array, start: usize) -> PyResult<Option<(usize, Chunk)>> {
    let refused =
        |part: &str, value: i64, expected: &str| Err(refusal(py, REFERENCE, "refuse_array", (part, value, expected)));
    if array.release.is_none() {
        return refused("release callback", 0, "that of an array not yet released");
    }
    if !(0..=MAX_ROWS).contains(&array.length) {
        return refused("length", array.length, &format!("one in 0 .. {MAX_ROWS}"));
    }
    let most = MAX_ROWS - array.length;
    if !(0..=most).contains(&array.offset) {
        return refused("offset", array.offset, &format!("one in 0 .. {most}"));
    }
    let (len, offset) = (array.length as usize, array.offset as usize);
    if len == 0 {
        return Ok(None);
    }
    if kind == "n" {
        return Err(refusal(py, REFERENCE, "refuse_null", (start,)));
    }
    let (buffers, is_right) = match kind {
        "vu" | "vz" => ("3 to 1048576", (3..=MOST_BUFFERS).contains(&array.n_buffers)),
        "u" | "U" | "z" | "Z" => ("3", array.n_buffers == 3),
        _ => ("2", array.n_buffers == 2),
    };
    if !is_right {
        return refused("number of buffers", array.n_buffers, buffers);
    }
    if array.buffers.is_null() {
        return refused("address of the buffers", 0, "another address than 0");
    }
    // SAFETY: there are as many addresses of buffers, as the caller says.
    let buffers = unsafe { slice::from_raw_parts(array.buffers, array.n_buffers as usize) };
    if buffers[1].is_null() {
        return refused("address of buffer 1", 0, "that of a buffer");
    }
    if array.null_count != 0 && buffers[0].is_null() {
        if array.null_count > 0 {
            return refused("number of nulls", array.null_count, "0, because it marks none");
        }
    } else if array.null_count != 0 {
        // SAFETY: the bitmap has a bit for each row.
        if let Some(row) = unsafe { first_unset(buffers[0], offset, len) } {
            return Err(refusal(py, REFERENCE, "refuse_null", (start + row,)));
        }
    }
    if matches!(kind, "vu" | "vz") && buffers.len() > 3 && buffers[buffers.len() - 1].is_null() {
        return refused("address of the sizes", 0, "that of a buffer");
    }
    // SAFETY: the buffer after the bitmap has a value per row. The last buffer of views has a size for each of the
    // others.
    Ok(Some((len, unsafe { values(kind, buffers, offset, len) })))
}

/// # Safety
/// The buffers are those of an array of this format, with this many rows. The second buffer is there.
unsafe fn values(kind: &str, buffers: &[*const u8], offset: usize, len: usize) -> Chunk {
    let start = buffers[1];
    let data =
        |size: i64| if buffers[2].is_null() { Data { start, size: 0 } } else { Data { start: buffers[2], size } };
    // SAFETY: there are as many rows, and one offset more.
    unsafe {
        match kind {
            "u" | "z" => {
                let offsets = start.add(4 * offset);
                Chunk::Offsets32(
                    offsets,
                    data(i64::from(i32::from_ne_bytes(offsets.cast::<[u8; 4]>().add(len).read()))),
                )
            }
            "U" | "Z" => {
                let offsets = start.add(8 * offset);
                Chunk::Offsets64(offsets, data(i64::from_ne_bytes(offsets.cast::<[u8; 8]>().add(len).read())))
            }
            "vu" | "vz" => Chunk::Views(start.add(16 * offset), variadic(&buffers[2..])),
            _ => {
                let width = match kind {
                    "c" | "C" => 1,
                    "s" | "S" => 2,
                    "i" | "I" => 4,
                    _ => 8,
                };
                let is_signed = kind.as_bytes()[0].is_ascii_lowercase();
                let rows = Rows { start: start.add(width * offset), stride: width as isize };
                Chunk::Integers(rows, Integer { width, is_signed, is_swapped: false })
            }
        }
    }
}

/// Return the data buffers of views. The last buffer has the sizes of the others.
///
/// # Safety
/// The last buffer is there if there is another one.
unsafe fn variadic(buffers: &[*const u8]) -> Vec<Data> {
    let (sizes, data) = buffers.split_last().expect("views have three buffers or more");
    let sized = |(place, &start): (usize, &*const u8)| {
        // SAFETY: there is a size for each buffer.
        let size = unsafe { i64::from_ne_bytes(sizes.cast::<[u8; 8]>().add(place).read()) };
        if start.is_null() { Data { start: *sizes, size: 0 } } else { Data { start, size } }
    };
    data.iter().enumerate().map(sized).collect()
}

/// Return the first row with a bit that is not set.
///
/// # Safety
/// There is a bit for each row.
unsafe fn first_unset(bitmap: *const u8, offset: usize, len: usize) -> Option<usize> {
    // SAFETY: as the caller says.
    let bytes = unsafe { slice::from_raw_parts(bitmap.add(offset / 8), (offset % 8 + len).div_ceil(8)) };
    let from = offset % 8;
    let is_unset = |bit: &usize| bytes[bit / 8] >> (bit % 8) & 1 == 0;
    // Whole bytes of set bits are skipped. The ends are looked at bit by bit.
    let skipped = bytes.iter().skip(1).position(|&byte| byte != 0xff).map_or(bytes.len(), |place| place + 1);
    let end = from + len;
    (from..end.min(8)).chain((8 * skipped).min(end)..end).find(is_unset).map(|bit| bit - from)
}
