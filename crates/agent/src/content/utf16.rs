//! Output in UTF-16, as Windows programs write it: detected by its byte order mark, or by zeros as every second byte.

/// Length of the beginning that is looked at, in bytes.
pub(super) const SAMPLE: usize = 8 * 1024;
/// Minimum size for detection without a byte order mark.
const FEW_BYTES: usize = 8;

/// Order of the bytes of a code unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

/// The byte order, if an output with this beginning is UTF-16.
pub(super) fn order(beginning: &[u8]) -> Option<Order> {
    let order = match beginning {
        [0xff, 0xfe, 0, 0, ..] => return None,
        [0xff, 0xfe, _, _, ..] => Order::Little,
        [0xfe, 0xff, _, _, ..] => Order::Big,
        _ if beginning.len() < FEW_BYTES => return None,
        _ => {
            let mut zeros = [0_usize; 2];
            for pair in beginning.chunks_exact(2) {
                for (zeros, byte) in zeros.iter_mut().zip(pair) {
                    *zeros += usize::from(*byte == 0);
                }
            }
            let most = beginning.len() / 2;
            match zeros {
                [0, low] if low * 4 >= most * 3 => Order::Little,
                [high, 0] if high * 4 >= most * 3 => Order::Big,
                _ => return None,
            }
        }
    };
    // Binary data that decodes by chance.
    let is_text = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t' | '\u{1b}' | '\u{8}');
    let whole = beginning.get(..beginning.len() / 2 * 2).unwrap_or(beginning);
    let mut text = text(whole, order);
    // A surrogate pair may be split at the end.
    if text.ends_with('\u{fffd}') {
        text.pop();
    }
    (!text.contains('\u{fffd}') && text.chars().all(is_text)).then_some(order)
}

/// The text, without its mark.
pub(super) fn text(bytes: &[u8], order: Order) -> String {
    let units = bytes.chunks_exact(2).map(|pair| {
        let pair = <[u8; 2]>::try_from(pair).unwrap_or_default();
        match order {
            Order::Little => u16::from_le_bytes(pair),
            Order::Big => u16::from_be_bytes(pair),
        }
    });
    let text = char::decode_utf16(units).map(|read| read.unwrap_or('\u{fffd}'));
    text.skip_while(|c| *c == '\u{feff}').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn little(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    fn big(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_be_bytes).collect()
    }

    #[test]
    fn utf_16_is_told_from_other_data() {
        for (bytes, expected) in [
            (little("Name : Windows\r\nÄ 12\r\n"), Some(Order::Little)),
            (big("Name : Windows\r\n"), Some(Order::Big)),
            (little("\u{feff}Привет"), Some(Order::Little)),
            (big("\u{feff}日本"), Some(Order::Big)),
            (little("\u{feff}a😀")[..8].to_vec(), Some(Order::Little)),
            (little("abc"), None),
            (little("Привет, мир"), None),
            (b"./one\0./two\0./three/four\0".to_vec(), None),
            (b"plain text\n".to_vec(), None),
            ("日本語のテキスト".as_bytes().to_vec(), None),
            (little(&"\u{1}\u{2}\u{3}".repeat(9)), None),
            (vec![0; 64], None),
            (b"\xff\xfe\0\0a\0\0\0".to_vec(), None),
            (b"\xff\xfe\x00\xd8\x61\x00".to_vec(), None),
        ] {
            assert_eq!(order(&bytes), expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn the_text_has_no_mark_and_no_half_characters() {
        assert_eq!(text(&little("\u{feff}a😀\r\n"), Order::Little), "a😀\r\n");
        assert_eq!(text(&big("a"), Order::Big), "a");
        assert_eq!(text(b"a\0\x00\xd8b\0c", Order::Little), "a\u{fffd}b");
    }
}
