//! Router: hash a key, search its stretch, name the owner. The twin of `placement/shapes/router.py`.
//!
//! Placements inherit from it. `ring.route` is therefore the method below, without a Python frame between it and the
//! caller.
//!
//! Promises: the answers and the errors of the reference. A laid router never changes. Refuses: questions before it is
//! laid.

use std::collections::HashMap;
use std::sync::OnceLock;

use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBytes, PyDict, PyInt, PyList, PyString, PyTuple};

use crate::answers::{Answers, Threads};
use crate::bulk::BLOCK;
use crate::calls;
use crate::circle::Unsorted;
use crate::cuts::PADDING;
use crate::hash::Hasher;
use crate::laid::{Lists, Once, router};
use crate::locator::Locator;
use crate::refusal::refusal;
use crate::ring;
use crate::saved;
use crate::spread::{Spread, Wanted};
use crate::stretches::Stretches;
use crate::walk::Zones;

#[pyclass(subclass, frozen, module = "apportion._native")]
pub struct Router {
    laid: Once<Laid>,
}

pub struct Laid {
    pub stretches: Stretches,
    hasher: Hasher,
    pub ids: Vec<Py<PyString>>,
    /// The zones, after the first question. None if a preference list is not a walk around the circle.
    zones: OnceLock<Option<Zones>>,
}

impl Router {
    pub fn laid(&self) -> PyResult<&Laid> {
        self.laid.get()
    }

    /// Set the content, once. Return the number of its stretches.
    fn lay(&self, laid: Laid) -> PyResult<usize> {
        let stretches = laid.stretches.len();
        self.laid.set(laid)?;
        Ok(stretches)
    }
}

impl Answers for Laid {
    type Locator = Hasher;

    fn ids(&self) -> &[Py<PyString>] {
        &self.ids
    }

    fn locator(&self) -> &Hasher {
        &self.hasher
    }

    #[inline]
    fn owner(&self, position: u64) -> u32 {
        self.stretches.owner_of(position)
    }

    fn owners(&self, positions: &[u64], room: &mut [u32; BLOCK]) {
        self.stretches.owners(positions, room);
    }
}

impl Lists for Laid {
    const TOPOLOGY: &'static str = "_met_by_walks";

    fn zones(&self) -> &OnceLock<Option<Zones>> {
        &self.zones
    }

    fn place(&self, position: u64) -> usize {
        self.stretches.stretch(position)
    }

    fn list<'a>(&'a self, zones: &Zones, stretch: usize, room: &'a mut [u32]) -> &'a [u32] {
        zones.pick(&self.stretches, stretch, room)
    }

    fn shortest(&self) -> usize {
        usize::MAX
    }
}

router!(Router, "Return `count` distinct nodes for a key, its owner first; see `Placement`.", {
    /// Show the collector the hash function of Python, which may refer back to this router.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.laid.0.get().map(|laid| &laid.hasher) {
            Some(Hasher::Python(digest, _)) => visit.call(digest),
            _ => Ok(()),
        }
    }

    /// Return the id of the node that owns a position of the circle.
    fn owner_at(&self, position: &Bound<'_, PyAny>) -> PyResult<Py<PyString>> {
        let laid = self.laid()?;
        match position.cast_exact::<PyInt>().map(|position| position.extract::<u64>()) {
            Ok(Ok(place)) => {
                calls::count(1);
                Ok(laid.ids[laid.owner(place) as usize].clone_ref(position.py()))
            }
            _ => Err(refusal(position.py(), "apportion.placement.shapes.router", "check_token", (position,))),
        }
    }

    /// Take sorted bounds (8 bytes each) and the owner of each stretch (4 bytes each). There is one stretch more than
    /// bounds.
    fn _lay(&self, ids: Vec<Py<PyString>>, hasher: &Bound<'_, PyAny>, bounds: &[u8], owners: &[u8]) -> PyResult<()> {
        let words = bounds.as_chunks().0;
        let mut bounds = Vec::with_capacity(words.len() + PADDING);
        bounds.extend(words.iter().map(|&bytes| u64::from_ne_bytes(bytes)));
        let owners = owners.as_chunks().0.iter().map(|&bytes| u32::from_ne_bytes(bytes)).collect();
        let stretches = Stretches::new(bounds, owners, ids.len())?;
        // The reference has found these stretches, so they are not counted here.
        self.lay(Laid { stretches, hasher: Hasher::of(hasher)?, ids, zones: OnceLock::new() }).map(drop)
    }

    /// Lay the tokens of a ring, `count_of` tokens per node. Tokens that `before` has are taken over; it is a ring with
    /// the same tokens per node. `check` receives the number of all tokens before any is made.
    #[pyo3(signature = (topology, hasher, count_of, check, before=None))]
    fn _lay_tokens<'py>(
        &self,
        topology: &Bound<'py, PyAny>,
        hasher: &Bound<'py, PyAny>,
        count_of: &Bound<'py, PyAny>,
        check: &Bound<'py, PyAny>,
        before: Option<Bound<'py, Router>>,
    ) -> PyResult<()> {
        let py = topology.py();
        let nodes = topology.getattr("nodes")?.cast_into::<PyTuple>()?;
        let ids: Vec<Py<PyString>> = topology.getattr("ids")?.extract()?;
        let hasher = Hasher::of(hasher)?;
        let old_nodes = match &before {
            Some(router) => router.getattr("topology")?.getattr("nodes")?.cast_into::<PyTuple>()?,
            None => PyTuple::empty(py),
        };
        let kept = ring::shared(&old_nodes, &nodes)?;
        // There are as many entries as weights, which are few. The reference counts once for each weight.
        let mut count_of_weight: HashMap<u64, u64> = HashMap::new();
        let mut counts = Vec::with_capacity(kept.made.len());
        for &index in &kept.made {
            let node = nodes.get_item(index as usize)?;
            let weight = node.getattr("weight")?.extract::<f64>()?.to_bits();
            let count = match count_of_weight.get(&weight) {
                Some(&count) => count,
                None => *count_of_weight.entry(weight).or_insert(count_of.call1((node,))?.extract()?),
            };
            counts.push((index, count));
        }
        let old = match &before {
            Some(router) => Some(&router.get().laid()?.stretches),
            None => None,
        };
        let gone = old.map_or_else(Vec::new, |old| old.gone(&kept.index_of_old));
        let taken = old.map_or(0, |old| old.bound_count() - gone.len());
        check.call1((taken as u64 + counts.iter().map(|(_, count)| count).sum::<u64>(),))?;
        let mut made = Unsorted::default();
        made.tokens.reserve_exact(counts.iter().map(|&(_, count)| count as usize).sum());
        for (index, count) in counts {
            let id = ids[index as usize].bind(py).encode_utf8()?;
            ring::add_tokens(&mut made.tokens, id.as_bytes(), count as u32, |label| hasher.position_with(py, label))?;
            made.nodes.push((index, count as usize));
        }
        let stretches = match old {
            Some(old) => old.changed(&kept.index_of_old, &gone, made, ids.len()),
            None => Stretches::of_circle(made, ids.len()),
        };
        calls::count(self.lay(Laid { stretches, hasher, ids, zones: OnceLock::new() })?);
        Ok(())
    }

    /// Return the number of the stretch that contains a key.
    fn _stretch(&self, key: &Bound<'_, PyAny>) -> PyResult<usize> {
        let laid = self.laid()?;
        Ok(laid.place(laid.hasher.position_of(key)?))
    }

    /// Return every owner once, in the order of their stretches, starting at this one.
    fn _ranking(slf: &Bound<'_, Self>, stretch: usize) -> PyResult<Ranking> {
        Ranking::new(slf, stretch)
    }

    /// Return the bounds (8 bytes each) and the owner of each stretch (4 bytes each).
    fn _cuts<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let stretches = &self.laid()?.stretches;
        let bounds: Vec<u8> = stretches.bounds().flat_map(u64::to_ne_bytes).collect();
        let owners: Vec<u8> = (0..stretches.len()).flat_map(|place| stretches.owner(place).to_ne_bytes()).collect();
        Ok((PyBytes::new(py, &bounds), PyBytes::new(py, &owners)))
    }

    /// Return how many bytes the stretches take.
    fn _bytes(&self) -> PyResult<usize> {
        Ok(self.laid()?.stretches.bytes())
    }
});

/// Every owner once, in the order of their stretches. Each is found when it is wanted.
#[pyclass(module = "apportion._native")]
pub struct Ranking {
    placement: Py<Router>,
    seen: Vec<bool>,
    next: usize,
    left: usize,
}

impl Ranking {
    pub fn new(placement: &Bound<'_, Router>, stretch: usize) -> PyResult<Ranking> {
        let laid = placement.get().laid()?;
        let left = laid.stretches.len();
        Ok(Ranking {
            placement: placement.clone().unbind(),
            seen: vec![false; laid.ids.len()],
            next: stretch % left,
            left,
        })
    }
}

#[pymethods]
impl Ranking {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&mut self) -> PyResult<Option<u32>> {
        let stretches = &self.placement.get().laid()?.stretches;
        while self.left > 0 {
            let owner = stretches.owner(self.next);
            self.next = if self.next + 1 == stretches.len() { 0 } else { self.next + 1 };
            self.left -= 1;
            if !std::mem::replace(&mut self.seen[owner as usize], true) {
                return Ok(Some(owner));
            }
        }
        Ok(None)
    }
}

/// Lay a saved table. `spans` are the places of its starts and its owners in `data`, in hexadecimal digits. `shape` is
/// the number of owners per row and the number of slots, or 0. Return whether the digits are a table. If they are not,
/// nothing is laid.
#[pyfunction]
pub fn lay_columns(
    placement: &Bound<'_, Router>,
    ids: Vec<Py<PyString>>,
    hasher: &Bound<'_, PyAny>,
    data: &[u8],
    spans: (Span, Span),
    shape: (i64, i64),
) -> PyResult<bool> {
    let ((from, to), (start, end)) = spans;
    let columns = (data.get(from..to), data.get(start..end));
    let (Some(starts), Some(owners)) = columns else { return Ok(false) };
    let Some((bounds, owners)) = saved::read(starts, owners, shape, ids.len()) else { return Ok(false) };
    let stretches = Stretches::new(bounds, owners, ids.len())?;
    calls::count(placement.get().lay(Laid { stretches, hasher: Hasher::of(hasher)?, ids, zones: OnceLock::new() })?);
    Ok(true)
}

type Span = (usize, usize);
