//! Open nodes: the nodes that a step may lead to now. The twin of `Open` in `balance/solver/augment.py`.
//!
//! Promises: the order of the reference. One value keeps several sets of open nodes, the levels of a search. A node is
//! in one set at most.

use std::collections::HashMap;

/// The set of a closed node.
const CLOSED: u32 = u32::MAX;

/// The zone of each node, and the price of each vertex: the nodes, then the pools.
pub struct Standing {
    pub zones: Vec<u32>,
    pub price: Vec<u32>,
}

pub struct Open {
    set: Vec<u32>,
    bucket: Vec<u32>,
    buckets: Vec<Bucket>,
    layers: Vec<Layer>,
    /// The layers of each set, by price.
    by_price: Vec<Vec<(u32, u32)>>,
}

/// The open nodes of one set, price and zone. Nodes used least recently come first.
pub struct Bucket {
    pub zone: u32,
    pub nodes: Vec<u32>,
    layer: u32,
}

/// The buckets of the open nodes of one set and price. Some buckets may be empty.
#[derive(Default)]
struct Layer {
    buckets: Vec<u32>,
    emptied: usize,
    nodes: usize,
}

/// One set of open nodes.
#[derive(Clone, Copy)]
pub struct Among<'a> {
    open: &'a Open,
    set: u32,
}

impl Open {
    /// Open nodes. The number with each node is its set, below `sets`.
    pub fn of(nodes: impl Iterator<Item = (u32, u32)>, sets: usize, at: &Standing) -> Open {
        let count = at.zones.len();
        let (mut set_of, mut bucket_of) = (vec![CLOSED; count], vec![0; count]);
        let (mut buckets, mut layers) = (Vec::new(), Vec::<Layer>::new());
        let mut by_price = vec![Vec::new(); sets];
        let (mut layer_ids, mut bucket_ids) = (HashMap::new(), HashMap::new());
        for (node, set) in nodes {
            let (price, zone) = (at.price[node as usize], at.zones[node as usize]);
            let layer = *layer_ids.entry((set, price)).or_insert_with(|| {
                by_price[set as usize].push((price, layers.len() as u32));
                layers.push(Layer::default());
                layers.len() as u32 - 1
            });
            let bucket = *bucket_ids.entry((layer, zone)).or_insert_with(|| {
                layers[layer as usize].buckets.push(buckets.len() as u32);
                buckets.push(Bucket { zone, nodes: Vec::new(), layer });
                buckets.len() as u32 - 1
            });
            buckets[bucket as usize].nodes.push(node);
            layers[layer as usize].nodes += 1;
            (set_of[node as usize], bucket_of[node as usize]) = (set, bucket);
        }
        for layers in &mut by_price {
            layers.sort_unstable();
        }
        Open { set: set_of, bucket: bucket_of, buckets, layers, by_price }
    }

    /// Return the open nodes of a set.
    pub fn among(&self, set: u32) -> Among<'_> {
        Among { open: self, set }
    }

    /// Take a node out.
    pub fn close(&mut self, node: u32) {
        self.set[node as usize] = CLOSED;
        let bucket = &mut self.buckets[self.bucket[node as usize] as usize];
        bucket.nodes.remove(place_of(&bucket.nodes, node));
        let layer = &mut self.layers[bucket.layer as usize];
        layer.nodes -= 1;
        layer.emptied += usize::from(bucket.nodes.is_empty());
        if layer.emptied * 2 > layer.buckets.len() {
            layer.buckets.retain(|&bucket| !self.buckets[bucket as usize].nodes.is_empty());
            layer.emptied = 0;
        }
    }

    /// Put a node behind the other nodes of its price and zone.
    pub fn defer(&mut self, node: u32) {
        let nodes = &mut self.buckets[self.bucket[node as usize] as usize].nodes;
        let place = place_of(nodes, node);
        nodes[place..].rotate_left(1);
    }
}

impl<'a> Among<'a> {
    pub fn contains(self, node: u32) -> bool {
        self.open.set[node as usize] == self.set
    }

    /// Return each zone that has open nodes of a price, with these nodes.
    pub fn zones_at(self, price: u32) -> impl Iterator<Item = &'a Bucket> {
        let buckets = self.layer(price).map_or(&[][..], |layer| &layer.buckets);
        buckets.iter().map(|&bucket| &self.open.buckets[bucket as usize]).filter(|bucket| !bucket.nodes.is_empty())
    }

    /// Return whether an open node has this price, or one more, or one less. A tight step leads to no other node.
    pub fn is_near(self, price: u32) -> bool {
        (price.saturating_sub(1)..=price + 1).any(|near| self.layer(near).is_some_and(|layer| layer.nodes > 0))
    }

    fn layer(self, price: u32) -> Option<&'a Layer> {
        let layers = &self.open.by_price[self.set as usize];
        let place = layers.binary_search_by_key(&price, |&(price, _)| price).ok()?;
        Some(&self.open.layers[layers[place].1 as usize])
    }
}

fn place_of(nodes: &[u32], node: u32) -> usize {
    nodes.iter().position(|&other| other == node).expect("an open node is in its bucket")
}
