//! The signals that a client can send to a tool.

use std::fmt;

/// A signal that a client can send to a running tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// SIGHUP
    Hup,
    /// SIGINT
    Int,
    /// SIGQUIT
    Quit,
    /// SIGKILL
    Kill,
    /// SIGUSR1
    Usr1,
    /// SIGUSR2
    Usr2,
    /// SIGTERM
    Term,
    /// SIGCONT
    Cont,
    /// SIGTSTP
    Tstp,
    /// SIGWINCH
    Winch,
}

/// Name and Linux number of each signal. Only alpha, mips, parisc and sparc, which are not
/// supported, have other numbers.
const TABLE: [(Signal, &str, u8); 10] = [
    (Signal::Hup, "HUP", 1),
    (Signal::Int, "INT", 2),
    (Signal::Quit, "QUIT", 3),
    (Signal::Kill, "KILL", 9),
    (Signal::Usr1, "USR1", 10),
    (Signal::Usr2, "USR2", 12),
    (Signal::Term, "TERM", 15),
    (Signal::Cont, "CONT", 18),
    (Signal::Tstp, "TSTP", 20),
    (Signal::Winch, "WINCH", 28),
];

impl Signal {
    /// Parses a name, with or without `SIG`, in any case.
    pub fn parse(name: &str) -> Option<Self> {
        let bare = match name.get(..3) {
            Some(prefix) if prefix.eq_ignore_ascii_case("sig") => &name[3..],
            _ => name,
        };
        TABLE.iter().find(|(_, known, _)| known.eq_ignore_ascii_case(bare)).map(|row| row.0)
    }

    /// Returns the signal with this Linux number, if a client can send it.
    pub fn from_number(number: u8) -> Option<Self> {
        TABLE.iter().find(|row| row.2 == number).map(|row| row.0)
    }

    /// Returns the Linux number.
    pub fn number(self) -> u8 {
        self.row().2
    }

    /// Returns the name without `SIG`, as in a `/signal` request.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns whether the signal's purpose is to terminate the tool.
    pub fn is_terminating(self) -> bool {
        matches!(self, Signal::Hup | Signal::Int | Signal::Quit | Signal::Kill | Signal::Term)
    }

    fn row(self) -> (Signal, &'static str, u8) {
        // The table contains every variant, which a test checks.
        TABLE.into_iter().find(|row| row.0 == self).unwrap_or(TABLE[6])
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_is_in_the_table_once() {
        use Signal::*;
        for signal in [Hup, Int, Quit, Kill, Usr1, Usr2, Term, Cont, Tstp, Winch] {
            assert_eq!(TABLE.iter().filter(|row| row.0 == signal).count(), 1);
            assert_eq!(Signal::parse(signal.name()), Some(signal));
            assert_eq!(Signal::from_number(signal.number()), Some(signal));
        }
    }

    #[test]
    fn names() {
        for name in ["INT", "int", "SIGINT", "SigInt"] {
            assert_eq!(Signal::parse(name), Some(Signal::Int), "{name}");
        }
        for name in ["", "SIG", "2", "STOP", "SEGV", "INT ", "é", "SIGSIGINT"] {
            assert_eq!(Signal::parse(name), None, "{name}");
        }
    }
}
