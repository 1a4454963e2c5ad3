//! A private tmux server: a terminal as agents use it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::{Scratch, eventually, is_alive};

/// A window of 80 columns by 24 rows with one command. Drop kills the server and the command.
#[derive(Debug)]
pub struct Tmux {
    socket: PathBuf,
    server: i32,
    /// The command terminal, for example `/dev/pts/3`.
    pub terminal: String,
    /// The command's process id.
    pub pid: i32,
    _scratch: Scratch,
}

impl Tmux {
    /// Starts a server with a command, which leads its session.
    #[track_caller]
    pub fn start(command: &Command) -> Self {
        let scratch = Scratch::new();
        let socket = scratch.path().join("tmux");
        let mut tmux = Command::new("/usr/bin/tmux");
        tmux.arg("-S").arg(&socket).args(["-f", "/dev/null", "-u"]).env_clear();
        tmux.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        // No status line, and no delay after Escape.
        tmux.args(["set", "-g", "status", "off", ";", "set", "-s", "escape-time", "0", ";"]);
        tmux.args(["new-session", "-d", "-x", "80", "-y", "24", "--"]);
        tmux.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
        if let Some(dir) = command.get_current_dir() {
            tmux.current_dir(dir);
        }
        let started = tmux.status().expect("tmux can be started");
        assert!(started.success(), "{tmux:?}");
        let mut tmux =
            Tmux { socket, server: 0, terminal: String::new(), pid: 0, _scratch: scratch };
        tmux.server = tmux.number("#{pid}");
        tmux.pid = tmux.number("#{pane_pid}");
        tmux.terminal = tmux.tmux(&["display", "-p", "#{pane_tty}"]).trim().to_owned();
        tmux
    }

    /// Presses keys by name: `Enter`, `C-c`, `Left`; other texts are typed.
    #[track_caller]
    pub fn press(&self, keys: &[&str]) -> &Self {
        self.tmux(&[&["send-keys", "--"], keys].concat());
        self
    }

    /// Types a line and presses Enter.
    #[track_caller]
    pub fn line(&self, text: &str) -> &Self {
        // tmux takes a semicolon at a word's end as the end of its command.
        let text = text.strip_suffix(';').map_or(text.to_owned(), |rest| format!("{rest}\\;"));
        self.tmux(&["send-keys", "-l", "--", &text]);
        self.press(&["Enter"])
    }

    /// The screen's content, without trailing white space.
    #[track_caller]
    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"]).trim_end().to_owned()
    }

    /// The screen's content with colours and other attributes.
    #[track_caller]
    pub fn coloured_screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"]).trim_end().to_owned()
    }

    /// The value of a format, such as `#{cursor_x}`.
    #[track_caller]
    pub fn value(&self, format: &str) -> String {
        self.tmux(&["display", "-p", format]).trim_end_matches('\n').to_owned()
    }

    /// Waits until the screen matches.
    #[track_caller]
    pub fn until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> &Self {
        let mut screen = String::new();
        let started = std::time::Instant::now();
        while !wanted(&screen) {
            let patient = started.elapsed() < crate::DEADLINE;
            assert!(patient, "the screen never showed {what}:\n{screen}");
            std::thread::sleep(std::time::Duration::from_millis(5));
            screen = self.screen();
        }
        self
    }

    /// Waits until the screen contains `text`.
    #[track_caller]
    pub fn expect(&self, text: &str) -> &Self {
        self.until(&format!("{text:?}"), |screen| screen.contains(text))
    }

    /// Waits until the screen's last line is `prompt`, with the cursor after it.
    #[track_caller]
    pub fn prompt(&self, prompt: &str) -> &Self {
        let prompt = prompt.trim_end();
        self.until(&format!("the prompt {prompt:?}"), |screen| {
            screen.lines().last() == Some(prompt)
        })
    }

    /// Clears the screen.
    #[track_caller]
    pub fn clear(&self) -> &Self {
        self.tmux(&["send-keys", "-R", ";", "clear-history"]);
        self
    }

    /// Resizes the window.
    #[track_caller]
    pub fn resize(&self, columns: u16, rows: u16) -> &Self {
        self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
        self
    }

    /// Closes the terminal of all running processes.
    #[track_caller]
    pub fn close(&self) {
        self.tmux(&["kill-server"]);
    }

    #[track_caller]
    fn number(&self, format: &str) -> i32 {
        let text = self.tmux(&["display", "-p", format]);
        text.trim().parse().unwrap_or_else(|_| panic!("{format} is '{text}'"))
    }

    #[track_caller]
    fn tmux(&self, words: &[&str]) -> String {
        let mut tmux = Command::new("/usr/bin/tmux");
        tmux.env_clear().arg("-S").arg(&self.socket).arg("-u").args(words).stdin(Stdio::null());
        let output = tmux.output().expect("tmux can be started");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let mut tmux = Command::new("/usr/bin/tmux");
        tmux.env_clear().arg("-S").arg(&self.socket).arg("kill-server").stderr(Stdio::null());
        let _ = tmux.status();
        if !std::thread::panicking() {
            eventually("tmux has gone", || !is_alive(self.server));
        }
    }
}
