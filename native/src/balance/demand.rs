//! Demand: the partitions to place, and the nodes and zones to place them on.

/// The demand as the reference states it; see `Demand`.
pub struct Demand {
    pub replicas: usize,
    pub weights: Vec<u64>,
    pub zones: Vec<u32>,
    pub zone_least: Vec<u32>,
    pub zone_most: Vec<u32>,
}

impl Demand {
    /// Return how many replicas of each partition must be in certain zones.
    pub fn owed(&self) -> usize {
        self.zone_least.iter().map(|&least| least as usize).sum()
    }

    pub fn zone(&self, node: u32) -> usize {
        self.zones[node as usize] as usize
    }
}
