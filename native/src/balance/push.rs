//! A blocking flow: pass on as many units as possible along the shortest chains, one after the other.
//!
//! The second half of `Augmenting` in `balance/solver/augment.py`, in the same order.

use super::augment::{Augmenting, Broken, Items, UNSEEN};
use super::open::Open;

/// Bring all loads within their bounds.
pub fn finish<I: Items>(on: &mut Augmenting<I>) -> Result<(), Broken> {
    loop {
        let sources = on.sources();
        let Some(first) = sources.first() else { return Ok(()) };
        if on.reaches(&sources) {
            Push::all(on, &sources);
            continue;
        }
        for (price, &level) in on.at.price.iter_mut().zip(&on.level) {
            *price += u32::from(level != UNSEEN);
        }
        let limit = 2 * on.at.price.len() + 2;
        if on.at.price.iter().any(|&price| price as usize > limit) {
            return Err(Broken(format!("no way from {first} to a node with room")));
        }
    }
}

struct Push<'a, I> {
    on: &'a mut Augmenting<I>,
    /// The nodes of each level that are not yet dead ends.
    open: Open,
    levels: u32,
    dead_pools: Vec<bool>,
    /// The number of items of each node, then of members of each pool, that the search has not looked at.
    left: Vec<usize>,
}

/// The next vertex of the unit, and the passed item. The item is none if one of the two vertices is a pool.
type Step = (u32, Option<u32>);

impl<'a, I: Items> Push<'a, I> {
    /// Pass on as many units as possible from sources to sinks.
    fn all(on: &'a mut Augmenting<I>, sources: &[u32]) {
        let levels = on.level.iter().filter(|&&level| level != UNSEEN).max().map_or(0, |&level| level + 1);
        let reached = on.level[..on.nodes()].iter().enumerate().filter(|&(_, &level)| level != UNSEEN);
        let open = Open::of(reached.map(|(node, &level)| (node as u32, level)), levels as usize, &on.at);
        let left = on.held.iter().chain(&on.members).map(Vec::len).collect();
        let dead_pools = vec![false; on.members.len()];
        let mut push = Push { on, open, levels, dead_pools, left };
        for &source in sources {
            while push.on.has_too_much(source) && push.push(source) {}
        }
    }

    /// Pass one unit from a source to a sink, if a chain is left.
    fn push(&mut self, source: u32) -> bool {
        let mut path = vec![(source, None)];
        while let Some(&(last, _)) = path.last() {
            if path.len() > 1 && self.on.is_sink(last) {
                self.apply(&path);
                return true;
            }
            match self.next_step(last) {
                Some(step) => path.push(step),
                None => {
                    self.bury(last);
                    path.pop();
                }
            }
        }
        false
    }

    fn next_step(&mut self, vertex: u32) -> Option<Step> {
        if let Some(pool) = self.on.as_pool(vertex) {
            return self.next_of_pool(pool);
        }
        let (pool, onwards) = (self.on.pool_of(vertex), self.on.level[vertex as usize] + 1);
        let is_dead = self.dead_pools[self.on.bounds.pools[vertex as usize] as usize];
        if self.on.level[pool as usize] == onwards && !is_dead && self.on.may_take(vertex) {
            return Some((pool, None));
        }
        if onwards == self.levels {
            return None;
        }
        let among = self.open.among(onwards);
        if !among.is_near(self.on.at.price[vertex as usize]) {
            return None;
        }
        let left = &mut self.left[vertex as usize];
        while *left > 0 {
            let item = self.on.held[vertex as usize][*left - 1];
            if let Some(node) = self.on.items.target(vertex, item, &self.on.at, among) {
                return Some((node, Some(item)));
            }
            *left -= 1;
        }
        None
    }

    fn next_of_pool(&mut self, pool: usize) -> Option<Step> {
        let vertex = self.on.nodes() + pool;
        let onwards = self.on.level[vertex] + 1;
        if onwards == self.levels {
            return None;
        }
        let left = &mut self.left[vertex];
        while *left > 0 {
            let node = self.on.members[pool][*left - 1];
            if self.open.among(onwards).contains(node) && self.on.may_give(node) {
                return Some((node, None));
            }
            *left -= 1;
        }
        None
    }

    fn bury(&mut self, vertex: u32) {
        match self.on.as_pool(vertex) {
            Some(pool) => self.dead_pools[pool] = true,
            None => self.open.close(vertex),
        }
    }

    /// Pass one unit along a chain, from the first vertex to the last.
    fn apply(&mut self, path: &[Step]) {
        let on = &mut *self.on;
        let (first, last) = (path[0].0, path[path.len() - 1].0);
        if on.as_pool(first).is_none() {
            on.load[first as usize] -= 1;
        }
        if on.as_pool(last).is_none() {
            on.load[last as usize] += 1;
        }
        for pair in path.windows(2) {
            let ((vertex, _), (onwards, item)) = (pair[0], pair[1]);
            let on = &mut *self.on;
            if let Some(pool) = on.as_pool(onwards) {
                on.load[vertex as usize] += 1;
                on.need[pool] -= 1;
            } else if let Some(pool) = on.as_pool(vertex) {
                on.load[onwards as usize] -= 1;
                on.need[pool] += 1;
            } else if let Some(item) = item {
                self.pass_on(item, vertex, onwards);
            }
        }
    }

    /// Move the item that the giver looked at last, and let the next item go elsewhere.
    fn pass_on(&mut self, item: u32, giver: u32, taker: u32) {
        self.left[giver as usize] -= 1;
        // The last item takes the place of the moved one.
        self.on.held[giver as usize].swap_remove(self.left[giver as usize]);
        self.on.held[taker as usize].push(item);
        self.on.items.swap(item, giver, taker);
        self.open.defer(taker);
    }
}
