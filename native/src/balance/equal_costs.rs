//! Equal costs: even out the loads among results of equal cost. The twin of `balance/solver/equal_costs.py`.
//!
//! Differs: the search stops at a taker that no other taker can surpass.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ops::ControlFlow;

use super::augment::{Augmenting, Items};
use super::open::Open;

/// Stands for no node and no item.
const NOTHING: u32 = u32::MAX;

/// Move items, one after the other, from nodes that hold much elsewhere.
pub fn even_out<I: Items>(result: &mut Augmenting<I>, elsewhere: &[i64]) {
    let sum = |(&load, &more): (&u32, &i64)| i128::from(load) + i128::from(more);
    while evens_out(result, &result.load.iter().zip(elsewhere).map(sum).collect::<Vec<_>>()) {}
}

/// Pass on one item, if possible, from a node to one with a sum smaller by two or more. Nodes with large sums come
/// first.
fn evens_out<I: Items>(result: &mut Augmenting<I>, sums: &[i128]) -> bool {
    let sum = |node: u32| sums[node as usize];
    let pool = |node: u32| result.bounds.pools[node as usize];
    let nodes = 0..result.nodes() as u32;
    let mut takers: Vec<Vec<u32>> = vec![Vec::new(); result.need.len()];
    for node in nodes.clone().filter(|&node| result.may_take(node)) {
        takers[pool(node) as usize].push(node);
    }
    let first: Vec<_> =
        takers.iter().map(|takers| takers.iter().copied().min_by_key(|&node| (sum(node), node))).collect();
    let mut givers: Vec<u32> = nodes.filter(|&node| result.may_give(node)).collect();
    givers.sort_by_key(|&node| Reverse(sum(node)));
    for giver in givers {
        let Some(best) = first[pool(giver) as usize].filter(|&best| sum(best) <= sum(giver) - 2) else { continue };
        let came_from = tree(result, giver, best);
        let reached = takers[pool(giver) as usize].iter().filter(|&&node| came_from[node as usize].0 != NOTHING);
        let taker = reached.copied().min_by_key(|&node| (sum(node), node)).unwrap_or(giver);
        if sum(taker) <= sum(giver) - 2 {
            pass_along(result, giver, taker, &came_from);
            return true;
        }
    }
    false
}

/// Return, for every node that chains of tight steps reach from the root, the node before it and the passed item. Nodes
/// found after the best one are left out.
fn tree<I: Items>(result: &Augmenting<I>, root: u32, best: u32) -> Vec<(u32, u32)> {
    let others = (0..result.nodes() as u32).filter(|&node| node != root);
    let mut unseen = Open::of(others.map(|node| (node, 0)), 1, &result.at);
    let mut came_from = vec![(NOTHING, NOTHING); result.nodes()];
    let mut queue = VecDeque::from([root]);
    while let Some(node) = queue.pop_front() {
        let _ = result.each_step(node, &mut unseen, |reached, item| {
            came_from[reached as usize] = (node, item);
            queue.push_back(reached);
            if reached == best { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if came_from[best as usize].0 != NOTHING {
            break;
        }
    }
    came_from
}

fn pass_along<I: Items>(result: &mut Augmenting<I>, giver: u32, mut taker: u32, came_from: &[(u32, u32)]) {
    result.load[giver as usize] -= 1;
    result.load[taker as usize] += 1;
    while taker != giver {
        let (node, item) = came_from[taker as usize];
        let held = &mut result.held[node as usize];
        let place = held.iter().position(|&other| other == item).expect("the item sits there");
        held.remove(place);
        result.held[taker as usize].push(item);
        result.items.swap(item, node, taker);
        taker = node;
    }
}
