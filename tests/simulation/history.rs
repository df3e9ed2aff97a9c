//! What happened, a line for each operation: the last ones for a report, or all of them.

use std::collections::VecDeque;

const LINES_OF_A_REPORT: usize = 32;

pub struct History {
    lines: VecDeque<String>,
    /// Everything is kept, answers included, to be compared with another run.
    whole: bool,
}

impl History {
    pub fn new(whole: bool) -> History {
        History {
            lines: VecDeque::new(),
            whole,
        }
    }

    pub fn is_whole(&self) -> bool {
        self.whole
    }

    pub fn add(&mut self, line: String) {
        if !self.whole && self.lines.len() == LINES_OF_A_REPORT {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

/// Copies as a line shows them: the first few, and how many there are.
pub fn list(copies: &[u32]) -> String {
    let mut text = format!("{}", copies.len());
    for (place, copy) in copies.iter().enumerate() {
        if place == 6 {
            text.push_str(" …");
            break;
        }
        text.push_str(&format!(" #{copy}"));
    }
    text
}

/// FNV-1a, for answers too long for a line.
pub fn digest<'a>(texts: impl Iterator<Item = &'a str>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for text in texts {
        for byte in text.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    hash
}
