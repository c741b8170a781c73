//! Leaders: the twin of `balance/solver/leaders.py`.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::augment::{Augmenting, Bounds, Broken, Items};
use super::equal_costs::even_out;
use super::open::{Among, Standing};
use super::push::finish;
use super::rows::{NOBODY, Rows};

/// Return the leader of each partition, and the price of leading on each node.
pub fn choose(
    rows: &Rows,
    led_before: &[u32],
    bounds: Bounds,
    elsewhere: Option<&[i64]>,
) -> Result<(Vec<u32>, Vec<u32>), Broken> {
    let nodes = bounds.most.len();
    let leaders = first_leaders(rows, led_before, &bounds.most);
    let mut held = vec![Vec::new(); nodes];
    for (partition, &leader) in leaders.iter().enumerate().filter(|&(_, &leader)| leader != NOBODY) {
        held[leader as usize].push(partition as u32);
    }
    // Zones play no part here. With one zone per node, no search looks through a zone for a node.
    let zones = (0..nodes as u32).collect();
    let mut solver = Augmenting::new(Leads { rows, led_before, leaders }, bounds, zones, held);
    finish(&mut solver)?;
    if let Some(elsewhere) = elsewhere {
        even_out(&mut solver, elsewhere);
    }
    solver.at.price.truncate(nodes);
    Ok((solver.items.leaders, solver.at.price))
}

/// Return how many partitions each node may lead, given the nodes that hold them. None if 128 bits cannot count that.
pub fn bounds(rows: &Rows, nodes: usize) -> Option<Bounds> {
    let mut held = HashMap::<(u32, usize), u128>::new();
    for row in rows.iter() {
        for &node in row {
            *held.entry((node, row.len())).or_default() += 1;
        }
    }
    let mut shares = vec![Ratio { numerator: 0, denominator: 1 }; nodes];
    for ((node, length), count) in held {
        let share = &mut shares[node as usize];
        *share = share.plus(Ratio { numerator: count, denominator: length as u128 })?;
    }
    Some(Bounds {
        least: shares.iter().map(|share| (share.numerator / share.denominator) as u32).collect(),
        most: shares.iter().map(|share| share.numerator.div_ceil(share.denominator) as u32).collect(),
        pools: vec![0; nodes],
        totals: vec![rows.iter().filter(|row| !row.is_empty()).count() as u32],
    })
}

/// A fraction in lowest terms, or nearly.
#[derive(Clone, Copy)]
struct Ratio {
    numerator: u128,
    denominator: u128,
}

impl Ratio {
    fn plus(self, other: Ratio) -> Option<Ratio> {
        let common = greatest_common_divisor(self.denominator, other.denominator);
        let (own, others) = (other.denominator / common, self.denominator / common);
        let numerator = self.numerator.checked_mul(own)?.checked_add(other.numerator.checked_mul(others)?)?;
        let denominator = self.denominator.checked_mul(own)?;
        let common = greatest_common_divisor(numerator, denominator);
        Some(Ratio { numerator: numerator / common, denominator: denominator / common })
    }
}

fn greatest_common_divisor(mut one: u128, mut other: u128) -> u128 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Leads of partitions on nodes that hold them: an item is a partition that the node leads.
struct Leads<'a> {
    rows: &'a Rows,
    led_before: &'a [u32],
    leaders: Vec<u32>,
}

impl Items for Leads<'_> {
    fn target(&self, node: u32, item: u32, at: &Standing, among: Among<'_>) -> Option<u32> {
        let old = self.led_before[item as usize];
        let cost = |node: u32| at.price[node as usize] + u32::from(node != old);
        let value = cost(node);
        self.rows.row(item as usize).iter().copied().find(|&other| among.contains(other) && cost(other) == value)
    }

    fn swap(&mut self, item: u32, _giver: u32, taker: u32) {
        self.leaders[item as usize] = taker;
    }
}

/// Let each leader lead on if it still holds the partition. Otherwise the holder with most room leads, the first of
/// equals.
fn first_leaders(rows: &Rows, led_before: &[u32], most: &[u32]) -> Vec<u32> {
    let lead_on = rows.iter().zip(led_before).map(|(row, old)| if row.contains(old) { *old } else { NOBODY });
    let mut leaders: Vec<u32> = lead_on.collect();
    let mut room: Vec<i64> = most.iter().map(|&most| most.into()).collect();
    leaders.iter().filter(|&&leader| leader != NOBODY).for_each(|&leader| room[leader as usize] -= 1);
    for (leader, row) in leaders.iter_mut().zip(rows.iter()).filter(|(leader, _)| **leader == NOBODY) {
        // Among equals `min_by_key` takes the first, `max_by_key` the last.
        if let Some(&node) = row.iter().min_by_key(|&&node| Reverse(room[node as usize])) {
            *leader = node;
            room[node as usize] -= 1;
        }
    }
    leaders
}
