//! Numbers for display: separators, sensible precision, units.

/// An integer with a comma between thousands.
pub fn grouped(number: i128) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    if number < 0 {
        text.push('-');
    }
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun: 1 launch, 2 launches.
pub fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{} {}", grouped(count.into()), if count == 1 { one } else { several })
}

/// A measured number with about three significant digits. Integers stay integers.
pub fn measured(number: f64) -> String {
    let size = number.abs();
    if !number.is_finite() {
        return number.to_string();
    }
    if size >= 100.0 || number.fract() == 0.0 && size < 1e15 {
        return if size < 1e15 { grouped(round(number)) } else { format!("{number:.3e}") };
    }
    let decimals = match size {
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.001 => 3,
        _ => return format!("{number:.1e}"),
    };
    format!("{number:.decimals$}")
}

/// A number with every significant digit of the query's value, for use in the next query.
pub fn exact(number: f64) -> String {
    let short = number.to_string();
    if short.len() <= 12 || !number.is_finite() {
        return short;
    }
    let scientific = number.abs() >= 1e15 || number.abs() < 1e-4;
    let text = if scientific { format!("{number:.8e}") } else { format!("{number:.9}") };
    match text.split_once('e') {
        Some((digits, exponent)) => format!("{}e{exponent}", trim_zeros(digits)),
        None => trim_zeros(&text).to_owned(),
    }
}

/// A ratio of two numbers, as a factor.
pub fn ratio(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let sign = if percent > 0.0 { "+" } else { "" };
    match ratio {
        _ if ratio.is_infinite() => "∞".to_owned(),
        _ if ratio >= 10.0 => format!("× {}", measured(ratio)),
        // Sums are added in any order: their last digits are not a change.
        _ if percent.abs() < 1e-7 => "0 %".to_owned(),
        _ => format!("{sign}{percent:.1} %"),
    }
}

/// A share of one as percent. Values that round to nothing or to everything, but are not, are marked.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        _ if percent > 0.0 && percent < 0.05 => "<0.1 %".to_owned(),
        _ if (99.95..100.0).contains(&percent) => ">99.9 %".to_owned(),
        _ => format!("{percent:.1} %"),
    }
}

/// Bytes in units of 1,024.
pub fn bytes(count: f64) -> String {
    scaled(count, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// Floating-point operations, with a unit that fits.
pub fn operations(count: f64) -> String {
    scaled(count, 1000.0, &["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"])
}

/// Nanoseconds in the unit that reads best.
pub fn nanoseconds(count: f64) -> String {
    if count.abs() < 1e9 {
        return scaled(count, 1000.0, &["ns", "µs", "ms"]);
    }
    format!("{} s", measured(count / 1e9))
}

/// Least and most nanoseconds in one unit, with two digits. Up to the most, if the least is nothing.
pub fn nanosecond_range(low: f64, high: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    let largest = low.abs().max(high.abs());
    let (size, unit) = units.into_iter().find(|(size, _)| largest >= *size).unwrap_or((1.0, "ns"));
    let digits = |value: f64| match value.abs() / size {
        scaled if scaled >= 9.95 || size <= 1.0 => format!("{:.0}", value / size),
        scaled if scaled >= 0.095 => format!("{:.1}", value / size),
        _ => format!("{:.2}", value / size),
    };
    let (least, most) = (digits(low), digits(high));
    if low < 0.0 {
        return format!("{least} to {most} {unit}");
    }
    let is_nothing = least.trim_matches(['0', '.']).is_empty();
    if is_nothing {
        format!("≤ {most} {unit}")
    } else if least == most {
        format!("{most} {unit}")
    } else {
        format!("{least}–{most} {unit}")
    }
}

fn scaled(number: f64, step: f64, units: &[&str]) -> String {
    let mut value = number;
    let mut unit = 0;
    while value.abs() >= step && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    format!("{} {}", measured(value), units.get(unit).copied().unwrap_or_default())
}

fn trim_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[expect(clippy::cast_possible_truncation, reason = "the callers' numbers are below 10^15")]
fn round(number: f64) -> i128 {
    number.round() as i128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let texts = [0, 12, 123, 1234, -123_456, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "12", "123", "1,234", "-123,456", "1,234,567"]);
    }

    #[test]
    fn ranges_have_one_unit() {
        let ranges =
            [(705.0, 1409.0), (0.0, 34e3), (120e3, 340e3), (-5e3, 40e3), (12e6, 12.2e6), (3.0, 900.0)];
        let texts = ranges.map(|(low, high)| nanosecond_range(low, high));
        assert_eq!(texts, ["0.7–1.4 µs", "≤ 34 µs", "120–340 µs", "-5.0 to 40 µs", "12 ms", "3–900 ns"]);
    }

    #[test]
    fn measured_numbers_keep_three_digits() {
        let texts = [0.0, 3.0, 1234.56, 99.94, 9.876, 0.12345, 0.000_012, 1e18].map(measured);
        assert_eq!(texts, ["0", "3", "1,235", "99.9", "9.88", "0.123", "1.2e-5", "1.000e18"]);
        assert_eq!(measured(f64::NAN), "NaN");
    }

    #[test]
    fn exact_numbers_lose_only_noise() {
        let texts = [0.1 + 0.2, 1.5, 1.0 / 3.0, 1e300, 0.000_012_345_678_9, 12_345_678.25].map(exact);
        assert_eq!(texts, ["0.3", "1.5", "0.333333333", "1e300", "1.23456789e-5", "12345678.25"]);
    }

    #[test]
    fn shares_never_round_something_to_nothing() {
        assert_eq!([0.0, 0.0001, 0.123_45].map(percent), ["0.0 %", "<0.1 %", "12.3 %"]);
        assert_eq!([0.999, 0.999_99, 1.0].map(percent), ["99.9 %", ">99.9 %", "100.0 %"]);
    }

    #[test]
    fn units_fit_the_size() {
        assert_eq!([512.0, 2048.0, 5_000_000.0].map(bytes), ["512 B", "2 KiB", "4.77 MiB"]);
        assert_eq!([12.0, 1500.0, 2e6, 3.5e9].map(nanoseconds), ["12 ns", "1.50 µs", "2 ms", "3.50 s"]);
    }
}
