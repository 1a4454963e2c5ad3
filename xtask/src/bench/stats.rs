//! Paired times: native and proxied in turns, under the same machine load.

use std::time::Duration;

use anyhow::Result;

/// Native and proxied times; those of one index were measured one after the other.
pub(crate) struct Pairs {
    native: Vec<Duration>,
    proxied: Vec<Duration>,
}

/// A summary of a series of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// The 10th percentile: the path's own cost, without noise.
    pub(crate) p10: Duration,
    /// The median.
    pub(crate) median: Duration,
}

impl Pairs {
    /// Measures `rounds` pairs. The order alternates, because the second call finds the first one's
    /// caches.
    pub(crate) fn measure(
        rounds: usize,
        mut native: impl FnMut() -> Result<Duration>,
        mut proxied: impl FnMut() -> Result<Duration>,
    ) -> Result<Self> {
        let pair = |round: usize| {
            if round.is_multiple_of(2) {
                let native = native()?;
                Ok((native, proxied()?))
            } else {
                let proxied = proxied()?;
                Ok((native()?, proxied))
            }
        };
        (0..rounds).map(pair).collect()
    }

    /// Summary of the native times.
    pub(crate) fn native(&self) -> Summary {
        Summary::of(&self.native)
    }

    /// Summary of the proxied times.
    pub(crate) fn proxied(&self) -> Summary {
        Summary::of(&self.proxied)
    }

    /// The proxied p10 divided by the native p10.
    ///
    /// Not the p10 of the pairs' ratios: that selects pairs with a disturbed native half, and of
    /// two equal series with a fast and a slow mode it would report one as faster.
    pub(crate) fn slowdown(&self) -> f64 {
        self.proxied().p10.as_secs_f64() / self.native().p10.as_secs_f64()
    }
}

impl FromIterator<(Duration, Duration)> for Pairs {
    /// Collects native and proxied times.
    fn from_iter<I: IntoIterator<Item = (Duration, Duration)>>(pairs: I) -> Self {
        let (native, proxied) = pairs.into_iter().unzip();
        Pairs { native, proxied }
    }
}

impl Summary {
    fn of(times: &[Duration]) -> Self {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let percentile = |percent| at(&sorted, percent).copied().unwrap_or_default();
        Summary { p10: percentile(10), median: percentile(50) }
    }
}

/// The value at `percent` (0 to 100) of a sorted series.
fn at<T>(sorted: &[T], percent: usize) -> Option<&T> {
    sorted.get(sorted.len().saturating_sub(1) * percent / 100)
}

/// Formats milliseconds: two decimals below 10, one above.
pub(crate) fn millis(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1e3;
    if millis < 10.0 { format!("{millis:.2}") } else { format!("{millis:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_changes_from_pair_to_pair() {
        let order = std::cell::RefCell::new(String::new());
        let take = |name: char, millis: u64| {
            order.borrow_mut().push(name);
            Ok(Duration::from_millis(millis))
        };
        let pairs = Pairs::measure(3, || take('n', 2), || take('p', 3)).unwrap();
        assert_eq!(order.into_inner(), "nppnnp");
        assert_eq!(pairs.slowdown(), 1.5);
        assert_eq!(pairs.native().median, Duration::from_millis(2));
    }

    #[test]
    fn two_equal_series_of_two_modes_are_equally_fast() {
        let modes =
            |first: u64, second: u64| (Duration::from_millis(first), Duration::from_millis(second));
        let pairs = [modes(1, 2), modes(2, 1)].into_iter().cycle().take(20);
        assert_eq!(pairs.collect::<Pairs>().slowdown(), 1.0);
        assert!(Pairs::from_iter([]).slowdown().is_nan());
    }

    #[test]
    fn percentiles_are_members_of_the_series() {
        let times: Vec<Duration> = (1..=101).rev().map(Duration::from_millis).collect();
        let spread = Summary::of(&times);
        assert_eq!(spread.p10, Duration::from_millis(11));
        assert_eq!(spread.median, Duration::from_millis(51));
        assert_eq!(Summary::of(&[]).median, Duration::ZERO);
    }

    #[test]
    fn milliseconds_for_people() {
        assert_eq!(millis(Duration::from_micros(1234)), "1.23");
        assert_eq!(millis(Duration::from_micros(123_456)), "123.5");
    }
}
