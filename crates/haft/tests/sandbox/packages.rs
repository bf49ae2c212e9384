//! Python packages of a tool: installed once, in a sandbox, read-only for the tool.

use std::{
    fs,
    path::{Path, PathBuf},
};

use haft::policy::Approve;
use serde_json::json;

use crate::{
    confined,
    drive::{OfTool, Setup},
    support::{Driver, Ran, User, World},
    uv::{self, is_for_all, with_uv, without_uv},
};

/// A `PATH` with a `uv` that the user of this world reaches: a copy, where the one of this machine is in a closed folder.
fn path_with_uv(world: &World) -> String {
    let path = with_uv();
    let uv = path.split(':').map(|it| Path::new(it).join("uv")).find(|it| it.is_file()).unwrap();
    if is_for_all(&uv) {
        return path;
    }
    let folder = world.base.join("bin");
    fs::copy(&uv, folder.join("uv")).unwrap();
    format!("{}:{path}", folder.display())
}

fn packages(driver: &mut Driver, dependency: &str) -> Ran {
    let source = format!("# /// script\n# dependencies = [{}]\n# ///\n", json!(dependency));
    driver.run(&json!({"packages": source}))
}

fn wheel(world: &World, version: &str) -> PathBuf {
    let wheel = uv::wheel(&world.base.join("ws"), version);
    world.give(&wheel);
    wheel
}

pub(crate) fn packages_are_had_once_and_can_t_be_changed(user: User) {
    let world = World::new(user);
    let wheel = wheel(&world, "1.5");
    let dependency = format!("gadget @ file://{}", wheel.display());
    let setup = Setup { path: path_with_uv(&world), ..world.setup() };
    let (mut driver, mut beside) = (world.start(&setup), world.start(&setup));
    let made = std::thread::scope(|scope| {
        let other = scope.spawn(|| packages(&mut beside, &dependency));
        let made = packages(&mut driver, &dependency);
        assert_eq!(other.join().unwrap().text, made.text, "{made:?}");
        made
    });
    assert!(made.fault.is_none() && made.text.ends_with("/venv/bin/python"), "{made:?}");
    let place = Path::new(&made.text).ancestors().nth(3).unwrap().to_owned();
    let folder = world.base.join("ws/.haft/tools");
    let tool = OfTool { folder, read: vec![place.clone()], write: Vec::new() };
    let import = format!("{} -c 'import gadget; print(gadget.VERSION, gadget.__file__)'", made.text);
    let ran = driver.run(&json!({"command": import, "tool": tool}));
    assert!(ran.text.starts_with("1.5 "), "{ran:?}");
    let module = ran.text.trim().split_once(' ').unwrap().1.to_owned();
    for command in [
        format!("echo evil > {module}"),
        format!("rm {}", made.text),
        format!("touch {}/new", place.display()),
    ] {
        assert!(driver.run(&json!({"command": command, "tool": tool})).exit > 0, "{command}");
    }
    // A command without the grant does not see it.
    assert!(driver.sh(&format!("ls {}", place.display())).exit > 0);
    let before = fs::metadata(&module).unwrap().modified().unwrap();
    assert_eq!(packages(&mut driver, &dependency).text, made.text);
    assert_eq!(before, fs::metadata(&module).unwrap().modified().unwrap());
    // One that is half made is made anew.
    fs::remove_file(place.with_extension("ready")).unwrap();
    fs::remove_file(&module).unwrap();
    assert_eq!(packages(&mut driver, &dependency).text, made.text);
    assert!(Path::new(&module).exists());
}

pub(crate) fn packages_come_from_granted_hosts_alone(user: User) {
    let world = World::new(user);
    let mut driver =
        world.start(&Setup { path: path_with_uv(&world), approve: Approve::Never, ..world.setup() });
    let fault = packages(&mut driver, "humanize").fault.unwrap_or_default();
    assert!(
        fault.contains("x.py (humanize) come from pypi.org and files.pythonhosted.org, which nobody granted")
            && fault.contains("grants add 'net pypi.org'`"),
        "{fault}"
    );
    let left = fs::read_dir(world.base.join("state/tools/environments")).unwrap().flatten();
    assert!(left.map(|it| it.path()).all(|it| it.extension().is_some()), "nothing was made");
    // A package build runs code, which is confined as well.
    let folder = world.base.join("ws/evil");
    fs::create_dir(&folder).unwrap();
    fs::write(
        folder.join("pyproject.toml"),
        "[build-system]\nrequires = []\nbuild-backend = \"evil\"\nbackend-path = [\".\"]\n",
    )
    .unwrap();
    let seen = "import os\n\
        def build_wheel(*_, **__):\n\
        \x20   places = [%]\n\
        \x20   raise SystemExit('seen: %s' % [it for it in places if os.path.exists(it)])\n";
    let places = ["ws/haft.toml", "home/.ssh/id", "config/haft.toml", "state/x", "outside/secret"];
    let places: Vec<_> = places.iter().map(|it| format!("'{}'", world.base.join(it).display())).collect();
    fs::write(folder.join("evil.py"), seen.replace("[%]", &format!("[{}]", places.join(", ")))).unwrap();
    world.give(&folder);
    let ran = packages(&mut driver, &format!("evil @ file://{}", folder.display()));
    assert!(ran.fault.as_ref().is_some_and(|it| it.contains("seen: []")), "{ran:?}");
}

pub(crate) fn packages_without_uv_are_a_clear_fault(user: User) {
    let world = World::new(user);
    let mut driver = world.start(&Setup { path: without_uv(), ..world.setup() });
    let fault = packages(&mut driver, "requests>=2").fault.unwrap_or_default();
    assert!(
        fault.contains("`uv` is needed for the packages of x.py (requests>=2) and is not installed"),
        "{fault}"
    );
    assert_eq!(confined(&world).run(&json!({"packages": "import json"})).text, "");
}
