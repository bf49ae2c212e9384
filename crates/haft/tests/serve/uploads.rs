//! Uploads that attack: bombs of parts, names and archives, names that are paths, links, and the limit of a session.

use std::{
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::support::{Served, Stage, token};
use crate::http::support::Reply;

/// A server with a session for uploads.
struct Uploads {
    stage: Stage,
    served: Served,
    session: String,
}

impl Uploads {
    fn new(script: &[Value]) -> Self {
        let stage = Stage::new(script);
        let served = stage.serve();
        let session =
            served.does(201, "POST /api/v1/sessions", &json!({}))["id"].as_str().unwrap().to_owned();
        Self { stage, served, session }
    }

    fn raw(&self, name: &str, kind: &str, body: &[u8]) -> Reply {
        let headers = format!("Authorization: Bearer {}\r\nContent-Type: {kind}\r\n", token("say"));
        let line = format!("POST /api/v1/sessions/{}/uploads?name={name}", self.session);
        self.served.raw(&line, &headers, body)
    }

    fn form(&self, body: &[u8]) -> Reply {
        self.raw("", "multipart/form-data; boundary=x", body)
    }

    #[track_caller]
    fn refused(&self, body: &[u8], why: &str) {
        let reply = self.form(body);
        assert!(
            reply.status == 400 && reply.body.contains(why),
            "{:?}",
            &reply.body[..300.min(reply.body.len())]
        );
        assert!(reply.body.len() < 1000, "the answer has {} bytes", reply.body.len());
        assert_eq!(self.kept(), [] as [PathBuf; 0], "something is kept of a form that was refused");
    }

    /// The files that sessions keep.
    fn kept(&self) -> Vec<PathBuf> {
        let all = files_in(&self.stage.path("state"));
        all.into_iter().filter(|it| it.file_name().unwrap().to_string_lossy().starts_with("out_")).collect()
    }

    fn output(&self, handle: &str) -> Reply {
        let line = format!("GET /api/v1/sessions/{}/outputs/{handle}", self.session);
        self.served.ask("view", &line, &Value::Null)
    }
}

/// All files below a folder; symlinks are not followed.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        match entry.file_type().unwrap() {
            it if it.is_dir() => all.extend(files_in(&entry.path())),
            _ => all.push(entry.path()),
        }
    }
    all
}

fn part(name: &str, content: &str) -> String {
    format!("--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{content}\r\n")
}

#[test]
fn form_with_too_many_parts_is_refused_as_a_whole_and_the_server_goes_on() {
    let it = Uploads::new(&[]);
    let files: String = (0..21).map(|n| part(&format!("{n}.txt"), "x")).collect();
    it.refused(format!("{files}--x--\r\n").as_bytes(), "more than 20 files");
    // Two million parts in 24 MiB, of files and of other fields.
    let mut bomb = String::new();
    for _ in 0..2_000_000 {
        bomb.push_str("--x\r\nA:\r\n\r\n\r\n");
    }
    it.refused(format!("{bomb}--x--\r\n").as_bytes(), "more than 100 parts");
    let file = part("a", "");
    let bomb = file.repeat(300_000);
    it.refused(format!("{bomb}--x--\r\n").as_bytes(), "more than 20 files");
    // Almost the boundary, again and again.
    let near = part("a", &"\r\n--".repeat(4 << 20));
    it.refused(near.as_bytes(), "can't be read");
    assert_eq!(it.served.raw("GET /healthz", "", b"").status, 200);
    let reply = it.form(format!("{}--x--\r\n", part("a.txt", "still there")).as_bytes());
    assert_eq!(reply.status, 201, "{reply:?}");
}

#[test]
fn part_with_a_huge_head_is_refused() {
    let it = Uploads::new(&[]);
    for length in [17 << 10, 8 << 20] {
        it.refused(format!("{}--x--\r\n", part(&"n".repeat(length), "x")).as_bytes(), "more than 16 KiB");
    }
    let mut head = String::from("--x\r\n");
    for n in 0..100_000 {
        write!(head, "X-{n}: y\r\n").unwrap();
    }
    it.refused(format!("{head}\r\nx\r\n--x--\r\n").as_bytes(), "more than 16 KiB");
    // A name that fits is cut.
    let reply = it.form(format!("{}--x--\r\n", part(&"ä".repeat(4000), "x")).as_bytes());
    let kept: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(kept["uploads"][0]["name"].as_str().unwrap(), "ä".repeat(200), "{kept}");
}

#[test]
fn archives_are_kept_as_they_are_and_never_unpacked() {
    let it = Uploads::new(&[json!({"expect": ["can be read by its handle"], "say": "An archive."})]);
    // A bomb of nested gzip: 64 MiB of zeros, packed five times.
    let mut bomb = vec![0u8; 64 << 20];
    for _ in 0..5 {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&bomb).unwrap();
        bomb = packed.finish().unwrap();
    }
    // A tar file with a link out of the folder and a file through it.
    let mut tar = vec![0u8; 512];
    tar[..5].copy_from_slice(b"../x\0");
    tar[156] = b'2';
    tar[157..164].copy_from_slice(b"/etc/x\0");
    tar[257..262].copy_from_slice(b"ustar");
    let zip = [b"PK\x03\x04".as_slice(), &[0xff; 64], b"../../evil"].concat();
    for (name, body) in [("a.gz", &bomb), ("a.tar", &tar), ("a.zip", &zip)] {
        for kind in ["application/octet-stream", "application/gzip"] {
            let reply = it.raw(name, kind, body);
            assert_eq!(reply.status, 201, "{reply:?}");
            let kept: Value = serde_json::from_str(&reply.body).unwrap();
            assert_eq!(kept["bytes"], body.len());
            let sent = it.output(kept["upload"].as_str().unwrap());
            assert!(sent.header("content-disposition").unwrap().starts_with("attachment"), "{}", sent.head);
        }
    }
    // A packed request is not unpacked either.
    let packed = format!(
        "Authorization: Bearer {}\r\nContent-Encoding: gzip\r\nContent-Type: application/octet-stream\r\n",
        token("say")
    );
    let line = format!("POST /api/v1/sessions/{}/uploads?name=b.gz", it.session);
    let reply = it.served.raw(&line, &packed, &bomb);
    assert!(reply.status == 415 || reply.body.contains(&format!("\"bytes\":{}", bomb.len())), "{reply:?}");
    let sum: u64 = it.kept().iter().map(|it| it.metadata().unwrap().len()).sum();
    assert!(sum < 1 << 20, "{sum} bytes are kept");
    assert_eq!(files_in(&it.stage.path("ws")), [] as [PathBuf; 0]);
    let line = format!("POST /api/v1/sessions/{}/prompt", it.session);
    let body = json!({"text": "What is it?", "attachments": [{"upload": "out_1", "name": "a.gz"}]});
    it.served.does(202, &line, &body);
    let rows = it.served.watch(&it.session, 0).until(|row| row.kind() == "turn_ended");
    assert_eq!(rows.last().unwrap().event["text"], "An archive.", "{rows:?}");
}

#[test]
fn names_of_uploads_are_no_paths() {
    let it = Uploads::new(&[]);
    let before = files_in(it.stage.path("ws").parent().unwrap());
    let long = "l".repeat(300);
    let names = [
        ("../../../tokens", "tokens"),
        ("/etc/cron.d/evil", "evil"),
        ("..\\..\\evil.exe", "evil.exe"),
        ("a\u{0}b.txt", "ab.txt"),
        ("..", "file"),
        (".", "file"),
        ("x/", "file"),
        ("", "file"),
        ("/proc/self/environ", "environ"),
        ("photo\u{202e}gnp.exe", "photognp.exe"),
        ("in\u{200b}voice\u{2060}.pdf", "invoice.pdf"),
        ("a\nContent-Type: text.html", "aContent-Type: text.html"),
        (&long, &long[..200]),
    ];
    for (name, shown) in names {
        let encoded: String = name.bytes().map(|it| format!("%{it:02x}")).collect();
        let reply = it.raw(&encoded, "application/octet-stream", b"evil");
        assert_eq!(reply.status, 201, "{name:?}: {reply:?}");
        let kept: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(kept["name"], shown, "{name:?}");
        // Lines of a head end at their line break: that is another head then.
        if !name.contains('\n') {
            let reply = it.form(format!("{}--x--\r\n", part(name, "evil")).as_bytes());
            let kept: Value = serde_json::from_str(&reply.body).unwrap();
            assert_eq!(kept["uploads"][0]["name"], shown, "{name:?}: {reply:?}");
        }
    }
    // Without quotes it is a file all the same.
    let unquoted =
        b"--x\r\nContent-Disposition: form-data; name=file; filename=a.txt\r\n\r\nevil\r\n--x--\r\n";
    let kept: Value = serde_json::from_str(&it.form(unquoted).body).unwrap();
    assert_eq!(kept["uploads"][0]["name"], "a.txt", "{kept}");
    // Only handles are names of files.
    let kept = it.kept();
    let made = files_in(it.stage.path("ws").parent().unwrap());
    let strange: Vec<&PathBuf> = made
        .iter()
        .filter(|it| !before.contains(it) && !kept.contains(it) && fs::read(it).is_ok_and(|it| it == b"evil"))
        .collect();
    assert!(strange.is_empty() && kept.len() == 2 * names.len(), "{strange:?} {kept:?}");
}

#[test]
fn upload_follows_no_link_that_is_in_its_way() {
    let it = Uploads::new(&[]);
    assert_eq!(it.raw("a", "text/plain", b"first").status, 201);
    let first = it.kept().pop().unwrap();
    let folder = first.parent().unwrap();
    let victim = it.stage.path("victim");
    fs::write(&victim, "as it was").unwrap();
    for n in 2..6 {
        std::os::unix::fs::symlink(&victim, folder.join(format!("out_{n}"))).unwrap();
    }
    std::os::unix::fs::symlink(it.stage.path("tokens"), folder.join("out_77")).unwrap();
    let reply = it.raw("b", "text/plain", b"second");
    assert_eq!(reply.status, 201, "{reply:?}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "as it was");
    let kept: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(it.output(kept["upload"].as_str().unwrap()).body, "second");
    for handle in ["out_2", "out_77"] {
        let reply = it.output(handle);
        assert!(reply.status == 404 && !reply.body.contains("token-of"), "{handle}: {reply:?}");
    }
}

#[test]
fn uploads_of_a_session_share_its_limit_and_the_oldest_go() {
    let stage = Stage::new(&[]);
    fs::create_dir(stage.path("config")).unwrap();
    fs::write(stage.path("config/haft.toml"), "[limits]\noutputs_mib = 3\n").unwrap();
    let served = stage.serve();
    let session = served.does(201, "POST /api/v1/sessions", &json!({}))["id"].as_str().unwrap().to_owned();
    let it = Uploads { stage, served, session };
    let mib = vec![0xff; 1 << 20];
    for n in 1..=12 {
        assert_eq!(it.raw(&format!("{n}.bin"), "application/octet-stream", &mib).status, 201, "{n}");
        let sum: u64 = it.kept().iter().map(|it| it.metadata().unwrap().len()).sum();
        assert!(sum <= 3 << 20, "{sum} bytes are kept after {n} uploads");
    }
    let gone = it.output("out_1");
    assert!(gone.status == 404 && gone.body.contains("too old to be kept"), "{gone:?}");
    assert_eq!(it.output("out_12").status, 200);
    let large = it.raw("large.bin", "application/octet-stream", &vec![0xff; 4 << 20]);
    assert!((400..600).contains(&large.status) && large.body.contains("3 MiB"), "{large:?}");
    assert_eq!(it.raw("a", "text/plain", b"fits").status, 201);
}
