//! Telling the user something on the machine they sit at.

use aifo_wire::{Attendance, encode_notify};

use crate::connection::{self, SendOutcome};
use crate::failure::report_not_started;
use crate::settings::Settings;
use crate::shim_exit::ShimExit;
use crate::streamed::StreamedCall;

/// Asks the proxy to run a notification command and ends as it does, or at once if the user does
/// not want to wait for it.
pub(crate) fn run(settings: &Settings, command: &str, args: &[Vec<u8>]) -> ShimExit {
    let proxy = match &settings.proxy {
        Ok(proxy) => proxy,
        Err(why) => return report_not_started(why),
    };
    let mut request = Vec::new();
    let (endpoint, token) = (&proxy.endpoint, &proxy.token);
    let attendance = if settings.notify_async { Attendance::Leaves } else { Attendance::Waits };
    encode_notify(&mut request, endpoint, token, command.as_bytes(), args, attendance);
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
        // No signal is caught: one that ends us closes the connection, which ends the command.
        SendOutcome::Complete | SendOutcome::Partial => {
            StreamedCall::new(settings, proxy, socket, None).run()
        }
    }
}
