use std::os::unix::process::CommandExt;
fn main() {
    let mut args = std::env::args().skip(1);
    let root = std::path::PathBuf::from(args.next().unwrap()).canonicalize().unwrap();
    let variables: Vec<_> = std::env::vars().collect();
    let wanted = runtime::sandbox::layout::Wanted {
        roots: vec![(root.clone(), false)],
        variables: variables.clone(),
        ..Default::default()
    };
    let t = std::time::Instant::now();
    let mounts = runtime::sandbox::layout::layout(&wanted).unwrap();
    eprintln!("layout {:?} {}", t.elapsed(), mounts.len());
    let plan = runtime::sandbox::Plan { confined: true, mounts, ..Default::default() };
    match runtime::sandbox::debug_enter(&plan) {
        Ok(false) => return,
        Ok(true) => {}
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(9);
        }
    }
    let rest: Vec<String> = args.collect();
    let mut c = std::process::Command::new(&rest[0]);
    c.args(&rest[1..])
        .env_clear()
        .envs(runtime::sandbox::environment::environment(&variables, &[]))
        .current_dir(root);
    let e = c.spawn();
    match e {
        Ok(mut c) => {
            let _ = c.wait();
        }
        Err(e) => eprintln!("spawn {e}"),
    }
}
