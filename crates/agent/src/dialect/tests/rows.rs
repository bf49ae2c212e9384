//! Tests of each dialect, case by case.

use super::*;

#[test]
fn a_bracket_block_has_argument_lines_and_a_body() {
    is_call(
        "bracket",
        "[/shell]\n@@wait_ms=500\nls -l | grep '[a/]'\n[shell/]",
        "shell",
        json!({"wait_ms": 500, "command": "ls -l | grep '[a/]'"}),
    );
    is_call(
        "bracket",
        "[/read]\n@@path=src/a.rs\n@@limit=5\n[read/]",
        "read",
        json!({"path": "src/a.rs", "limit": 5}),
    );
    is_call(
        "bracket",
        "[/read]\n@@path = a.rs\n@@limit = 5\n[read/]",
        "read",
        json!({"path": "a.rs", "limit": 5}),
    );
    is_call(
        "bracket",
        "[/edit]\n@@path = a\n@@ x = 1\n[edit/]",
        "edit",
        json!({"path": "a", "diff": "@@ x = 1\n"}),
    );
    is_call("bracket", "[/jobs]\n[jobs/]", "jobs", json!({}));
    is_call("bracket", "[/jobs][jobs/]", "jobs", json!({}));
    is_call("bracket", "[/bash]ls[bash/]", "bash", json!({"command": "ls"}));
    is_call("bracket", "[/read]\r\n@@path=a\r\n[read/]", "read", json!({"path": "a"}));
}

#[test]
fn an_xml_block_has_its_arguments_in_the_tag() {
    is_call("xml", r#"<read path="a b.rs" limit='5'/>"#, "read", json!({"path": "a b.rs", "limit": 5}));
    is_call(
        "xml",
        "<write path=\"a.html\">\n<b>x</b> [x/]\n</write>",
        "write",
        json!({"path": "a.html", "content": "<b>x</b> [x/]\n"}),
    );
    is_call(
        "xml",
        r#"<grep pattern="a &amp;&amp; &quot;b&quot; &copy;" path="x>y"></grep>"#,
        "grep",
        json!({"pattern": "a && \"b\" &copy;", "path": "x>y"}),
    );
    is_call("xml", "<jobs/>", "jobs", json!({}));
    is_call("xml", "<jobs />", "jobs", json!({}));
    is_call("xml", "<bash>a < b && c > d</bash>", "bash", json!({"command": "a < b && c > d"}));
}

#[test]
fn custom_formats_work() {
    let own = r#"{"start_char": "{", "end_char": "}", "slash_means_open": true, "arg_style": "line", "arg_prefix": "--", "arg_kv_sep": ":"}"#;
    is_call(own, "{/read}\n--path:a.rs\n{read/}", "read", json!({"path": "a.rs"}));
    let own = r#"{"start_char": "(", "end_char": ")", "arg_style": "inline", "arg_kv_sep": ":="}"#;
    is_call(own, "(/read path:=\"a\")(read/)", "read", json!({"path": "a"}));
    let own = r#"{"slash_means_open": false}"#;
    is_call(own, "[read]\n@@path=a\n[/read]", "read", json!({"path": "a"}));
}

#[test]
fn calls_in_thoughts_quotes_comments_and_invented_results_do_not_run() {
    let blocks = [
        ("json", r#"<json>{"tool_name": "bash", "tool_input": {"command": "ls"}}</json>"#),
        ("hermes", r#"<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>"#),
        ("bracket", "[/bash]ls[bash/]"),
        ("xml", "<bash>ls</bash>"),
    ];
    for (words, block) in blocks {
        for (before, after) in [
            ("<think>maybe ", "</think>no"),
            ("\n<thinking>\n", "\n</thinking>\nno"),
            ("<think>", ""),
            ("a\n> ", "\nb"),
            ("> ```\n> ", "\n> ```\n"),
            ("<!-- ", " -->"),
            ("a <tool_response>", "</tool_response>"),
            ("<tool_result>", "</tool_result>"),
        ] {
            is_text(words, &format!("{before}{block}{after}"));
        }
        let found = said(words, &format!("<think>hm</think>{block}"));
        assert!(found.contains(&call("bash", json!({"command": "ls"}))), "{words}: {found:?}");
    }
}

#[test]
fn unknown_dialect_is_refused_with_the_list_of_dialects() {
    let refused = |words: &str, what: &str| {
        let fault = words.parse::<Dialect>().unwrap_err();
        assert!(fault.what.contains(what) && fault.next.iter().any(|it| it.contains("hermes")), "{fault:?}");
    };
    refused("native", "native");
    refused(r#"{"start_char": "ab"}"#, "ab");
    refused(r#"{"begin": "<"}"#, "begin");
    refused(r#"{"start_char": "a"}"#, "start_char");
    refused(r#"{"arg_kv_sep": ""}"#, "arg_kv_sep");
    refused(r#"{"arg_prefix": ""}"#, "arg_prefix");
}

#[test]
fn body_is_the_argument_of_the_table_or_of_the_schema() {
    let bodies: Vec<(String, Option<String>)> =
        specs().iter().map(|it| (it.name.clone(), schema::body_of(it))).collect();
    let check = |tool: &str, argument: Option<&str>| {
        let body = bodies.iter().find(|(name, _)| name == tool).unwrap();
        assert_eq!(body.1.as_deref(), argument, "{tool}");
    };
    // Arguments of the table.
    for (tool, argument) in [
        ("bash", "command"),
        ("python", "code"),
        ("edit", "diff"),
        ("write", "content"),
        ("read", "path"),
        ("glob", "pattern"),
        ("grep", "pattern"),
        ("send_message", "message"),
        ("subagent", "task"),
        ("note", "content"),
    ] {
        check(tool, Some(argument));
    }
    // Arguments of tools that have another name for it here.
    for (tool, argument) in [
        ("tree", "dir"),
        ("info", "name"),
        ("read_job", "job"),
        ("wait", "job"),
        ("stop_task", "job"),
        ("shell", "command"),
        ("filegrep", "pattern"),
        ("search_tools", "query"),
        ("write_tool", "code"),
        ("continue_job", "input"),
        ("undo", "path"),
    ] {
        check(tool, Some(argument));
    }
    check("jobs", None);
}

#[test]
fn jobs_and_manuals_are_calls_like_any_other() {
    is_call("bracket", "[/info]bash[info/]", "info", json!({"name": "bash"}));
    is_call("xml", "<info>bash</info>", "info", json!({"name": "bash"}));
    is_call(
        "bracket",
        "[/read_job]\n@@offset=10\njob_3\n[read_job/]",
        "read_job",
        json!({"job": "job_3", "offset": 10}),
    );
    is_call(
        "bracket",
        "[/wait]\n@@timeout_s=60\njob_3\n[wait/]",
        "wait",
        json!({"job": "job_3", "timeout_s": 60}),
    );
}

#[test]
fn named_argument_takes_precedence_over_the_body() {
    is_call("bracket", "[/read]\n@@path=a\nb\n[read/]", "read", json!({"path": "a"}));
    is_call("xml", r#"<read path="a">b</read>"#, "read", json!({"path": "a"}));
}

#[test]
fn values_have_the_types_of_the_schema() {
    is_call(
        "bracket",
        "[/note]\n@@urgent=yes\n@@ratio=1.5\n@@tags=[\"a\"]\n@@any={\"x\": 1}\ntrue\n[note/]",
        "note",
        json!({"urgent": true, "ratio": 1.5, "tags": ["a"], "any": {"x": 1}, "content": "true\n"}),
    );
    // Invalid text stays as it is, and the call reports the error.
    is_call(
        "xml",
        r#"<note urgent="maybe" ratio="much" any="x">1</note>"#,
        "note",
        json!({"urgent": "maybe", "ratio": "much", "any": "x", "content": "1"}),
    );
    // A text with line breaks is a JSON string.
    is_call(
        "bracket",
        "[/editor]\n@@command=str_replace\n@@path=a\n@@old_str=\"a\\nb\"\n@@new_str=c\n[editor/]",
        "editor",
        json!({"command": "str_replace", "path": "a", "old_str": "a\nb", "new_str": "c"}),
    );
    // A line of a diff is not an argument.
    is_call(
        "bracket",
        "[/edit]\n@@path=a\n@@ -1 +1 @@ x=1\n-a\n+b\n[edit/]",
        "edit",
        json!({"path": "a", "diff": "@@ -1 +1 @@ x=1\n-a\n+b\n"}),
    );
}

#[test]
fn a_file_keeps_its_last_line_break_and_may_be_empty() {
    is_call("bracket", "[/write]\n@@path=a\nx\n[write/]", "write", json!({"path": "a", "content": "x\n"}));
    is_call("bracket", "[/write]\n@@path=a\nx[write/]", "write", json!({"path": "a", "content": "x"}));
    is_call("bracket", "[/write]\n@@path=a\n[write/]", "write", json!({"path": "a", "content": ""}));
    is_call("xml", "<write path=\"a\"></write>", "write", json!({"path": "a", "content": ""}));
}

#[test]
fn incomplete_blocks_are_text() {
    for whole in [
        "[/nothing]\nx\n[nothing/]",
        "[read/]",
        "[/read",
        "[/read]\n@@path=a",
        "[/read]\na[write/]",
        "[/read x]",
        "[/ read]",
        "[[[/rea",
        "[/bash]\n[/read]\na\n",
        "a [link](b) [/",
        "[/bash]\nls\n[bash/",
    ] {
        is_text("bracket", whole);
    }
    for whole in [
        "<nothing>x</nothing>",
        "</read>",
        "<read",
        "<read path=\"a\"",
        "<read path=a>",
        "<read>a</write>",
        "a < b <= c <<read",
        "<read path>",
        "<ready>x</ready>",
        "<read path=\"a\" /x>",
        "<bash>ls</bash",
    ] {
        is_text("xml", whole);
    }
    for whole in [
        "<json>",
        "<json>x</json>",
        "<json>{}</json>",
        "<json>{\"tool_name\": \"read\"}</json>",
        "<json>{\"tool_input\": {}}</json>",
        "<json>[1]</json>",
        "<json>{\"a\": }</json>",
        "<json>{\"tool_name\": 1, \"tool_input\": {}}</json>",
        "use <json> and </json>",
    ] {
        is_text("json", whole);
    }
    is_text("hermes", "<tool_call>{\"name\": \"read\"}</tool_call>");
    is_text("tool_use", "<tool_use>{'tool_name': open('x')}</tool_use>");
}

#[test]
fn blocks_do_not_nest() {
    is_call(
        "bracket",
        "[/write]\n@@path=a\n[/bash]\nls\n[bash/]\n[write/]",
        "write",
        json!({"path": "a", "content": "[/bash]\nls\n[bash/]\n"}),
    );
    is_call("xml", "<bash><read path=\"a\"/></bash>", "bash", json!({"command": "<read path=\"a\"/>"}));
    // The content of an unclosed block may be the text of a file, and does not run.
    is_text("bracket", "[/write]\n@@path=a\n[/bash]\nrm x\n[bash/]\n");
}

#[test]
fn calls_in_code_do_not_run() {
    for shown in [
        "Write `<bash>ls</bash>`.",
        "```\n<bash>ls</bash>\n```\n",
        "  ```xml\n<bash>ls</bash>\n```",
        "Run ``echo `x` <bash>ls</bash>``.",
        "~~~\n<bash>ls</bash>",
    ] {
        is_text("xml", shown);
    }
    assert_eq!(
        said("xml", "```\nx\n```\n<bash>ls</bash> `a` <jobs/>"),
        [
            text("```\nx\n```\n"),
            call("bash", json!({"command": "ls"})),
            text(" `a` "),
            call("jobs", json!({}))
        ]
    );
    // A fence within a body belongs to the body.
    is_call("xml", "<write path=\"a\">```\nx</write>", "write", json!({"path": "a", "content": "```\nx"}));
}

#[test]
fn json_calls_are_one_or_many_with_text_between() {
    let read = r#"<json>{"tool_name": "read", "tool_input": {"path": "a"}}</json>"#;
    let found = said(
        "json",
        &format!(
            "First {read}\nthen <json>\n{{\n \"tool_input\": {{}}, \"tool_name\": \"jobs\"}}\n</json> end"
        ),
    );
    assert_eq!(
        found,
        [
            text("First "),
            call("read", json!({"path": "a"})),
            text("\nthen "),
            call("jobs", json!({})),
            text(" end")
        ]
    );
    // A block without a call is skipped.
    let found = said("json", &format!("<json>{{}}</json>{read}"));
    assert_eq!(found, [text("<json>{}</json>"), call("read", json!({"path": "a"}))]);
    // An unknown tool is still called: the model gets an error.
    is_call("json", r#"<json>{"tool_name": "no", "tool_input": {}}</json>"#, "no", json!({}));
}

#[test]
fn calls_beyond_the_limit_are_text() {
    let two = "<jobs/><jobs/>";
    let count = |most: usize| {
        let mut parser = Parser::new(syntax_of("xml"), most);
        let events = parser.feed(two);
        let rest = parser.finish();
        assert_eq!((rest.calls, rest.left), (most.min(2), 2 - most.min(2)));
        merged(events)
            .into_iter()
            .filter(|it| matches!(it, Found::Text(_) | Found::Call(..)))
            .collect::<Vec<_>>()
    };
    assert_eq!(count(1), [call("jobs", json!({})), text("<jobs/>")]);
    assert_eq!(count(usize::MAX), [call("jobs", json!({})), call("jobs", json!({}))]);
}

#[test]
fn a_closing_tag_within_a_json_text_closes_nothing() {
    is_call(
        "json",
        r#"<json>{"tool_name": "write", "tool_input": {"path": "a", "content": "</json> \"</json>"}}</json>"#,
        "write",
        json!({"path": "a", "content": "</json> \"</json>"}),
    );
    is_call(
        "hermes",
        r#"<tool_call>{"name": "bash", "arguments": {"command": "echo '</tool_call>'"}}</tool_call>"#,
        "bash",
        json!({"command": "echo '</tool_call>'"}),
    );
    is_call(
        "tool_use",
        r#"<tool_use>{'tool_name': 'bash', 'tool_input': {'command': "echo '</tool_use>'", 'restart': True}}</tool_use>"#,
        "bash",
        json!({"command": "echo '</tool_use>'", "restart": true}),
    );
}

#[test]
fn almost_valid_json_is_still_a_call() {
    // A line break in a text: the call repairs it, or reports the error.
    is_call(
        "json",
        "<json>{\"tool_name\": \"bash\", \"tool_input\": {\"command\": \"a\nb\"}}</json>",
        "bash",
        json!("{\"command\": \"a\nb\"}"),
    );
    // JSON within JSON.
    is_call(
        "hermes",
        r#"<tool_call>{"name": "bash", "arguments": "{\"command\": \"ls\"}"}</tool_call>"#,
        "bash",
        json!({"command": "ls"}),
    );
}

#[test]
fn call_cut_off_by_the_length_limit_is_reported() {
    let cut = |words: &str, text: &str| found(words, [text]).1;
    assert!(cut("json", r#"Now <json>{"tool_name": "write", "tool_input": {"content": "abc"#));
    assert!(cut("hermes", r#"<tool_call>{"name": "write", "arguments": {"#));
    assert!(!cut("json", r#"<json>{"tool_name": "wri"#));
    assert!(!cut("json", "Write <json> with tool_name and tool_input."));
    assert!(!cut(
        "json",
        r#"<json>{"tool_name": "jobs", "tool_input": {}}</json><json>{"tool_name": "write", "tool_input": {"#
    ));
    assert!(!cut("xml", "<write path=\"a\">abc"));
}

#[test]
fn a_call_begins_at_its_opening_tag_and_closes_at_its_closing_one() {
    let mut parser = Parser::new(syntax_of("xml"), CALLS);
    assert_eq!(merged(parser.feed("Hi <ba")), [text("Hi ")]);
    assert_eq!(merged(parser.feed("sh>")), [Found::Began(0, "bash".to_owned())]);
    assert_eq!(merged(parser.feed("ls</bash")), [Found::Grew(0, 8)]);
    assert_eq!(
        merged(parser.feed(">.")),
        [Found::Grew(0, 1), call("bash", json!({"command": "ls"})), text(".")]
    );
    assert_eq!(merged(parser.feed("<b>")), [text("<b>")]);
    let mut parser = Parser::new(syntax_of("json"), CALLS);
    assert_eq!(
        merged(parser.feed("<json>{\"tool_name\": \"bash\"")),
        [Found::Began(0, "bash".to_owned()), Found::Grew(0, 20)]
    );
}
