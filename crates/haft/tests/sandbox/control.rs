//! Control files at any depth: read-only for commands where they exist, set aside where a command makes one.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use haft::policy::Approve;

use crate::{
    confined,
    drive::Setup,
    support::{Driver, Ran, User, World, git},
};

/// haft as it is where nobody can be asked.
fn unattended(world: &World) -> Driver {
    world.start(&Setup { approve: Approve::Never, ..world.setup() })
}

fn make(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn is_aside(ran: &Ran, path: &str) -> bool {
    ran.denials.iter().any(|it| {
        it.starts_with("sandbox: rule `control_files`: ") && it.contains(&format!("{path}.haft-set-aside"))
    })
}

/// Files of which a command may change none, wherever they lie.
const NESTED: &[&str] = &[
    "n/.envrc",
    "n/.mcp.json",
    "n/.vscode/tasks.json",
    "n/.gitattributes",
    "n/o/p/q/r/s/t/AGENTS.md",
    "n/CLAUDE.md",
    "n/mise.toml",
    "n/.devcontainer.json",
    "n/.config/direnv/direnvrc",
];

pub(crate) fn nested_control_files_are_read_only(user: User) {
    let world = World::new(user);
    let ws = world.base.join("ws");
    NESTED.iter().for_each(|it| make(&ws.join(it), "# as it was\n"));
    world.give(&ws);
    let mut driver = confined(&world);
    for name in NESTED {
        let ran = driver.sh(&format!("echo evil > {name}; rm -f {name}; mv n elsewhere; true"));
        assert_eq!(fs::read_to_string(ws.join(name)).unwrap(), "# as it was\n", "{name}: {ran:?}");
    }
    // The positive control: what is none can be changed there.
    assert_eq!(driver.sh("echo x > n/other && rm n/other").exit, 0);
}

pub(crate) fn repositories_are_found_wherever_they_lie(user: User) {
    let world = World::new(user);
    let ws = world.base.join("ws");
    (0..20_001).for_each(|it| make(&ws.join(format!("crowd/{}/{it}", it % 100)), ""));
    let places = ["node_modules/x", "target/y/z", "a/b/c/d/e/f/g/h/i", "zz/last"];
    for place in places {
        fs::create_dir_all(ws.join(place)).unwrap();
        git(&ws.join(place), &["init", "--quiet"]);
    }
    world.give(&ws);
    let mut driver = unattended(&world);
    for place in places {
        let ran = driver.sh(&format!("echo x > {place}/.git/hooks/pre-commit"));
        assert!(ran.exit != 0 && !ws.join(place).join(".git/hooks/pre-commit").exists(), "{place}: {ran:?}");
        let ran = driver.sh(&format!("echo x >> {place}/.git/config"));
        assert_ne!(ran.exit, 0, "{place}: {ran:?}");
    }
    assert!(driver.sh("true").denials.is_empty());
}

/// A repository whose configuration runs what lies in the workspace.
fn configure(world: &World) {
    let ws = world.base.join("ws");
    for file in [
        ".githooks/pre-commit",
        "tools/clean.py",
        "tools/textconv",
        "tools/merge",
        "tools/ssh",
        "tools/global",
        "tools/hook",
        "deep/outer/pre-push",
        "shared.inc",
    ] {
        make(&ws.join(file), "# as it was\n");
        fs::set_permissions(ws.join(file), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let settings: &[(&str, &[&str])] = &[
        ("core.hooksPath", &[".githooks"]),
        ("filter.x.clean", &["python3 tools/clean.py %f"]),
        ("diff.x.textconv", &["./tools/textconv"]),
        ("merge.x.driver", &["sh tools/merge %A"]),
        ("core.sshCommand", &["tools/ssh -v"]),
        ("include.path", &["../shared.inc"]),
        ("core.fsmonitor", &["./tools/later"]),
    ];
    for (key, value) in settings {
        git(&ws, &[&["config", key], *value].concat());
    }
    git(&ws.join("deep/b/c/d/e"), &["config", "core.hooksPath", "../../../../outer"]);
    symlink("../../tools/hook", ws.join(".git/hooks/post-commit")).unwrap();
    let global = world.base.join("home/.gitconfig");
    let text = fs::read_to_string(&global).unwrap();
    let alias = format!("{text}[credential]\n\thelper = {}/tools/global\n", ws.display());
    fs::write(&global, alias).unwrap();
    world.give(&ws);
}

pub(crate) fn what_git_s_configuration_runs_is_read_only(user: User) {
    let world = World::new(user);
    let ws = world.base.join("ws");
    configure(&world);
    let mut driver = unattended(&world);
    for name in [
        ".githooks/pre-commit",
        "tools/clean.py",
        "tools/textconv",
        "tools/merge",
        "tools/ssh",
        "tools/global",
        "tools/hook",
        "deep/outer/pre-push",
        "shared.inc",
    ] {
        let ran = driver.sh(&format!("echo evil > {name}; rm -f {name}; true"));
        assert_eq!(fs::read_to_string(ws.join(name)).unwrap(), "# as it was\n", "{name}: {ran:?}");
    }
    let ran = driver.sh("echo evil > .githooks/pre-push");
    assert!(ran.exit != 0 && !ws.join(".githooks/pre-push").exists(), "{ran:?}");
    // A named control file that is missing is set aside once it is created.
    let ran = driver.sh("echo evil > tools/later");
    assert!(is_aside(&ran, "tools/later") && !ws.join("tools/later").exists(), "{ran:?}");
    // The positive control.
    let ran = driver.sh("echo x > tools/other");
    assert!(ran.exit == 0 && ran.denials.is_empty() && ws.join("tools/other").exists(), "{ran:?}");
}

pub(crate) fn a_hook_of_a_linked_worktree_is_read_only(user: User) {
    let world = World::new(user);
    let setup = crate::linked_worktree(&world);
    let at = setup.workspace.clone();
    git(&world.base.join("main"), &["config", "core.hooksPath", "my-hooks"]);
    make(&at.join("my-hooks/pre-commit"), "# as it was\n");
    world.give(&at);
    let mut driver = world.start(&Setup { approve: Approve::Never, ..setup });
    let ran = driver.sh("echo evil > my-hooks/pre-commit");
    assert!(ran.exit != 0, "{ran:?}");
    assert_eq!(fs::read_to_string(at.join("my-hooks/pre-commit")).unwrap(), "# as it was\n");
}

pub(crate) fn a_control_file_that_a_command_makes_is_set_aside(user: User) {
    let world = World::new(user);
    let ws = world.base.join("ws");
    make(&ws.join("node_modules/x/.npmrc"), "# as it was\n");
    symlink("real", ws.join(".envrc")).unwrap();
    world.give(&ws);
    let mut driver = unattended(&world);
    assert!(driver.sh("true").denials.is_empty());
    let ran = driver.sh(
        "mkdir -p fresh/.vscode deep/er && echo x > fresh/.vscode/tasks.json && echo x > deep/er/.mcp.json && \
         echo x > AGENTS.md",
    );
    for name in ["fresh/.vscode", "deep/er/.mcp.json", "AGENTS.md"] {
        assert!(is_aside(&ran, name) && !ws.join(name).exists(), "{name}: {ran:?}");
    }
    assert_eq!(fs::read_to_string(ws.join("fresh/.vscode.haft-set-aside/tasks.json")).unwrap(), "x\n");
    // The earlier files are restored, also where a symlink was.
    let ran = driver.sh("rm .envrc && echo evil > .envrc; echo evil > node_modules/x/.npmrc");
    assert!(is_aside(&ran, ".envrc") && is_aside(&ran, "node_modules/x/.npmrc"), "{ran:?}");
    assert_eq!(fs::read_link(ws.join(".envrc")).unwrap(), Path::new("real"));
    assert_eq!(fs::read_to_string(ws.join("node_modules/x/.npmrc")).unwrap(), "# as it was\n");
    // A folder that was prepared elsewhere and moved.
    assert!(driver.sh("mkdir -p p/nvim && echo evil > p/nvim/init.lua").denials.is_empty());
    let ran = driver.sh("mv p .config");
    assert!(!ws.join(".config/nvim").exists() || !ws.join(".config/nvim/init.lua").exists(), "{ran:?}");
    // The same content again is not a change: packages are installed anew all the time.
    let ran = driver
        .sh("rm -r node_modules/x && mkdir node_modules/x && echo '# as it was' > node_modules/x/.npmrc");
    assert!(ran.exit == 0 && ran.denials.is_empty(), "{ran:?}");
    assert!(driver.sh("true").denials.is_empty());
}

pub(crate) fn a_new_repository_works_and_runs_nothing(user: User) {
    let world = World::new(user);
    let ws = world.base.join("ws");
    let mut driver = unattended(&world);
    let ran = driver.sh(
        "git init -q x/y && cd x/y && echo 1 > f && git add f && git -c user.name=A -c user.email=a@b commit -qm 1 && \
         git clone -q . ../z && git worktree add -q ../w",
    );
    assert!(ran.exit == 0 && ran.denials.is_empty(), "{ran:?}");
    assert!(ws.join("x/z/.git/config").exists() && ws.join("x/w/.git").exists());
    let ran = driver.sh("echo x > x/y/.git/hooks/pre-commit; git -C x/z config core.fsmonitor ./evil");
    assert!(is_aside(&ran, "x/y/.git/hooks/pre-commit") && is_aside(&ran, "x/z/.git/config"), "{ran:?}");
    assert!(!ws.join("x/y/.git/hooks/pre-commit").exists() && !ws.join("x/z/.git/config").exists());
    // A link can't be covered, so it can be replaced; but not by what runs something.
    let ran = driver.sh("rm link/.git && cp -r link/real link/.git && echo x > link/.git/hooks/pre-push");
    assert!(is_aside(&ran, "link/.git/hooks/pre-push"), "{ran:?}");
    assert!(driver.sh("true").denials.is_empty());
}

pub(crate) fn a_folder_of_git_that_is_swapped_for_a_link_is_not_entered(user: User) {
    let world = World::new(user);
    let (ws, outside) = (world.base.join("ws"), world.base.join("outside"));
    make(&outside.join("victim/commondir"), "mine\n");
    fs::create_dir_all(ws.join("late/gitdir/objects")).unwrap();
    fs::create_dir_all(ws.join("late/gitdir/refs")).unwrap();
    make(&ws.join("late/gitdir/HEAD"), "ref: refs/heads/main\n");
    world.give(&world.base);
    let mut driver = confined(&world);
    assert_eq!(driver.sh("true").exit, 0);
    // From outside, as another sandbox of the session does it: the folder that is watched is a link now.
    fs::rename(ws.join("late"), ws.join("moved")).unwrap();
    fs::create_dir(ws.join("late")).unwrap();
    symlink(outside.join("victim"), ws.join("late/gitdir")).unwrap();
    driver.sh("true");
    driver.close();
    assert_eq!(fs::read_to_string(outside.join("victim/commondir")).unwrap(), "mine\n");
    assert!(!outside.join("victim/hooks").exists());
}

/// Installers that put their programs beside the person's credentials.
const BESIDE: &[(&str, &str)] = &[
    (".pulumi/bin", ".pulumi/credentials.json"),
    (".fly/bin", ".fly/config.yml"),
    (".supabase/bin", ".supabase/access-token"),
    (".opencode/bin", ".opencode/auth.json"),
    (".unheard-of/bin", ".unheard-of/token"),
    (".unheard-of/lib", ".unheard-of/lib.token"),
    (".local/bin", ".local/share/uv/credentials/credentials.toml"),
];

pub(crate) fn no_credential_beside_a_program_is_seen(user: User) {
    let world = World::new(user);
    let home = world.base.join("home");
    for (folder, secret) in BESIDE {
        make(&home.join(folder).join("say"), "#!/bin/sh\necho said\n");
        fs::set_permissions(home.join(folder).join("say"), fs::Permissions::from_mode(0o755)).unwrap();
        make(&home.join(secret), "secret\n");
    }
    // A program that is a link has what lies around its own.
    make(&home.join(".local/share/pipx/venvs/x/bin/tool"), "#!/bin/sh\ncat ${0%/*}/../lib/said\n");
    make(&home.join(".local/share/pipx/venvs/x/lib/said"), "piped\n");
    make(&home.join(".krew/store/x/v1/tool"), "#!/bin/sh\necho krew\n");
    make(&home.join(".krew/token"), "secret\n");
    for tool in [".local/share/pipx/venvs/x/bin/tool", ".krew/store/x/v1/tool"] {
        fs::set_permissions(home.join(tool), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::create_dir_all(home.join(".krew/bin")).unwrap();
    symlink("../share/pipx/venvs/x/bin/tool", home.join(".local/bin/piped")).unwrap();
    symlink("../store/x/v1/tool", home.join(".krew/bin/kubed")).unwrap();
    make(&home.join(".nvm/versions/node/v1/bin/node"), "#!/bin/sh\ncat ${0%/*}/../lib/said\n");
    fs::set_permissions(home.join(".nvm/versions/node/v1/bin/node"), fs::Permissions::from_mode(0o755))
        .unwrap();
    make(&home.join(".nvm/versions/node/v1/lib/said"), "node\n");
    world.give(&home);
    let folders = BESIDE.iter().map(|it| it.0).filter(|it| it.ends_with("bin"));
    let mut path: Vec<String> = folders
        .chain([".krew/bin", ".nvm/versions/node/v1/bin"])
        .map(|it| home.join(it).display().to_string())
        .collect();
    path.push(world.setup().path);
    let mut driver = world.start(&Setup { path: path.join(":"), ..world.setup() });
    let home = home.display();
    for (folder, secret) in BESIDE {
        let ran = driver.sh(&format!("cat {home}/{secret}"));
        assert!(ran.exit != 0 && !ran.text.contains("secret\n"), "{secret}: {ran:?}");
        let ran = driver.sh(&format!("{home}/{folder}/say"));
        assert_eq!(ran.text, "said\n", "{folder}: {ran:?}");
    }
    assert_ne!(driver.sh(&format!("cat {home}/.krew/token")).exit, 0);
    assert_eq!(driver.sh("kubed").text, "krew\n");
    assert_eq!(driver.sh("$(readlink -f $(command -v piped))").text, "piped\n");
    assert_eq!(driver.sh("node").text, "node\n");
}
