//! Addresses on the command line.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// A host and a port of another process. The host is not resolved, and as in a URL: IPv6 in brackets.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    host: String,
    port: u16,
}

impl Address {
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Address {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{}", self.host, self.port)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        const FORM: &str = "give HOST:PORT, such as node1:50050, 127.0.0.1:50050 or [::1]:50050";
        let (name, port) = text.rsplit_once(':').ok_or(FORM)?;
        let port = port.parse().ok().filter(|&port| port > 0).ok_or(FORM)?;
        if name.contains(':') && !name.starts_with('[') {
            return Err(FORM.to_owned());
        }
        Ok(Address { host: host(name).map_err(|_| FORM)?, port })
    }
}

/// A name or an address of a machine, as in a URL.
pub(crate) fn host(text: &str) -> Result<String, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<Ipv6Addr>() {
        return Ok(in_url(address.into()));
    }
    let is_known = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
    match !text.is_empty() && text.chars().all(is_known) {
        true => Ok(text.to_owned()),
        false => Err("give a host name or an IP address".to_owned()),
    }
}

fn in_url(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// An address of this machine.
#[derive(Clone, Debug)]
pub(crate) struct Bind {
    named: Address,
    socket: SocketAddr,
}

impl Bind {
    /// Its host as it was given.
    pub(crate) fn host(&self) -> &str {
        self.named.host()
    }

    pub(crate) fn port(&self) -> u16 {
        self.named.port()
    }

    pub(crate) fn socket(&self) -> SocketAddr {
        self.socket
    }

    /// Its IP address as in a URL.
    pub(crate) fn ip(&self) -> String {
        in_url(self.socket.ip())
    }

    /// The host that others are told: `external`, or that of this address.
    ///
    /// # Errors
    /// If that is not a single address.
    pub(crate) fn announced(&self, external: Option<&str>) -> Result<String, String> {
        match external {
            Some(host) => Ok(host.to_owned()),
            None if self.socket.ip().is_unspecified() => Err(format!(
                "--bind {self}: others cannot connect to this address; give the host by which they reach this machine with \
                 --external-host"
            )),
            None => Ok(self.host().to_owned()),
        }
    }
}

impl fmt::Display for Bind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.named.fmt(to)
    }
}

impl FromStr for Bind {
    type Err = String;

    fn from_str(text: &str) -> Result<Bind, String> {
        let named: Address = text.parse()?;
        let resolved = text.to_socket_addrs().map(|mut addresses| addresses.next());
        match resolved {
            Ok(Some(socket)) => Ok(Bind { named, socket }),
            Ok(None) => Err(format!("the host {} has no address", named.host)),
            Err(error) => Err(format!("the host {} is not known: {error}", named.host)),
        }
    }
}
