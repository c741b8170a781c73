//! A buffer that several threads fill, each at the places of its own blocks.

use std::marker::PhantomData;

/// Room for one value per key. Blocks are put into it as they come.
pub struct Places<'a, T> {
    start: *mut T,
    count: usize,
    room: PhantomData<&'a mut [T]>,
}

// SAFETY: it only writes, and `put` demands that no two threads write to one place.
unsafe impl<T: Send> Sync for Places<'_, T> {}

impl<'a, T: Copy> Places<'a, T> {
    pub fn of(room: &'a mut [T]) -> Self {
        Places { start: room.as_mut_ptr(), count: room.len(), room: PhantomData }
    }

    /// Put values in their places, from `first` on.
    ///
    /// # Safety
    /// No other thread puts a value into any of these places meanwhile.
    #[inline]
    pub unsafe fn put(&self, first: usize, values: impl ExactSizeIterator<Item = T>) {
        assert!(values.len() <= self.count && first <= self.count - values.len(), "a block beyond the last key");
        for (place, value) in (first..first + values.len()).zip(values) {
            // SAFETY: within the room by the assertion above. No other thread has the place, as the caller says.
            unsafe { self.start.add(place).write(value) };
        }
    }
}
