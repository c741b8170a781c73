//! Keys that lie in flat memory: Arrow arrays and buffers, read a block at a time without the interpreter.

use super::block::{BLOCK, Block, Extent, Form};
use crate::key::MAX_KEY_BYTES;
use crate::locator::Locator;

/// Encoded text that a block holds, but for its last key: longer keys make smaller blocks.
const MOST_TEXT: usize = 1 << 18;
const INLINE_BYTES: i64 = 12;

/// What is wrong with one key.
#[derive(Clone, Copy)]
pub enum Fault {
    /// An integer of 2**63 or more.
    Number(u64),
    /// More bytes than a key may have.
    Long(i64),
    /// Its bytes are not within those that there are.
    Beyond { begin: i64, end: i64, size: i64 },
    /// Too long, or no text: to be looked at again.
    Unreadable,
}

/// Bytes of a data buffer: where they begin, and how many there are.
#[derive(Clone, Copy)]
pub struct Data {
    pub start: *const u8,
    pub size: i64,
}

/// How an integer stands in memory.
#[derive(Clone, Copy)]
pub struct Integer {
    pub width: usize,
    pub is_signed: bool,
    pub is_swapped: bool,
}

/// Rows at equal distances, which may be negative or none.
#[derive(Clone, Copy)]
pub struct Rows {
    pub start: *const u8,
    pub stride: isize,
}

/// The keys of one array: what its rows are, from the first that counts.
pub enum Chunk {
    /// One offset more than rows, of 4 bytes, into the data.
    Offsets32(*const u8, Data),
    /// The same of 8 bytes.
    Offsets64(*const u8, Data),
    /// Views of 16 bytes: short keys themselves, or places in one of the buffers.
    Views(*const u8, Vec<Data>),
    Integers(Rows, Integer),
    /// Bytes of fixed width, filled up with NULs.
    Bytes(Rows, usize),
    /// UCS-4 of a fixed number of characters, filled up with NULs; bytes swapped or not.
    Text(Rows, usize, bool),
}

// SAFETY: it only reads memory that whoever made it keeps and nobody moves; no part of it belongs to a thread.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// Whether the keys are of the kind that a locator takes.
    pub fn is_taken(&self, locator: &impl Locator) -> bool {
        if matches!(self, Chunk::Integers(..)) { locator.takes_numbers() } else { locator.takes_bytes() }
    }

    /// Find the keys of rows `from .. from + count`; return how many, at least one if none is wrong, and what is wrong with
    /// the next one.
    ///
    /// # Safety
    /// There are as many rows, in memory that stays until they are located; at most `BLOCK` are asked for.
    pub unsafe fn read(&self, from: usize, count: usize, block: &mut Block) -> (usize, Option<Fault>) {
        block.form = Form::Bytes;
        // SAFETY: the rows are there, as the caller says, and with them offsets and views; `placed` checks what these say.
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
    /// There is such a row.
    #[inline(always)]
    unsafe fn at(self, row: usize) -> *const u8 {
        // SAFETY: as the caller says; a stride times the rows fits, or there could not be as many.
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

/// Keys one after the other, each from its offset to the next. Sizes are looked at together, and one by one only where
/// something is wrong: none is below zero, so that all keys lie between the first offset and the last.
#[inline(always)]
fn between(block: &mut Block, count: usize, data: Data, offset: impl Fn(usize) -> i64) -> (usize, Option<Fault>) {
    let first = offset(0);
    let (mut begin, mut longest) = (first, 0);
    for (row, room) in block.extents[..count].iter_mut().enumerate() {
        let end = offset(row + 1);
        let size = end.wrapping_sub(begin) as u64; // below zero it is huge
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
    // SAFETY: as the caller says: it has four numbers.
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
    // SAFETY: within the width; other threads of Python may write to it, which gives some bytes or others.
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
    // The text stays where it is from here on.
    let mut start = block.text.as_ptr();
    for extent in &mut block.extents[..read] {
        extent.start = start;
        start = start.wrapping_add(extent.size);
    }
    (read, fault)
}

/// Append the UTF-8 of a row; return whether it is text, and short enough for a key.
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
