//! The minimum-movement flow: the twin of `balance/solver/flow.py`.

use super::augment::{Augmenting, Bounds, Broken, Items};
use super::demand::Demand;
use super::equal_costs::even_out;
use super::open::{Among, Standing};
use super::push::finish;
use super::rows::Rows;
use super::start::{fill, keep};

/// Return the nodes of each partition, one per replica, and the price of a place on each node.
///
/// `rows` has room for the nodes. No node is twice in a row of `before`.
pub fn solve(
    demand: &Demand,
    bounds: Bounds,
    before: &Rows,
    mut rows: Vec<u32>,
    elsewhere: Option<&[i64]>,
) -> Result<(Vec<u32>, Vec<u32>), Broken> {
    keep(demand, before, &mut rows);
    fill(demand, &bounds.most, &mut rows)?;
    let replicas = Replicas { demand, before, rows };
    let held = held(&replicas);
    let mut solver = Augmenting::new(replicas, bounds, demand.zones.clone(), held);
    finish(&mut solver)?;
    if let Some(elsewhere) = elsewhere {
        even_out(&mut solver, elsewhere);
    }
    solver.at.price.truncate(demand.weights.len());
    let mut rows = solver.items.rows;
    for (row, before) in rows.chunks_exact_mut(demand.replicas).zip(before.iter()) {
        order(row, before);
    }
    Ok((rows, solver.at.price))
}

/// Order a row: first the earlier owners in their earlier order, then the others by index.
fn order(row: &mut [u32], before: &[u32]) {
    let mut kept = 0;
    for node in before {
        if let Some(place) = row.iter().position(|other| other == node) {
            row.swap(kept, place);
            kept += 1;
        }
    }
    row[kept..].sort_unstable();
}

/// Replicas of partitions on nodes: an item is a partition with a replica on the node.
struct Replicas<'a> {
    demand: &'a Demand,
    before: &'a Rows,
    rows: Vec<u32>,
}

impl Items for Replicas<'_> {
    fn target(&self, node: u32, item: u32, at: &Standing, among: Among<'_>) -> Option<u32> {
        let start = item as usize * self.demand.replicas;
        let (row, before) = (&self.rows[start..start + self.demand.replicas], self.before.row(item as usize));
        let zone_of = |node: u32| self.demand.zones[node as usize];
        let in_zone = |zone| row.iter().filter(|&&holder| zone_of(holder) == zone).count();
        let own = zone_of(node);
        let leaves_zone = in_zone(own) > self.demand.zone_least[own as usize] as usize;
        let has_room =
            |zone: u32| zone == own || (leaves_zone && in_zone(zone) < self.demand.zone_most[zone as usize] as usize);
        let value = at.price[node as usize] + u32::from(!before.contains(&node));
        let can_return = |&&other: &&u32| {
            at.price[other as usize] == value
                && among.contains(other)
                && !row.contains(&other)
                && has_room(zone_of(other))
        };
        if let Some(&other) = before.iter().find(can_return) {
            return Some(other);
        }
        let zones = among.zones_at(value.checked_sub(1)?).filter(|bucket| has_room(bucket.zone));
        zones.flat_map(|bucket| &bucket.nodes).find(|other| !row.contains(other) && !before.contains(other)).copied()
    }

    fn swap(&mut self, item: u32, giver: u32, taker: u32) {
        let row = &mut self.rows[item as usize * self.demand.replicas..][..self.demand.replicas];
        let place = row.iter().position(|&node| node == giver).expect("the giver holds a replica");
        row[place] = taker;
    }
}

/// Return the items of each node, the first to give at the end. After each led item come as many followed ones as a
/// partition has followers.
fn held(replicas: &Replicas<'_>) -> Vec<Vec<u32>> {
    let nodes = replicas.demand.weights.len();
    let (mut led, mut followed) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
    let rows = replicas.rows.chunks_exact(replicas.demand.replicas);
    for (partition, (row, before)) in rows.zip(replicas.before.iter()).enumerate() {
        for node in row {
            let part = if before.first() == Some(node) { &mut led } else { &mut followed };
            part[*node as usize].push(partition as u32);
        }
    }
    let followers = (replicas.demand.replicas - 1).max(1);
    led.into_iter().zip(followed).map(|(led, followed)| in_turns(led, followed, followers)).collect()
}

fn in_turns(mut led: Vec<u32>, mut followed: Vec<u32>, followers: usize) -> Vec<u32> {
    let mut given = Vec::with_capacity(led.len() + followed.len());
    while !(led.is_empty() && followed.is_empty()) {
        given.extend(followed.drain(followed.len() - followers.min(followed.len())..).rev());
        given.extend(led.pop());
    }
    given.reverse();
    given
}
