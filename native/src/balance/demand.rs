//! The partitions to place, and the nodes and zones to place them on.

/// What is to be placed where; see `Demand`.
pub struct Demand {
    pub replicas: usize,
    pub weights: Vec<u64>,
    pub zones: Vec<u32>,
    pub zone_least: Vec<u32>,
    pub zone_most: Vec<u32>,
}

impl Demand {
    /// How many replicas of each partition have to be in a certain zone.
    pub fn owed(&self) -> usize {
        self.zone_least.iter().map(|&least| least as usize).sum()
    }

    pub fn zone(&self, node: u32) -> usize {
        self.zones[node as usize] as usize
    }
}
