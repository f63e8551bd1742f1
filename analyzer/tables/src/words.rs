//! Enum values as small numbers that are stable from batch to batch.

use super::derived::OpenWord;

/// Values seen, by number. The 256th and all later ones are one.
#[derive(Debug, Default)]
pub struct InternedWords {
    words: Vec<OpenWord>,
}

impl InternedWords {
    /// The number of each value of a batch, by its code there.
    pub fn codes<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
        words.into_iter().map(|word| self.code(word)).collect()
    }

    fn code(&mut self, word: &str) -> u8 {
        let index = self.words.iter().position(|known| known.0.as_ref() == word).unwrap_or_else(|| {
            if self.words.len() < usize::from(u8::MAX) {
                self.words.push(OpenWord(word.into()));
                self.words.len() - 1
            } else {
                self.words.len()
            }
        });
        u8::try_from(index).unwrap_or(u8::MAX)
    }

    /// The value of a number.
    pub fn word(&self, code: u8) -> OpenWord {
        self.words.get(usize::from(code)).cloned().unwrap_or_else(|| OpenWord("other".into()))
    }
}
