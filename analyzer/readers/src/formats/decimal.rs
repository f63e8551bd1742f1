//! Decimal times as integers. A float of 64 bits has 15 digits, and microseconds since 1970 with nanoseconds have 19.

/// Digits of a number that are read. Longer ones are refused.
const MAX_DIGITS: usize = 30;

/// A decimal number times a power of ten, rounded half to even. None if the text is not a number or too long.
fn scaled(text: &str, power: i32) -> Option<i128> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i32 = exponent.strip_prefix('+').unwrap_or(exponent).parse().ok()?;
    let (sign, digits) = mantissa.strip_prefix('-').map_or((1, mantissa), |digits| (-1, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + fraction.len() > MAX_DIGITS || whole.is_empty() {
        return None;
    }
    let mut value: i128 = 0;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 10 + i128::from(digit.to_digit(10)?);
    }
    let places = i32::try_from(fraction.len()).ok()?;
    let power = exponent.checked_add(power)?.checked_sub(places)?;
    Some(sign * shifted(value, power)?)
}

/// A value times a power of ten.
fn shifted(value: i128, power: i32) -> Option<i128> {
    let factor = |power: u32| 10_i128.checked_pow(power);
    if power >= 0 {
        return value.checked_mul(factor(power.unsigned_abs())?);
    }
    let Some(divisor) = factor(power.unsigned_abs()) else { return Some(0) };
    let (quotient, rest) = (value / divisor, value % divisor);
    let is_up = rest * 2 > divisor || rest * 2 == divisor && quotient % 2 == 1;
    Some(quotient + i128::from(is_up))
}

/// Microseconds as nanoseconds.
pub fn microseconds(text: &str) -> Option<i64> {
    i64::try_from(scaled(text, 3)?).ok()
}

/// An integer, also where a program wrote it as a float.
pub fn integer(text: &str) -> Option<i64> {
    let thousandths = scaled(text, 3)?;
    if thousandths % 1000 == 0 { i64::try_from(thousandths / 1000).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_every_digit() {
        assert_eq!(microseconds("1751410836428625.731"), Some(1_751_410_836_428_625_731));
        assert_eq!(microseconds("1707417525512145"), Some(1_707_417_525_512_145_000));
        assert_eq!(microseconds("18.112"), Some(18_112));
        assert_eq!(microseconds("1.4286257318961790e12"), Some(1_428_625_731_896_179));
        assert_eq!(microseconds("0.7690000000000001"), Some(769));
        assert_eq!(microseconds("-1.5"), Some(-1_500));
        assert_eq!(microseconds("2e3"), Some(2_000_000));
    }

    #[test]
    fn halves_go_to_the_even_neighbor() {
        assert_eq!(microseconds("0.0005"), Some(0));
        assert_eq!(microseconds("0.0015"), Some(2));
        assert_eq!(microseconds("0.0025"), Some(2));
        assert_eq!(microseconds("0.00251"), Some(3));
    }

    #[test]
    fn other_texts_are_no_numbers() {
        for text in
            ["", "-", ".5", "1.2.3", "x", "1e", "1e999999999999", "99999999999999999999999999999999", "1e40"]
        {
            assert_eq!(microseconds(text), None, "{text}");
        }
        assert_eq!((integer("7.0"), integer("7.5"), integer("1e-60")), (Some(7), None, Some(0)));
        assert_eq!(integer("1751410836000000000"), Some(1_751_410_836_000_000_000));
        assert_eq!(integer("-9223372036854775808"), Some(i64::MIN));
    }
}
