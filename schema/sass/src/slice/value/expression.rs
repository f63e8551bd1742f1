//! Expressions of instructions that compute a sum: moves, additions, loads of constants.

use super::{BasedConstant, ConstantBase};
use crate::instruction::SassInstruction;
use crate::register::{Register, RegisterFile};
use crate::word::{InstructionWord, Sm};

/// The result of an instruction.
#[derive(Clone, Debug)]
pub(super) enum ResultExpression {
    /// The sum of terms.
    Sum(Vec<SumTerm>),
    /// One of several.
    Either(Vec<ExpressionOperand>),
    /// Anything.
    Unknown,
}

/// A part of a sum.
#[derive(Clone, Copy, Debug)]
pub(super) struct SumTerm {
    pub(super) operand: ExpressionOperand,
    pub(super) factor: i64,
}

/// A source of an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum ExpressionOperand {
    Register(Register),
    Value(BasedConstant),
    /// The product of two values.
    Product,
}

/// Bit of `.X` and of `.HI`: results that are the upper halves of longer sums.
const CARRY: u32 = 74;
const HIGH: u32 = 80;
/// Selectors of PRMT whose three lower bytes are the first or the last source's: it puts a block's rank above an address.
const FIRST_THREE_BYTES: u64 = 0x210;
const LAST_THREE_BYTES: u64 = 0x654;

impl ResultExpression {
    /// The value that an instruction puts into one of the registers that it writes.
    pub(super) fn for_register(instruction: &SassInstruction, register: Register, sm: Sm) -> Self {
        let operands = SourceOperands { word: instruction.word, sm };
        let register_offset = register.index.wrapping_sub(instruction.word.byte(16));
        let Some(name) = instruction.mnemonic else { return Self::Unknown };
        match name {
            "LDC" | "ULDC" | "LDCU" if is_indexed(instruction) => Self::Unknown,
            "LDC" | "ULDC" | "LDCU" => operands.constant_load(u32::from(register_offset)),
            _ if register_offset != 0 => Self::Unknown,
            "MOV" | "UMOV" => Self::sum([operands.second()]),
            "R2UR" => Self::sum([Some(operands.general(24))]),
            "IADD3" | "UIADD3" if !instruction.word.bit(CARRY) => {
                operands.signed_sum(&[(24, 72), (0, 63), (64, 75)])
            }
            "VIADD" | "IADD" | "UVIADD" => operands.signed_sum(&[(24, 72), (0, 63)]),
            "LEA" | "ULEA" if !instruction.word.bit(HIGH) => operands.scaled_sum(),
            "IMAD" | "UIMAD" => operands.product_sum(),
            "SEL" | "USEL" => operands.choice(),
            "PRMT" | "UPRMT" => Self::sum([operands.three_bytes()]),
            _ => Self::Unknown,
        }
    }

    /// The operands that it adds as they are, or chooses from.
    pub(super) fn parts(self) -> Vec<ExpressionOperand> {
        match self {
            Self::Sum(terms) => {
                terms.into_iter().filter(|term| term.factor == 1).map(|term| term.operand).collect()
            }
            Self::Either(operands) => operands,
            Self::Unknown => Vec::new(),
        }
    }

    fn sum<const COUNT: usize>(operands: [Option<ExpressionOperand>; COUNT]) -> Self {
        let term = |operand| SumTerm { operand, factor: 1 };
        let terms: Option<Vec<SumTerm>> = operands.into_iter().map(|operand| operand.map(term)).collect();
        terms.map_or(Self::Unknown, Self::Sum)
    }
}

/// The register and the number that make a sum. None for other sums.
pub(super) fn moved(terms: &[SumTerm]) -> Option<(Register, i64)> {
    let (mut source, mut sum) = (None, 0_i64);
    for term in terms {
        match term.operand {
            ExpressionOperand::Register(register) if term.factor == 1 && source.is_none() => {
                source = Some(register);
            }
            ExpressionOperand::Value(BasedConstant { base: ConstantBase::Zero, constant, .. }) => {
                sum = sum.wrapping_add(constant.wrapping_mul(term.factor));
            }
            _ => return None,
        }
    }
    Some((source?, sum))
}

/// True if a load from a constant bank adds a register to its offset.
fn is_indexed(load: &SassInstruction) -> bool {
    load.reads.iter().any(|register| matches!(register.file, RegisterFile::General | RegisterFile::Uniform))
}

/// The source operands of an instruction, by its form.
struct SourceOperands {
    word: InstructionWord,
    sm: Sm,
}

impl SourceOperands {
    fn form(&self) -> u64 {
        self.word.bits(9, 3)
    }

    /// True if the destination, and with it the first source, is a uniform register.
    fn is_uniform(&self) -> bool {
        // The uniform datapath's families are 0x080 to 0x0bf, R2UR's and S2UR's destinations apart.
        (0x080..0x0c0).contains(&self.word.family())
    }

    fn general(&self, position: u32) -> ExpressionOperand {
        let index = self.word.byte(position);
        if index == 255 {
            number(0)
        } else {
            ExpressionOperand::Register(Register { file: RegisterFile::General, index })
        }
    }

    fn uniform(&self, position: u32) -> ExpressionOperand {
        let (index, zero) = if self.sm.0 >= 100 {
            (self.word.byte(position), 255)
        } else {
            (self.word.byte(position) & 0x3f, 63)
        };
        if index == zero {
            number(0)
        } else {
            ExpressionOperand::Register(Register { file: RegisterFile::Uniform, index })
        }
    }

    fn own(&self, position: u32) -> ExpressionOperand {
        if self.is_uniform() { self.uniform(position) } else { self.general(position) }
    }

    fn first(&self) -> ExpressionOperand {
        self.own(24)
    }

    /// The operand in bits 32 to 63.
    fn middle(&self) -> Option<ExpressionOperand> {
        match self.form() {
            1 => Some(self.own(32)),
            2 | 4 => {
                #[expect(clippy::cast_possible_truncation, reason = "thirty-two bits")]
                let bits = self.word.bits(32, 32) as u32;
                Some(number(i64::from(bits.cast_signed())))
            }
            3 | 5 => Some(self.bank(0)),
            6 | 7 => Some(self.uniform(32)),
            _ => None,
        }
    }

    /// The second source: in some forms it stands behind the third.
    fn second(&self) -> Option<ExpressionOperand> {
        if matches!(self.form(), 2 | 3 | 7) { Some(self.own(64)) } else { self.middle() }
    }

    fn third(&self) -> Option<ExpressionOperand> {
        if matches!(self.form(), 2 | 3 | 7) { self.middle() } else { Some(self.own(64)) }
    }

    fn bank(&self, further_words: u32) -> ExpressionOperand {
        #[expect(clippy::cast_possible_truncation, reason = "five and sixteen bits")]
        let (bank, offset) = (self.word.bits(54, 5) as u8, self.word.bits(38, 16) as u32);
        ExpressionOperand::Value(BasedConstant::from_base(ConstantBase::Bank {
            bank,
            offset: offset + 4 * further_words,
        }))
    }

    /// A load from a constant bank at a fixed offset.
    fn constant_load(&self, register_offset: u32) -> ResultExpression {
        // Form 5 has its offset in the instruction, behind a register of which RZ is none.
        let is_indexed = if self.is_uniform() { self.form() != 5 } else { self.word.byte(24) != 255 };
        if is_indexed || register_offset > 3 {
            ResultExpression::Unknown
        } else {
            ResultExpression::sum([Some(self.bank(register_offset))])
        }
    }

    /// Sources, each with the bit that negates it. Place 0 stands for the second source.
    fn signed_sum(&self, terms: &[(u32, u32)]) -> ResultExpression {
        let is_immediate = matches!(self.form(), 2 | 4);
        let term = |(position, negation): &(u32, u32)| {
            let operand = match *position {
                0 => self.second(),
                64 => self.third(),
                position => Some(self.own(position)),
            }?;
            // An immediate's sign is its own.
            let is_negated = self.word.bit(*negation) && !(is_immediate && *position == 0);
            Some(SumTerm { operand, factor: if is_negated { -1 } else { 1 } })
        };
        terms
            .iter()
            .map(term)
            .collect::<Option<Vec<_>>>()
            .map_or(ResultExpression::Unknown, ResultExpression::Sum)
    }

    fn scaled_sum(&self) -> ResultExpression {
        let Some(added) = self.second() else { return ResultExpression::Unknown };
        let scaled = SumTerm { operand: self.first(), factor: 1 << self.word.bits(75, 5) };
        ResultExpression::Sum(vec![scaled, SumTerm { operand: added, factor: 1 }])
    }

    /// first * second + third, where one factor is a number.
    fn product_sum(&self) -> ResultExpression {
        let (Some(second), Some(third)) = (self.second(), self.third()) else {
            return ResultExpression::Unknown;
        };
        let product = match (self.first(), second) {
            (ExpressionOperand::Value(BasedConstant { base: ConstantBase::Zero, constant, .. }), operand)
            | (operand, ExpressionOperand::Value(BasedConstant { base: ConstantBase::Zero, constant, .. })) => {
                SumTerm { operand, factor: constant }
            }
            _ => SumTerm { operand: ExpressionOperand::Product, factor: 1 },
        };
        let terms = [product, SumTerm { operand: third, factor: 1 }];
        ResultExpression::Sum(terms.into_iter().filter(|term| term.factor != 0).collect())
    }

    fn choice(&self) -> ResultExpression {
        self.second()
            .map_or(ResultExpression::Unknown, |second| ResultExpression::Either(vec![self.first(), second]))
    }

    /// The source of which the three lower bytes stay.
    fn three_bytes(&self) -> Option<ExpressionOperand> {
        match (self.form(), self.word.bits(32, 12)) {
            (4, FIRST_THREE_BYTES) => Some(self.first()),
            (4, LAST_THREE_BYTES) => Some(self.own(64)),
            _ => None,
        }
    }
}

const fn number(constant: i64) -> ExpressionOperand {
    ExpressionOperand::Value(BasedConstant::number(constant))
}
