//! Keys in flat memory: Arrow arrays and buffers, read a block at a time without the interpreter.

use super::block::{BLOCK, Block, Extent, Form};
use crate::key::MAX_KEY_BYTES;
use crate::locator::Locator;

/// The most encoded text that a block holds, apart from its last key. Longer keys make smaller blocks.
const MOST_TEXT: usize = 1 << 18;
const INLINE_BYTES: i64 = 12;

/// The fault of one key.
#[derive(Clone, Copy)]
pub enum Fault {
    /// An integer of 2**63 or more.
    Number(u64),
    /// More bytes than a key may have.
    Long(i64),
    /// The bytes of the key are not within the data.
    Beyond { begin: i64, end: i64, size: i64 },
    /// Too long, or not text. The reference looks at it again.
    Unreadable,
}

/// The start and the size of a data buffer.
#[derive(Clone, Copy)]
pub struct Data {
    pub start: *const u8,
    pub size: i64,
}

/// The form of an integer in memory.
#[derive(Clone, Copy)]
pub struct Integer {
    pub width: usize,
    pub is_signed: bool,
    pub is_swapped: bool,
}

/// Rows at equal distances, which may be negative or zero.
#[derive(Clone, Copy)]
pub struct Rows {
    pub start: *const u8,
    pub stride: isize,
}

/// The keys of one array, by the form of its rows.
pub enum Chunk {
    /// Offsets of 4 bytes into the data, one more than rows.
    Offsets32(*const u8, Data),
    /// The same with 8 bytes.
    Offsets64(*const u8, Data),
    /// Views of 16 bytes: short keys themselves, or places in one of the buffers.
    Views(*const u8, Vec<Data>),
    Integers(Rows, Integer),
    /// Bytes of fixed width, padded with NULs.
    Bytes(Rows, usize),
    /// UCS-4 of a fixed number of characters, padded with NULs. The flag says whether bytes are swapped.
    Text(Rows, usize, bool),
}

// SAFETY: a chunk only reads memory that its origin keeps in place. No part of it belongs to a thread.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// Return whether a locator takes keys of this kind.
    pub fn is_taken(&self, locator: &impl Locator) -> bool {
        if matches!(self, Chunk::Integers(..)) { locator.takes_numbers() } else { locator.takes_bytes() }
    }

    /// Find the keys of rows `from .. from + count`. Return how many were found, and the fault of the next key. At
    /// least one is found if none has a fault.
    ///
    /// # Safety
    /// The rows are there, in memory that stays until they are located. At most `BLOCK` are wanted.
    pub unsafe fn read(&self, from: usize, count: usize, block: &mut Block) -> (usize, Option<Fault>) {
        block.form = Form::Bytes;
        // SAFETY: the rows are there, as the caller says, and so are offsets and views. `placed` checks their content.
        unsafe {
            match self {
                Chunk::Offsets32(offsets, data) => {
                    between(block, count, *data, |row| i64::from(i32::from_ne_bytes(at(*offsets, from + row))))
                }
                Chunk::Offsets64(offsets, data) => {
                    between(block, count, *data, |row| i64::from_ne_bytes(at(*offsets, from + row)))
                }
                Chunk::Views(views, data) => each(block, count, |row| viewed(views.add(16 * (from + row)), data)),
                Chunk::Bytes(rows, width) => each(block, count, |row| stripped(rows.at(from + row), *width)),
                Chunk::Text(rows, width, is_swapped) => text(*rows, from, count, (*width, *is_swapped), block),
                Chunk::Integers(rows, integer) => integers(*rows, from, count, *integer, block),
            }
        }
    }
}

impl Rows {
    /// # Safety
    /// There is a row of this number.
    #[inline(always)]
    unsafe fn at(self, row: usize) -> *const u8 {
        // SAFETY: as the caller says. A stride times the rows fits, or there could not be as many.
        unsafe { self.start.offset(self.stride * row as isize) }
    }
}

/// # Safety
/// There are as many values of this size.
#[inline(always)]
unsafe fn at<const SIZE: usize>(start: *const u8, place: usize) -> [u8; SIZE] {
    // SAFETY: as the caller says; bytes need no alignment.
    unsafe { start.cast::<[u8; SIZE]>().add(place).read() }
}

#[inline(always)]
fn each(block: &mut Block, count: usize, extent: impl Fn(usize) -> Result<Extent, Fault>) -> (usize, Option<Fault>) {
    for (row, room) in block.extents[..count].iter_mut().enumerate() {
        match extent(row) {
            Ok(found) => *room = found,
            Err(fault) => return (row, Some(fault)),
        }
    }
    (count, None)
}

/// Find keys that lie one after the other, each from its offset to the next. All sizes are checked together first, and
/// one by one only after a fault. Without a negative size, all keys lie between the first offset and the last.
#[inline(always)]
fn between(block: &mut Block, count: usize, data: Data, offset: impl Fn(usize) -> i64) -> (usize, Option<Fault>) {
    let first = offset(0);
    let (mut begin, mut longest) = (first, 0);
    for (row, room) in block.extents[..count].iter_mut().enumerate() {
        let end = offset(row + 1);
        let size = end.wrapping_sub(begin) as u64; // a negative size becomes huge
        longest = longest.max(size);
        *room = Extent { start: data.start.wrapping_offset(begin as isize), size: size as usize };
        begin = end;
    }
    if 0 <= first && begin <= data.size && longest <= MAX_KEY_BYTES as u64 {
        return (count, None);
    }
    each(block, count, |row| placed(data, offset(row), offset(row + 1)))
}

#[inline(always)]
fn placed(data: Data, begin: i64, end: i64) -> Result<Extent, Fault> {
    if !(0 <= begin && begin <= end && end <= data.size) {
        return Err(Fault::Beyond { begin, end, size: data.size });
    }
    let size = (end - begin) as usize;
    if size > MAX_KEY_BYTES {
        return Err(Fault::Long(end - begin));
    }
    Ok(if size == 0 { Extent::EMPTY } else { Extent { start: data.start.wrapping_add(begin as usize), size } })
}

/// # Safety
/// There is a view.
#[inline(always)]
unsafe fn viewed(view: *const u8, data: &[Data]) -> Result<Extent, Fault> {
    // SAFETY: as the caller says, the view has four numbers.
    let [length, _, index, begin] = unsafe { [0, 1, 2, 3].map(|place| i32::from_ne_bytes(at(view, place))) };
    let (length, begin) = (i64::from(length), i64::from(begin));
    if length <= INLINE_BYTES {
        return placed(Data { start: view.wrapping_add(4), size: INLINE_BYTES }, 0, length);
    }
    let data = usize::try_from(index).ok().and_then(|index| data.get(index).copied());
    placed(data.unwrap_or(Data { start: view, size: 0 }), begin, begin + length)
}

/// # Safety
/// There are as many bytes.
#[inline(always)]
unsafe fn stripped(start: *const u8, width: usize) -> Result<Extent, Fault> {
    let mut size = width;
    // SAFETY: within the width. Other Python threads may write to it, and then the bytes are old or new ones.
    while size > 0 && unsafe { *start.add(size - 1) } == 0 {
        size -= 1;
    }
    match size {
        0 => Ok(Extent::EMPTY),
        1..=MAX_KEY_BYTES => Ok(Extent { start, size }),
        _ => Err(Fault::Unreadable),
    }
}

/// # Safety
/// There are as many rows of as many characters.
unsafe fn text(
    rows: Rows,
    from: usize,
    count: usize,
    (width, is_swapped): (usize, bool),
    block: &mut Block,
) -> (usize, Option<Fault>) {
    block.text.clear();
    let (mut read, mut fault) = (0, None);
    while read < count && block.text.len() < MOST_TEXT {
        let before = block.text.len();
        // SAFETY: the row is there.
        if !unsafe { encoded(rows.at(from + read), width, is_swapped, &mut block.text) } {
            fault = Some(Fault::Unreadable);
            break;
        }
        block.extents[read].size = block.text.len() - before;
        read += 1;
    }
    // The text stays in place from here on.
    let mut start = block.text.as_ptr();
    for extent in &mut block.extents[..read] {
        extent.start = start;
        start = start.wrapping_add(extent.size);
    }
    (read, fault)
}

/// Append the UTF-8 of a row. Return whether it is text, and short enough for a key.
///
/// # Safety
/// There are as many characters.
unsafe fn encoded(start: *const u8, width: usize, is_swapped: bool, text: &mut Vec<u8>) -> bool {
    // SAFETY: within the width, as the caller says.
    let number = |place| unsafe { u32::from_ne_bytes(at(start, place)) };
    let mut length = width;
    while length > 0 && number(length - 1) == 0 {
        length -= 1;
    }
    if length > MAX_KEY_BYTES {
        return false;
    }
    let numbers = (0..length).map(|place| if is_swapped { number(place).swap_bytes() } else { number(place) });
    if numbers.clone().fold(0, |bits, number| bits | number) < 0x80 {
        text.extend(numbers.map(|number| number as u8));
        return true;
    }
    let before = text.len();
    for letter in numbers.map(char::from_u32) {
        let Some(letter) = letter else { return false };
        text.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
    }
    text.len() - before <= MAX_KEY_BYTES
}

/// # Safety
/// There are as many rows of this width.
unsafe fn integers(
    rows: Rows,
    from: usize,
    count: usize,
    integer: Integer,
    block: &mut Block,
) -> (usize, Option<Fault>) {
    block.form = Form::Words;
    let words = &mut block.words[..count];
    macro_rules! as_words {
        ($kind:ty, $size:literal) => {
            words_of::<$size>(rows, from, words, |bytes| {
                let value = <$kind>::from_ne_bytes(bytes);
                (if integer.is_swapped { value.swap_bytes() } else { value }) as i64
            })
        };
    }
    // SAFETY: the rows are there, as the caller says.
    unsafe {
        match (integer.width, integer.is_signed) {
            (1, true) => as_words!(i8, 1),
            (1, false) => as_words!(u8, 1),
            (2, true) => as_words!(i16, 2),
            (2, false) => as_words!(u16, 2),
            (4, true) => as_words!(i32, 4),
            (4, false) => as_words!(u32, 4),
            (_, true) => as_words!(i64, 8),
            (_, false) => as_words!(u64, 8),
        }
    }
    if integer.width == 8 && !integer.is_signed {
        let values = words.iter().map(|word| u64::from_le_bytes(*word));
        if let Some((row, value)) = values.enumerate().find(|&(_, value)| value > i64::MAX as u64) {
            return (row, Some(Fault::Number(value)));
        }
    }
    (count, None)
}

/// # Safety
/// There are as many rows of this size.
#[inline(always)]
unsafe fn words_of<const SIZE: usize>(
    rows: Rows,
    from: usize,
    words: &mut [[u8; 8]],
    value: impl Fn([u8; SIZE]) -> i64,
) {
    debug_assert!(words.len() <= BLOCK);
    for (row, word) in words.iter_mut().enumerate() {
        // SAFETY: the row is there.
        *word = value(unsafe { at(rows.at(from + row), 0) }).to_le_bytes();
    }
}
