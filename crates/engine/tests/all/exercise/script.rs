//! Bytes as a sequence of choices. After the last byte every choice is the first one.

pub struct Script<'a> {
    left: &'a [u8],
}

impl<'a> Script<'a> {
    pub fn new(bytes: &'a [u8]) -> Script<'a> {
        Script { left: bytes }
    }

    pub fn is_over(&self) -> bool {
        self.left.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, left)) = self.left.split_first() else {
            return 0;
        };
        self.left = left;
        *first
    }

    /// A number below `limit`, out of as many bytes as that takes.
    pub fn below(&mut self, limit: u64) -> u64 {
        let mut number = 0;
        let mut most = limit.saturating_sub(1);
        while most > 0 {
            number = number << 8 | u64::from(self.byte());
            most >>= 8;
        }
        number % limit.max(1)
    }

    /// Any number at all, small and round ones more often.
    pub fn any_number(&mut self) -> u64 {
        let byte = u64::from(self.byte());
        match byte % 4 {
            0 => byte >> 2,
            1 => (byte >> 2) << 9,
            2 => u64::MAX - (byte >> 2),
            _ => (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte())),
        }
    }

    /// True once in `times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) + 1 == times
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
