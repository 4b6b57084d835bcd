//! Where hosts connect: `tcp://HOST[:PORT]`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// The port that the NVMe/TCP specification registers for I/O (NVMe TCP Transport 1.0, 3.1.2; IANA "nvme").
pub const USUAL_PORT: u16 = 4420;

/// An address of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The IP address; an unspecified one (`0.0.0.0`, `::`) is every address of the machine.
    pub ip: IpAddr,
    /// The TCP port.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            IpAddr::V4(ip) => write!(out, "tcp://{ip}:{}", self.port),
            IpAddr::V6(ip) => write!(out, "tcp://[{ip}]:{}", self.port),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        parse(text).ok_or_else(|| {
            format!(
                "\"{text}\" is no address of NVMe over TCP; write tcp://IP[:PORT] with an IP address of this machine, an IPv6 address in \
                 brackets: tcp://10.0.0.5 or tcp://[fd00::5]:{USUAL_PORT}"
            )
        })
    }
}

fn parse(text: &str) -> Option<Address> {
    let rest = text.strip_prefix("tcp://")?;
    let (ip, port) = match rest.strip_prefix('[') {
        Some(bracketed) => {
            let (ip, after) = bracketed.split_once(']')?;
            let port = match after {
                "" => None,
                _ => Some(after.strip_prefix(':')?),
            };
            (IpAddr::V6(ip.parse::<Ipv6Addr>().ok()?), port)
        }
        None => {
            let (ip, port) = match rest.split_once(':') {
                Some((ip, port)) => (ip, Some(port)),
                None => (rest, None),
            };
            (IpAddr::V4(ip.parse().ok()?), port)
        }
    };
    let port = match port {
        None => USUAL_PORT,
        // `parse` would take a plus sign.
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port.parse().ok()?,
        Some(_) => return None,
    };
    (port > 0).then_some(Address { ip, port })
}

/// The line that an operator types on a host to connect.
#[must_use]
pub fn connect_line(address: &Address, nqn: &str) -> String {
    let ip = match address.ip.is_unspecified() {
        true => "ADDRESS-OF-THIS-MACHINE".to_owned(),
        false => address.ip.to_string(),
    };
    format!("nvme connect -t tcp -a {ip} -s {} -n {nqn}", address.port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_a_port() {
        for (text, shown) in [
            ("tcp://10.0.0.5", "tcp://10.0.0.5:4420"),
            ("tcp://10.0.0.5:4421", "tcp://10.0.0.5:4421"),
            ("tcp://[::1]", "tcp://[::1]:4420"),
            ("tcp://[fd00:0:0::5]:1", "tcp://[fd00::5]:1"),
            ("tcp://0.0.0.0:65535", "tcp://0.0.0.0:65535"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(shown.parse(), Ok(address));
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_to_write() {
        for text in [
            "",
            "tcp://",
            "10.0.0.5",
            "tcp:10.0.0.5",
            "rdma://10.0.0.5",
            "tcp://server",
            "tcp://::1",
            "tcp://[10.0.0.5]",
            "tcp://[::1",
            "tcp://[::1]4420",
            "tcp://[fe80::1%eth0]",
            "tcp://10.0.0.5:",
            "tcp://10.0.0.5:0",
            "tcp://10.0.0.5:+1",
            "tcp://10.0.0.5:65536",
            "tcp://10.0.0.5:1:2",
        ] {
            let wrong = text.parse::<Address>().unwrap_err();
            let expected =
                format!("\"{text}\" is no address of NVMe over TCP; write tcp://IP[:PORT]");
            assert!(wrong.starts_with(&expected), "{wrong}");
        }
    }

    #[test]
    fn a_host_is_told_how_to_connect() {
        let line = |text: &str| connect_line(&text.parse().unwrap(), "nqn.x");
        assert_eq!(
            line("tcp://[fd00::5]:7"),
            "nvme connect -t tcp -a fd00::5 -s 7 -n nqn.x"
        );
        assert_eq!(
            line("tcp://0.0.0.0"),
            "nvme connect -t tcp -a ADDRESS-OF-THIS-MACHINE -s 4420 -n nqn.x"
        );
    }
}
