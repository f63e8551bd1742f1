//! Registers, with sets of registers.

use std::fmt;

/// The kind of a register. Zero and true registers (RZ, URZ, PT, UPT) are none: nothing depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RegisterFile {
    /// R0 to R254: a value a lane.
    General,
    /// UR0 to UR62, up to UR254 since sm_100: a value a warp.
    Uniform,
    /// P0 to P6: a bit a lane.
    Predicate,
    /// UP0 to UP6: a bit a warp.
    UniformPredicate,
    /// B0 to B15: where diverged lanes meet again.
    Convergence,
}

/// One register of 32 bits, or one bit of a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Register {
    /// The kind.
    pub file: RegisterFile,
    /// Its number.
    pub index: u8,
}

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = match self.file {
            RegisterFile::General => "R",
            RegisterFile::Uniform => "UR",
            RegisterFile::Predicate => "P",
            RegisterFile::UniformPredicate => "UP",
            RegisterFile::Convergence => "B",
        };
        write!(f, "{letters}{}", self.index)
    }
}

/// A set of registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Registers {
    general: [u64; 4],
    uniform: [u64; 4],
    predicates: u8,
    uniform_predicates: u8,
    convergence: u16,
}

impl Registers {
    /// No register.
    pub const NONE: Self =
        Self { general: [0; 4], uniform: [0; 4], predicates: 0, uniform_predicates: 0, convergence: 0 };

    /// Adds a register.
    pub const fn insert(&mut self, register: Register) {
        let index = register.index;
        match register.file {
            RegisterFile::General => self.general[(index >> 6) as usize] |= 1 << (index & 63),
            RegisterFile::Uniform => self.uniform[(index >> 6) as usize] |= 1 << (index & 63),
            RegisterFile::Predicate => self.predicates |= 1 << (index & 7),
            RegisterFile::UniformPredicate => self.uniform_predicates |= 1 << (index & 7),
            RegisterFile::Convergence => self.convergence |= 1 << (index & 15),
        }
    }

    /// Adds `count` registers from one on, those behind the last of the file left out.
    pub const fn insert_run(&mut self, first: Register, count: u16) {
        let mut offset = 0;
        while offset < count && first.index as u16 + offset < 255 {
            #[expect(clippy::cast_possible_truncation, reason = "checked to be below 255")]
            let index = (first.index as u16 + offset) as u8;
            self.insert(Register { file: first.file, index });
            offset += 1;
        }
    }

    /// True if a register is in the set.
    pub const fn contains(&self, register: Register) -> bool {
        let index = register.index;
        match register.file {
            RegisterFile::General => self.general[(index >> 6) as usize] >> (index & 63) & 1 == 1,
            RegisterFile::Uniform => self.uniform[(index >> 6) as usize] >> (index & 63) & 1 == 1,
            RegisterFile::Predicate => self.predicates >> (index & 7) & 1 == 1,
            RegisterFile::UniformPredicate => self.uniform_predicates >> (index & 7) & 1 == 1,
            RegisterFile::Convergence => self.convergence >> (index & 15) & 1 == 1,
        }
    }

    /// True if the set holds nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// Registers in both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    /// Registers in either set.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    /// Registers in this set but not in the other.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }

    /// True if any register is in both sets.
    pub fn intersects(&self, other: &Self) -> bool {
        !self.and(other).is_empty()
    }

    /// The registers, by file and index.
    pub fn iter(&self) -> impl Iterator<Item = Register> + '_ {
        let one = |bits: u64| [bits, 0, 0, 0];
        let files = [
            (RegisterFile::General, self.general),
            (RegisterFile::Uniform, self.uniform),
            (RegisterFile::Predicate, one(self.predicates.into())),
            (RegisterFile::UniformPredicate, one(self.uniform_predicates.into())),
            (RegisterFile::Convergence, one(self.convergence.into())),
        ];
        files.into_iter().flat_map(|(file, words)| {
            [0_u8, 64, 128, 192].into_iter().zip(words).flat_map(move |(first, word)| {
                bits(word).map(move |bit| Register { file, index: first + bit })
            })
        })
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "both sides of each operation fit in the narrower type"
    )]
    fn zip(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        let four = |a: &[u64; 4], b: &[u64; 4]| std::array::from_fn(|index| combine(a[index], b[index]));
        Self {
            general: four(&self.general, &other.general),
            uniform: four(&self.uniform, &other.uniform),
            predicates: combine(self.predicates.into(), other.predicates.into()) as u8,
            uniform_predicates: combine(self.uniform_predicates.into(), other.uniform_predicates.into())
                as u8,
            convergence: combine(self.convergence.into(), other.convergence.into()) as u16,
        }
    }
}

/// The bits of a word that are set, in order.
fn bits(mut word: u64) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.checked_sub(1)?;
        u8::try_from(bit).ok()
    })
}

impl FromIterator<Register> for Registers {
    fn from_iter<T: IntoIterator<Item = Register>>(registers: T) -> Self {
        let mut set = Self::NONE;
        registers.into_iter().for_each(|register| set.insert(register));
        set
    }
}

/// Runs of consecutive registers: `R2-R3 R8 P0`.
impl fmt::Display for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut registers = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = registers.next() {
            let mut last = first;
            while let Some(next) =
                registers.next_if(|next| next.file == last.file && next.index == last.index + 1)
            {
                last = next;
            }
            write!(f, "{separator}{first}")?;
            if last != first {
                write!(f, "-{last}")?;
            }
            separator = " ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_shows_its_runs() {
        let mut set = Registers::NONE;
        set.insert_run(Register { file: RegisterFile::General, index: 2 }, 2);
        set.insert(Register { file: RegisterFile::General, index: 130 });
        set.insert(Register { file: RegisterFile::Predicate, index: 0 });
        set.insert_run(Register { file: RegisterFile::Uniform, index: 254 }, 4);
        assert_eq!(set.to_string(), "R2-R3 R130 UR254 P0");
        assert_eq!(set.iter().collect::<Registers>(), set);
        let one = Registers::from_iter([Register { file: RegisterFile::General, index: 3 }]);
        assert!(set.intersects(&one));
        assert_eq!(set.without(&one).to_string(), "R2 R130 UR254 P0");
        assert_eq!(set.and(&one).or(&one), one);
    }
}
