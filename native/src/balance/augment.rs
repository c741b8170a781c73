//! Primal-dual augmentation: the twin of `balance/solver/augment.py`. Its docstrings explain each step.
//!
//! Promises: the steps of the reference, in its order. Differs: it skips items when no open node could take any of
//! them.

use std::ops::ControlFlow;

use super::open::{Among, Open, Standing};

/// The level of a vertex that no chain of tight steps reaches.
pub const UNSEEN: u32 = u32::MAX;

/// The bounds on loads; see `LoadBounds`.
pub struct Bounds {
    pub least: Vec<u32>,
    pub most: Vec<u32>,
    pub pools: Vec<u32>,
    pub totals: Vec<u32>,
}

/// Items that sit on nodes and can be passed on.
pub trait Items {
    /// Return an open node to which an item of a node can be passed by a tight step. Their prices differ by one at
    /// most.
    fn target(&self, node: u32, item: u32, at: &Standing, among: Among<'_>) -> Option<u32>;

    /// Note that an item now sits on another node.
    fn swap(&mut self, item: u32, giver: u32, taker: u32);
}

/// A promise that did not hold, in the words of the reference.
pub struct Broken(pub String);

pub struct Augmenting<I> {
    pub items: I,
    pub bounds: Bounds,
    pub at: Standing,
    pub held: Vec<Vec<u32>>,
    pub load: Vec<u32>,
    pub need: Vec<i64>,
    pub members: Vec<Vec<u32>>,
    pub level: Vec<u32>,
}

impl<I: Items> Augmenting<I> {
    pub fn new(items: I, bounds: Bounds, zones: Vec<u32>, held: Vec<Vec<u32>>) -> Self {
        let load: Vec<u32> = held.iter().map(|items| items.len() as u32).collect();
        let mut need: Vec<i64> = bounds.totals.iter().map(|&total| total.into()).collect();
        let mut members = vec![Vec::new(); need.len()];
        for (node, &pool) in bounds.pools.iter().enumerate() {
            need[pool as usize] -= i64::from(load[node].max(bounds.least[node]).min(bounds.most[node]));
            members[pool as usize].push(node as u32);
        }
        let vertices = held.len() + need.len();
        let at = Standing { zones, price: vec![0; vertices] };
        Augmenting { items, bounds, at, held, load, need, members, level: vec![UNSEEN; vertices] }
    }

    /// Return how many vertices are nodes.
    pub fn nodes(&self) -> usize {
        self.load.len()
    }

    /// Return the vertex of a node's pool.
    pub fn pool_of(&self, node: u32) -> u32 {
        self.nodes() as u32 + self.bounds.pools[node as usize]
    }

    /// Return the pool of a vertex, or none if the vertex is a node.
    pub fn as_pool(&self, vertex: u32) -> Option<usize> {
        (vertex as usize).checked_sub(self.nodes())
    }

    pub fn has_too_much(&self, vertex: u32) -> bool {
        match self.as_pool(vertex) {
            Some(pool) => self.need[pool] < 0,
            None => self.load[vertex as usize] > self.bounds.most[vertex as usize],
        }
    }

    pub fn is_sink(&self, vertex: u32) -> bool {
        match self.as_pool(vertex) {
            Some(pool) => self.need[pool] > 0,
            None => self.load[vertex as usize] < self.bounds.least[vertex as usize],
        }
    }

    /// Whether a node may hold one more for its pool by a tight step.
    pub fn may_take(&self, node: u32) -> bool {
        let load = self.load[node as usize];
        self.is_tight(node) && self.bounds.least[node as usize] <= load && load < self.bounds.most[node as usize]
    }

    /// Whether a node may hold one less for its pool by a tight step.
    pub fn may_give(&self, node: u32) -> bool {
        let load = self.load[node as usize];
        self.is_tight(node) && self.bounds.least[node as usize] < load && load <= self.bounds.most[node as usize]
    }

    fn is_tight(&self, node: u32) -> bool {
        self.at.price[node as usize] == self.at.price[self.pool_of(node) as usize]
    }

    pub fn sources(&self) -> Vec<u32> {
        (0..self.at.price.len() as u32).filter(|&vertex| self.has_too_much(vertex)).collect()
    }

    /// Number the vertices by their distance in tight steps, up to the nearest sink; return whether there is one.
    pub fn reaches(&mut self, sources: &[u32]) -> bool {
        self.level.fill(UNSEEN);
        for &vertex in sources {
            self.level[vertex as usize] = 0;
        }
        let far = (0..self.nodes() as u32).filter(|&node| self.level[node as usize] == UNSEEN);
        let mut unseen = Open::of(far.map(|node| (node, 0)), 1, &self.at);
        let (mut frontier, mut distance, mut found) = (sources.to_vec(), 0, false);
        while !frontier.is_empty() && !found {
            distance += 1;
            let mut beyond = Vec::new();
            for vertex in frontier {
                let seen = beyond.len();
                self.step(vertex, &mut unseen, &mut beyond);
                for &reached in &beyond[seen..] {
                    self.level[reached as usize] = distance;
                    found |= self.is_sink(reached);
                }
            }
            frontier = beyond;
        }
        found
    }

    /// Add every unseen vertex that one tight step leads to. The vertex is then seen.
    fn step(&self, vertex: u32, unseen: &mut Open, beyond: &mut Vec<u32>) {
        if let Some(pool) = self.as_pool(vertex) {
            for &node in &self.members[pool] {
                if unseen.among(0).contains(node) && self.may_give(node) {
                    unseen.close(node);
                    beyond.push(node);
                }
            }
            return;
        }
        let pool = self.pool_of(vertex);
        if self.level[pool as usize] == UNSEEN && self.may_take(vertex) {
            beyond.push(pool);
        }
        let _ = self.each_step(vertex, unseen, |node, _| {
            beyond.push(node);
            ControlFlow::Continue(())
        });
    }

    /// Close every open node that one tight step leads to from a node. `reached` gets the node and the passed item.
    pub fn each_step(
        &self,
        node: u32,
        unseen: &mut Open,
        mut reached: impl FnMut(u32, u32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let price = self.at.price[node as usize];
        for &item in &self.held[node as usize] {
            if !unseen.among(0).is_near(price) {
                break;
            }
            while let Some(target) = self.items.target(node, item, &self.at, unseen.among(0)) {
                unseen.close(target);
                reached(target, item)?;
            }
        }
        ControlFlow::Continue(())
    }
}
