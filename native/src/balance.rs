//! Balance: nodes and leaders for partitions. The twins of `solve` and `choose_leaders` in `balance/`.
//!
//! Promises: the rows, the leaders and the prices of the reference, found in plain memory while other Python threads
//! run.
//! Refuses: numbers and indexes that do not fit together, with an error before any computation.

mod augment;
mod demand;
mod equal_costs;
mod flow;
mod leaders;
mod open;
mod push;
mod rows;
mod start;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::{PyIndexError, PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::answers::room;
use crate::calls::count;
use augment::{Bounds, Broken};
use demand::Demand;
use rows::Rows;

/// The largest number of nodes, pools or partitions. Topologies and assignments have no more, and 32 bits count it
/// easily.
const MOST: usize = 1 << 24;

/// The input of the flow; see `FlowNetwork`.
#[derive(FromPyObject)]
pub struct Network<'py> {
    demand: AskedDemand,
    bounds: AskedBounds,
    before: AskedRows<'py>,
    elsewhere: Option<Vec<i64>>,
}

#[derive(FromPyObject)]
struct AskedDemand {
    replicas: u32,
    weights: Vec<u64>,
    zones: Vec<u32>,
    zone_least: Vec<u32>,
    zone_most: Vec<u32>,
}

#[derive(FromPyObject)]
struct AskedBounds {
    least: Vec<u32>,
    most: Vec<u32>,
    pools: Vec<u32>,
    totals: Vec<u32>,
}

#[derive(FromPyObject)]
pub struct AskedRows<'py> {
    buffer: Bound<'py, PyAny>,
    width: usize,
}

/// Return the nodes of each partition and the price of a place on each node. All rows have one width, 4 bytes per node.
#[pyfunction]
pub fn solve_flow<'py>(py: Python<'py>, network: Network<'py>) -> PyResult<(Bound<'py, PyBytes>, Vec<u32>)> {
    let Network { demand, bounds, before, elsewhere } = network;
    let before = before.read(demand.weights.len())?;
    let demand = demand.checked()?;
    let bounds = bounds.checked(demand.weights.len())?;
    check_lengths(demand.weights.len(), &[("elsewhere", elsewhere.as_ref().map(Vec::len))])?;
    if demand.replicas > demand.weights.len() && before.len() > 0 {
        return Err(raised(py, start::missing()));
    }
    let rows = room(before.len().checked_mul(demand.replicas).ok_or_else(too_many)?)?;
    let solved = py.detach(|| flow::solve(&demand, bounds, &before, rows, elsewhere.as_deref()));
    let (rows, prices) = solved.map_err(|broken| raised(py, broken))?;
    count(before.len());
    Ok((bytes_of(py, &rows)?, prices))
}

/// Return the leader of each partition as 4 signed bytes, -1 for none, and the price of leading on each node.
#[pyfunction]
#[pyo3(signature = (rows, led_before, nodes, elsewhere=None))]
pub fn choose_leaders<'py>(
    rows: &Bound<'py, PyAny>,
    led_before: &Bound<'py, PyAny>,
    nodes: usize,
    elsewhere: Option<Vec<i64>>,
) -> PyResult<(Bound<'py, PyBytes>, Vec<u32>)> {
    let py = rows.py();
    let listed = rows.extract::<AskedRows<'_>>()?.read(nodes)?;
    // -1 becomes `NOBODY`, and it is the same bytes on the way back.
    let led_before: Vec<u32> = numbers(led_before)?.into_iter().map(i32::cast_unsigned).collect();
    check_lengths(listed.len(), &[("led_before", Some(led_before.len()))])?;
    check_lengths(nodes, &[("elsewhere", elsewhere.as_ref().map(Vec::len))])?;
    let bounds = match py.detach(|| leaders::bounds(&listed, nodes)) {
        Some(bounds) => bounds,
        None => {
            let reference = py.import("apportion.balance.solver.leaders")?;
            reference.call_method1("leader_bounds", (rows, nodes))?.extract::<AskedBounds>()?.checked(nodes)?
        }
    };
    let chosen = py.detach(|| leaders::choose(&listed, &led_before, bounds, elsewhere.as_deref()));
    let (leaders, prices) = chosen.map_err(|broken| raised(py, broken))?;
    count(listed.len());
    Ok((bytes_of(py, &leaders)?, prices))
}

impl AskedRows<'_> {
    /// Return the rows, after a check of their indexes against the number of nodes.
    fn read(&self, nodes: usize) -> PyResult<Rows> {
        let rows = Rows::of(numbers(&self.buffer)?, self.width)
            .ok_or_else(|| PyValueError::new_err("the buffer must end with a whole row"))?;
        if rows.len() > MOST || nodes > MOST {
            return Err(too_many());
        }
        let mut last_row = vec![usize::MAX; nodes];
        for (place, row) in rows.iter().enumerate() {
            for &node in row {
                let last = last_row.get_mut(node as usize).ok_or_else(|| beyond("rows", "node"))?;
                if *last == place {
                    return Err(PyValueError::new_err("a row has a node twice"));
                }
                *last = place;
            }
        }
        Ok(rows)
    }
}

impl AskedDemand {
    fn checked(self) -> PyResult<Demand> {
        let AskedDemand { replicas, weights, zones, zone_least, zone_most } = self;
        check_lengths(weights.len(), &[("zones", Some(zones.len()))])?;
        check_lengths(zone_most.len(), &[("zone_least", Some(zone_least.len()))])?;
        check_indexes("zones", &zones, zone_most.len(), "zone")?;
        let demand = Demand { replicas: replicas as usize, weights, zones, zone_least, zone_most };
        if demand.replicas == 0 || demand.owed() > demand.replicas {
            return Err(PyValueError::new_err("there must be at least one replica, and as many as the zones require"));
        }
        Ok(demand)
    }
}

impl AskedBounds {
    fn checked(self, nodes: usize) -> PyResult<Bounds> {
        let AskedBounds { least, most, pools, totals } = self;
        let lengths = [("least", Some(least.len())), ("most", Some(most.len())), ("pools", Some(pools.len()))];
        check_lengths(nodes, &lengths)?;
        check_indexes("pools", &pools, totals.len(), "pool")?;
        if totals.len() > MOST {
            return Err(too_many());
        }
        if least.iter().zip(&most).any(|(least, most)| least > most) {
            return Err(PyValueError::new_err("the least load of a node is above its most"));
        }
        Ok(Bounds { least, most, pools, totals })
    }
}

fn numbers<T: Element>(given: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    // The buffer of an empty array has no address, and PyO3 refuses it as not aligned.
    if given.len()? == 0 { Ok(Vec::new()) } else { PyBuffer::get(given)?.to_vec(given.py()) }
}

fn check_lengths(wanted: usize, given: &[(&str, Option<usize>)]) -> PyResult<()> {
    match given.iter().find(|(_, length)| length.is_some_and(|length| length != wanted)) {
        Some((name, _)) => Err(PyValueError::new_err(format!("{name} must have {wanted} values"))),
        None => Ok(()),
    }
}

fn check_indexes(name: &str, indexes: &[u32], count: usize, of: &str) -> PyResult<()> {
    if indexes.iter().any(|&index| index as usize >= count) { Err(beyond(name, of)) } else { Ok(()) }
}

fn beyond(name: &str, of: &str) -> PyErr {
    PyIndexError::new_err(format!("an index in {name} is beyond the last {of}"))
}

fn too_many() -> PyErr {
    PyOverflowError::new_err(format!("there are more than {MOST} nodes or partitions"))
}

/// Return the error of the reference.
fn raised(py: Python<'_>, Broken(facts): Broken) -> PyErr {
    let error = py.import("apportion.errors").and_then(|errors| errors.getattr("InvariantBroken")?.call1((facts,)));
    error.map_or_else(|failure| failure, PyErr::from_value)
}

fn bytes_of<'py>(py: Python<'py>, numbers: &[u32]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, size_of_val(numbers), |room| {
        for (place, number) in room.as_chunks_mut().0.iter_mut().zip(numbers) {
            *place = number.to_ne_bytes();
        }
        Ok(())
    })
}
