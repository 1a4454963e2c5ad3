//! Telling the user something on the machine they sit at.

use aifo_wire::{ClientMode, encode_notify};

use crate::connection::{self, Sent};
use crate::ending::ShimEnd;
use crate::loss::nothing_ran;
use crate::settings::Settings;
use crate::streamed::Call;

/// Asks the proxy to run a notification command and ends as it does, or at once if the user does
/// not want to wait for it.
pub(crate) fn run(settings: &Settings, command: &str, args: &[Vec<u8>]) -> ShimEnd {
    let proxy = match &settings.proxy {
        Ok(proxy) => proxy,
        Err(why) => return nothing_ran(why),
    };
    let mut request = Vec::new();
    let (endpoint, token) = (&proxy.endpoint, &proxy.token);
    let mode = if settings.notify_async { ClientMode::Detached } else { ClientMode::Attached };
    encode_notify(&mut request, endpoint, token, command.as_bytes(), args, mode);
    let socket = match connection::open(endpoint) {
        Ok(socket) => socket,
        Err(error) => {
            return nothing_ran(format_args!("cannot reach the proxy at {endpoint}: {error}"));
        }
    };
    match connection::send_request(&socket, &request) {
        Sent::Nothing => nothing_ran(format_args!("the proxy at {endpoint} closed the connection")),
        Sent::All | Sent::Part if settings.notify_async => ShimEnd::Code(0),
        // No signal is caught: one that ends us closes the connection, which ends the command.
        Sent::All | Sent::Part => Call::new(settings, proxy, socket, None).follow(),
    }
}
