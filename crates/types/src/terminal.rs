//! What two terminals have to agree on.

/// The size of a terminal (`struct winsize`), in cells, and in pixels where it knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowSize {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
    /// Width in pixels, or 0.
    pub x_pixels: u16,
    /// Height in pixels, or 0.
    pub y_pixels: u16,
}

/// How a terminal treats what is typed and shown: the flags of `struct termios` by their Linux bits,
/// and its control characters in the kernel's order.
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
    /// `c_cc`: the character that interrupts, the one that erases, and so on.
    pub characters: Vec<u8>,
}
