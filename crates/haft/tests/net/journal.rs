//! Journal entries without credentials, and answers with the id of each client request.

use serde_json::{Value, json};

use super::{ask, granting, hostile::Hostile};
use crate::support::TestWorkspace;

const CANARY: &str = "c4n4ry-4711";

#[test]
fn credentials_that_a_model_wrote_out_are_not_in_the_journal() {
    let server = Hostile::start();
    let test_ws = granting(&[&server]);
    for arguments in [
        json!({"url": server.url("/text"), "headers": {"Authorization": format!("Bearer {CANARY}")}}),
        json!({"url": server.url("/text"), "headers": {"cookie": CANARY, "X-Api-Key": CANARY}}),
        json!({"url": server.url(&format!("/text?access_token={CANARY}"))}),
        json!({"url": server.url("/text"), "query": {"api_key": CANARY}}),
        json!({"url": format!("http://me:{CANARY}@{}/text", server.host())}),
    ] {
        ask(&test_ws, &arguments);
    }
    // The positive control: the server got what it was sent, and the journal has the calls.
    let bearer = server.requests()[0].header("authorization").map(str::to_owned);
    assert_eq!(bearer, Some(format!("Bearer {CANARY}")));
    let log = test_ws.log();
    assert_eq!(log.len(), 5);
    assert!(log.iter().all(|it| it.to_string().contains("[masked]")), "{log:#?}");
    assert!(!test_ws.run(&["log"]).out.contains(CANARY));
    let database =
        std::process::Command::new("grep").args(["-rlF", CANARY]).arg(test_ws.state()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&database.stdout), "");
}

#[test]
fn line_that_is_not_json_is_answered_with_its_id_and_half_an_emoji_is_repaired() {
    let test_ws = TestWorkspace::new();
    test_ws.put("a.txt", "one\n");
    let server = test_ws.serve();
    let call = |id: u64, arguments: &str| {
        let pending = server.expect(id);
        server.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"write","arguments":{arguments}}}}}"#
        ));
        pending.wait().unwrap()
    };
    let said = call(701, r#"{"path":"b.txt","content":"half \ud83d an emoji\n"}"#);
    assert_eq!(said["result"]["isError"], Value::Bool(false), "{said}");
    assert_eq!(test_ws.text("b.txt"), "half \u{fffd} an emoji\n");
    let said = call(702, r#"{"path":"c.txt","content":"x","n":1e999}"#);
    assert!(said["error"]["message"].as_str().unwrap().contains("number out of range"), "{said}");
    let said = call(703, &format!("{}{}", "[".repeat(300), "]".repeat(300)));
    assert!(said["error"]["message"].as_str().unwrap().contains("recursion limit"), "{said}");
    for (arguments, says) in [(json!({"path": ""}), "`path` is empty"), (json!({"path": 123}), "path")] {
        let said = server.call("read", &arguments);
        assert!(said.is_error && said.text.contains(says), "{}", said.text);
    }
    drop(server);
}
