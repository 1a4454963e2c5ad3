//! Modes and settings of a terminal that the emulator does not keep.

use std::fmt::Write;

use vt100::Callbacks;

/// The most bytes of answers to queries in one piece of output.
pub(super) const MAX_ANSWERS: usize = 4096;
/// The deepest stack of keyboard modes that the kitty protocol allows terminals to limit to.
const MAX_KEYBOARD_MODES: usize = 8;
/// The longest title or other setting that is kept.
const MAX_TEXT: usize = 256;

/// Modes besides those of the emulator that a redraw sets again. The mouse's encodings come after the
/// emulator's.
const MODES: [u16; 6] = [1004, 1015, 1016, 2027, 2031, 2048];

/// Settings by OSC sequences: how one begins, and the sequence that undoes it.
const SETTINGS: [(&str, &str); 6] = [
    ("10;", "110"),
    ("11;", "111"),
    ("12;", "112"),
    ("22;", "22;"),
    // Progress, and the state that codex reports.
    ("9;4;", "9;4;0"),
    ("7501;", "7501;state=clear"),
];

/// State of the terminal that the emulator does not keep.
#[derive(Debug, Default)]
pub(super) struct Modes {
    /// Modes of [`MODES`] that are set.
    pub(super) set: Vec<u16>,
    /// True if lines do not wrap.
    pub(super) is_unwrapped: bool,
    /// Whether the wheel sends arrows on the alternate screen, if the command has chosen.
    pub(super) wheel_sends_arrows: Option<bool>,
    /// Flags that were pushed in the kitty keyboard protocol: of the primary and the alternate screen.
    pub(super) keyboard: [Vec<u16>; 2],
    /// Level of xterm's `modifyOtherKeys`.
    pub(super) other_keys: u16,
    title: String,
    /// The content of one OSC sequence for each row of [`SETTINGS`].
    settings: [Option<String>; SETTINGS.len()],
    /// Answers to queries since the last ones were taken.
    pub(super) answers: Vec<u8>,
}

impl Modes {
    /// Appends the sequences that set the title and these modes, on a terminal with none of them. It
    /// shows the screen whose keyboard modes were [pushed](Self::write_keyboard) last.
    pub(super) fn write(&self, text: &mut String) {
        if self.is_unwrapped {
            text.push_str("\x1b[?7l");
        }
        if let Some(sends_arrows) = self.wheel_sends_arrows {
            text.push_str(if sends_arrows { "\x1b[?1007h" } else { "\x1b[?1007l" });
        }
        for mode in &self.set {
            let _ = write!(text, "\x1b[?{mode}h");
        }
        if self.other_keys > 0 {
            let _ = write!(text, "\x1b[>4;{}m", self.other_keys);
        }
        if !self.title.is_empty() {
            let _ = write!(text, "\x1b]0;{}\x1b\\", self.title);
        }
        for setting in self.settings.iter().flatten() {
            let _ = write!(text, "\x1b]{setting}\x1b\\");
        }
    }

    /// Appends the sequences that push the keyboard modes of a screen that is shown.
    pub(super) fn write_keyboard(&self, is_alternate: bool, text: &mut String) {
        for flags in self.stack(is_alternate) {
            let _ = write!(text, "\x1b[>{flags}u");
        }
    }

    /// Appends the sequences that undo these modes. The title is the client's to undo.
    pub(super) fn write_reset(&self, text: &mut String) {
        if self.is_unwrapped {
            text.push_str("\x1b[?7h");
        }
        if self.wheel_sends_arrows == Some(true) {
            text.push_str("\x1b[?1007l");
        }
        for mode in &self.set {
            let _ = write!(text, "\x1b[?{mode}l");
        }
        if self.other_keys > 0 {
            text.push_str("\x1b[>4;0m");
        }
        for (_, (_, undo)) in self.settings.iter().zip(SETTINGS).filter(|(set, _)| set.is_some()) {
            let _ = write!(text, "\x1b]{undo}\x1b\\");
        }
    }

    /// Appends the sequence that pops the keyboard modes of a screen that is shown.
    pub(super) fn write_keyboard_reset(&self, is_alternate: bool, text: &mut String) {
        let depth = self.stack(is_alternate).len();
        if depth > 0 {
            let _ = write!(text, "\x1b[<{depth}u");
        }
    }

    fn stack(&self, is_alternate: bool) -> &[u16] {
        let [primary, alternate] = &self.keyboard;
        if is_alternate { alternate } else { primary }
    }

    fn answer(&mut self, answer: &str) {
        if self.answers.len() < MAX_ANSWERS {
            self.answers.extend(answer.bytes());
        }
    }

    fn set_mode(&mut self, mode: u16, is_set: bool) {
        match mode {
            7 => self.is_unwrapped = !is_set,
            1007 => self.wheel_sends_arrows = Some(is_set),
            _ if MODES.contains(&mode) => {
                self.set.retain(|other| *other != mode);
                if is_set {
                    self.set.push(mode);
                }
            }
            _ => {}
        }
    }

    /// The kitty keyboard protocol. Each screen has its own stack.
    fn set_keyboard(&mut self, is_alternate: bool, prefix: u8, first: u16, second: u16) {
        let [primary, alternate] = &mut self.keyboard;
        let stack = if is_alternate { alternate } else { primary };
        match prefix {
            b'>' => {
                if stack.len() == MAX_KEYBOARD_MODES {
                    stack.remove(0);
                }
                stack.push(first);
            }
            b'<' => {
                let left = stack.len().saturating_sub(usize::from(first.max(1)));
                stack.truncate(left);
            }
            b'=' => {
                if stack.is_empty() && first > 0 {
                    stack.push(0);
                }
                if let Some(flags) = stack.last_mut() {
                    *flags = match second {
                        2 => *flags | first,
                        3 => *flags & !first,
                        _ => first,
                    };
                }
            }
            _ => {}
        }
    }

    fn set_by_osc(&mut self, parameters: &[&[u8]]) {
        let Some(text) = printable(&parameters.join(&b';')) else { return };
        for (setting, (start, undo)) in self.settings.iter_mut().zip(SETTINGS) {
            let is_undone = text == undo || text.strip_suffix(';') == Some(undo);
            if is_undone {
                *setting = None;
            } else if text.starts_with(start) && !text.contains('?') {
                *setting = Some(text.clone());
            }
        }
    }
}

/// Returns a text that is safe to write to a terminal, as part of a sequence.
fn printable(bytes: &[u8]) -> Option<String> {
    let text = str::from_utf8(bytes).ok()?;
    (text.len() <= MAX_TEXT && !text.chars().any(char::is_control)).then(|| text.to_owned())
}

impl Callbacks for Modes {
    fn set_window_title(&mut self, _screen: &mut vt100::Screen, title: &[u8]) {
        self.title = printable(title).unwrap_or_default();
    }

    fn unhandled_osc(&mut self, _screen: &mut vt100::Screen, parameters: &[&[u8]]) {
        self.set_by_osc(parameters);
    }

    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        first: Option<u8>,
        _second: Option<u8>,
        parameters: &[&[u16]],
        last: char,
    ) {
        let parameter = |index: usize| {
            parameters.get(index).and_then(|values| values.first().copied()).unwrap_or_default()
        };
        match (first, last) {
            (Some(b'?'), 'h' | 'l') => {
                for mode in parameters.iter().filter_map(|values| values.first()) {
                    self.set_mode(*mode, last == 'h');
                }
            }
            (Some(prefix), 'u') => {
                self.set_keyboard(screen.alternate_screen(), prefix, parameter(0), parameter(1));
            }
            (Some(b'>'), 'm') if parameter(0) == 4 => self.other_keys = parameter(1).min(3),
            (None, 'c') if parameter(0) == 0 => self.answer("\x1b[?62;22c"),
            (None, 'n') if parameter(0) == 5 => self.answer("\x1b[0n"),
            (None, 'n') if parameter(0) == 6 => {
                let (row, column) = screen.cursor_position();
                self.answer(&format!("\x1b[{};{}R", u32::from(row) + 1, u32::from(column) + 1));
            }
            _ => {}
        }
    }
}
