//! Line charts of samples over time, with axes and units, as SVG.

use std::fmt::Write as _;

use anyhow::Result;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 45.0;
const COLORS: [&str; 4] = ["#1f6feb", "#d1570c", "#1a7f37", "#8250df"];

/// Line of a chart.
pub(crate) struct Line {
    pub(crate) name: String,
    /// Seconds since the start, with the values.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws a chart of lines over seconds. The scale starts at zero, so that small variations do not look large.
pub(crate) fn draw(title: &str, unit: &str, lines: &[Line]) -> Result<String> {
    let (last, highest) = lines
        .iter()
        .flat_map(|line| &line.points)
        .fold((1.0_f64, 0.0_f64), |(last, highest), (second, value)| {
            (last.max(*second), highest.max(*value))
        });
    let step = step(highest / 5.0);
    let top = ((highest / step).ceil() * step).max(step);
    let x = |at: f64| LEFT + (WIDTH - LEFT - RIGHT) * at / last;
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"15\">{title}</text>\n\
         <text x=\"{LEFT}\" y=\"{}\">{unit}</text>\n",
        TOP - 10.0
    );
    let mut value = 0.0;
    while value <= top + step / 2.0 {
        let at = y(value);
        writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0,
            number(value, step)
        )?;
        value += step;
    }
    let (tick, minutes) = ticks(last);
    let mut second = 0.0;
    while second <= last {
        let at = x(second);
        let shown = if minutes { second / 60.0 } else { second };
        writeln!(
            svg,
            "<line x1=\"{at:.1}\" y1=\"{0:.1}\" x2=\"{at:.1}\" y2=\"{1:.1}\" stroke=\"#999\"/>\
             <text x=\"{at:.1}\" y=\"{2:.1}\" text-anchor=\"middle\">{shown:.0}</text>",
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM + 5.0,
            HEIGHT - BOTTOM + 18.0
        )?;
        second += tick;
    }
    writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        WIDTH - RIGHT,
        HEIGHT - 8.0,
        if minutes { "minutes" } else { "seconds" }
    )?;
    for (place, (line, color)) in (0_u32..).zip(lines.iter().zip(COLORS.iter().cycle())) {
        let name_at = WIDTH - RIGHT - 160.0 * f64::from(place);
        svg.push_str("<polyline fill=\"none\" stroke-width=\"1.2\" stroke=\"");
        svg.push_str(color);
        svg.push_str("\" points=\"");
        for (second, value) in &line.points {
            write!(svg, "{:.1},{:.1} ", x(*second), y(*value))?;
        }
        writeln!(
            svg,
            "\"/>\n<text x=\"{name_at:.1}\" y=\"{}\" text-anchor=\"end\" fill=\"{color}\">{}</text>",
            TOP - 10.0,
            line.name
        )?;
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

/// Returns the next value of 1, 2 or 5 times a power of ten.
fn step(least: f64) -> f64 {
    if least <= 0.0 {
        return 1.0;
    }
    let power = 10.0_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= least)
        .unwrap_or(10.0 * power)
}

/// Returns the seconds between two ticks, and whether they are shown as minutes.
fn ticks(last: f64) -> (f64, bool) {
    if last <= 120.0 {
        (step(last / 8.0), false)
    } else {
        ((step(last / 60.0 / 10.0)).max(1.0) * 60.0, true)
    }
}

fn number(value: f64, step: f64) -> String {
    let decimals = if step >= 1.0 { 0 } else { 2 };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_lines_its_axes_and_a_scale_from_zero() {
        let points = (0..1_800)
            .map(|second| (f64::from(second), 40.0 + f64::from(second % 7)))
            .collect();
        let svg = draw(
            "Memory",
            "MiB",
            &[Line {
                name: "resident".to_owned(),
                points,
            }],
        )
        .unwrap();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
        assert!(svg.contains(">0</text>") && svg.contains(">50</text>"), "{svg}");
        assert!(
            svg.contains(">minutes</text>") && svg.contains(">resident</text>"),
            "{svg}"
        );
        // 46 of 50 is near the top, and no value is outside of the frame.
        assert!(svg.contains("70.0,"), "{svg}");
        let drawn = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        for point in drawn.split_whitespace() {
            let (x, y) = point.split_once(',').unwrap();
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!(
                (LEFT..=WIDTH - RIGHT).contains(&x) && (TOP..=HEIGHT - BOTTOM).contains(&y),
                "{point}"
            );
        }
    }

    #[test]
    fn steps_are_round() {
        for (least, round) in [(0.0, 1.0), (3.1, 5.0), (0.15, 0.2), (70.0, 100.0)] {
            assert!((step(least) - round).abs() < 1e-9, "{least}: {}", step(least));
        }
    }
}
