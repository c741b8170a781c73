//! Options of preference lists: the number of nodes, and their spread. The reference handles all options that the twin
//! does not know.

use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString, PyTuple};

const BEST_EFFORT: &str = "best-effort";

/// A wanted list, in the words of the caller.
pub struct Wanted<'a, 'py> {
    pub count: &'a Bound<'py, PyAny>,
    pub level: Option<Bound<'py, PyAny>>,
    pub spread: Spread<'py>,
}

/// The spread of a list: one of the names, or an object that the reference refuses.
pub enum Spread<'py> {
    Known(&'static str),
    Other(Bound<'py, PyAny>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Spread<'py> {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Spread<'py>> {
        let names = ["strict", BEST_EFFORT];
        let name = given.cast_exact::<PyString>().ok().and_then(|text| names.into_iter().find(|&name| *text == *name));
        Ok(name.map_or_else(|| Spread::Other(given.to_owned()), Spread::Known))
    }
}

impl<'py> Wanted<'_, 'py> {
    /// Return the number of nodes, and whether zones may be used again. None if the reference must answer.
    pub fn known(&self) -> Option<(usize, bool)> {
        let count = self.count.cast_exact::<PyInt>().ok().and_then(|count| count.extract::<i64>().ok());
        match (&self.level, &self.spread, count.and_then(|count| usize::try_from(count).ok())) {
            (None, Spread::Known(name), Some(count)) => Some((count, *name == BEST_EFFORT)),
            _ => None,
        }
    }

    /// Return the reference's list of a key.
    pub fn asked(&self, placement: &Bound<'py, PyAny>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        let options = PyDict::new(placement.py());
        options.set_item("spread_level", &self.level)?;
        match &self.spread {
            Spread::Known(name) => options.set_item("spread", name)?,
            Spread::Other(other) => options.set_item("spread", other)?,
        }
        Ok(placement.call_method("_preferred", (key, self.count), Some(&options))?.cast_into::<PyTuple>()?)
    }
}

/// Return the keys of any container, one by one, as the reference reads them.
pub fn listed<'py>(keys: &Bound<'py, PyAny>) -> PyResult<impl Iterator<Item = PyResult<Bound<'py, PyAny>>>> {
    keys.py().import("apportion.placement.keys.key_bytes")?.getattr("listed")?.call1((keys,))?.try_iter()
}
