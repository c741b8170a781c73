//! Laid placements: a placement is laid once and then answers. Both routers share this half.
//!
//! Promises: the lists and the errors of the reference. A laid placement never changes.
//! Refuses: questions before the placement is laid.

use std::sync::OnceLock;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use crate::answers::{self, Answers, Threads};
use crate::calls;
use crate::locator::Locator;
use crate::spread::{self, Wanted};
use crate::walk::Zones;

/// Lists of up to this many nodes need no allocation.
const FEW: usize = 8;

/// The content of a placement. The placement sets it once.
pub struct Once<L>(pub OnceLock<L>);

impl<L> Once<L> {
    pub fn new() -> Once<L> {
        Once(OnceLock::new())
    }

    pub fn get(&self) -> PyResult<&L> {
        self.0.get().ok_or_else(|| PyRuntimeError::new_err("the placement was asked before it was made"))
    }

    pub fn set(&self, laid: L) -> PyResult<()> {
        self.0.set(laid).map_err(|_| PyRuntimeError::new_err("the placement was made already"))
    }
}

/// The preference lists of a laid placement. A place is the number of a stretch or of a range.
pub trait Lists: Answers {
    /// The attribute of the placement for the topology that limits the lists by its zones. If it is None, the reference
    /// answers.
    const TOPOLOGY: &'static str;

    /// The zones of that topology, known after the first question.
    fn zones(&self) -> &OnceLock<Option<Zones>>;

    /// Return the place that contains a position.
    fn place(&self, position: u64) -> usize;

    /// Return the first nodes of a place: as many as the room holds, or all of them if the place has fewer.
    fn list<'a>(&'a self, zones: &Zones, place: usize, room: &'a mut [u32]) -> &'a [u32];

    /// Return the number of nodes that every place has, if the zones suffice.
    fn shortest(&self) -> usize;
}

/// Return the zones and the length of a wanted list, if the twin can find the list.
fn known<'a, L: Lists>(
    laid: &'a L,
    placement: &Bound<'_, PyAny>,
    wanted: &Wanted<'_, '_>,
) -> PyResult<Option<(&'a Zones, usize)>> {
    let Some((count, reuses_zones)) = wanted.known() else { return Ok(None) };
    let zones = Zones::of(laid.zones(), placement, L::TOPOLOGY)?;
    Ok(zones.filter(|zones| zones.suffice(count, reuses_zones)).map(|zones| (zones, count)))
}

/// Return the preference list of a key. If the twin cannot find the list, the reference returns it or raises its error.
pub fn preference<'py>(
    laid: &impl Lists,
    placement: &Bound<'py, PyAny>,
    key: &Bound<'py, PyAny>,
    wanted: &Wanted<'_, 'py>,
) -> PyResult<Bound<'py, PyTuple>> {
    if let Some((zones, count)) = known(laid, placement, wanted)? {
        let place = laid.place(laid.locator().position_of(key)?);
        let (mut few, mut many) = ([0; FEW], vec![0; if count <= FEW { 0 } else { count }]);
        let list = laid.list(zones, place, if count <= FEW { &mut few[..count] } else { &mut many });
        if list.len() == count {
            calls::count(1);
            return named(key.py(), laid.ids(), list);
        }
    }
    wanted.asked(placement, key)
}

/// Return the preference list of each key, in the order of the keys.
pub fn preference_many<'py>(
    laid: &impl Lists,
    placement: &Bound<'py, PyAny>,
    keys: &Bound<'py, PyAny>,
    wanted: &Wanted<'_, 'py>,
    threads: Threads,
) -> PyResult<Bound<'py, PyList>> {
    let py = keys.py();
    if let Some((zones, count)) = known(laid, placement, wanted)?.filter(|&(_, count)| count <= laid.shortest()) {
        let places = answers::each(laid, |position| laid.place(position) as u32, keys, threads)?;
        let mut room = vec![0; count];
        let lists = places.iter().map(|&place| named(py, laid.ids(), laid.list(zones, place as usize, &mut room)));
        return PyList::new(py, lists.collect::<PyResult<Vec<_>>>()?);
    }
    let lists = spread::listed(keys)?.map(|key| preference(laid, placement, &key?, wanted));
    PyList::new(py, lists.collect::<PyResult<Vec<_>>>()?)
}

fn named<'py>(py: Python<'py>, ids: &[Py<PyString>], indexes: &[u32]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, indexes.iter().map(|&index| &ids[index as usize]))
}

/// The Python methods of a router: the shared ones, then its own.
macro_rules! router {
    ($Router:ident, $preference:literal, { $($own:tt)* }) => {
        $crate::answers::answering!($Router, {
            #[new]
            #[pyo3(signature = (*_args, **_options))]
            fn new(_args: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyDict>>) -> $Router {
                $Router { laid: Once::new() }
            }

            #[doc = $preference]
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
                $crate::laid::preference(slf.get().laid()?, slf, key, &Wanted { count, level: spread_level, spread })
            }

            /// Return the preference list of each key, in the order of the keys.
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
                let wanted = Wanted { count, level: spread_level, spread };
                $crate::laid::preference_many(slf.get().laid()?, slf, keys, &wanted, threads)
            }

            $($own)*
        });
    };
}

pub(crate) use router;
