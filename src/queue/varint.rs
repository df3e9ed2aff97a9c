//! Unsigned integers in LEB128, the form in which rows hold small numbers compactly.

/// Appends `value`.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a value off the front of `input`; `None` when it ends early or is longer than a `u64`.
pub fn take(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Reads `count` bytes off the front of `input`.
pub fn take_bytes<'a>(input: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (head, rest) = input.split_at_checked(count)?;
    *input = rest;
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_taken() {
        for value in [0, 1, 127, 128, 300, 1 << 52, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            let mut input = bytes.as_slice();
            assert_eq!(take(&mut input), Some(value));
            assert!(input.is_empty());
        }
    }

    #[test]
    fn cut_or_overlong_input_is_refused() {
        assert_eq!(take(&mut [0x80u8].as_slice()), None);
        assert_eq!(take(&mut [0xffu8; 10].as_slice()), None);
        assert_eq!(take_bytes(&mut [1u8, 2].as_slice(), 3), None);
    }
}
