//! The size and modes of a terminal.

/// The size of a terminal (`struct winsize`), in cells and pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowSize {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
    /// Width in pixels, 0 if unknown.
    pub x_pixels: u16,
    /// Height in pixels, 0 if unknown.
    pub y_pixels: u16,
}

/// The modes of a terminal: the flags of `struct termios` as Linux bits, and its control characters
/// in the kernel's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalModes {
    /// `c_iflag`
    pub input: u32,
    /// `c_oflag`
    pub output: u32,
    /// `c_cflag`
    pub control: u32,
    /// `c_lflag`
    pub local: u32,
    /// `c_cc`
    pub characters: Vec<u8>,
}
