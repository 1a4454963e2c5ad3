//! A session that continues after the end of its login session (`spec/attach.md#use`).

use std::path::Path;

use aifo_host::runtime_directory;
use aifo_terminal::console;

/// Where systemd keeps the names of users who linger.
const LINGER: &str = "/var/lib/systemd/linger";
/// Where systemd has the runtime directories of users.
const RUNTIME: &str = "/run/user";

/// Warns that this machine removes the session directory at the user's last logout, if it does.
pub(crate) fn warn() {
    let name = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    let lingers = name.is_ok_and(|name| Path::new(LINGER).join(name).exists());
    if let Some(warning) = warning(&runtime_directory(), lingers) {
        console::say(format_args!("{warning}"));
    }
}

fn warning(runtime: &Path, lingers: bool) -> Option<String> {
    (runtime.starts_with(RUNTIME) && !lingers).then(|| {
        format!(
            "WARNING: your last logout removes '{}', and then the session cannot be attached\n\
             hint: keep it after a logout: loginctl enable-linger",
            runtime.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_directory_of_a_login_is_removed() {
        let of_login = Path::new("/run/user/1000");
        assert!(warning(of_login, false).is_some_and(|text| text.contains("'/run/user/1000'")));
        assert_eq!(warning(of_login, true), None);
        assert_eq!(warning(Path::new("/tmp"), false), None);
    }
}
