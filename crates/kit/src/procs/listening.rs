//! Listening ports of processes, and their names.

use std::{collections::HashSet, fs};

use super::Left;

/// Maximum number of characters of a command line that are shown.
const SHOWN: usize = 120;
/// Maximum number of processes that are listed.
const LISTED: usize = 100;
/// The state of a socket that listens, as the kernel writes it.
const LISTENING: &str = "0A";

/// Returns these processes, by name, and the ports that they listen on.
pub(super) fn left(pids: Vec<i32>) -> Left {
    let sockets: HashSet<u64> = pids.iter().copied().flat_map(sockets).collect();
    let mut ports = Vec::new();
    if !sockets.is_empty() {
        for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
            let table = fs::read_to_string(table).unwrap_or_default();
            ports.extend(
                table.lines().filter_map(listening).filter(|it| sockets.contains(&it.1)).map(|it| it.0),
            );
        }
    }
    ports.sort_unstable();
    ports.dedup();
    let processes =
        pids.into_iter().take(LISTED).map(|pid| (pid.cast_unsigned(), command_line(pid))).collect();
    Left { processes, ports }
}

/// Returns the inodes of the sockets that a process has open.
fn sockets(pid: i32) -> Vec<u64> {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    files
        .flatten()
        .filter_map(|file| fs::read_link(file.path()).ok())
        .filter_map(|it| it.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect()
}

/// Returns the port and the inode of a line of `/proc/net/tcp`, if that socket listens.
fn listening(line: &str) -> Option<(u16, u64)> {
    let mut fields = line.split_ascii_whitespace();
    let address = fields.nth(1)?;
    if fields.nth(1)? != LISTENING {
        return None;
    }
    let inode = fields.nth(5)?.parse().ok()?;
    let (_, port) = address.rsplit_once(':')?;
    Some((u16::from_str_radix(port, 16).ok()?, inode))
}

fn command_line(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    let line = line.trim_end_matches('\0').replace('\0', " ");
    if line.is_empty() {
        return fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned();
    }
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listening_sockets_have_a_port() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100 0 0 10 0";
        assert_eq!(listening(line), Some((8080, 4242)));
        assert_eq!(listening(&line.replace(" 0A ", " 01 ")), None);
        let six = "   1: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1 0 100 0 0 10 0";
        assert_eq!(listening(six), Some((80, 77)));
        assert_eq!(listening("  sl  local_address rem_address   st tx_queue rx_queue"), None);
    }
}
