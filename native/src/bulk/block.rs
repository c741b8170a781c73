//! A block of keys: the places of their bytes, and then their positions.
//!
//! Keys are first found and then located, by their hash or among boundaries, a block at a time. The loads of one key
//! therefore wait for nothing that another key does.

use std::slice;

use crate::locator::Locator;

/// The most keys that a block holds.
pub const BLOCK: usize = 256;

/// The reference of all containers.
pub const REFERENCE: &str = "apportion.placement.keys.containers";

/// Bytes somewhere in memory. The code that fills the block says how long they stay.
#[derive(Clone, Copy)]
pub struct Extent {
    pub start: *const u8,
    pub size: usize,
}

impl Extent {
    pub const EMPTY: Extent = Extent { start: std::ptr::NonNull::dangling().as_ptr(), size: 0 };
}

/// The form of the keys in a block.
#[derive(Clone, Copy, PartialEq)]
pub enum Form {
    /// Bytes in memory, by `extents`.
    Bytes,
    /// Integers, by `words`. The 8 bytes of each are its key.
    Words,
}

/// Room for the keys of one block, used again and again.
pub struct Block {
    pub form: Form,
    pub extents: [Extent; BLOCK],
    /// The bytes of integers. They are keys by themselves, or some extents point to them.
    pub words: [[u8; 8]; BLOCK],
    /// The bytes of text that had to be encoded. Some extents point to them.
    pub text: Vec<u8>,
    positions: [u64; BLOCK],
}

impl Block {
    pub fn new() -> Box<Self> {
        Box::new(Block {
            form: Form::Bytes,
            extents: [Extent::EMPTY; BLOCK],
            words: [[0; 8]; BLOCK],
            text: Vec::new(),
            positions: [0; BLOCK],
        })
    }

    /// Return the bytes of one key.
    ///
    /// # Safety
    /// The block was filled beyond this key, and the memory of its extents is still there.
    pub unsafe fn key(&self, place: usize) -> &[u8] {
        match self.form {
            // SAFETY: as the caller says.
            Form::Bytes => unsafe { bytes_of(self.extents[place]) },
            Form::Words => &self.words[place],
        }
    }

    /// Return the positions of the first keys.
    ///
    /// # Safety
    /// The block was filled with as many keys, and the memory of its extents is still there.
    #[inline]
    pub unsafe fn located(&mut self, locator: &impl Locator, count: usize) -> &[u64] {
        let positions = &mut self.positions[..count];
        // SAFETY: as the caller says.
        let bytes = |&extent: &Extent| unsafe { bytes_of(extent) };
        match self.form {
            Form::Bytes => locator.locate(self.extents[..count].iter().map(bytes), positions),
            Form::Words => locator.locate(self.words[..count].iter(), positions),
        }
        positions
    }
}

/// # Safety
/// The extent points to as many bytes, which stay while the slice is used.
unsafe fn bytes_of<'a>(extent: Extent) -> &'a [u8] {
    // SAFETY: as the caller says. An extent without bytes points to none, and not to null.
    unsafe { slice::from_raw_parts(extent.start, extent.size) }
}
