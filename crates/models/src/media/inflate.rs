//! Decompression of zlib streams (RFC 1950, RFC 1951), bounded by the size of what comes out.

/// Lengths of a copy, each with its number of extra bits.
#[rustfmt::skip]
const LENGTHS: [(u16, u8); 29] = [
    (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0), (9, 0), (10, 0), (11, 1), (13, 1), (15, 1), (17, 1), (19, 2),
    (23, 2), (27, 2), (31, 2), (35, 3), (43, 3), (51, 3), (59, 3), (67, 4), (83, 4), (99, 4), (115, 4), (131, 5),
    (163, 5), (195, 5), (227, 5), (258, 0),
];
/// Distances of a copy, each with its number of extra bits.
#[rustfmt::skip]
const DISTANCES: [(u16, u8); 30] = [
    (1, 0), (2, 0), (3, 0), (4, 0), (5, 1), (7, 1), (9, 2), (13, 2), (17, 3), (25, 3), (33, 4), (49, 4), (65, 5),
    (97, 5), (129, 6), (193, 6), (257, 7), (385, 7), (513, 8), (769, 8), (1_025, 9), (1_537, 9), (2_049, 10),
    (3_073, 10), (4_097, 11), (6_145, 11), (8_193, 12), (12_289, 12), (16_385, 13), (24_577, 13),
];
/// Places of the lengths of codes in the head of a block.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
/// Longest code, in bits.
const LONGEST: usize = 15;

/// Decompresses a zlib stream. Returns `None` if it is none, is cut off, or has more than `most` bytes.
pub(super) fn inflate(zlib: &[u8], most: usize) -> Option<Vec<u8>> {
    let [method, _, bytes @ ..] = zlib else {
        return None;
    };
    if method & 15 != 8 {
        return None;
    }
    let mut output = Output {
        bytes: Vec::new(),
        most,
    };
    let mut bits = Bits {
        bytes,
        held: 0,
        count: 0,
    };
    loop {
        let is_last = bits.take(1)? == 1;
        match bits.take(2)? {
            0 => stored(&mut bits, &mut output)?,
            1 => {
                let lengths: Vec<u8> = (0..288).map(fixed_length).collect();
                compressed(&mut bits, &mut output, &Code::of(&lengths), &Code::of(&[5; 30]))?;
            }
            2 => {
                let (symbols, distances) = codes(&mut bits)?;
                compressed(&mut bits, &mut output, &symbols, &distances)?;
            }
            _ => return None,
        }
        if is_last {
            return Some(output.bytes);
        }
    }
}

struct Output {
    bytes: Vec<u8>,
    most: usize,
}

impl Output {
    fn push(&mut self, byte: u8) -> Option<()> {
        if self.bytes.len() >= self.most {
            return None;
        }
        self.bytes.push(byte);
        Some(())
    }
}

struct Bits<'a> {
    bytes: &'a [u8],
    held: u32,
    count: u32,
}

impl Bits<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    /// The next bits, at most 16.
    fn take(&mut self, count: u32) -> Option<u32> {
        while self.count < count {
            self.held |= u32::from(self.byte()?) << self.count;
            self.count += 8;
        }
        let taken = self.held & ((1 << count) - 1);
        self.held >>= count;
        self.count -= count;
        Some(taken)
    }
}

/// A Huffman code, as the number of codes of each length and the symbols in their order.
struct Code {
    counts: [u16; LONGEST + 1],
    symbols: Vec<u16>,
}

impl Code {
    /// The code of symbols with these lengths; 0 is a symbol that does not occur.
    fn of(lengths: &[u8]) -> Self {
        let mut counts = [0; LONGEST + 1];
        let mut symbols: Vec<(u8, u16)> = lengths
            .iter()
            .copied()
            .zip(0..)
            .filter(|(length, _)| *length > 0)
            .collect();
        symbols.sort_unstable();
        for (length, _) in &symbols {
            if let Some(count) = counts.get_mut(usize::from(*length)) {
                *count += 1;
            }
        }
        Self {
            counts,
            symbols: symbols.into_iter().map(|(_, symbol)| symbol).collect(),
        }
    }

    fn read(&self, bits: &mut Bits<'_>) -> Option<u16> {
        let (mut code, mut first, mut index) = (0_u32, 0_u32, 0_u32);
        for count in self.counts.iter().skip(1) {
            code |= bits.take(1)?;
            let count = u32::from(*count);
            if let Some(place) = code.checked_sub(first).filter(|place| *place < count) {
                return self.symbols.get(usize::try_from(index + place).ok()?).copied();
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        None
    }
}

const fn fixed_length(symbol: u16) -> u8 {
    match symbol {
        0..=143 | 280.. => 8,
        144..=255 => 9,
        256..=279 => 7,
    }
}

/// Reads the codes at the head of a block: those of the symbols and those of the distances.
fn codes(bits: &mut Bits<'_>) -> Option<(Code, Code)> {
    let symbols = usize::try_from(bits.take(5)? + 257).ok()?;
    let distances = usize::try_from(bits.take(5)? + 1).ok()?;
    let heads = usize::try_from(bits.take(4)? + 4).ok()?;
    let mut head = [0; 19];
    for place in ORDER.iter().take(heads) {
        *head.get_mut(*place)? = u8::try_from(bits.take(3)?).ok()?;
    }
    let head = Code::of(&head);
    let mut lengths: Vec<u8> = Vec::with_capacity(symbols + distances);
    while lengths.len() < symbols + distances {
        let (length, times) = match head.read(bits)? {
            16 => (*lengths.last()?, bits.take(2)? + 3),
            17 => (0, bits.take(3)? + 3),
            18 => (0, bits.take(7)? + 11),
            length => (u8::try_from(length).ok()?, 1),
        };
        lengths.extend((0..times).map(|_| length));
    }
    let (symbols, distances) = lengths.get(..symbols + distances)?.split_at(symbols);
    Some((Code::of(symbols), Code::of(distances)))
}

fn stored(bits: &mut Bits<'_>, output: &mut Output) -> Option<()> {
    // The bits up to the next byte are empty.
    (bits.held, bits.count) = (0, 0);
    let (length, check) = (bits.take(16)?, bits.take(16)?);
    if length != check ^ 0xffff {
        return None;
    }
    for _ in 0..length {
        let byte = bits.byte()?;
        output.push(byte)?;
    }
    Some(())
}

fn compressed(bits: &mut Bits<'_>, output: &mut Output, symbols: &Code, distances: &Code) -> Option<()> {
    let sized = |bits: &mut Bits<'_>, (base, extra): (u16, u8)| {
        usize::try_from(u32::from(base) + bits.take(u32::from(extra))?).ok()
    };
    loop {
        let symbol = symbols.read(bits)?;
        if let Ok(byte) = u8::try_from(symbol) {
            output.push(byte)?;
            continue;
        }
        if symbol == 256 {
            return Some(());
        }
        let length = sized(bits, *LENGTHS.get(usize::from(symbol - 257))?)?;
        let distance = usize::from(distances.read(bits)?);
        let distance = sized(bits, *DISTANCES.get(distance)?)?;
        for _ in 0..length {
            let from = output.bytes.len().checked_sub(distance)?;
            let byte = *output.bytes.get(from)?;
            output.push(byte)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use proptest::prelude::*;

    use super::*;

    fn unpacked(base64: &str, most: usize) -> Option<Vec<u8>> {
        inflate(&STANDARD.decode(base64).unwrap(), most)
    }

    #[test]
    fn streams_of_each_form_come_out_as_they_went_in() {
        // Written by zlib 1.3: with the code that is fixed, with codes of its own, and stored.
        let short = b"Sortie Sortie Sortie.";
        assert_eq!(unpacked("eAELzi8qyUxVCEam9ABXmwfR", 100).unwrap(), short);
        assert_eq!(
            unpacked("eAEBFQDq/1NvcnRpZSBTb3J0aWUgU29ydGllLlebB9E=", 100).unwrap(),
            short
        );
        let long: Vec<u8> = (0..400_u32)
            .flat_map(|number| {
                format!(
                    "{} obj <</Type/Page/Parent {} 0 R>>\n",
                    number * 7 % 400,
                    number % 3
                )
                .into_bytes()
            })
            .collect();
        let packed = "eNqNmkGKHVcMRedZRe/AJV1J7wmM12CMN2BDE8jANiGT7D4x9LS5h4YeFYj/qTo6r/55Xn5+/+vl48cPX//99frh87c/f//7+/XH\
             Py/P/39fPn3647x7RbxdEfXuJfl2SYadk9cOUttBlXZQrR3UYweN/Df32EHn2EG37KANO2ivHRRP20kR6W+HWD8rx8+SwK33+Fl1\
             /KwuP2vCz5rrZ532s276WXf9rB07Kx+B5/fxD3B4VGQCVgjAQp4WWR4X2Z4X2R4YOZ4YeQQg6JmR10Mj11NDj8eGHs8NheeG0nND\
             6bkheW6oBDaJ54bac0PjuaHjuaHjuaHruaH13NB6bnhqBIAGYIZHhjwxygOjPC/a42I8LcbD4nhWXI+K9aTYA5Z+gaUfYOkDwUgg\
             GAKCISAYBQSjgWAMEIwBgnGAYFwgGBcIxjZY+gme3wVLHwhGAlYIwEJAMAoIRgPBaCAYAwTjAME4QDAuEIwVWPoPWPoHLH0gGAkE\
             I4FgCAhGAcEoIBgNBGOAYBwgGAcIxgWCsUAw1nMDHEvAqQQwwyNDnhjlgVGeF+1xMZ4W42FxPCuuR8X1pNgBS19g6T9g6QPBSCAY\
             AoIhIBgFBKOBYDQQjAGCcYBgXCAYFwjGFlj6AZb+BUsfCEYCwUgACwHBKCAYDQSjgWAMEIwDBOMAwbhAMBYIxi5Y+gOWPhCMBIKR\
             QDAEBKOAYBQQjAaCMUAwBgjGAYJxgWAsEIz13ADHEnIqAc8WuC3AJ/IfyPOiPS7G02I8LI5nxfWouJ4U22Dpe1DEs+B2AIKRQDAE\
             BENAMAoIRgPBaCAYAwTjAME4QDAuEIwVWPoPWPoHLH0gGAkEIwEsBASjgGAUEIwGgjFAMA553QkE4wLBWCAYC35QfRosfc8NBRCM\
             BIIhIBgFBKOAYDQQjAGCMUAwDhCMCwTjAsFYIBieUOBUApgBXl6AdxceGOV50R4XDX4Y8bA4nhXXo+J6UmyBpR9g6V+w9IFgJBCM\
             BIIhIBgFBKOBYDQQjAGCcYBgHCAYFwjGAsHYBUt/wNIHgpFAMBLAQkAwCghGkdMIEIwBgjFAMA4QjAsEY4FgLPhB9Smw9AMsfSAY\
             CQRDQDAEBKOAYDQQjAGCMUAwDhCMCwTjAsFYzw1PDfLWEzzG4A4EX57f+R4X7WnRHhbjWXE8Ko4nxfWgWIGd/4CdD7JO0HUGCDsD\
             lJ0B0s4AbWeAuDNA3Rkg7wzQdwYIPAMUngESzwCNZ4LGM0HjmaDxzCSwAH4BGs8EjWeCxjNB45mg8UzQeCZoPBM0ngkaT4HGU6Dx\
             FGg8BRpPgcZToPEUaDwFGk+BxlOg8RRoPAUaT4HGU6Dx9NQAZxKADEAM8ObC8wKknaDsBGEn6DpB1gmqThB1gqYTJJ3xgKgTVJ0B\
             ss4AXWeAsDNA2Rkg7QzQdgaIOwPUnQHyzgB9Z4DAM0DhmaDwTFB4Jig8ExSeCQrPBIVngsIzQeGZoPBMUHgmKDwTFJ4JCs8EhadA\
             4SlQeAoUngKFp0DhKZEeHOgFKDwFCk+BwlOg8BQoPAUKT4HC8z/dkOrJ";
        assert_eq!(unpacked(packed, 1 << 20).unwrap(), long);
        assert_eq!(
            unpacked(packed, long.len() - 1),
            None,
            "it is larger than it may be"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_and_its_bound_holds(bytes in any::<Vec<u8>>(), most in 0_usize..500) {
            let zlib = [&[0x78, 0x9c][..], &bytes].concat();
            if let Some(output) = inflate(&zlib, most) {
                prop_assert!(output.len() <= most);
            }
        }

        #[test]
        fn stored_bytes_come_out(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let length = u16::try_from(bytes.len()).unwrap();
            let head = [&[0x78, 1, 1][..], &length.to_le_bytes(), &(!length).to_le_bytes()].concat();
            let zlib = [head.as_slice(), &bytes].concat();
            prop_assert_eq!(inflate(&zlib, 300), Some(bytes));
            prop_assert_eq!(inflate(&zlib[..zlib.len() - 1], 300).is_some(), false);
        }
    }
}
