//! Decoders of foreign bytes: confined for an ordinary user as for root.

use std::{os::unix::process::CommandExt, process::Command};

use crate::support::{ORDINARY, User, World};

pub(crate) fn a_decoder_reaches_nothing(user: User) {
    let world = World::new(user);
    let mut haft = Command::new(world.base.join("bin/haft"));
    haft.arg("doctor").env_clear().current_dir(world.base.join("ws"));
    haft.env("HOME", world.base.join("home")).env("PATH", std::env::var_os("PATH").unwrap());
    haft.env("HAFT_STATE_DIR", world.base.join("state/doctor"));
    haft.env("HAFT_CONFIG_DIR", world.base.join("state/config"));
    if user == User::Ordinary {
        haft.uid(ORDINARY).gid(ORDINARY);
    }
    let ran = haft.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    // It decodes a hostile document, and tries from inside a decoder what must not be reached, and the same outside.
    let lines: Vec<&str> =
        said.lines().skip_while(|it| !it.trim_start().starts_with("G8 ")).take(3).collect();
    assert!(lines.first().is_some_and(|it| it.contains("holds")), "{said}\n{ran:?}");
}
