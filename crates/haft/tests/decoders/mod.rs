//! Hostile files: each is a fault or a result within its deadline, and nothing else notices.

mod attacks;
mod corpus;
mod tree;

use std::{
    fs,
    time::{Duration, Instant},
};

use image::ImageFormat;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    http::support::{self as http, ANN, BOB},
    media::pictures::{halves, pdf, written},
    support::{Server, TestWorkspace},
    web::site::{Site, ok},
};
use tree::Watch;

/// The most memory of haft and its decoders, in MiB.
const MOST_MEMORY: u64 = 300;

/// No call takes longer: the longest deadline of a decoder of pictures and pages, and some for a busy machine.
const LONGEST: Duration = Duration::from_secs(60);

/// Creates a workspace with the attacks and a picture in it.
fn test_ws() -> TestWorkspace {
    let test_ws = TestWorkspace::new();
    for (name, bytes) in attacks::all() {
        test_ws.put(name, bytes);
    }
    test_ws.put("a.png", written(&halves(60, 30), ImageFormat::Png));
    test_ws
}

/// A picture is still decoded.
#[track_caller]
fn goes_on(server: &Server) {
    let line = server.does("image_view", &json!({"path": "a.png"}));
    assert!(line.starts_with("a.png: PNG, 60 x 30 pixels"), "{line}");
}

/// Calls, and says what came of it: no result takes longer than it may, whatever it is.
#[track_caller]
fn bounded(server: &Server, tool: &str, arguments: &Value) -> (bool, String) {
    let begun = Instant::now();
    let said = server.call(tool, arguments);
    assert!(begun.elapsed() < LONGEST, "{tool} {arguments} took {:?}", begun.elapsed());
    (said.is_error, said.text)
}

#[test]
fn attack_by_image_view_is_a_fault_and_the_session_goes_on() {
    let test_ws = test_ws();
    let server = test_ws.serve();
    goes_on(&server);
    let watch = Watch::over(server.process());
    for (name, _) in attacks::all() {
        let (is_error, said) = bounded(&server, "image_view", &json!({"path": name}));
        let is_told = said.contains("another copy") || said.contains("the PDF took longer than 20 s");
        assert!(is_error && said.contains(name) && is_told, "{name}: {said}");
        goes_on(&server);
    }
    let peak = watch.peak();
    assert!(peak < MOST_MEMORY, "{peak} MiB");
}

#[test]
fn attack_by_read_is_bounded_and_the_session_goes_on() {
    let test_ws = test_ws();
    let server = test_ws.serve();
    let watch = Watch::over(server.process());
    for (name, _) in attacks::all() {
        let (is_error, said) = bounded(&server, "read", &json!({"path": name}));
        // A text has no dashes, and a fax has no text: these are read in no time.
        let is_harmless = matches!(name, "fax.pdf" | "dashes.pdf" | "shadings.pdf");
        assert!(is_error || is_harmless, "{name}: {said}");
        goes_on(&server);
    }
    let peak = watch.peak();
    assert!(peak < MOST_MEMORY, "{peak} MiB");
}

#[test]
fn attack_by_web_fetch_is_bounded_and_the_session_goes_on() {
    let site = Site::new(|asked| {
        let found = attacks::all().into_iter().find(|(name, _)| asked.path == format!("/{name}"));
        ok("application/pdf", found.map_or_else(Vec::new, |(_, bytes)| bytes))
    });
    let test_ws = crate::web::test_ws(&[&site], "");
    test_ws.put("a.png", written(&halves(60, 30), ImageFormat::Png));
    let server = test_ws.serve();
    let watch = Watch::over(server.process());
    for (name, _) in attacks::all() {
        let (is_error, said) = bounded(&server, "web_fetch", &json!({"url": site.url(&format!("/{name}"))}));
        let is_harmless = matches!(name, "fax.pdf" | "dashes.pdf" | "shadings.pdf");
        assert!(is_error || is_harmless, "{name}: {said}");
        goes_on(&server);
    }
    let peak = watch.peak();
    assert!(peak < MOST_MEMORY, "{peak} MiB");
}

#[test]
fn slow_picture_blocks_no_other_and_its_decoder_ends_when_it_is_cancelled() {
    let test_ws = test_ws();
    let server = test_ws.serve();
    goes_on(&server);
    let slow = server.start_call("image_view", &json!({"path": "shadings.pdf"}));
    let begun = Instant::now();
    for _ in 0..5 {
        goes_on(&server);
    }
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let before = tree::decoders(server.process());
    assert_eq!(before.len(), 2, "one is busy, one waits");
    let cancel = json!({"requestId": slow.id()});
    let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel});
    server.send(&note.to_string());
    until("the busy decoder has ended", || tree::decoders(server.process()).len() < 2);
    goes_on(&server);
}

#[test]
fn attack_of_one_http_session_leaves_the_other_one_alone() {
    let test_ws = http::TestWorkspace::new();
    for (name, bytes) in attacks::all() {
        fs::write(test_ws.path("ws").join(name), bytes).unwrap();
    }
    fs::write(test_ws.path("ws").join("a.png"), written(&halves(60, 30), ImageFormat::Png)).unwrap();
    let fixture = test_ws.open();
    let (ann, bob) = (fixture.begin(ANN), fixture.begin(BOB));
    let seen = || fixture.call(BOB, &bob, "image_view", json!({"path": "a.png"}));
    assert!(seen().starts_with("a.png: PNG"));
    std::thread::scope(|scope| {
        // All that ann may have at once.
        let slow: Vec<_> = (0..2)
            .map(|id| {
                let params = json!({"name": "image_view", "arguments": {"path": "shadings.pdf"}});
                let call =
                    json!({"jsonrpc": "2.0", "id": 100 + id, "method": "tools/call", "params": params});
                scope.spawn(|| fixture.post(ANN, Some(&ann), &{ call }).body)
            })
            .collect();
        let begun = Instant::now();
        assert!(seen().starts_with("a.png: PNG"));
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
        for slow in slow {
            let said = slow.join().unwrap();
            assert!(said.contains("took longer than"), "{said}");
        }
    });
    for (name, _) in attacks::quick() {
        let said = fixture.call(ANN, &ann, "image_view", json!({"path": name}));
        assert!(said.contains("another copy"), "{name}: {said}");
        assert!(seen().starts_with("a.png: PNG"), "after {name}");
    }
    assert!(fixture.call(ANN, &ann, "image_view", json!({"path": "a.png"})).starts_with("a.png: PNG"));
}

#[test]
fn attack_through_a_model_call_is_a_fault_and_the_run_goes_on() {
    let test_ws = test_ws();
    let looks = |path: &str| json!({"calls": [{"tool": "image_view", "arguments": {"path": path}}]});
    let steps = [looks("widths.pdf"), looks("a.png"), json!({"say": "I see it."})];
    test_ws.put("script", steps.map(|it| format!("{it}\n")).concat());
    let ran = test_ws.run(&["run", "--model", &format!("script:{}", test_ws.at("script").display()), "look"]);
    assert!(ran.code == 0 && ran.out.contains("I see it."), "{ran:?}");
}

#[test]
fn decoder_is_confined_and_ends_with_haft() {
    let test_ws = test_ws();
    let server = test_ws.serve();
    goes_on(&server);
    let decoders = tree::decoders(server.process());
    let &[decoder] = decoders.as_slice() else { panic!("{decoders:?}") };
    assert_eq!(tree::status(decoder, "NoNewPrivs:").as_deref(), Some("1"));
    assert_eq!(tree::status(decoder, "Seccomp:").as_deref(), Some("2"));
    let limits = fs::read_to_string(format!("/proc/{decoder}/limits")).unwrap();
    for (name, most) in [("Max open files", "0"), ("Max file size", "0"), ("Max core file size", "0")] {
        let line = limits.lines().find_map(|it| it.strip_prefix(name)).unwrap();
        assert_eq!(line.split_whitespace().next(), Some(most), "{name}");
    }
    let memory = limits.lines().find_map(|it| it.strip_prefix("Max address space")).unwrap();
    assert!(!memory.trim_start().starts_with("unlimited"), "{memory}");
    let environment = fs::read_to_string(format!("/proc/{decoder}/environ")).unwrap_or_default();
    assert!(!environment.contains("HOME="), "{environment}");
    server.kill();
    until("the decoder has ended", || fs::metadata(format!("/proc/{decoder}")).is_err());
}

#[test]
fn decoder_that_was_killed_is_replaced() {
    let test_ws = test_ws();
    let server = test_ws.serve();
    goes_on(&server);
    let decoder = tree::decoders(server.process())[0];
    kill_process(Pid::from_raw(i32::try_from(decoder).unwrap()).unwrap(), Signal::KILL).unwrap();
    goes_on(&server);
    assert_ne!(tree::decoders(server.process()), [decoder]);
}

#[test]
fn text_of_an_svg_is_drawn_with_the_fonts_of_this_machine() {
    let test_ws = TestWorkspace::new();
    let svg = "<svg xmlns='http://www.w3.org/2000/svg' width='400' height='100'>\
        <text x='10' y='70' font-size='60'>haft</text></svg>";
    test_ws.put("a.svg", svg);
    let answer = test_ws.serve().start_call("image_view", &json!({"path": "a.svg"})).wait().unwrap();
    let line = answer["result"]["content"][0]["text"].as_str().unwrap();
    let data = answer["result"]["content"][1]["data"].as_str().unwrap();
    let picture = image::load_from_memory(&kit::base64::decoded(data).unwrap()).unwrap().to_luma8();
    let is_dark = picture.pixels().any(|it| it.0[0] < 100);
    assert!(is_dark || line.contains("this machine has no fonts"), "{line}");
}

#[test]
fn hostile_files_are_results_or_faults_and_the_next_call_works() {
    corpus::run();
}

/// Waits for what no event tells of.
#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONGEST, "not so: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns a document that is none of the attacks.
fn document() -> Vec<u8> {
    pdf(&["one", "two"])
}
