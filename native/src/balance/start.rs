//! The start of the flow: each partition keeps the replicas that it may keep, and gets the others where there is most
//! room.
//!
//! The twin of `_kept` and `_fill` in `balance/solver/flow.py`. Differs: each zone keeps its nodes in an order of its
//! own, so the nodes of a full zone are skipped together.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::augment::Broken;
use super::demand::Demand;
use super::rows::{NOBODY, Rows, without_nobody};

/// Let each partition keep all replicas that its zones and the number of replicas allow, while nodes cost nothing.
pub fn keep(demand: &Demand, before: &Rows, rows: &mut [u32]) {
    let optional = demand.replicas - demand.owed();
    let (mut in_zone, mut surplus) = (vec![0; demand.zone_most.len()], Vec::new());
    for (row, before) in rows.chunks_exact_mut(demand.replicas).zip(before.iter()) {
        let mut kept = 0;
        surplus.clear();
        for &node in before {
            let zone = demand.zone(node);
            in_zone[zone] += 1;
            if in_zone[zone] <= demand.zone_least[zone] {
                row[kept] = node;
                kept += 1;
            } else if in_zone[zone] <= demand.zone_most[zone] && surplus.len() < optional {
                surplus.push(node);
            }
        }
        row[kept..].fill(NOBODY);
        row[kept..kept + surplus.len()].copy_from_slice(&surplus);
        before.iter().for_each(|&node| in_zone[demand.zone(node)] = 0);
    }
}

/// Complete every partition, each time on the node with most room among the eligible nodes.
pub fn fill(demand: &Demand, most: &[u32], rows: &mut [u32]) -> Result<(), Broken> {
    let mut filling = Filling::new(demand, most, rows);
    for row in rows.chunks_exact_mut(demand.replicas) {
        let kept = without_nobody(row).len();
        row[..kept].iter().for_each(|&node| filling.join(node));
        for length in kept..row.len() {
            row[length] = filling.roomiest(&row[..length])?;
            filling.join(row[length]);
        }
        row.iter().for_each(|&node| filling.leave(node));
    }
    Ok(())
}

pub fn missing() -> Broken {
    Broken("no node may take a replica that is missing".into())
}

/// The room on a node, which may be negative, and the node. Among equals the first node is the greatest.
type Room = (i64, Reverse<u32>);

/// The room on the nodes, and the zones of the current partition.
struct Filling<'a> {
    demand: &'a Demand,
    /// The nodes of each zone, and the roomiest node of each.
    rooms: Vec<BTreeSet<Room>>,
    roomiest: BTreeSet<Room>,
    in_zone: Vec<u32>,
    /// The number of replicas of the partition that must still go to certain zones.
    owed: usize,
}

impl<'a> Filling<'a> {
    fn new(demand: &'a Demand, most: &[u32], rows: &[u32]) -> Self {
        let mut room: Vec<i64> = most.iter().map(|&most| most.into()).collect();
        rows.iter().filter(|&&node| node != NOBODY).for_each(|&node| room[node as usize] -= 1);
        let mut rooms = vec![BTreeSet::new(); demand.zone_most.len()];
        for node in (0..room.len()).filter(|&node| demand.weights[node] > 0) {
            rooms[demand.zone(node as u32)].insert((room[node], Reverse(node as u32)));
        }
        let roomiest = rooms.iter().filter_map(|rooms| rooms.last().copied()).collect();
        Filling { demand, rooms, roomiest, in_zone: vec![0; demand.zone_most.len()], owed: demand.owed() }
    }

    /// Return the node with most room that may take the next replica, and reduce its room.
    fn roomiest(&mut self, row: &[u32]) -> Result<u32, Broken> {
        let mut found = None;
        for &best in self.roomiest.iter().rev() {
            if found > Some(best) {
                break;
            }
            let zone = self.demand.zone(best.1.0);
            if self.has_room(zone, row.len()) {
                let free = self.rooms[zone].iter().rev().find(|(_, Reverse(node))| !row.contains(node));
                found = found.max(free.copied());
            }
        }
        let (room, Reverse(node)) = found.ok_or_else(missing)?;
        let rooms = &mut self.rooms[self.demand.zone(node)];
        rooms.last().map(|best| self.roomiest.remove(best));
        rooms.remove(&(room, Reverse(node)));
        rooms.insert((room - 1, Reverse(node)));
        self.roomiest.extend(rooms.last());
        Ok(node)
    }

    /// Return whether a zone may take the next replica, so that every zone still gets its required number.
    fn has_room(&self, zone: usize, length: usize) -> bool {
        let held = self.in_zone[zone];
        held < self.demand.zone_most[zone]
            && (held < self.demand.zone_least[zone] || self.demand.replicas - length > self.owed)
    }

    fn join(&mut self, node: u32) {
        let zone = self.demand.zone(node);
        self.owed -= usize::from(self.in_zone[zone] < self.demand.zone_least[zone]);
        self.in_zone[zone] += 1;
    }

    fn leave(&mut self, node: u32) {
        let zone = self.demand.zone(node);
        self.in_zone[zone] -= 1;
        self.owed += usize::from(self.in_zone[zone] < self.demand.zone_least[zone]);
    }
}
