//! Range router: search the range that contains a key, and name its owners. The twin of
//! `placement/shapes/range_router.py`.
//!
//! Promises: the answers and the errors of the reference. A laid router never changes. Refuses: questions before it is
//! laid.

use std::sync::OnceLock;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use crate::answers::{Answers, Threads};
use crate::bounds::Bounds;
use crate::laid::{Lists, Once, router};
use crate::locator::Locator;
use crate::spread::{Spread, Wanted};
use crate::stretches::are_nodes;
use crate::walk::Zones;

#[pyclass(subclass, frozen, module = "apportion._native")]
pub struct RangeRouter {
    laid: Once<Laid>,
}

/// Ranges, one more than boundaries, and the owners of each.
struct Laid {
    bounds: Bounds,
    /// The first owner of each range.
    leaders: Vec<u32>,
    /// All owners, range by range, and the end of each range among them.
    owners: Vec<u32>,
    ends: Vec<usize>,
    fewest_owners: usize,
    ids: Vec<Py<PyString>>,
    /// The zones, after the first question. Preference lists are refused where the zones do not suffice.
    zones: OnceLock<Option<Zones>>,
}

impl Answers for Laid {
    type Locator = Bounds;

    fn ids(&self) -> &[Py<PyString>] {
        &self.ids
    }

    fn locator(&self) -> &Bounds {
        &self.bounds
    }

    #[inline]
    fn owner(&self, range: u64) -> u32 {
        self.leaders[range as usize]
    }
}

impl Lists for Laid {
    const TOPOLOGY: &'static str = "topology";

    fn zones(&self) -> &OnceLock<Option<Zones>> {
        &self.zones
    }

    fn place(&self, range: u64) -> usize {
        range as usize
    }

    fn list<'a>(&'a self, _zones: &Zones, range: usize, room: &'a mut [u32]) -> &'a [u32] {
        let row = self.row(range);
        &row[..row.len().min(room.len())]
    }

    fn shortest(&self) -> usize {
        self.fewest_owners
    }
}

impl Laid {
    fn of(ids: Vec<Py<PyString>>, bounds: Bounds, rows: Vec<Vec<u32>>) -> PyResult<Laid> {
        let fewest_owners = rows.iter().map(Vec::len).min().unwrap_or(0);
        if rows.len() != bounds.len() + 1 || fewest_owners == 0 || !rows.iter().all(|row| are_nodes(row, ids.len())) {
            return Err(PyValueError::new_err("each range has owners, and each owner is the index of a node"));
        }
        let leaders = rows.iter().map(|row| row[0]).collect();
        let mut end = 0;
        let past = |row: &Vec<u32>| {
            end += row.len();
            end
        };
        let ends = rows.iter().map(past).collect();
        Ok(Laid { bounds, leaders, owners: rows.concat(), ends, fewest_owners, ids, zones: OnceLock::new() })
    }

    fn row(&self, range: usize) -> &[u32] {
        let start = if range == 0 { 0 } else { self.ends[range - 1] };
        &self.owners[start..self.ends[range]]
    }
}

impl RangeRouter {
    fn laid(&self) -> PyResult<&Laid> {
        self.laid.get()
    }
}

router!(RangeRouter, "Return the first `count` owners of the key's range. The caller chose their zones.", {
    /// Take the boundaries, positions of ints or else bytes, and the owners of each range, the leader first.
    fn _lay(
        &self,
        ids: Vec<Py<PyString>>,
        bounds: &Bound<'_, PyTuple>,
        rows: Vec<Vec<u32>>,
        are_ints: bool,
    ) -> PyResult<()> {
        self.laid.set(Laid::of(ids, Bounds::of(bounds, are_ints)?, rows)?)
    }

    /// Return the number of the range that contains a key.
    fn _range(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        self.laid()?.bounds.position_of(key)
    }

    /// Return how many bytes the ranges take.
    fn _bytes(&self) -> PyResult<usize> {
        let laid = self.laid()?;
        let owners = size_of_val(&laid.leaders[..]) + size_of_val(&laid.owners[..]) + size_of_val(&laid.ends[..]);
        Ok(laid.bounds.bytes() + owners)
    }
});
