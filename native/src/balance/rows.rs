//! Rows of node indexes in one flat buffer: the twin of `model/rows.py`.

/// Fills a row that is shorter than the longest.
pub const NOBODY: u32 = u32::MAX;

pub struct Rows {
    buffer: Vec<u32>,
    width: usize,
}

impl Rows {
    /// Take rows of one width; none if the buffer does not end with a whole row.
    pub fn of(buffer: Vec<u32>, width: usize) -> Option<Rows> {
        (width > 0 && buffer.len().is_multiple_of(width)).then_some(Rows { buffer, width })
    }

    pub fn len(&self) -> usize {
        self.buffer.len() / self.width
    }

    pub fn row(&self, place: usize) -> &[u32] {
        without_nobody(&self.buffer[place * self.width..][..self.width])
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.buffer.chunks_exact(self.width).map(without_nobody)
    }
}

pub fn without_nobody(padded: &[u32]) -> &[u32] {
    padded.split(|&node| node == NOBODY).next().unwrap_or(padded)
}
