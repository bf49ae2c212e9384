//! A network grant of one command, used by another that read its pass for the proxy.

use serde_json::json;

use super::{
    hostile::Hostile,
    namespace::{PUBLIC, far_away, inside},
};
use crate::support::TestWorkspace;

/// Waits for a pass in the environment of another process, and asks the proxy with it.
const THIEF: &str = r#"while :; do
  for file in /proc/[0-9]*/environ; do
    pass=$(tr '\0' '\n' 2>/dev/null <$file | sed -n 's/^http_proxy=\(.*haft:.*\)/\1/p' | head -n 1)
    if [ -n "$pass" ]; then
      curl -sS --max-time 20 -x "$pass" "URL?stolen" >taken 2>&1
      echo "$pass" >>taken
      mv taken stolen
      exit
    fi
  done
  sleep 0.05
done"#;

#[test]
fn pass_of_a_granted_command_opens_nothing_to_another_command() {
    kit::needs!(Ip, Curl);
    inside("net::stolen_pass::pass_of_a_granted_command_opens_nothing_to_another_command", || {
        let far = Hostile::on(far_away(8080));
        let url = format!("http://{PUBLIC}:8080/text");
        let test_ws = TestWorkspace::new();
        let server = test_ws.serve_with(&["--approve", "auto"]);
        let thief = THIEF.replace("URL", &url);
        server.does("shell", &json!({"command": thief, "run_in_background": true}));
        let victim = format!(
            "curl -sS --max-time 20 '{url}?before'; while [ ! -e stolen ]; do sleep 0.05; done; curl -sS --max-time 20 '{url}?after'"
        );
        let said = server.does("shell", &json!({"command": victim, "net": [PUBLIC.to_string()]}));
        // The positive control: the command that was granted the host reaches it, before and after the theft.
        assert_eq!(said.matches("hello").count(), 2, "{said}");
        let stolen = test_ws.text("stolen");
        assert!(stolen.contains("Blocked by haft's sandbox") && stolen.contains("http://haft:"), "{stolen}");
        let targets: Vec<String> = far.requests().iter().map(|it| it.target.clone()).collect();
        assert_eq!(targets, ["/text?before", "/text?after"]);
        drop(server);
    });
}
