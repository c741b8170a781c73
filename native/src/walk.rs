//! The walk around the circle, from a stretch on: each node once. The first nodes of all zones come before any second
//! one.
//!
//! Promises: the lists of `SpreadRule.pick` for the zones as they are.

use std::sync::OnceLock;

use pyo3::prelude::*;

use crate::stretches::Stretches;

/// The number of each node's fault domain, and how many nodes and domains may own.
pub struct Zones {
    of_node: Vec<u32>,
    owning_nodes: usize,
    owning_zones: usize,
}

impl Zones {
    /// Return the zones of the topology in an attribute of a placement, and remember them. None if the attribute is
    /// None.
    pub fn of<'a>(
        known: &'a OnceLock<Option<Zones>>,
        placement: &Bound<'_, PyAny>,
        topology: &str,
    ) -> PyResult<Option<&'a Zones>> {
        if let Some(zones) = known.get() {
            return Ok(zones.as_ref());
        }
        let met = placement.getattr(topology)?;
        let zones = if met.is_none() { None } else { Some(Zones::numbered(&met)?) };
        Ok(known.get_or_init(|| zones).as_ref())
    }

    /// Return the zones of the nodes of a topology, without the nodes that it drains.
    fn numbered(topology: &Bound<'_, PyAny>) -> PyResult<Zones> {
        let spread = topology.py().import("apportion.placement.spread")?;
        let (of_node, owning_nodes, owning_zones) = spread.call_method1("numbered_domains", (topology,))?.extract()?;
        Ok(Zones { of_node, owning_nodes, owning_zones })
    }

    /// Return whether a list of this many nodes exists. Each node is in another zone, unless zones are used again.
    pub fn suffice(&self, count: usize, reuses_zones: bool) -> bool {
        0 < count && count <= if reuses_zones { self.owning_nodes } else { self.owning_zones }
    }

    /// Fill the room with the first nodes from a stretch on, of distinct zones while there are any. Return the nodes
    /// found.
    pub fn pick<'a>(&self, stretches: &Stretches, stretch: usize, room: &'a mut [u32]) -> &'a [u32] {
        if room.len() > self.owning_zones {
            return self.pick_in_rounds(stretches, stretch, room);
        }
        let mut count = 0;
        for owner in around(stretches, stretch) {
            let zone = self.of_node[owner as usize];
            if room[..count].iter().all(|&other| self.of_node[other as usize] != zone) {
                room[count] = owner;
                count += 1;
                if count == room.len() {
                    break;
                }
            }
        }
        &room[..count]
    }

    /// Fill the room with the first node of every zone, then the second of every zone, and so on.
    fn pick_in_rounds<'a>(&self, stretches: &Stretches, stretch: usize, room: &'a mut [u32]) -> &'a [u32] {
        let mut seen = vec![false; self.of_node.len()];
        let mut used = vec![0u32; self.of_node.len()];
        let mut rounds = Vec::with_capacity(self.owning_nodes);
        for owner in around(stretches, stretch) {
            if !std::mem::replace(&mut seen[owner as usize], true) {
                let round = &mut used[self.of_node[owner as usize] as usize];
                rounds.push((*round, owner));
                *round += 1;
                if rounds.len() == self.owning_nodes {
                    break;
                }
            }
        }
        rounds.sort_by_key(|&(round, _)| round); // in the order of the walk, within a round
        let count = rounds.len().min(room.len());
        for (place, &(_, owner)) in room.iter_mut().zip(&rounds) {
            *place = owner;
        }
        &room[..count]
    }
}

fn around(stretches: &Stretches, stretch: usize) -> impl Iterator<Item = u32> + '_ {
    (stretch..stretches.len()).chain(0..stretch).map(|stretch| stretches.owner(stretch))
}
