//! Names of the environment variables of HTTP proxies, in the order in which programs read them.

/// The proxy of URLs with `http`.
pub const HTTP_PROXY: [&str; 2] = ["http_proxy", "HTTP_PROXY"];

/// The proxy of URLs with `https`.
pub const HTTPS_PROXY: [&str; 2] = ["https_proxy", "HTTPS_PROXY"];

/// The proxy of URLs with `ftp`.
pub const FTP_PROXY: [&str; 2] = ["ftp_proxy", "FTP_PROXY"];

/// The proxy of URLs that have no other one.
pub const ALL_PROXY: [&str; 2] = ["all_proxy", "ALL_PROXY"];

/// The hosts that are reached without a proxy.
pub const NO_PROXY: [&str; 2] = ["no_proxy", "NO_PROXY"];

/// All of them.
pub const PROXY_VARIABLES: [&str; 10] = [
    HTTP_PROXY[0],
    HTTPS_PROXY[0],
    FTP_PROXY[0],
    ALL_PROXY[0],
    NO_PROXY[0],
    HTTP_PROXY[1],
    HTTPS_PROXY[1],
    FTP_PROXY[1],
    ALL_PROXY[1],
    NO_PROXY[1],
];
