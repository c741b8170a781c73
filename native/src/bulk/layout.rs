//! The keys in a list or tuple, read from the memory of the objects without a call for each.
//!
//! The stable ABI has a function for each of these steps, and a million keys would feel the calls. Items, bytes and
//! their counts are therefore read at the offsets of this CPython version. `learn` first checks known objects at these
//! offsets. If a check fails, each key is read by calls. Reading at offsets never runs Python code.

use std::ffi::c_int;
use std::mem::offset_of;
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use super::block::{Block, Extent, Form};
use super::shares::Worker;
use crate::fetch::fetch;
use crate::key::MAX_KEY_BYTES;
use crate::locator::Locator;
use crate::text;

/// The offset of the number of items of a list or tuple, of bytes in `bytes`, and of characters in a `str`.
const SIZE: usize = offset_of!(ffi::PyVarObject, ob_size);
/// The offset of the pointer to the items of a list.
const LIST_ITEMS: usize = size_of::<ffi::PyVarObject>();
/// Keys are fetched this far ahead of their reading. The keys of an old list are anywhere in memory.
const AHEAD: usize = 64;

/// The bytes of a line of the processor's cache.
const LINE: usize = 64;

static LAYOUT: OnceLock<Option<Layout>> = OnceLock::new();

/// The offsets of the parts of this interpreter's objects, in bytes.
#[derive(Clone, Copy)]
pub struct Layout {
    tuple_items: usize,
    bytes_data: usize,
    text_data: usize,
    text_flags: u32,
}

/// Return the layout, if `learn` has confirmed it.
pub fn known() -> Option<Layout> {
    LAYOUT.get().copied().flatten()
}

/// Learn the layout from objects with known parts. Call it after `text::learn_layout`.
pub fn learn(py: Python<'_>) -> PyResult<()> {
    let found = if text::is_known() { found(py)? } else { None };
    LAYOUT.get_or_init(|| found);
    Ok(())
}

fn found(py: Python<'_>) -> PyResult<Option<Layout>> {
    let basic_size = |of: &Bound<'_, PyAny>| of.get_type().getattr("__basicsize__")?.extract::<usize>();
    let texts = ["", "k", "tenant-42", "a key of more than thirty characters"].map(|text| PyString::new(py, text));
    let datas =
        [&b""[..], b"k", b"tenant-42", b"thirty bytes and some \0 more \xff"].map(|data| PyBytes::new(py, data));
    let objects: Vec<Bound<'_, PyAny>> = texts.iter().map(|text| text.clone().into_any()).collect();
    let (list, tuple) = (PyList::new(py, &objects)?, PyTuple::new(py, &objects)?);
    if basic_size(&list)? != LIST_ITEMS + 2 * size_of::<usize>() {
        return Ok(None);
    }
    let layout = Layout {
        tuple_items: basic_size(&tuple)?,
        bytes_data: bytes_start(&datas[0]) - datas[0].as_ptr() as usize,
        text_data: text_start(&texts[0]) - texts[0].as_ptr() as usize,
        text_flags: text::wanted(),
    };
    let is_so = texts.iter().all(|each| layout.tells_text(each))
        && datas.iter().all(|each| layout.tells_bytes(each))
        && layout.tells_items(list.as_any(), &objects)
        && layout.tells_items(tuple.as_any(), &objects);
    Ok(is_so.then_some(layout))
}

fn bytes_start(data: &Bound<'_, PyBytes>) -> usize {
    data.as_bytes().as_ptr() as usize
}

fn text_start(text: &Bound<'_, PyString>) -> usize {
    text::ascii(text).map_or(0, |data| data.as_ptr() as usize)
}

impl Layout {
    fn tells_text(self, text: &Bound<'_, PyString>) -> bool {
        let at = text.as_ptr() as usize;
        // SAFETY: an object has at least the head that is read here. The place of the data is only compared.
        let size = unsafe { size_at(text.as_ptr()) };
        text_start(text) == at + self.text_data && Some(size) == text::ascii(text).map(<[u8]>::len)
    }

    fn tells_bytes(self, data: &Bound<'_, PyBytes>) -> bool {
        // SAFETY: as above.
        let size = unsafe { size_at(data.as_ptr()) };
        bytes_start(data) == data.as_ptr() as usize + self.bytes_data && size == data.as_bytes().len()
    }

    fn tells_items(self, container: &Bound<'_, PyAny>, objects: &[Bound<'_, PyAny>]) -> bool {
        // SAFETY: as above. The items are read after their number was found to be right. In known versions, the items
        // or a pointer to them stand here.
        unsafe {
            size_at(container.as_ptr()) == objects.len()
                && (0..objects.len()).all(|place| *self.items(container).add(place) == objects[place].as_ptr())
        }
    }

    /// Return the items of an exact list or tuple. They are there until its next change.
    pub fn items(self, container: &Bound<'_, PyAny>) -> *const *mut ffi::PyObject {
        let start = container.as_ptr().cast::<u8>();
        // SAFETY: `learn` found the items at these places.
        unsafe {
            if container.is_exact_instance_of::<PyList>() {
                start.add(LIST_ITEMS).cast::<*const *mut ffi::PyObject>().read()
            } else {
                start.add(self.tuple_items).cast()
            }
        }
    }

    /// Find the bytes of the first `count` keys. Stop at a key that is no plain `str`, `bytes` or `int`, is not ASCII, or
    /// is too long. Stop too at a kind that the locator does not take, and in a helper at an `int`. Return how many were
    /// found.
    ///
    /// # Safety
    /// There are `rest` items, and `count` is no more. The caller has locked the interpreter, and runs no code until
    /// the keys are located.
    pub unsafe fn read(
        self,
        items: *const *mut ffi::PyObject,
        (rest, count): (usize, usize),
        locator: &impl Locator,
        block: &mut Block,
        worker: Worker,
    ) -> usize {
        block.form = Form::Bytes;
        let (takes_bytes, takes_numbers) = (locator.takes_bytes(), locator.takes_numbers() && worker == Worker::Caller);
        for place in 0..count {
            // SAFETY: there are as many items.
            let object = unsafe {
                if place + AHEAD < rest {
                    let soon = (*items.add(place + AHEAD)).cast_const().cast::<u8>();
                    fetch(soon);
                    fetch(soon.wrapping_add(LINE));
                }
                *items.add(place)
            };
            // SAFETY: items of a list or tuple are objects.
            match unsafe { self.extent(object, &mut block.words[place], takes_bytes, takes_numbers) } {
                Some(extent) => block.extents[place] = extent,
                None => return place,
            }
        }
        count
    }

    /// # Safety
    /// It is an object. The caller has the interpreter's lock, or works for a thread that has the lock and waits.
    #[inline(always)]
    unsafe fn extent(
        self,
        object: *mut ffi::PyObject,
        word: &mut [u8; 8],
        takes_bytes: bool,
        takes_numbers: bool,
    ) -> Option<Extent> {
        // SAFETY: the type is in the head of every object. `learn` found the other places.
        unsafe {
            let kind = (*object).ob_type;
            let data = if takes_bytes && kind == &raw mut ffi::PyUnicode_Type {
                if !text::has_flags(object, self.text_flags) {
                    return None;
                }
                self.text_data
            } else if takes_bytes && kind == &raw mut ffi::PyBytes_Type {
                self.bytes_data
            } else if takes_numbers && kind == &raw mut ffi::PyLong_Type {
                *word = number(object)?.to_le_bytes();
                return Some(Extent { start: word.as_ptr(), size: word.len() });
            } else {
                return None;
            };
            let size = size_at(object);
            (size <= MAX_KEY_BYTES).then(|| Extent { start: object.cast::<u8>().add(data), size })
        }
    }
}

/// # Safety
/// It is an object with the head of objects of variable size.
#[inline(always)]
unsafe fn size_at(object: *mut ffi::PyObject) -> usize {
    // SAFETY: as the caller says.
    unsafe { object.cast::<u8>().add(SIZE).cast::<usize>().read() }
}

/// # Safety
/// It is an exact `int`, and the caller has the interpreter's lock.
#[inline(always)]
unsafe fn number(object: *mut ffi::PyObject) -> Option<i64> {
    let mut overflow: c_int = 0;
    // SAFETY: as the caller says. For an `int` this neither fails nor runs Python code.
    let value = unsafe { ffi::PyLong_AsLongLongAndOverflow(object, &mut overflow) };
    (overflow == 0).then_some(value)
}
