//! Start of a command: its arguments, environment, descriptors and limits.

use std::{io::Read, os::unix::fs::PermissionsExt};

use haft::kit::{
    Kind,
    procs::{Base, Exit, Limit, Program, Stdin, Streams},
};

use super::support::{HANG, keeper, program, run, sh, start};

#[tokio::test]
async fn exit_codes_and_signals_are_distinguished() {
    let keeper = keeper().await;
    assert_eq!(run(&keeper, sh("echo hello")).await, (Exit::Code(0), "hello\n".to_owned()));
    assert_eq!(run(&keeper, sh("exit 7")).await.0, Exit::Code(7));
    assert_eq!(run(&keeper, sh("kill -9 $$")).await.0, Exit::Signal(9));
    assert_eq!(run(&keeper, sh("kill -PIPE $$")).await.0, Exit::Signal(13));
}

#[tokio::test]
async fn exit_can_be_awaited_by_many_and_repeatedly() {
    let keeper = keeper().await;
    let process = start(&keeper, sh("exit 3")).await.unwrap();
    let all = tokio::join!(process.exited(), process.exited(), process.exited());
    assert_eq!(all, (Exit::Code(3), Exit::Code(3), Exit::Code(3)));
    assert_eq!((process.exited().await, process.exit()), (Exit::Code(3), Some(Exit::Code(3))));
}

#[tokio::test]
async fn command_has_only_the_variables_it_was_given() {
    let keeper = keeper().await;
    let program = Program { env: vec![("A".to_owned(), "x=y z".to_owned())], ..program(&["/usr/bin/env"]) };
    let base = [("B".to_owned(), "2".to_owned()), ("A".to_owned(), "1".to_owned())];
    let process = keeper.start(program, Base { env: &base, ..Base::default() }).await.unwrap();
    process.finished(HANG).await;
    assert_eq!(process.output().since(0, 1000).text, "B=2\nA=x=y z\n");
    let own = std::fs::read(format!("/proc/{}/environ", keeper.pid())).unwrap();
    assert_eq!(own, b"");
}

#[tokio::test]
async fn command_inherits_no_descriptors() {
    let keeper = keeper().await;
    // One more runs, whose pipes are not for the other either.
    let other = start(&keeper, Program { stdin: Stdin::Pipe, ..program(&["cat"]) }).await.unwrap();
    // The third is the folder that is being listed.
    assert_eq!(run(&keeper, program(&["ls", "/proc/self/fd"])).await.1, "0\n1\n2\n3\n");
    drop(other);
}

#[tokio::test]
async fn extra_descriptors_get_the_requested_numbers() {
    let keeper = keeper().await;
    let (mut ours, theirs) = std::io::pipe().unwrap();
    let file = std::fs::File::open("/proc/self/status").unwrap();
    let mut program =
        sh("echo to nine >&9; read -r line <&5; echo \"$line\"; ls /proc/self/fd | tr '\\n' ' '");
    program.files = vec![(9, theirs.into()), (5, file.into())];
    let (exit, text) = run(&keeper, program).await;
    assert_eq!((exit, text.lines().nth(1)), (Exit::Code(0), Some("0 1 2 3 5 9 ")));
    let mut said = String::new();
    // It is at its end: no supervisor holds what it gave away.
    ours.read_to_string(&mut said).unwrap();
    assert_eq!(said, "to nine\n");
}

#[tokio::test]
async fn signal_mask_umask_and_session_are_those_of_a_login() {
    let keeper = keeper().await;
    let script = "while read -r line; do case $line in Sig[BI]*) echo $line; esac; done < /proc/$$/status
        umask; cut -d' ' -f1,5,6,7 /proc/$$/stat";
    let (_, text) = run(&keeper, sh(script)).await;
    let lines: Vec<&str> = text.lines().collect();
    for line in &lines[..2] {
        assert!(line.ends_with("0000000000000000"), "{text}");
    }
    assert_eq!(lines[2], "0022");
    let [pid, group, session, terminal] = lines[3].split(' ').collect::<Vec<_>>()[..] else {
        unreachable!("{text}")
    };
    assert_eq!((pid, pid, "0"), (group, session, terminal));
}

#[tokio::test]
async fn standard_input_is_empty_by_default() {
    let keeper = keeper().await;
    assert_eq!(run(&keeper, program(&["cat"])).await, (Exit::Code(0), String::new()));
    let process = start(&keeper, Program { stdin: Stdin::Pipe, ..program(&["cat"]) }).await.unwrap();
    let much = "x".repeat(300_000);
    process.write(much.as_bytes()).await.unwrap();
    process.close_input();
    assert_eq!(process.finished(HANG).await, Exit::Code(0));
    assert_eq!(process.output().total(), 300_000);
    let gone = start(&keeper, Program { stdin: Stdin::Pipe, ..program(&["true"]) }).await.unwrap();
    gone.exited().await;
    assert_eq!(gone.write(b"x").await.unwrap_err().kind, Kind::Unavailable);
}

#[tokio::test]
async fn standard_error_is_merged_in_order_or_separate() {
    let keeper = keeper().await;
    let script = "for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done";
    let (_, text) = run(&keeper, sh(script)).await;
    let expected: String = (1..=9).map(|it| format!("o{it}\ne{it}\n")).collect();
    assert_eq!(text, expected);
    let process = start(&keeper, Program { streams: Streams::Apart, ..sh(script) }).await.unwrap();
    process.finished(HANG).await;
    assert_eq!(process.output().tail(6).text, "o8\no9\n");
    assert_eq!(process.errors().unwrap().tail(6).text, "e8\ne9\n");
}

#[tokio::test]
async fn start_failure_says_why() {
    let keeper = keeper().await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let fault = async |argv: &[&str]| start(&keeper, program(argv)).await.err().unwrap();

    let missing = fault(&["no-such-program"]).await;
    assert_eq!(missing.kind, Kind::NotFound);
    assert!(missing.what.starts_with("there is no program no-such-program in /"), "{missing}");
    assert_eq!(fault(&["/no/such"]).await.what, "there is no program /no/such");
    assert_eq!(fault(&["/tmp"]).await.kind, Kind::BadArgs);
    assert_eq!(fault(&[&file("plain", "x", 0o644)]).await.kind, Kind::Denied);
    let script = file("script", "#!/no/such/interpreter\n", 0o755);
    assert!(fault(&[&script]).await.what.contains("what runs it is not"));
    let long = "x".repeat(200_000);
    assert_eq!(fault(&["echo", &long]).await.kind, Kind::TooBig);
    let many = vec!["x".repeat(100_000); 80];
    let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
    many.insert(0, "echo");
    assert_eq!(fault(&many).await.kind, Kind::TooBig);

    let nowhere = Program { cwd: "/no/such/folder".into(), ..sh("true") };
    let nowhere = start(&keeper, nowhere).await.err().unwrap();
    assert_eq!(
        (nowhere.kind, nowhere.what.as_str()),
        (Kind::NotFound, "there is no folder /no/such/folder to start in")
    );
    // A script that names no interpreter is the shell's, and much that is long arrives.
    let script = file("plain.sh", "echo $0 $1 | tail -c 12; pwd\n", 0o755);
    let in_folder = Program { cwd: "/usr".into(), ..program(&[&script, "one"]) };
    assert_eq!(run(&keeper, in_folder).await, (Exit::Code(0), "lain.sh one\n/usr\n".to_owned()));
    let long = vec!["y".repeat(100_000); 5].join(" ");
    let long: Vec<&str> =
        ["sh", "-c", "echo $# ${#1} ${#5}", "sh"].into_iter().chain(long.split(' ')).collect();
    assert_eq!(run(&keeper, program(&long)).await.1, "5 100000 100000\n");
}

#[tokio::test]
async fn resource_limits_apply_to_one_command_only() {
    let keeper = keeper().await;
    let env = super::support::env();
    let limits = [Limit { resource: libc_nofile(), soft: 99, hard: 99 }];
    let base = Base { env: &env, limits: &limits, ..Base::default() };
    let process = keeper.start(sh("ulimit -n"), base).await.unwrap();
    process.finished(HANG).await;
    assert_eq!(process.output().since(0, 100).text, "99\n");
    assert_ne!(run(&keeper, sh("ulimit -n")).await.1, "99\n");
}

/// `RLIMIT_NOFILE`.
const fn libc_nofile() -> u32 {
    7
}

#[tokio::test]
async fn many_commands_run_concurrently() {
    let keeper = keeper().await;
    let all = (0..64).map(|number| {
        let keeper = keeper.clone();
        tokio::spawn(async move { run(&keeper, sh(&format!("echo {number}; exit {number}"))).await })
    });
    for (number, it) in all.collect::<Vec<_>>().into_iter().enumerate() {
        let number = i32::try_from(number).unwrap();
        assert_eq!(it.await.unwrap(), (Exit::Code(number), format!("{number}\n")));
    }
}
