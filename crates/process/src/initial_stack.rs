//! The stack on which the kernel starts a program: arguments, environment and auxiliary vector.

/// The positions of the parts, in words from the initial stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackLayout {
    /// The number of arguments; the first pointer is word 1.
    pub argument_count: usize,
    /// The first pointer of the environment.
    pub environment: usize,
    /// The number of variables.
    pub variable_count: usize,
    /// The address of the path that was executed (`AT_EXECFN`).
    pub executed_path: usize,
}

/// Finds the parts. `word` reads the stack, in ascending order; `None` ends it.
///
/// Returns `None` if there is no argument, if there are more than `max_strings` arguments and
/// variables, or if the stack ends early. Reads no word after the end of the auxiliary vector.
pub fn parse_stack(
    mut word: impl FnMut(usize) -> Option<usize>,
    max_strings: usize,
) -> Option<StackLayout> {
    const AT_NULL: usize = 0;
    const AT_EXECFN: usize = 31;
    /// The kernel defines about forty kinds of entries.
    const MAX_ENTRIES: usize = 256;
    let argument_count = word(0)?;
    if argument_count == 0 || argument_count > max_strings {
        return None;
    }
    // A null pointer ends the arguments, and another the environment.
    let environment = argument_count.checked_add(2)?;
    let most = max_strings.saturating_sub(argument_count);
    let mut variable_count = 0;
    while word(environment.checked_add(variable_count)?)? != 0 {
        variable_count += 1;
        if variable_count > most {
            return None;
        }
    }
    let entries = environment.checked_add(variable_count)?.checked_add(1)?;
    for entry in 0..MAX_ENTRIES {
        let at = entries.checked_add(entry * 2)?;
        match word(at)? {
            AT_NULL => return None,
            AT_EXECFN => {
                let executed_path = word(at.checked_add(1)?)?;
                return Some(StackLayout {
                    argument_count,
                    environment,
                    variable_count,
                    executed_path,
                });
            }
            _ => {}
        }
    }
    None
}

/// Arguments, environment and path of a program, which live as long as the process.
#[derive(Clone, Debug)]
pub struct InitialStack {
    /// The arguments, at least `argv[0]`.
    pub args: Vec<&'static [u8]>,
    /// The environment, each variable as `NAME=value`.
    pub environment: Vec<&'static [u8]>,
    /// The path that the kernel executed, before resolving links.
    pub executed_path: &'static [u8],
}

/// Limits of a program that begins before the C library starts: its memory is fixed.
pub(crate) const MAX_STRINGS: usize = 1024;
/// Bytes of arguments and environment, with a NUL after each.
pub(crate) const MAX_BYTES: usize = 32 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &[usize], expected: Option<[usize; 4]>) {
        let found = parse_stack(|index| words.get(index).copied(), 4);
        let found = found
            .map(|it| [it.argument_count, it.environment, it.variable_count, it.executed_path]);
        assert_eq!(found, expected, "{words:?}");
        for cut in 0..words.len() {
            let cut = parse_stack(|index| words[..cut].get(index).copied(), 4);
            assert!(cut.is_none() || expected.is_some());
        }
    }

    #[test]
    fn parts_of_a_stack() {
        check(&[1, 90, 0, 0, 31, 70, 0, 0], Some([1, 3, 0, 70]));
        check(&[2, 90, 91, 0, 80, 81, 0, 6, 4096, 31, 70, 0, 0], Some([2, 4, 2, 70]));
        check(&[0, 0, 80, 0, 31, 70, 0, 0], None);
        check(&[1, 90, 0, 0, 6, 4096, 0, 0], None);
        check(&[5, 1, 2, 3, 4, 5, 0, 0, 31, 70, 0, 0], None);
        check(&[2, 90, 91, 0, 80, 81, 82, 0, 31, 70, 0, 0], None);
        check(&[usize::MAX, 0, 0, 31, 70], None);
        check(&[1, 90, 0, 80], None);
        check(&[], None);
    }
}
