//! The screen of a held terminal, its modes, and how a client terminal gets and loses them
//! (`spec/attach.md#screen`).

mod modes;

use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};

use aifo_types::WindowSize;
use vt100::capture::{BasicFormattedCaptureRange, BasicFormattedCaptureState};
use vt100::{CursorStyle, MouseProtocolEncoding, MouseProtocolMode, Parser};

use modes::Modes;

/// The lines above the screen that are kept.
const HISTORY: usize = 500;
/// Parses a terminal output.
pub struct Screen {
    parser: Parser<Modes>,
    size: (NonZeroU16, NonZeroU16),
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Screen {
    /// Returns an empty screen.
    pub fn new(size: WindowSize) -> Self {
        let size = cells(size);
        Screen { parser: parser(size), size }
    }

    /// Takes output.
    pub fn receive(&mut self, output: &[u8]) {
        // The emulator does not report a reset.
        if output.windows(RESET.len()).any(|bytes| bytes == RESET) {
            *self.parser.callbacks_mut() = Modes::default();
        }
        let parser = AssertUnwindSafe(&mut self.parser);
        // The emulator is another project's, and the output anything: its panic must not end the command.
        if catch_unwind(|| { parser }.process(output)).is_err() {
            self.parser = parser_with_message(self.size);
        }
    }

    /// Changes the size.
    pub fn resize(&mut self, size: WindowSize) {
        self.size = cells(size);
        let (rows, columns) = self.size;
        let parser = AssertUnwindSafe(&mut self.parser);
        if catch_unwind(|| { parser }.set_size(rows, columns)).is_err() {
            self.parser = parser_with_message(self.size);
        }
    }

    /// Returns the answers to the queries since the last call.
    pub fn take_answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.parser.callbacks_mut().answers)
    }

    /// Returns output that draws the screen on any terminal of its size that shows its primary screen and
    /// has no modes, with the lines above it if `history` is set.
    pub fn redraw(&self, history: bool) -> Vec<u8> {
        let screen = self.parser.screen();
        let drawn = catch_unwind(AssertUnwindSafe(|| {
            let mut text = ABORT.to_owned();
            let is_alternate = screen.alternate_screen();
            if history && !is_alternate {
                let mut lines = String::new();
                let mut state = BasicFormattedCaptureState::new();
                let range = BasicFormattedCaptureRange::Full(&mut state);
                // Writing to a string does not fail.
                let _ = screen.write_contents_formatted_basic(&mut lines, range);
                text += &lines.replace('\n', "\r\n");
                text += "\x1b[m";
            }
            let modes = self.parser.callbacks();
            modes.write_keyboard(false, &mut text);
            if is_alternate {
                text += "\x1b[?1049h";
                modes.write_keyboard(true, &mut text);
            }
            text += "\x1b[?6l\x1b[r";
            text += &screen.state_formatted();
            modes.write(&mut text);
            text
        }));
        drawn.unwrap_or_default().into_bytes()
    }

    /// Returns output that undoes the modes that the screen's output has set. It
    /// leaves the alternate screen if that is shown.
    pub fn restore(&self) -> Vec<u8> {
        let screen = self.parser.screen();
        let mut text = format!("{ABORT}\x1b7\x1b[r\x1b8");
        let modes = self.parser.callbacks();
        modes.write_reset(&mut text);
        if screen.mouse_protocol_mode() != MouseProtocolMode::None
            || screen.mouse_protocol_encoding() != MouseProtocolEncoding::Default
        {
            text += "\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?9l\x1b[?1006l\x1b[?1005l";
        }
        if screen.bracketed_paste() {
            text += "\x1b[?2004l";
        }
        if screen.application_cursor() {
            text += "\x1b[?1l";
        }
        if screen.application_keypad() {
            text += "\x1b>";
        }
        if screen.cursor_style() != CursorStyle::Default {
            text += "\x1b[0 q";
        }
        if screen.hide_cursor() {
            text += "\x1b[?25h";
        }
        if screen.alternate_screen() {
            modes.write_keyboard_reset(true, &mut text);
            text += LEAVE_ALTERNATE;
        }
        modes.write_keyboard_reset(false, &mut text);
        text.into_bytes()
    }
}

/// Ends a sequence that was cut off, synchronised output, attributes and character sets.
const ABORT: &str = "\x18\x1b\\\x1b[?2026l\x1b[m\x1b(B\x0f";

/// Resets the terminal (RIS).
const RESET: &[u8] = b"\x1bc";

/// Leaves the alternate screen.
pub(crate) const LEAVE_ALTERNATE: &str = "\x1b[?1049l";

fn parser((rows, columns): (NonZeroU16, NonZeroU16)) -> Parser<Modes> {
    Parser::new_with_callbacks(rows, columns, HISTORY, Modes::default())
}

fn parser_with_message(size: (NonZeroU16, NonZeroU16)) -> Parser<Modes> {
    let mut parser = parser(size);
    parser.process(b"aifo: the screen was lost; the program draws it again\r\n");
    parser
}

fn cells(size: WindowSize) -> (NonZeroU16, NonZeroU16) {
    let size = bounded(size);
    let cells = |count| NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN);
    (cells(size.rows), cells(size.columns))
}

/// Returns a size that a screen can have: 80 columns and 24 rows instead of 0.
pub(crate) fn bounded(size: WindowSize) -> WindowSize {
    let bound = |count, usual, most| if count == 0 { usual } else { u16::clamp(count, 2, most) };
    let (rows, columns) = (bound(size.rows, 24, 500), bound(size.columns, 80, 1000));
    WindowSize { rows, columns, ..size }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(output: &str) -> Screen {
        let size = WindowSize { rows: 5, columns: 20, ..WindowSize::default() };
        let mut screen = Screen::new(size);
        screen.receive(output.as_bytes());
        screen
    }

    /// Another terminal that gets only the redraw.
    fn copy(of: &Screen) -> Screen {
        let redraw = String::from_utf8(of.redraw(true)).unwrap();
        screen(&redraw)
    }

    const MODES_SET: &str = "\x1b[>3u\x1b[?1049h\x1b[?1007l\x1b[?25l\x1b[?1003h\x1b[?1006h\x1b[?2004h\x1b[?1004h\x1b[?1h\
        \x1b[?7l\x1b[>7u\x1b[>4;2m\x1b[5 q\x1b[31mred\x1b[3;7H";

    #[test]
    fn a_redraw_restores_screen_and_modes() {
        let original = screen(MODES_SET);
        let copied = copy(&original);
        let (a, b) = (original.parser.screen(), copied.parser.screen());
        assert_eq!(a.state_formatted(), b.state_formatted());
        assert!(b.alternate_screen() && b.hide_cursor() && b.bracketed_paste());
        assert_eq!(b.cursor_position(), (2, 6));
        let modes = copied.parser.callbacks();
        assert_eq!((&modes.set[..], &modes.keyboard), (&[1004][..], &[vec![3], vec![7]]));
        assert!(modes.is_unwrapped && modes.other_keys == 2);
        assert_eq!(modes.wheel_sends_arrows, Some(false));
    }

    #[test]
    fn restore_undoes_every_mode() {
        let mut original = screen(MODES_SET);
        original.receive(&original.restore());
        let (left, plain) = (&original, screen(""));
        let (a, b) = (left.parser.screen(), plain.parser.screen());
        assert_eq!(a.input_mode_formatted(), b.input_mode_formatted());
        assert!(!a.alternate_screen() && !a.hide_cursor());
        let modes = left.parser.callbacks();
        assert!(modes.set.is_empty() && modes.keyboard.iter().all(Vec::is_empty));
        assert!(!modes.is_unwrapped && modes.other_keys == 0);
    }

    #[test]
    fn lines_above_the_screen_come_first() {
        let lines: String = (1..=12).map(|line| format!("line {line}\r\n")).collect();
        let copied = copy(&screen(&lines));
        assert_eq!(copied.parser.screen().contents(), "line 9\nline 10\nline 11\nline 12");
        assert!(copied.parser.screen().scrollback_len() >= 8);
        let many: String = (1..=2000).map(|line| format!("line {line}\r\n")).collect();
        let redraw = String::from_utf8(screen(&many).redraw(true)).unwrap();
        assert!(redraw.contains("line 1600") && !redraw.contains("line 1400"));
    }

    #[test]
    fn the_last_title_and_colours_are_repeated_but_no_clipboard_or_query() {
        let original = screen(
            "a\x1b]0;first\x07\x1b]2;title \u{e4}\x07\x1b]52;c;aGk=\x07\x07\x1b[c\x1b[6n\x1b]11;?\x07\
             \x1b]12;#eeeeee\x07\x1b]22;pointer\x07\x1b]9;4;1;50\x07\x1b]7501;state=working\x1b\\b",
        );
        let redraw = String::from_utf8(original.redraw(true)).unwrap();
        for part in ["first", "aGk", "\x07", "[c", "[6n", "]11"] {
            assert!(!redraw.contains(part), "{part:?}: {redraw:?}");
        }
        for part in ["ab", "]0;title \u{e4}\x1b", "]12;#eeeeee\x1b", "]22;pointer\x1b", "]9;4;1;50"]
        {
            assert!(redraw.contains(part), "{part:?}: {redraw:?}");
        }
        let restore = String::from_utf8(original.restore()).unwrap();
        for part in ["]112\x1b", "]22;\x1b", "]9;4;0\x1b", "]7501;state=clear\x1b"] {
            assert!(restore.contains(part), "{part:?}: {restore:?}");
        }
        let undone = screen(&format!("\x1b]12;red\x07\x1b]9;4;1;5\x07{restore}"));
        assert!(!String::from_utf8(undone.restore()).unwrap().contains(']'), "{undone:?}");
    }

    /// A title is anything that the command writes.
    #[test]
    fn a_title_has_no_control_characters() {
        for title in ["a\u{9c}b", "a\u{85}b", &"x".repeat(1000)] {
            let redraw = screen(&format!("\x1b]0;{title}\x07")).redraw(true);
            assert!(!String::from_utf8(redraw).unwrap().contains("]0;"), "{title:?}");
        }
    }

    #[test]
    fn a_reset_undoes_every_mode() {
        let mut reset = screen(MODES_SET);
        reset.receive(b"\x1bc");
        assert_eq!(reset.restore(), screen("").restore());
        assert_eq!(reset.redraw(true), screen("").redraw(true));
    }

    #[test]
    fn queries_have_answers() {
        let mut asked = screen("ab\x1b[c\x1b[5n\x1b[6n\x1b]11;?\x07\x1b[?u\x1b[>c");
        assert_eq!(asked.take_answers(), b"\x1b[?62;22c\x1b[0n\x1b[1;3R");
        assert_eq!(asked.take_answers(), b"");
        asked.receive("\x1b[c".repeat(100_000).as_bytes());
        assert!(asked.take_answers().len() < 2 * modes::MAX_ANSWERS);
    }

    #[test]
    fn sizes_are_bounded() {
        let size = |rows, columns| WindowSize { rows, columns, ..WindowSize::default() };
        let rows = [((0, 0), (24, 80)), ((1, 1), (2, 2)), ((65535, 65535), (500, 1000))];
        for ((rows, columns), expected) in rows {
            let bounded = bounded(size(rows, columns));
            assert_eq!((bounded.rows, bounded.columns), expected);
        }
    }

    /// Any bytes, any sizes: no panic leaves the screen, and a redraw of it can be drawn.
    #[test]
    fn arbitrary_output_is_survived() {
        let mut state = 0x2545_f491_4f6c_dd1du64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut tested = screen("");
        let alphabet = "\x1b[]?;:0123456789hlmrHJKLMPSTXABCD@u>=<\r\n\t ä漢x\x08";
        let characters: Vec<char> = alphabet.chars().collect();
        for round in 0..400 {
            let text: String =
                (0..200).map(|_| characters[random() as usize % characters.len()]).collect();
            tested.receive(text.as_bytes());
            tested.receive(&random().to_ne_bytes());
            if round % 8 == 0 {
                let (rows, columns) = (random() as u16 % 40, random() as u16 % 90);
                tested.resize(WindowSize { rows, columns, ..WindowSize::default() });
            }
            let redraw = tested.redraw(true);
            assert!(!redraw.is_empty() && !tested.restore().is_empty());
        }
    }
}
