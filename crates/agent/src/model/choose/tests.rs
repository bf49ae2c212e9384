//! Tests of model selection.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeMap;

use futures_util::StreamExt;
use kit::Kind;
use runtime::config::PriceSection;

use super::*;
use crate::model::{
    Item, Keys, OwnTool, Price, Request,
    loopback::{Loopback, Reply},
};

type Pairs<'a> = &'a [(&'a str, &'a str)];
type Sections = BTreeMap<String, ModelSection>;

const KEYS: Pairs<'static> =
    &[("ANTHROPIC_API_KEY", "sk-ant-1"), ("OPENAI_API_KEY", "sk-oai-1"), ("GOOGLE_API_KEY", "goog-1")];

fn owned(pairs: Pairs<'_>) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn plan(name: &str, variables: Pairs<'_>) -> Result<Plan, Fault> {
    Plan::of(
        name,
        Choices { models: &BTreeMap::new(), variables: &owned(variables), keys: Keys::NONE, max_calls: None },
    )
}

/// Returns the address, the wire format, the model's name there, and whether there is a key.
fn place(name: &str, variables: Pairs<'_>) -> (String, Wire, String, bool) {
    let plan = plan(name, variables).unwrap();
    (plan.endpoint.url, plan.wire, plan.model, plan.endpoint.key.is_some())
}

fn at(url: &str, wire: Wire, model: &str, key: bool) -> (String, Wire, String, bool) {
    (url.to_owned(), wire, model.to_owned(), key)
}

fn section(model: &str) -> ModelSection {
    ModelSection { model: Some(model.to_owned()), ..ModelSection::default() }
}

fn chosen(section: ModelSection, variables: Pairs<'_>) -> Result<Arc<dyn Model>, Fault> {
    let models = BTreeMap::from([("mine".to_owned(), section)]);
    choose(
        "mine",
        Choices { models: &models, variables: &owned(variables), keys: Keys::NONE, max_calls: None },
    )
}

fn fault(made: Result<Arc<dyn Model>, Fault>) -> (Kind, String) {
    let fault = made.map(|it| it.name().to_owned()).unwrap_err();
    (fault.kind, fault.as_text())
}

#[test]
fn name_selects_provider_address_and_wire_format() {
    let (anthropic, openai) = ("https://api.anthropic.com/v1", "https://api.openai.com/v1");
    let google = "https://generativelanguage.googleapis.com/v1beta/openai";
    for (name, expected) in [
        ("anthropic:claude-opus-5-5", at(anthropic, Wire::Anthropic, "claude-opus-5-5", true)),
        ("openai:gpt-5.6-terra", at(openai, Wire::Responses, "gpt-5.6-terra", true)),
        ("openai:o3", at(openai, Wire::Responses, "o3", true)),
        ("openai:gpt-4o", at(openai, Wire::Chat, "gpt-4o", true)),
        ("openai:chat:gpt-5", at(openai, Wire::Chat, "gpt-5", true)),
        ("openai:responses:gpt-4o", at(openai, Wire::Responses, "gpt-4o", true)),
        ("gemini:gemini-3.8-flash", at(google, Wire::Chat, "gemini-3.8-flash", true)),
        ("ollama:qwen3:32b", at("http://127.0.0.1:11434/v1", Wire::Chat, "qwen3:32b", false)),
        ("http://127.0.0.1:8080/v1#a/b", at("http://127.0.0.1:8080/v1", Wire::Chat, "a/b", false)),
        ("openai-compatible:https://host/v1/#m", at("https://host/v1", Wire::Chat, "m", false)),
    ] {
        assert_eq!(place(name, KEYS), expected, "{name}");
    }
}

#[test]
fn usual_variables_override_addresses() {
    for base in ["http://127.0.0.1:4000", "http://127.0.0.1:4000/", "http://127.0.0.1:4000/v1"] {
        let found =
            place("anthropic:claude-x", &[("ANTHROPIC_BASE_URL", base), ("ANTHROPIC_AUTH_TOKEN", "t-1")]);
        assert_eq!(found, at("http://127.0.0.1:4000/v1", Wire::Anthropic, "claude-x", true));
    }
    // A custom server uses Chat Completions, and may need no key.
    let found = place("openai:gpt-5", &[("OPENAI_BASE_URL", "http://127.0.0.1:4000/api")]);
    assert_eq!(found, at("http://127.0.0.1:4000/api", Wire::Chat, "gpt-5", false));
    let found = place("ollama:qwen3", &[("OLLAMA_HOST", "box.lan:1234")]);
    assert_eq!(found, at("http://box.lan:1234/v1", Wire::Chat, "qwen3", false));
    let window = |variables| plan("ollama:qwen3", variables).unwrap().abilities.window;
    assert_eq!((window(&[]), window(&[("OLLAMA_CONTEXT_LENGTH", "64000")])), (OLLAMA, 64_000));
}

#[test]
fn known_limits_and_prices_are_applied() {
    let abilities = |name: &str| plan(name, KEYS).unwrap().abilities;
    let own = abilities("anthropic:claude-sonnet-4-5");
    assert_eq!((own.window, own.images, own.price.map(|it| it.input)), (200_000, true, Some(3.0)));
    assert_eq!(own.own_tools, [OwnTool::WebSearch]);
    assert_eq!(abilities("openai:gpt-5").own_tools, [OwnTool::ImageGen, OwnTool::WebSearch]);
    // The price of another server is unknown.
    let other = abilities("http://127.0.0.1:8080/v1#claude-sonnet-4-5");
    assert_eq!((other.window, other.price, other.own_tools.len()), (200_000, None, 0));
    assert_eq!(abilities("http://127.0.0.1:8080/v1#x").window, 128_000);
}

#[test]
fn missing_key_is_named() {
    for (name, variable) in [
        ("anthropic:claude-x", "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"),
        ("openai:gpt-5", "OPENAI_API_KEY"),
        ("gemini:gemini-x", "GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("groq:x", "GROQ_API_KEY"),
    ] {
        let made = choose(
            name,
            Choices {
                models: &BTreeMap::new(),
                variables: &owned(&[("OPENAI_API_KEY", " ")]),
                keys: Keys::NONE,
                max_calls: None,
            },
        );
        let (kind, text) = fault(made);
        assert!(kind == Kind::Unavailable && text.contains(&format!("{variable} is not set")), "{text}");
        assert!(text.contains("haft login ") && text.contains("export "), "{text}");
    }
    let section = ModelSection { key_env: Some("MY_KEY".to_owned()), ..section("anthropic:claude-x") };
    assert!(fault(chosen(section, KEYS)).1.contains("MY_KEY"));
}

#[test]
fn unknown_name_is_refused_with_a_suggestion() {
    let models = Sections::from([("fast".to_owned(), section("anthropic:x"))]);
    let refused = |name: &str| {
        fault(choose(
            name,
            Choices { models: &models, variables: &owned(KEYS), keys: Keys::NONE, max_calls: None },
        ))
    };
    for (name, meant) in [
        ("gpt-4o", "openai:gpt-4o"),
        ("claude", "anthropic:claude-sonnet-5-5"),
        ("sonnet", "anthropic:claude-sonnet-5-5"),
        ("antropic:claude-sonnet-5-5", "anthropic:claude-sonnet-5-5"),
        ("google:gemini-3.8-flash", "gemini:gemini-3.8-flash"),
        ("openai:", "openai:gpt-5.6-terra"),
        ("anthropic", "anthropic:claude-sonnet-5-5"),
        ("fasst", "fast"),
        ("./talk.jsonl", "script:./talk.jsonl"),
    ] {
        let (kind, text) = refused(name);
        let expected = format!("unknown model `{name}`; did you mean `{meant}`?");
        assert!(kind == Kind::BadArgs && text.starts_with(&expected), "{text}");
        assert!(
            text.contains("`anthropic:claude-sonnet-5-5`") && text.contains("haft.toml has fast"),
            "{text}"
        );
    }
    for name in ["nobody:x", "no such thing"] {
        let (kind, text) = refused(name);
        assert!(kind == Kind::BadArgs && text.starts_with(&format!("unknown model `{name}`\n")), "{text}");
    }
    for name in ["http://127.0.0.1:8080/v1", "https://host#"] {
        assert!(refused(name).1.contains(&format!("`{name}` names no model")));
    }
    assert!(refused("").1.contains("is empty"));
}

#[test]
fn misspelt_model_gets_a_warning_and_is_tried() {
    let models = Sections::from([("anthropic:claude-sonet-5-4".to_owned(), section("anthropic:x"))]);
    let own = owned(KEYS);
    let doubted = |name: &str| {
        doubt(name, Choices { models: &models, variables: &own, keys: Keys::NONE, max_calls: None })
    };
    let told = doubted("anthropic:claude-sonet-5-5").unwrap();
    assert!(
        told.contains("did you mean `anthropic:claude-sonnet-5-5`?") && told.contains(known::AS_OF),
        "{told}"
    );
    assert!(
        choose(
            "anthropic:claude-sonet-5-5",
            Choices { models: &models, variables: &own, keys: Keys::NONE, max_calls: None }
        )
        .is_ok()
    );
    for fine in [
        "anthropic:claude-sonnet-6",
        "openai:gpt-9",
        "ollama:qwen4",
        "anthropic:claude-sonet-5-4",
        "script:x",
    ] {
        assert_eq!(doubted(fine), None, "{fine}");
    }
    // A custom server has its own names.
    let elsewhere = owned(&[("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/v1")]);
    let choices = Choices { models: &models, variables: &elsewhere, keys: Keys::NONE, max_calls: None };
    assert_eq!(doubt("anthropic:claude-sonet-5-5", choices), None);
}

#[test]
fn key_is_never_sent_unencrypted() {
    let key = Some("MY_KEY".to_owned());
    let variables: Pairs<'_> = &[
        ("MY_KEY", "sk-mine-1"),
        ("OPENAI_API_KEY", "sk-oai-1"),
        ("OPENAI_BASE_URL", "http://gateway.corp/v1"),
    ];
    let with = |url: &str| ModelSection { url: Some(url.to_owned()), key_env: key.clone(), ..section("m") };
    for url in ["http://gateway.corp:4000/v1", "http://10.0.0.1/v1", "http://me:pass-word@gateway.corp"] {
        let (kind, text) = fault(chosen(with(url), variables));
        assert!(kind == Kind::Denied && text.contains("https"), "{text}");
        assert!(!text.contains("sk-mine") && !text.contains("pass-word"), "{text}");
    }
    let (kind, _) = fault(choose(
        "openai:gpt-5",
        Choices { models: &BTreeMap::new(), variables: &owned(variables), keys: Keys::NONE, max_calls: None },
    ));
    assert_eq!(kind, Kind::Denied);
    let headers = BTreeMap::from([("x-key".to_owned(), "secret".to_owned())]);
    let secret = ModelSection { key_env: None, headers, ..with("http://gateway.corp/v1") };
    assert_eq!(fault(chosen(secret, &[])).0, Kind::Denied);
    for fine in
        ["https://gateway.corp/v1", "http://127.0.0.1:4000/v1", "http://[::1]:4000", "http://localhost:4000"]
    {
        assert!(chosen(with(fine), variables).is_ok(), "{fine}");
    }
    let open = ModelSection { key_env: None, ..with("http://box.lan:11434/v1") };
    assert!(chosen(open, &[]).is_ok());
    for wrong in ["ftp://host/v1", "host", "", "me:pass-word@host"] {
        let (kind, text) = fault(chosen(with(wrong), variables));
        assert!(kind == Kind::BadArgs && !text.contains("pass-word"), "{text}");
    }
}

#[tokio::test]
async fn every_field_of_a_section_takes_effect() {
    let loopback = Loopback::serve([Reply::new(400, "text/plain", "no")]).await;
    let price = PriceSection { input: 1.0, cached: 0.5, kept: 2.0, output: 4.0 };
    let section = ModelSection {
        api: Some("anthropic".to_owned()),
        url: Some(loopback.url.trim_end_matches("/v1").to_owned()),
        model: Some("claude-haiku-4-5".to_owned()),
        key_env: Some("MY_KEY".to_owned()),
        headers: BTreeMap::from([("X-Team".to_owned(), "tools".to_owned())]),
        window: Some(50_000),
        longest: Some(9_000),
        dialect: None,
        images: Some(false),
        effort: Some("2000".to_owned()),
        own_tools: vec!["web_search".to_owned()],
        price: Some(price),
    };
    let model = chosen(section, &[("MY_KEY", "sk-mine-1")]).unwrap();
    assert_eq!(model.name(), "mine");
    let abilities = Abilities {
        calls: true,
        images: false,
        window: 50_000,
        longest: 9_000,
        own_tools: vec![OwnTool::WebSearch],
        price: Some(Price { input: 1.0, cached: 0.5, kept: 2.0, output: 4.0 }),
    };
    assert_eq!(model.abilities(), &abilities);
    ask(&model).await;
    let asked = loopback.asked().remove(0);
    assert_eq!(asked.line, "POST /v1/messages");
    assert_eq!((asked.header("x-api-key"), asked.header("x-team")), (Some("sk-mine-1"), Some("tools")));
    assert_eq!(
        (asked.body["model"].as_str(), asked.body["max_tokens"].as_u64()),
        (Some("claude-haiku-4-5"), Some(9_000))
    );
    assert_eq!(asked.body["thinking"]["budget_tokens"], 2000);
}

async fn ask(model: &Arc<dyn Model>) {
    let items = vec![Item::person("Go.")];
    let request =
        Request { system: "".into(), items, tools: Arc::default(), step: 0, longest: None, format: None };
    model.stream(request).collect::<Vec<_>>().await;
}

#[tokio::test]
async fn each_wire_format_uses_its_own_path() {
    for (api, path) in [
        (None, "POST /v1/chat/completions"),
        (Some("chat"), "POST /v1/chat/completions"),
        (Some("responses"), "POST /v1/responses"),
        (Some("anthropic"), "POST /v1/messages"),
    ] {
        let loopback = Loopback::serve([Reply::new(400, "text/plain", "no")]).await;
        let section =
            ModelSection { api: api.map(str::to_owned), url: Some(loopback.url.clone()), ..section("m") };
        // No key was configured for this address, so none is sent to it.
        ask(&chosen(section, KEYS).unwrap()).await;
        let asked = loopback.asked().remove(0);
        assert_eq!(asked.line, path);
        assert_eq!((asked.header("authorization"), asked.header("x-api-key")), (None, None));
    }
}

#[test]
fn section_can_refine_a_known_model() {
    let model =
        chosen(ModelSection { window: Some(20_000), ..section("anthropic:claude-opus-5-5") }, KEYS).unwrap();
    let abilities = model.abilities();
    assert_eq!((abilities.window, abilities.longest, abilities.own_tools.len()), (20_000, 10_000, 0));
    assert!(abilities.price.is_some() && abilities.images);
    let named = ModelSection { api: Some("chat".to_owned()), ..section("gpt-5") };
    assert!(chosen(named, KEYS).is_ok());
}

#[test]
fn invalid_section_is_reported_with_its_name() {
    let wrong = [
        (ModelSection::default(), "names no model"),
        (section("gpt-5"), "who serves"),
        (ModelSection { api: Some("grpc".to_owned()), ..section("m") }, "grpc"),
        (ModelSection { own_tools: vec!["bash".to_owned()], ..section("openai:gpt-5") }, "`bash`"),
        (ModelSection { longest: Some(500), window: Some(500), ..section("openai:gpt-5") }, "window of 500"),
        (ModelSection { dialect: Some("klingon".to_owned()), ..section("openai:gpt-5") }, "klingon"),
        (
            ModelSection {
                headers: BTreeMap::from([("a b".to_owned(), String::new())]),
                ..section("openai:gpt-5")
            },
            "`a b`",
        ),
        (
            ModelSection {
                price: Some(PriceSection { input: f64::NAN, ..Default::default() }),
                ..section("openai:gpt-5")
            },
            "price",
        ),
    ];
    for (section, expected) in wrong {
        let (_, text) = fault(chosen(section, KEYS));
        assert!(text.contains("[models.mine]") && text.contains(expected), "{text}");
    }
}

#[test]
fn custom_format_is_a_table_in_the_file() {
    let read = |text: &str| serde_json::from_str::<ModelSection>(text).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"say\": \"hello\"}\n").unwrap();
    let model = format!("script:{}", file.path().display());
    let section = read(&format!(
        r#"{{"model": "{model}", "dialect": {{"start_char": "{{", "end_char": "}}", "arg_prefix": "--"}}}}"#
    ));
    assert!(chosen(section, &[]).is_ok());
    // A key that there is not is refused where the file is read, a value that is unfit where the model is chosen.
    let unknown = format!(r#"{{"model": "{model}", "dialect": {{"begin": "<"}}}}"#);
    let error = serde_json::from_str::<ModelSection>(&unknown).unwrap_err().to_string();
    assert!(error.contains("unknown field `begin`, expected one of `start_char`"), "{error}");
    let unfit = read(&format!(r#"{{"model": "{model}", "dialect": {{"start_char": "a"}}}}"#));
    let (_, text) = fault(chosen(unfit, &[]));
    assert!(text.contains("[models.mine]") && text.contains("start_char"), "{text}");
    assert_eq!(read(r#"{"dialect": "xml"}"#).dialect.as_deref(), Some("xml"));
}

#[test]
fn script_can_act_as_a_model_without_calls() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.jsonl");
    std::fs::write(&file, "{\"say\": \"<json>{}</json>\"}\n").unwrap();
    let script = section(&format!("script:{}", file.display()));
    let section =
        ModelSection { dialect: Some("json".to_owned()), window: Some(9_000), images: Some(false), ..script };
    let model = chosen(section, &[]).unwrap();
    assert_eq!(
        (model.abilities().calls, model.abilities().window, model.abilities().images),
        (true, 9_000, false)
    );
}

#[test]
fn a_model_is_suggested_for_which_there_is_a_key() {
    let suggested = |variables| {
        example(Choices {
            models: &Sections::new(),
            variables: &owned(variables),
            keys: Keys::NONE,
            max_calls: None,
        })
    };
    assert_eq!(suggested(&[("PATH", "/bin")]), "anthropic:claude-sonnet-5-5");
    assert_eq!(
        suggested(&[("OPENAI_API_KEY", "sk-oai-1"), ("ANTHROPIC_API_KEY", "")]),
        "openai:gpt-5.6-terra"
    );
    assert_eq!(suggested(KEYS), "anthropic:claude-sonnet-5-5");
    assert_eq!(suggested(&[("GEMINI_API_KEY", "x")]), "gemini:gemini-3.8-flash");
    assert_eq!(suggested(&[("OLLAMA_HOST", "box")]), "ollama:qwen3");
    for provider in PROVIDERS {
        let variables: Vec<_> =
            provider.keys.iter().map(|it| ((*it).to_owned(), "key-123".to_owned())).collect();
        let choices =
            Choices { models: &Sections::new(), variables: &variables, keys: Keys::NONE, max_calls: None };
        let name = example(choices);
        assert!(name.starts_with(provider.name) && choose(&name, choices).is_ok(), "{name}");
    }
}

#[test]
fn the_usual_model_is_that_of_the_first_provider_with_a_key() {
    let mut keys = Keys::default();
    keys.insert("mistral", "https://api.mistral.ai", "mist-1");
    let used = |variables, keys: &Keys| {
        usual(Choices { models: &Sections::new(), variables: &owned(variables), keys, max_calls: None })
            .map(|(model, key)| (model, key.to_string()))
    };
    let expected = |model: &str, key: &str| Some((model.to_owned(), key.to_owned()));
    assert_eq!(used(&[], Keys::NONE), None);
    assert_eq!(used(&[("OLLAMA_HOST", "box")], Keys::NONE), None, "nobody knows which models are there");
    assert_eq!(used(&[], &keys), expected("mistral:mistral-large-latest", "haft login mistral"));
    let openai = [("OPENAI_API_KEY", "sk-oai-1")];
    assert_eq!(used(&openai, &keys), expected("openai:gpt-5.6-terra", "OPENAI_API_KEY"));
}

#[tokio::test]
async fn login_key_is_used_without_a_variable_and_only_at_its_origin() {
    let mut keys = Keys::default();
    keys.insert("anthropic", "https://api.anthropic.com", "sk-ant-login");
    let key = |variables| {
        let plan = Plan::of(
            "anthropic:claude-x",
            Choices { models: &Sections::new(), variables: &owned(variables), keys: &keys, max_calls: None },
        );
        let headers = plan.unwrap().endpoint.authorized().unwrap();
        headers.get("x-api-key").map(|it| it.to_str().unwrap().to_owned())
    };
    assert_eq!(key(&[]).as_deref(), Some("sk-ant-login"));
    assert_eq!(key(&[("ANTHROPIC_API_KEY", "sk-ant-env")]).as_deref(), Some("sk-ant-env"));
    assert_eq!(key(&[("ANTHROPIC_BASE_URL", "https://gateway.example")]), None);

    let loopback =
        Loopback::serve([Reply::new(400, "text/plain", "no"), Reply::new(400, "text/plain", "no")]).await;
    keys.insert("models.mine", crate::model::origin(&loopback.url).unwrap(), "sk-mine-1");
    for variable in [None, Some("NOT_SET".to_owned())] {
        let section = ModelSection { url: Some(loopback.url.clone()), key_env: variable, ..section("m") };
        let models = Sections::from([("mine".to_owned(), section)]);
        ask(&choose("mine", Choices { models: &models, variables: &[], keys: &keys, max_calls: None })
            .unwrap())
        .await;
    }
    for asked in loopback.asked() {
        assert_eq!(asked.header("authorization"), Some("Bearer sk-mine-1"));
    }
}
