//! Answers: from keys to owners, one or many. All placements of this crate answer alike.

use pyo3::Borrowed;
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyString};

use crate::bulk::{BLOCK, BulkKeys, Places};
use crate::calls::count;
use crate::cuts::NARROW_NODES;
use crate::locator::Locator;

/// The owners of positions, and the ids of owners.
pub trait Answers: Sync {
    /// The type that turns keys into positions.
    type Locator: Locator;

    fn ids(&self) -> &[Py<PyString>];
    fn locator(&self) -> &Self::Locator;

    /// Return the index of the node that owns a position.
    fn owner(&self, position: u64) -> u32;

    /// Put the owners of a block of positions into the room.
    fn owners(&self, positions: &[u64], room: &mut [u32; BLOCK]) {
        for (&position, owner) in positions.iter().zip(room) {
            *owner = self.owner(position);
        }
    }
}

#[inline]
pub fn route(placement: &impl Answers, key: &Bound<'_, PyAny>) -> PyResult<Py<PyString>> {
    let owner = placement.owner(position(placement.locator(), key)?);
    Ok(placement.ids()[owner as usize].clone_ref(key.py()))
}

/// Return the position of one key, and count the key.
#[inline]
pub fn position(locator: &impl Locator, key: &Bound<'_, PyAny>) -> PyResult<u64> {
    let position = locator.position_of(key)?;
    count(1);
    Ok(position)
}

pub fn route_many<'py>(
    placement: &impl Answers,
    keys: &Bound<'py, PyAny>,
    threads: Threads,
) -> PyResult<Bound<'py, PyList>> {
    let (py, keys) = (keys.py(), BulkKeys::of(keys)?);
    let mut owners = room::<u32>(keys.len())?;
    fill(py, placement, &keys, threads, &mut owners, |owner| owner)?;
    PyList::new(py, owners.iter().map(|&owner| &placement.ids()[owner as usize]))
}

pub fn route_indexes<'py>(
    placement: &impl Answers,
    keys: &Bound<'py, PyAny>,
    threads: Threads,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, keys) = (keys.py(), BulkKeys::of(keys)?);
    if placement.ids().len() <= NARROW_NODES {
        array(py, "H", keys.len(), |room| fill(py, placement, &keys, threads, room, |owner| owner as u16))
    } else {
        array(py, "I", keys.len(), |room| fill(py, placement, &keys, threads, room, |owner| owner))
    }
}

/// Return the number that belongs to the position of each key.
pub fn each(
    placement: &impl Answers,
    number: impl Fn(u64) -> u32 + Sync,
    keys: &Bound<'_, PyAny>,
    threads: Threads,
) -> PyResult<Vec<u32>> {
    let (py, keys) = (keys.py(), BulkKeys::of(keys)?);
    let mut found = room::<u32>(keys.len())?;
    let places = Places::of(&mut found);
    keys.each_block(py, placement.locator(), threads.0, |start, positions| {
        // SAFETY: each place is in one block.
        unsafe { places.put(start, positions.iter().map(|&position| number(position))) }
    })?;
    count(keys.len());
    Ok(found)
}

/// Put the owner of every key into the room.
fn fill<T: Copy + Send>(
    py: Python<'_>,
    placement: &impl Answers,
    keys: &BulkKeys<'_>,
    threads: Threads,
    room: &mut [T],
    narrow: impl Fn(u32) -> T + Sync,
) -> PyResult<()> {
    let count_of_keys = room.len();
    let places = Places::of(room);
    keys.each_block(py, placement.locator(), threads.0, |start, positions| {
        let mut owners = [0; BLOCK];
        placement.owners(positions, &mut owners);
        // SAFETY: each place is in one block.
        unsafe { places.put(start, owners[..positions.len()].iter().map(|&owner| narrow(owner))) }
    })?;
    count(count_of_keys);
    Ok(())
}

/// Return a Python array of this many numbers. `fill` writes them in place.
pub fn array<'py, T: Element>(
    py: Python<'py>,
    kind: &str,
    count: usize,
    fill: impl FnOnce(&mut [T]) -> PyResult<()>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = py.import("array")?.getattr("array")?.call1((kind, (0,)))?.mul(count)?;
    if count > 0 {
        let buffer = PyBuffer::<T>::get(&array)?;
        // SAFETY: the array is new, so no other code has it. Its buffer holds `count` numbers of this type.
        fill(unsafe { std::slice::from_raw_parts_mut(buffer.buf_ptr().cast::<T>(), count) })?;
    }
    Ok(array)
}

/// Return room for this many values. Without memory this is an error of Python, not the end of the process.
pub fn room<T: Clone + Default>(count: usize) -> PyResult<Vec<T>> {
    let mut room = Vec::new();
    room.try_reserve_exact(count).map_err(|_| PyMemoryError::new_err(()))?;
    room.resize(count, T::default());
    Ok(room)
}

/// The number of threads that a caller allows.
#[derive(Clone, Copy)]
pub struct Threads(usize);

impl Threads {
    pub const ONE: Threads = Threads(1);

    pub fn count(self) -> usize {
        self.0
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Threads {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Threads> {
        if let Ok(Ok(threads @ 1..)) = given.cast_exact::<PyInt>().map(|threads| threads.extract::<usize>()) {
            return Ok(Threads(threads));
        }
        let reference = given.py().import("apportion.placement.keys.key_bytes")?;
        reference.getattr("check_threads")?.call1((given,))?;
        Ok(Threads(usize::MAX)) // a number too large for this type
    }
}

/// The Python methods of a placement class: the shared ones, then its own. PyO3 takes one block of methods per class.
macro_rules! answering {
    ($Class:ident, { $($own:tt)* }) => {
        #[pymethods]
        impl $Class {
            /// Return the id of the node that handles a key.
            fn route(&self, key: &Bound<'_, PyAny>) -> PyResult<Py<PyString>> {
                $crate::answers::route(self.laid()?, key)
            }

            /// Return the node ids of many keys, in the order of the keys.
            #[pyo3(signature = (keys, *, threads=Threads::ONE), text_signature = "($self, keys, *, threads=1)")]
            fn route_many<'py>(&self, keys: &Bound<'py, PyAny>, threads: Threads) -> PyResult<Bound<'py, PyList>> {
                $crate::answers::route_many(self.laid()?, keys, threads)
            }

            /// Return indexes into `topology.nodes` as an array, in the order of the keys.
            #[pyo3(signature = (keys, *, threads=Threads::ONE), text_signature = "($self, keys, *, threads=1)")]
            fn route_indexes<'py>(&self, keys: &Bound<'py, PyAny>, threads: Threads) -> PyResult<Bound<'py, PyAny>> {
                $crate::answers::route_indexes(self.laid()?, keys, threads)
            }

            $($own)*
        }
    };
}

pub(crate) use answering;
