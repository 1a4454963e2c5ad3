//! The report of a run: a table and a JSON file.

use std::env::consts::ARCH;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Depth;
use super::stats::{Pairs, Summary, millis};
use crate::dist::Libc;
use crate::{host, table};

/// The result of a row.
pub(super) enum Measured {
    /// The figure is the proxied time divided by the native one.
    Slowdown(Pairs),
    /// The figure is the native time divided by the proxied one.
    Throughput(Pairs),
    /// The figure is the proxied median minus the native one, in milliseconds.
    Added(Pairs),
    /// A size in MiB.
    Mib(f64),
    /// Proxied bytes per second, in GB/s: 10^9 bytes, and the median time.
    Rate(u64, Pairs),
    /// The launcher's CPU time for a GiB, in seconds.
    CpuPerGib(f64),
    /// Thousands of instructions.
    Instructions(f64),
    /// No result, for this reason.
    Absent(String),
}

/// A bound: what was seen on two cores with static glibc, and what noise and other machines may add
/// or take. With musl all rows are smaller and faster.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    AtMost {
        seen: f64,
        margin: f64,
    },
    AtLeast {
        seen: f64,
        margin: f64,
    },
    /// No bound, for this reason.
    Reported(&'static str),
}

/// A result and its bound.
pub(super) struct Figure {
    name: &'static str,
    measured: Measured,
    bound: Bound,
}

impl Measured {
    fn value(&self) -> f64 {
        match self {
            Measured::Slowdown(pairs) => pairs.slowdown(),
            Measured::Throughput(pairs) => 1.0 / pairs.slowdown(),
            Measured::Added(pairs) => {
                let [native, proxied] = [pairs.native(), pairs.proxied()];
                (proxied.median.as_secs_f64() - native.median.as_secs_f64()) * 1e3
            }
            Measured::Rate(bytes, pairs) => {
                Duration::from_nanos(*bytes).as_secs_f64() / pairs.proxied().median.as_secs_f64()
            }
            Measured::Mib(value) | Measured::Instructions(value) | Measured::CpuPerGib(value) => {
                *value
            }
            Measured::Absent(_) => f64::NAN,
        }
    }

    fn unit(&self) -> &'static str {
        match self {
            Measured::Slowdown(_) | Measured::Throughput(_) => "x",
            Measured::Added(_) => "ms",
            Measured::Mib(_) => "MiB",
            Measured::Rate(..) => "GB/s",
            Measured::CpuPerGib(_) => "s",
            Measured::Instructions(_) => "thousand",
            Measured::Absent(_) => "",
        }
    }

    /// Native and proxied times.
    fn times(&self) -> Option<[Summary; 2]> {
        match self {
            Measured::Slowdown(pairs)
            | Measured::Throughput(pairs)
            | Measured::Added(pairs)
            | Measured::Rate(_, pairs) => Some([pairs.native(), pairs.proxied()]),
            Measured::Mib(_)
            | Measured::Instructions(_)
            | Measured::CpuPerGib(_)
            | Measured::Absent(_) => None,
        }
    }
}

impl Bound {
    fn value(self) -> Option<f64> {
        match self {
            Bound::AtMost { seen, margin } => Some(seen + margin),
            Bound::AtLeast { seen, margin } => Some(seen - margin),
            Bound::Reported(_) => None,
        }
    }

    /// Returns it as a table shows it.
    fn text(self, unit: &str) -> String {
        let (relation, sign, seen, margin) = match self {
            Bound::AtMost { seen, margin } => ("<=", '+', seen, margin),
            Bound::AtLeast { seen, margin } => (">=", '-', seen, margin),
            Bound::Reported(reason) => return reason.to_owned(),
        };
        format!("{relation} {} {sign} {} {unit}", shown(seen), shown(margin))
    }

    /// NaN never keeps a bound.
    fn is_kept(self, value: f64) -> bool {
        match (self, self.value()) {
            (Bound::AtMost { .. }, Some(bound)) => value <= bound,
            (Bound::AtLeast { .. }, Some(bound)) => value >= bound,
            _ => true,
        }
    }
}

impl Figure {
    /// A row's result, with its bound.
    pub(super) fn new(name: &'static str, measured: Measured, bound: Bound) -> Self {
        Figure { name, measured, bound }
    }

    /// Returns whether the bound is exceeded.
    pub(super) fn is_over(&self) -> bool {
        !self.bound.is_kept(self.measured.value())
    }

    fn row(&self) -> [String; 8] {
        let times = self.measured.times().map_or(["-"; 4].map(str::to_owned), |times| {
            let [native, proxied] = times;
            [native.p10, native.median, proxied.p10, proxied.median].map(millis)
        });
        let [native_p10, native, proxied_p10, proxied] = times;
        let unit = self.measured.unit();
        let measured = match &self.measured {
            Measured::Absent(reason) => reason.clone(),
            _ => format!("{} {unit}", shown(self.measured.value())),
        };
        let bound = self.bound.text(unit);
        let verdict = match self.bound {
            Bound::Reported(_) => "-",
            _ if self.is_over() => "OVER",
            _ => "ok",
        };
        let name = self.name.to_owned();
        [name, native_p10, native, proxied_p10, proxied, measured, bound, verdict.to_owned()]
    }

    fn json(&self) -> Value {
        let spread = |spread: Summary| {
            json!({
                "p10_ms": spread.p10.as_secs_f64() * 1e3,
                "median_ms": spread.median.as_secs_f64() * 1e3,
            })
        };
        let times = self.measured.times();
        json!({
            "name": self.name,
            "value": self.measured.value(),
            "unit": self.measured.unit(),
            "native": times.map(|[native, _]| spread(native)),
            "proxied": times.map(|[_, proxied]| spread(proxied)),
            "bound": self.bound.value(),
            "ok": self.bound.value().map(|_| !self.is_over()),
        })
    }
}

/// Formats small values with more digits, so that they do not become 0.
fn shown(figure: f64) -> String {
    let digits = if figure < 0.1 { 4 } else { 2 };
    format!("{figure:.digits$}")
}

/// How to read the table.
const LEGEND: &str = "\
Times in ms, native and proxied in turns; rows that name an engine's command compare with that.
measured: proxied p10 / native p10, for concurrent calls native / proxied. Both p10s are of all times: a
plain pipe has a fast and a slow mode, and the p10 of the pairs' ratios would select the pairs whose
native half was slow. In ms: proxied median - native median.
";

/// The subject, the table, and the legend.
pub(super) fn text(figures: &[Figure], libc: Libc, depth: Depth) -> String {
    let header =
        ["figure", "native p10", "median", "proxied p10", "median", "measured", "bound", ""];
    let rows: Vec<_> = figures.iter().map(Figure::row).collect();
    format!("{}\n\n{}\n{LEGEND}", subject(libc, depth), table::layout(header, &rows))
}

fn subject(libc: Libc, depth: Depth) -> String {
    let machine = host::machine();
    let said = |name: &str| machine[name].as_str().unwrap_or("unknown").to_owned();
    format!(
        "{ARCH}, static {}, {}; {} cores ({}), Linux {}; output of {} MiB",
        libc.name(),
        host::short_commit().as_deref().unwrap_or("no commit"),
        machine["cores"],
        said("cpu"),
        said("kernel"),
        depth.output() >> 20,
    )
}

/// Writes all figures with the machine and the sources.
pub(super) fn write(path: &Path, figures: &[Figure], libc: Libc, depth: Depth) -> Result<()> {
    let report = json!({
        "sources": host::sources(),
        "machine": host::machine(),
        "arch": ARCH,
        "libc": libc.name(),
        "output_bytes": depth.output(),
        "figures": figures.iter().map(Figure::json).collect::<Vec<_>>(),
    });
    let text = serde_json::to_string_pretty(&report)?;
    fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_kept_up_to_its_margin() {
        let most = Bound::AtMost { seen: 1.5, margin: 0.25 };
        let least = Bound::AtLeast { seen: 0.75, margin: 0.25 };
        let rows = [
            (most, 1.75, true),
            (most, 1.76, false),
            (least, 0.5, true),
            (least, 0.49, false),
            // NaN is no success.
            (most, f64::NAN, false),
            (least, f64::NAN, false),
            (Bound::Reported("why"), 100.0, true),
        ];
        for (bound, value, expected) in rows {
            assert_eq!(bound.is_kept(value), expected, "{value}");
        }
    }

    #[test]
    fn a_row_shows_figure_bound_and_verdict() {
        let pairs = || -> Pairs {
            [(Duration::from_millis(3), Duration::from_millis(4))].into_iter().collect()
        };
        let most = Bound::AtMost { seen: 1.0, margin: 0.25 };
        let least = Bound::AtLeast { seen: 0.75, margin: 0.25 };
        let reported = Bound::Reported("a part of a call");
        let rows = [
            (Measured::Mib(2.5), most, ["2.50 MiB", "<= 1.00 + 0.25 MiB", "OVER"]),
            (Measured::Slowdown(pairs()), most, ["1.33 x", "<= 1.00 + 0.25 x", "OVER"]),
            (Measured::Throughput(pairs()), least, ["0.75 x", ">= 0.75 - 0.25 x", "ok"]),
            (Measured::Rate(4_000_000, pairs()), least, ["1.00 GB/s", ">= 0.75 - 0.25 GB/s", "ok"]),
            (Measured::Slowdown(pairs()), reported, ["1.33 x", "a part of a call", "-"]),
            (
                Measured::Absent("no node".to_owned()),
                reported,
                ["no node", "a part of a call", "-"],
            ),
        ];
        for (measured, bound, expected) in rows {
            assert_eq!(Figure::new("row", measured, bound).row()[5..], expected);
        }
    }
}
