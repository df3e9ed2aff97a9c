//! The one source of chance in a history: SplitMix64. The same seed always gives the same numbers,
//! on every machine and with every version of every crate.

pub struct Rng {
    state: u64,
}

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bf0_3635,
        }
    }

    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is more than 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A number from `first` to `last`, both included.
    pub fn within(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// True in `permille` of 1,000 cases.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1_000) < permille
    }

    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// Small numbers often, numbers near `last` seldom: from 1 to `last`.
    pub fn mostly_small(&mut self, last: u64) -> u64 {
        let roof = self.within(1, last);
        let roof = self.within(1, roof);
        self.within(1, roof)
    }

    pub fn bytes16(&mut self) -> [u8; 16] {
        let (high, low) = (self.next(), self.next());
        ((u128::from(high) << 64) | u128::from(low)).to_be_bytes()
    }
}

/// The bytes of a message: `seed` first, where there is room, so that no two are alike.
pub fn content(seed: u64, length: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length as usize + 8);
    let mut word = seed;
    while bytes.len() < length as usize {
        bytes.extend_from_slice(&word.to_le_bytes());
        word = word.rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
    }
    bytes.truncate(length as usize);
    bytes
}

/// Whether `bytes` are the content of a message.
pub fn is_content(bytes: &[u8], seed: u64, length: u32) -> bool {
    if bytes.len() != length as usize {
        return false;
    }
    let mut word = seed;
    let (words, rest) = bytes.as_chunks::<8>();
    for bytes in words {
        if u64::from_le_bytes(*bytes) != word {
            return false;
        }
        word = word.rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
    }
    word.to_le_bytes().starts_with(rest)
}
