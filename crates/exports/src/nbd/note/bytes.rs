//! Reads numbers and counted bytes from a note, whatever it is made of.

use super::NoteError;

const SHORT: NoteError = NoteError::Damaged {
    what: "it ends too early",
};
const LONG: NoteError = NoteError::Damaged {
    what: "there is more of something than a server writes",
};

pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub fn array<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], NoteError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(SHORT)?;
        self.rest = rest;
        Ok(*array)
    }

    pub fn u8(&mut self) -> Result<u8, NoteError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Result<u16, NoteError> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, NoteError> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, NoteError> {
        self.array().map(u64::from_be_bytes)
    }

    /// A number of 16 bits that is at most `limit`.
    pub fn count(&mut self, limit: usize) -> Result<usize, NoteError> {
        let count = usize::from(self.u16()?);
        match count <= limit {
            true => Ok(count),
            false => Err(LONG),
        }
    }

    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], NoteError> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(SHORT)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A length of 16 bits, which is at most `limit`, and so many bytes.
    pub fn counted(&mut self, limit: usize) -> Result<&'a [u8], NoteError> {
        let length = self.count(limit)?;
        self.bytes(length)
    }

    /// Like [`Reader::counted`], as text.
    pub fn text(&mut self, limit: usize) -> Result<String, NoteError> {
        let text = std::str::from_utf8(self.counted(limit)?);
        text.map(str::to_owned).map_err(|_| NoteError::Damaged {
            what: "a name is no text",
        })
    }

    /// Nothing may be left.
    pub fn end(&self) -> Result<(), NoteError> {
        match self.rest {
            [] => Ok(()),
            _ => Err(NoteError::Damaged {
                what: "something follows its end",
            }),
        }
    }
}
