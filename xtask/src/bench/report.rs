//! The figures of a run: a table for people, a JSON file for comparing.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::stats::{Pairs, Spread, millis};
use crate::dist::Libc;
use crate::{host, table};

/// One figure, and the bound it must keep.
pub(super) struct Figure {
    name: String,
    value: f64,
    unit: Unit,
    /// Native and proxied times, where the figure is their ratio.
    times: Option<(Spread, Spread)>,
    bound: Option<f64>,
}

#[derive(Clone, Copy)]
enum Unit {
    /// Proxied time to native time.
    Ratio,
    Mib,
}

impl Figure {
    /// The ratio of pairs.
    pub(super) fn pairs(name: &str, pairs: &Pairs) -> Self {
        let times = Some((pairs.native(), pairs.proxied()));
        Figure {
            name: name.to_owned(),
            value: pairs.ratio(),
            unit: Unit::Ratio,
            times,
            bound: None,
        }
    }

    /// A size in MiB.
    pub(super) fn mib(name: &str, value: f64) -> Self {
        Figure { name: name.to_owned(), value, unit: Unit::Mib, times: None, bound: None }
    }

    /// Sets the bound.
    pub(super) fn at_most(mut self, bound: f64) -> Self {
        self.bound = Some(bound);
        self
    }

    /// Whether the bound is not kept.
    pub(super) fn is_over(&self) -> bool {
        self.bound.is_some_and(|bound| self.value.is_nan() || self.value > bound)
    }

    fn row(&self) -> [String; 8] {
        let times = match self.times {
            Some((native, proxied)) => {
                [native.p10, native.median, proxied.p10, proxied.median].map(millis)
            }
            None => ["-"; 4].map(str::to_owned),
        };
        let [native_p10, native, proxied_p10, proxied] = times;
        let shown = |value: f64| match self.unit {
            Unit::Ratio => format!("{value:.2} x"),
            Unit::Mib => format!("{value:.2} MiB"),
        };
        let bound = self.bound.map_or("-".to_owned(), shown);
        let verdict = match self.bound {
            None => "-",
            Some(_) if self.is_over() => "OVER",
            Some(_) => "ok",
        };
        let name = self.name.clone();
        let value = shown(self.value);
        [name, native_p10, native, proxied_p10, proxied, value, bound, verdict.to_owned()]
    }

    fn json(&self) -> Value {
        let spread = |spread: Spread| {
            json!({
                "p10_ms": spread.p10.as_secs_f64() * 1e3,
                "median_ms": spread.median.as_secs_f64() * 1e3,
            })
        };
        json!({
            "name": self.name,
            "value": self.value,
            "unit": match self.unit { Unit::Ratio => "ratio", Unit::Mib => "MiB" },
            "native": self.times.map(|times| spread(times.0)),
            "proxied": self.times.map(|times| spread(times.1)),
            "bound": self.bound,
            "ok": self.bound.map(|_| !self.is_over()),
        })
    }
}

/// The table: times in milliseconds, then the figure and its bound.
pub(super) fn table(figures: &[Figure]) -> String {
    let header =
        ["figure", "native p10", "median", "proxied p10", "median", "measured", "bound", ""];
    let rows: Vec<_> = figures.iter().map(Figure::row).collect();
    table::layout(header, &rows)
}

/// Writes all figures with what they were measured on.
pub(super) fn write(path: &Path, libc: Libc, figures: &[Figure]) -> Result<()> {
    let report = json!({
        "sources": host::sources(),
        "machine": host::machine(),
        "libc": libc.name(),
        "figures": figures.iter().map(Figure::json).collect::<Vec<_>>(),
    });
    let text = serde_json::to_string_pretty(&report)?;
    fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_kept_up_to_its_value() {
        assert!(!Figure::mib("size", 1.2).at_most(1.2).is_over());
        assert!(Figure::mib("size", 1.21).at_most(1.2).is_over());
        assert!(!Figure::mib("size", 100.0).is_over());
        // A ratio that could not be computed is no success.
        assert!(Figure::mib("size", f64::NAN).at_most(1.2).is_over());
    }

    #[test]
    fn a_row_shows_figure_bound_and_verdict() {
        let row = Figure::mib("size", 2.5).at_most(2.0).row();
        assert_eq!(row[5..], ["2.50 MiB", "2.00 MiB", "OVER"]);
    }
}
