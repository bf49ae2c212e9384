//! Output of a command: complete, in order, and out of memory.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    sync::Arc,
};

use haft::kit::{
    Fault,
    procs::{Base, Exit, SpillFile, Spilling},
};

use super::support::{HANG, env, keeper, program, run, sh};

/// Spills into one file, which it remembers.
struct Spills(tempfile::NamedTempFile);

impl Spilling for Spills {
    fn open(&self) -> Result<SpillFile, Fault> {
        Ok(SpillFile { handle: "out_1".to_owned(), file: self.0.reopen().unwrap(), space: None })
    }
}

#[tokio::test]
async fn flood_of_output_is_kept_in_a_file_and_not_in_memory() {
    const LINES: u64 = 4_000_000;
    let keeper = keeper().await;
    let spills = Arc::new(Spills(tempfile::NamedTempFile::new().unwrap()));
    let spilling: Arc<dyn Spilling> = spills.clone();
    let env = env();
    let base = Base { env: &env, spilling: Some(&spilling), ..Base::default() };
    let line = "an output that nobody reads to its end, number %.0f";
    let program = program(&["seq", "-f", line, "1", &LINES.to_string()]);
    // `seq` itself takes most of the time.
    let before = resident();
    let process = keeper.start(program, base).await.unwrap();
    let exit = tokio::time::timeout(HANG * 4, process.finished(HANG)).await.unwrap();
    let grown = resident().saturating_sub(before);
    assert_eq!(exit, Exit::Code(0));
    assert!(grown < 16 << 20, "{grown} bytes");
    let total = process.output().total();
    assert!(total > 200 << 20);
    assert_eq!(spills.0.as_file().metadata().unwrap().len(), total);
    let mut count = 0;
    for line in BufReader::new(File::open(spills.0.path()).unwrap()).lines() {
        count += 1;
        let line = line.unwrap();
        assert_eq!(line.rsplit_once(' ').unwrap().1.parse(), Ok(count), "{line}");
    }
    assert_eq!(count, LINES);
    let slice = process.output().since(0, 4000);
    assert_eq!(slice.handle.as_deref(), Some("out_1"));
    assert!(slice.text.starts_with("an output"), "{}", slice.text);
    assert!(slice.text.contains(" bytes left out; all of it: out_1; read or grep it]\n"), "{}", slice.text);
    assert!(slice.text.ends_with(&format!("number {LINES}\n")), "{}", slice.text);
}

#[tokio::test]
async fn last_line_without_newline_and_binary_output_are_kept() {
    let keeper = keeper().await;
    assert_eq!(run(&keeper, sh("printf 'no newline'")).await.1, "no newline");
    assert_eq!(run(&keeper, sh("printf 'a\\377b\\303'")).await.1, "a\u{fffd}b\u{fffd}");
}

#[tokio::test]
async fn truncated_output_can_be_read_by_its_handle() {
    let keeper = keeper().await;
    let spills = Arc::new(Spills(tempfile::NamedTempFile::new().unwrap()));
    let spilling: Arc<dyn Spilling> = spills.clone();
    let env = env();
    let base = Base { env: &env, spilling: Some(&spilling), ..Base::default() };
    let process = keeper.start(program(&["seq", "1000"]), base).await.unwrap();
    process.finished(HANG).await;
    // As long as all is shown, there is no file.
    assert_eq!(process.output().since(0, 10_000).handle, None);
    let slice = process.output().since(0, 40);
    assert_eq!(
        slice.text,
        "1\n2\n3\n4\n5\n[3,854 bytes left out; all of it: out_1; read or grep it]\n994\n995\n996\n997\n998\n999\n1000\n"
    );
    assert_eq!(std::fs::read(spills.0.path()).unwrap().len(), 3893);
}

/// Returns the memory of this process, in bytes.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
