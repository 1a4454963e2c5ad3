//! Formats times in UTC and durations.

use std::fmt;

/// A moment, to the second: `2026-10-05 12:03:04Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    seconds: u64,
}

impl Moment {
    /// From milliseconds since 1970.
    pub fn from_unix_ms(milliseconds: u64) -> Self {
        Moment { seconds: milliseconds / 1000 }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date(self.seconds / 86_400);
        let [hour, minute, second] = [3600, 60, 1].map(|unit| self.seconds / unit);
        let (hour, minute, second) = (hour % 24, minute % 60, second % 60);
        write!(f, "{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
    }
}

/// Returns year, month and day for a number of days since 1970-01-01.
///
/// Years begin in March here, so that the leap day is the last of its year: the months before then
/// have the lengths of a line with the slope 153/5. Howard Hinnant's `civil_from_days`.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_IN_ERA: u64 = 146_097; // 400 years
    let days = days + 719_468; // since 0000-03-01
    let (era, day) = (days / DAYS_IN_ERA, days % DAYS_IN_ERA);
    let year = (day - day / 1460 + day / 36_524 - day / (DAYS_IN_ERA - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + later, month, day)
}

/// Formats a duration: `85 ms`, `1.23 s`, `4 min 5 s`.
pub fn duration(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => {
            format!("{}.{:02} s", milliseconds / 1000, milliseconds % 1000 / 10)
        }
        _ => format!("{} min {} s", milliseconds / 60_000, milliseconds / 1000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        let rows = [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_399_999, "2000-02-28 23:59:59Z"),
            (951_782_400_000, "2000-02-29 00:00:00Z"),
            (1_709_251_200_000, "2024-03-01 00:00:00Z"),
            (1_735_689_599_000, "2024-12-31 23:59:59Z"),
            (4_107_542_400_000, "2100-03-01 00:00:00Z"),
        ];
        for (milliseconds, expected) in rows {
            assert_eq!(Moment::from_unix_ms(milliseconds).to_string(), expected);
        }
    }

    #[test]
    fn durations() {
        let rows = [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_234, "1.23 s"),
            (59_999, "59.99 s"),
            (65_000, "1 min 5 s"),
        ];
        for (milliseconds, expected) in rows {
            assert_eq!(duration(milliseconds), expected);
        }
    }
}
