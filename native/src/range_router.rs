//! Range router: search the range that a key lies in, name its owners. The twin of `placement/shapes/range_router.py`.
//!
//! Promises: the answers and the errors of the reference. Immutable once laid. Refuses: to be asked before.

use std::sync::OnceLock;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use crate::answers::{self, Answers, Threads};
use crate::bounds::Bounds;
use crate::calls;
use crate::locator::Locator;
use crate::spread::{self, Spread, Wanted};
use crate::stretches::are_nodes;
use crate::walk::Zones;

#[pyclass(subclass, frozen, module = "apportion._native")]
pub struct RangeRouter {
    laid: OnceLock<Laid>,
}

/// Ranges, of which there is one more than boundaries, and the owners of each.
struct Laid {
    bounds: Bounds,
    /// The first owner of each range.
    leaders: Vec<u32>,
    /// All owners, range by range, and where those of each end.
    owners: Vec<u32>,
    ends: Vec<usize>,
    fewest_owners: usize,
    ids: Vec<Py<PyString>>,
    /// Once they are asked for: preference lists are refused where the zones do not suffice.
    zones: OnceLock<Zones>,
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

impl Laid {
    fn of(ids: Vec<Py<PyString>>, bounds: Bounds, rows: Vec<Vec<u32>>) -> PyResult<Laid> {
        let fewest_owners = rows.iter().map(Vec::len).min().unwrap_or(0);
        if rows.len() != bounds.len() + 1 || fewest_owners == 0 || !rows.iter().all(|row| are_nodes(row, ids.len())) {
            return Err(PyValueError::new_err("each range has owners, and each owner is the index of a node"));
        }
        let leaders = rows.iter().map(|row| row[0]).collect();
        let ends = rows.iter().map(Vec::len).scan(0, added).collect();
        Ok(Laid { bounds, leaders, owners: rows.concat(), ends, fewest_owners, ids, zones: OnceLock::new() })
    }

    fn row(&self, range: usize) -> &[u32] {
        let start = if range == 0 { 0 } else { self.ends[range - 1] };
        &self.owners[start..self.ends[range]]
    }

    /// How many owners are wanted, if a list of so many is nothing that the reference would refuse for the nodes.
    fn count(&self, placement: &Bound<'_, RangeRouter>, wanted: &Wanted<'_, '_>) -> PyResult<Option<usize>> {
        if wanted.known().is_none() {
            return Ok(None);
        }
        let zones = match self.zones.get() {
            Some(zones) => zones,
            None => {
                let zones = Zones::numbered(&placement.getattr("topology")?)?;
                self.zones.get_or_init(|| zones)
            }
        };
        Ok(wanted.sufficed(zones))
    }

    /// The first owners of a key's range, if it has as many.
    fn preferred<'py>(&self, key: &Bound<'py, PyAny>, count: usize) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let range = self.bounds.position_of(key)? as usize;
        let Some(first) = self.row(range).get(..count) else { return Ok(None) };
        calls::count(1);
        self.named(key.py(), first).map(Some)
    }

    fn named<'py>(&self, py: Python<'py>, indexes: &[u32]) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, indexes.iter().map(|&index| &self.ids[index as usize]))
    }

    /// The list of a key: the reference finds what is wrong where there is none.
    fn preference<'py>(
        &self,
        placement: &Bound<'py, RangeRouter>,
        key: &Bound<'py, PyAny>,
        wanted: &Wanted<'_, 'py>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        if let Some(count) = self.count(placement, wanted)?
            && let Some(found) = self.preferred(key, count)?
        {
            return Ok(found);
        }
        wanted.asked(placement, key)
    }
}

/// The sum so far, with one more.
fn added(sum: &mut usize, more: usize) -> Option<usize> {
    *sum += more;
    Some(*sum)
}

impl RangeRouter {
    fn laid(&self) -> PyResult<&Laid> {
        self.laid.get().ok_or_else(|| PyRuntimeError::new_err("the placement was asked before it was made"))
    }
}

#[pymethods]
impl RangeRouter {
    #[new]
    #[pyo3(signature = (*_args, **_options))]
    fn new(_args: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyDict>>) -> RangeRouter {
        RangeRouter { laid: OnceLock::new() }
    }

    /// Return the id of the node that handles a key.
    fn route(&self, key: &Bound<'_, PyAny>) -> PyResult<Py<PyString>> {
        answers::route(self.laid()?, key)
    }

    /// Return the node ids of many keys, in their order.
    #[pyo3(signature = (keys, *, threads=Threads::ONE), text_signature = "($self, keys, *, threads=1)")]
    fn route_many<'py>(&self, keys: &Bound<'py, PyAny>, threads: Threads) -> PyResult<Bound<'py, PyList>> {
        answers::route_many(self.laid()?, keys, threads)
    }

    /// Return indexes into `topology.nodes` as an array, in the order of the keys.
    #[pyo3(signature = (keys, *, threads=Threads::ONE), text_signature = "($self, keys, *, threads=1)")]
    fn route_indexes<'py>(&self, keys: &Bound<'py, PyAny>, threads: Threads) -> PyResult<Bound<'py, PyAny>> {
        answers::route_indexes(self.laid()?, keys, threads)
    }

    /// Return the first `count` owners of the key's range; their zones are the business of who named them.
    #[pyo3(
        signature = (key, count, *, spread_level=None, spread=Spread::Known("strict")),
        text_signature = "($self, key, count, *, spread_level=None, spread='strict')"
    )]
    fn preference<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        count: &Bound<'py, PyAny>,
        spread_level: Option<Bound<'py, PyAny>>,
        spread: Spread<'py>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        slf.get().laid()?.preference(slf, key, &Wanted { count, level: spread_level, spread })
    }

    /// Return the preference list of each key, in their order.
    #[pyo3(
        signature = (keys, count, *, spread_level=None, spread=Spread::Known("strict"), threads=Threads::ONE),
        text_signature = "($self, keys, count, *, spread_level=None, spread='strict', threads=1)"
    )]
    fn preference_many<'py>(
        slf: &Bound<'py, Self>,
        keys: &Bound<'py, PyAny>,
        count: &Bound<'py, PyAny>,
        spread_level: Option<Bound<'py, PyAny>>,
        spread: Spread<'py>,
        threads: Threads,
    ) -> PyResult<Bound<'py, PyList>> {
        let (py, laid) = (slf.py(), slf.get().laid()?);
        let wanted = Wanted { count, level: spread_level, spread };
        if let Some(count) = laid.count(slf, &wanted)?.filter(|&count| count <= laid.fewest_owners) {
            let ranges = answers::each(laid, |range| range as u32, keys, threads)?;
            let lists = ranges.iter().map(|&range| laid.named(py, &laid.row(range as usize)[..count]));
            return PyList::new(py, lists.collect::<PyResult<Vec<_>>>()?);
        }
        let lists = spread::listed(keys)?.map(|key| laid.preference(slf, &key?, &wanted));
        PyList::new(py, lists.collect::<PyResult<Vec<_>>>()?)
    }

    /// Take the boundaries, which are positions of ints or else bytes, and the owners of each range, the leader first.
    fn _lay(
        &self,
        ids: Vec<Py<PyString>>,
        bounds: &Bound<'_, PyTuple>,
        rows: Vec<Vec<u32>>,
        are_ints: bool,
    ) -> PyResult<()> {
        let laid = Laid::of(ids, Bounds::of(bounds, are_ints)?, rows)?;
        self.laid.set(laid).map_err(|_| PyRuntimeError::new_err("the placement was made already"))
    }

    /// Return the number of the range that a key lies in.
    fn _range(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        self.laid()?.bounds.position_of(key)
    }

    /// How many bytes the ranges take.
    fn _bytes(&self) -> PyResult<usize> {
        let laid = self.laid()?;
        let owners = size_of_val(&laid.leaders[..]) + size_of_val(&laid.owners[..]) + size_of_val(&laid.ends[..]);
        Ok(laid.bounds.bytes() + owners)
    }
}
