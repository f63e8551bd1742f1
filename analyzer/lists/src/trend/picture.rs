//! A series as a picture of characters: points with the interval that was expected, and a mark below each change.

use crate::trend::series::TrendSeries;

/// Lines of a picture.
const HEIGHT: usize = 8;
/// Characters of a line of a table, from low to high.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// A point.
const POINT: char = '●';
/// A value that was expected.
const EXPECTED: char = '░';
/// A change.
const CHANGE: char = '▲';

/// One column of a picture: one point, or the mean of several.
struct PictureColumn {
    value: f64,
    interval: Option<(f64, f64)>,
    is_change: bool,
}

/// The picture, `width` characters wide or less. `text` writes a value of the axis.
pub(crate) fn picture(series: &TrendSeries, width: usize, text: impl Fn(f64) -> String) -> String {
    let ends = |columns: &[PictureColumn]| {
        let values = columns.iter().map(|column| column.value);
        values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    };
    let columns = columns(series, width.saturating_sub(14).max(8));
    let (low, high) = ends(&columns);
    // A line of equal values is in the middle, and small steps are not drawn as large ones.
    let margin = ((high - low) * 0.1).max(high.abs() * 0.01).max(f64::MIN_POSITIVE);
    let lowest = if low >= 0.0 { (low - margin).max(0.0) } else { low - margin };
    let (low, high) = (lowest, high + margin);
    let line_of = |value: f64| {
        let part = ((value - low) / (high - low)).clamp(0.0, 1.0);
        HEIGHT - 1 - level(part, HEIGHT)
    };
    let labels = [text(high), text(f64::midpoint(low, high)), text(low)];
    let label_width = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let mut drawn = String::new();
    for line in 0..HEIGHT {
        let label = match line {
            0 => labels[0].as_str(),
            line if line == HEIGHT / 2 => &labels[1],
            line if line == HEIGHT - 1 => &labels[2],
            _ => "",
        };
        let axis = if label.is_empty() { '│' } else { '┤' };
        drawn.extend([format!("{label:>label_width$} "), axis.to_string()]);
        let cells = columns.iter().map(|column| {
            let is_expected =
                column.interval.is_some_and(|(low, high)| (line_of(high)..=line_of(low)).contains(&line));
            if line_of(column.value) == line {
                POINT
            } else if is_expected {
                EXPECTED
            } else {
                ' '
            }
        });
        let cells: String = cells.collect();
        drawn += cells.trim_end();
        drawn.push('\n');
    }
    if columns.iter().any(|column| column.is_change) {
        let marks: String =
            columns.iter().map(|column| if column.is_change { CHANGE } else { ' ' }).collect();
        drawn.extend([" ".repeat(label_width + 2).as_str(), marks.trim_end(), "\n"]);
    }
    drawn
}

/// The series as one line of `width` characters or less.
pub(crate) fn line(series: &TrendSeries, width: usize) -> String {
    let columns = columns(series, width);
    let high = columns.iter().map(|column| column.value).fold(0.0, f64::max);
    let part = |value: f64| if high > 0.0 { (value / high).clamp(0.0, 1.0) } else { 0.0 };
    columns.iter().map(|column| LEVELS[level(part(column.value), LEVELS.len())]).collect()
}

/// The level of a part of one, from 0.
fn level(part: f64, levels: usize) -> usize {
    (0..levels).rev().find(|level| part * levels as f64 >= *level as f64).unwrap_or(0).min(levels - 1)
}

/// The points in `most` columns or less.
fn columns(series: &TrendSeries, most: usize) -> Vec<PictureColumn> {
    let each = series.points.len().div_ceil(most.max(1)).max(1);
    series
        .points
        .chunks(each)
        .map(|points| {
            let count = points.len() as f64;
            let interval = points.first().and_then(|point| point.low.zip(point.high));
            PictureColumn {
                value: points.iter().map(|point| point.value).sum::<f64>() / count,
                interval,
                is_change: points.iter().any(|point| point.is_change),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trend::series::TrendRow;

    fn series(values: &[f64]) -> TrendSeries {
        let point = |(at, value): (usize, &f64)| TrendRow {
            name: "all".to_owned(),
            series: "all".to_owned(),
            model: None,
            branch: None,
            program: None,
            rank: None,
            gpu: None,
            capture: at.to_string(),
            commit: None,
            value: *value,
            expected: None,
            low: (at >= 3).then_some(9.0),
            high: (at >= 3).then_some(11.0),
            later: *value,
            change: None,
            is_change: at == 5,
        };
        TrendSeries { points: values.iter().enumerate().map(point).collect() }
    }

    #[test]
    fn a_step_is_drawn_with_its_mark() {
        let drawn =
            picture(&series(&[10.0, 10.0, 10.0, 10.0, 10.0, 20.0, 20.0]), 80, |value| format!("{value:.0}"));
        let expected = "\
21 ┤     ●●
   │
   │
   │
15 ┤
   │
   │   ░░░░
 9 ┤●●●●●░░
         ▲
";
        assert_eq!(drawn, expected);
    }

    #[test]
    fn many_points_share_columns() {
        let values: Vec<f64> = (0..1000).map(f64::from).collect();
        assert_eq!(line(&series(&values), 8), "▁▂▃▄▅▆▇█");
        assert_eq!(line(&series(&[5.0, 5.0]), 8), "██");
        assert!(picture(&series(&values), 40, |value| value.to_string()).lines().count() >= HEIGHT);
    }
}
