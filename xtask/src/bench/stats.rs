//! Times in pairs: native and proxied in turns, so that both see the same machine.

use std::time::Duration;

use anyhow::Result;

/// As many native times as proxied ones; the two of one index were taken one after the other.
pub(crate) struct Pairs {
    native: Vec<Duration>,
    proxied: Vec<Duration>,
}

/// What is told of a series of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    /// A tenth of the times are shorter: the path's own cost, without the machine's noise.
    pub(crate) p10: Duration,
    /// Half of the times are shorter.
    pub(crate) median: Duration,
}

impl Pairs {
    /// Takes `rounds` pairs. Who goes first changes from pair to pair, because the second finds
    /// the caches as the first left them.
    pub(crate) fn measure(
        rounds: usize,
        mut native: impl FnMut() -> Result<Duration>,
        mut proxied: impl FnMut() -> Result<Duration>,
    ) -> Result<Self> {
        let mut pairs = Pairs { native: Vec::new(), proxied: Vec::new() };
        for round in 0..rounds {
            if round % 2 == 0 {
                pairs.native.push(native()?);
                pairs.proxied.push(proxied()?);
            } else {
                pairs.proxied.push(proxied()?);
                pairs.native.push(native()?);
            }
        }
        Ok(pairs)
    }

    /// The native times.
    pub(crate) fn native(&self) -> Spread {
        Spread::of(&self.native)
    }

    /// The proxied times.
    pub(crate) fn proxied(&self) -> Spread {
        Spread::of(&self.proxied)
    }

    /// The median of the pairs' ratios, proxied to native.
    pub(crate) fn ratio(&self) -> f64 {
        let pairs = self.proxied.iter().zip(&self.native);
        let mut ratios: Vec<f64> =
            pairs.map(|(proxied, native)| proxied.as_secs_f64() / native.as_secs_f64()).collect();
        ratios.sort_by(f64::total_cmp);
        at(&ratios, 50).copied().unwrap_or(f64::NAN)
    }
}

impl Spread {
    fn of(times: &[Duration]) -> Self {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let percentile = |percent| at(&sorted, percent).copied().unwrap_or_default();
        Spread { p10: percentile(10), median: percentile(50) }
    }
}

/// The value below which a share of a sorted series lies, `percent` from 0 to 100.
fn at<T>(sorted: &[T], percent: usize) -> Option<&T> {
    sorted.get(sorted.len().saturating_sub(1) * percent / 100)
}

/// A time in milliseconds: two decimals below 10, one above.
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
        assert_eq!(pairs.ratio(), 1.5);
        assert_eq!(pairs.native().median, Duration::from_millis(2));
    }

    #[test]
    fn percentiles_are_members_of_the_series() {
        let times: Vec<Duration> = (1..=101).rev().map(Duration::from_millis).collect();
        let spread = Spread::of(&times);
        assert_eq!(spread.p10, Duration::from_millis(11));
        assert_eq!(spread.median, Duration::from_millis(51));
        assert_eq!(Spread::of(&[]).median, Duration::ZERO);
    }

    #[test]
    fn milliseconds_for_people() {
        assert_eq!(millis(Duration::from_micros(1234)), "1.23");
        assert_eq!(millis(Duration::from_micros(123_456)), "123.5");
    }
}
