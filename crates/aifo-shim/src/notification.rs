//! Notifications: commands on the user's machine (`spec/notify.md#the-shim`).

use aifo_wire::{ClientMode, encode_notify};

use crate::connection::{self, SendOutcome};
use crate::failure::report_not_started;
use crate::settings::Settings;
use crate::shim_exit::ShimExit;
use crate::streamed::StreamedCall;

/// Sends `/notify` and ends as the command does, or at once if notifications are asynchronous.
pub(crate) fn run(settings: &Settings, command: &str, args: &[Vec<u8>]) -> ShimExit {
    let proxy = match &settings.proxy {
        Ok(proxy) => proxy,
        Err(why) => return report_not_started(why),
    };
    let mut request = Vec::new();
    let (endpoint, token) = (&proxy.endpoint, &proxy.token);
    let mode = if settings.notify_async { ClientMode::Detached } else { ClientMode::Attached };
    encode_notify(&mut request, endpoint, token, command.as_bytes(), args, mode);
    let socket = match connection::open(endpoint) {
        Ok(socket) => socket,
        Err(error) => {
            return report_not_started(format_args!(
                "cannot reach the proxy at {endpoint}: {error}"
            ));
        }
    };
    match connection::send_request(&socket, &request) {
        SendOutcome::Nothing => {
            report_not_started(format_args!("the proxy at {endpoint} closed the connection"))
        }
        SendOutcome::Complete | SendOutcome::Partial if settings.notify_async => ShimExit::Code(0),
        // Signals stay uncaught: if one terminates the shim, the proxy sees the disconnect and ends
        // the command.
        SendOutcome::Complete | SendOutcome::Partial => {
            StreamedCall::new(settings, proxy, socket.into(), None).run()
        }
    }
}
