//! Tests of splitting: the events are the same however a text is split, nothing is lost, and the work is
//! linear.

use proptest::prelude::*;

use super::*;

const DIALECTS: [&str; 6] = [
    "json",
    "bracket",
    "xml",
    "hermes",
    "tool_use",
    r#"{"start_char": "{", "end_char": "}", "arg_style": "inline"}"#,
];

/// Pieces that are not calls, many of which look like one.
fn noise() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~\n]{0,12}",
        "\\PC{0,6}",
        prop::sample::select(vec![
            "<",
            "[",
            "[/",
            "</",
            "{",
            "/",
            "/]",
            "/>",
            ">",
            "]",
            "<json>",
            "</json>",
            "<json>{",
            "<tool_call>",
            "<read path=\"",
            "<bash>",
            "</bash>",
            "[/bash]",
            "[bash/]",
            "[/nope]\n",
            "<nope/>",
            "<<read",
            "[/re[/re",
            "`",
            "```\n",
            "\n",
            "ü",
            "🦀",
            "\\",
            "\"",
            "'",
            "{/read ",
            "@@path=",
            "&amp;",
            "<tool_use>{'",
            "\"tool_name\"",
            "\u{feff}",
            "\r\n",
        ])
        .prop_map(str::to_owned),
    ]
}

/// Text that can't begin a block, a fence or code.
fn plain() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9 .,!?äöüß🦀\n]{0,20}"
}

/// A call of a tool with difficult arguments.
fn calls() -> impl Strategy<Value = (String, Value)> {
    let awkward = prop_oneof![
        "[ -~\n]{0,24}",
        "\\PC{0,12}",
        prop::sample::select(vec![
            "</write>",
            "[write/]",
            "{write/}",
            "</json>",
            "</tool_call>",
            "</tool_use>",
            "@@path=x",
            "\"quoted\"",
            "&lt;",
            "a\nb\n",
            "\n",
            " x ",
            "",
            "'",
            "\\",
            "\\n",
            "\r\n",
            "\"",
            "<write path=\"a\">",
            "1",
            "true",
            "null",
            "{\"a\": 1}",
        ])
        .prop_map(str::to_owned),
    ];
    prop_oneof![
        (awkward.clone(), awkward.clone())
            .prop_map(|(path, content)| ("write".to_owned(), json!({"path": path, "content": content}))),
        (awkward.clone(), 1..999)
            .prop_map(|(command, wait)| ("shell".to_owned(), json!({"command": command, "wait_ms": wait}))),
        (awkward.clone(), any::<bool>(), awkward.clone(), awkward).prop_map(|(content, urgent, tag, any)| (
            "note".to_owned(),
            json!({"content": content, "urgent": urgent, "tags": [tag], "any": any})
        )),
        Just(("jobs".to_owned(), json!({}))),
    ]
}

/// Splits the text at these characters.
fn cut<'a>(text: &'a str, at: &[prop::sample::Index]) -> Vec<&'a str> {
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let mut cuts: Vec<usize> = at.iter().map(|it| *it.get(&places)).chain([0, text.len()]).collect();
    cuts.sort_unstable();
    cuts.iter().zip(cuts.iter().skip(1)).map(|(from, to)| text.get(*from..*to).unwrap()).collect()
}

proptest! {
    #[test]
    fn result_does_not_depend_on_how_the_text_is_split(
        words in prop::sample::select(&DIALECTS[..]),
        parts in prop::collection::vec(prop_oneof![noise().prop_map(Ok), calls().prop_map(Err)], 0..8),
        at in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let syntax = syntax_of(words);
        let whole: String = parts.into_iter().map(|part| match part {
            Ok(noise) => noise,
            Err((tool, arguments)) => syntax.write(&tool, &arguments.to_string()),
        }).collect();
        let once = found(words, [whole.as_str()]);
        prop_assert_eq!(&once, &found(words, cut(&whole, &at)));
        let each: Vec<&str> = whole.char_indices().map(|(at, c)| whole.get(at..at + c.len_utf8()).unwrap()).collect();
        prop_assert_eq!(&once, &found(words, each));
    }

    #[test]
    fn calls_are_found_and_text_between_them_stays_byte_for_byte(
        words in prop::sample::select(&DIALECTS[..]),
        parts in prop::collection::vec((plain(), calls()), 0..6),
        last in plain(),
    ) {
        let syntax = syntax_of(words);
        let (mut whole, mut expected) = (String::new(), Vec::new());
        for (before, (tool, arguments)) in parts {
            whole.push_str(&before);
            if !before.is_empty() {
                expected.push(Found::Text(before));
            }
            whole.push_str(&syntax.write(&tool, &arguments.to_string()));
            expected.push(call(&tool, arguments));
        }
        whole.push_str(&last);
        if !last.is_empty() {
            expected.push(Found::Text(last));
        }
        prop_assert_eq!(said(words, &whole), expected, "{}", whole);
    }

    #[test]
    fn text_without_calls_stays_byte_for_byte(
        words in prop::sample::select(&DIALECTS[..]),
        parts in prop::collection::vec(noise(), 0..12),
    ) {
        let whole: String = parts.concat();
        let found = said(words, &whole);
        prop_assume!(found.iter().all(|it| matches!(it, Found::Text(_))));
        let text: String = found.iter().map(|it| if let Found::Text(text) = it { text.as_str() } else { "" }).collect();
        prop_assert_eq!(text, whole);
    }
}

/// Returns the number of characters read per character, for an answer that repeats this text.
fn work(words: &str, begin: &str, again: &str, bytes: usize) -> u64 {
    let whole = begin.to_owned() + &again.repeat(bytes / again.len());
    let mut parser = Parser::new(syntax_of(words), CALLS);
    for piece in whole.as_bytes().chunks(4096) {
        parser.feed(std::str::from_utf8(piece).unwrap());
    }
    parser.work / whole.len() as u64
}

#[test]
fn answer_that_never_closes_a_tag_is_parsed_in_linear_time() {
    let long = 10 * 1024 * 1024;
    assert_eq!(work("bracket", "[/bash]\n", "x[bash/ ", long), 1);
    assert_eq!(work("json", "<json>{\"tool_name\": \"write\", \"tool_input\": \"", "</json>", long), 1);
    for (words, begin, again) in [
        ("xml", "<read path=\"", "<read path='"),
        ("xml", "", "<read path=\"<read a=' "),
        ("xml", "", "<read a=\"<read a=\" b=\"<read a=\" "),
        ("xml", "<read ", "a=\"<read b='\" "),
        ("json", "", "<json>  "),
        ("json", "<json>", "    "),
        ("bracket", "", "[/rea"),
        ("hermes", "", "<tool_cal"),
    ] {
        let work = work(words, begin, again, 1024 * 1024);
        assert!(work <= 3, "{words} {begin}{again}: each character was looked at {work} times");
    }
}
