//! The walk around the circle: from a stretch on, each node once, and of each zone the first.
//!
//! Promises: the lists of `SpreadRule.pick` for the zones as they are, where there are enough of them.

use std::sync::OnceLock;

use pyo3::prelude::*;

use crate::router::Router;
use crate::stretches::Stretches;

/// The fault domain of each node, by number, and in how many of them a node may own.
pub struct Zones {
    of_node: Vec<u32>,
    eligible: usize,
}

impl Zones {
    /// The zones of a placement's topology, learnt when first asked for.
    pub fn of<'a>(known: &'a OnceLock<Zones>, placement: &Bound<'_, Router>) -> PyResult<&'a Zones> {
        if let Some(zones) = known.get() {
            return Ok(zones);
        }
        let spread = placement.py().import("apportion.placement.spread")?;
        let (of_node, eligible) =
            spread.call_method1("numbered_domains", (placement.getattr("topology")?,))?.extract()?;
        Ok(known.get_or_init(|| Zones { of_node, eligible }))
    }

    /// Whether there is a list of so many nodes, each in another zone.
    pub fn suffice(&self, count: usize) -> bool {
        0 < count && count <= self.eligible
    }

    /// Add the first `count` nodes of distinct zones, from a stretch on.
    pub fn pick(&self, stretches: &Stretches, stretch: usize, count: usize, chosen: &mut Vec<u32>) {
        let begin = chosen.len();
        for owner in around(stretches, stretch) {
            let zone = self.of_node[owner as usize];
            if chosen[begin..].iter().all(|&other| self.of_node[other as usize] != zone) {
                chosen.push(owner);
                if chosen.len() - begin == count {
                    break;
                }
            }
        }
    }
}

/// Every owner once, in the order in which their stretches come.
pub fn ranking(stretches: &Stretches, stretch: usize, nodes: usize) -> Vec<u32> {
    let mut seen = vec![false; nodes];
    let is_new = |owner: &u32| !std::mem::replace(&mut seen[*owner as usize], true);
    around(stretches, stretch).filter(is_new).collect()
}

fn around(stretches: &Stretches, stretch: usize) -> impl Iterator<Item = u32> + '_ {
    (stretch..stretches.len()).chain(0..stretch).map(|stretch| stretches.owner(stretch))
}
