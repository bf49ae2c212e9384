//! `[models.NAME]`: models under names that a person chose.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};

use super::keys::{
    Fallback::*,
    declare::section,
    types::{Type, named},
};

/// The type of `dialect`.
const DIALECT: Type = Type::Words("string, or a table: `[models.c.dialect]`");

section! {
    /// `[models.NAME]`: a model, for `--model NAME` and for profiles.
    #[derive(Default)]
    #[serde(default)]
    pub struct ModelSection, merged whole {
        /// A model under a name of your own, for `--model local` and for profiles. In a workspace's file a
        /// section replaces yours of the same name. It needs trust, since it decides who is sent your code
        /// and your key.
        "[models.local]" {
            /// Wire format: "chat" (OpenAI Chat Completions, which most servers support), "responses" (OpenAI
            /// Responses), "anthropic" (Anthropic Messages).
            api: Option<String> {
                example: r#""chat""#,
                default: Words("\"chat\" with `url`, else the provider's"),
                workspace: NeedsTrust,
            }
            /// Address of the server, up to and including the version. Without it, `api` alone means OpenAI
            /// or Anthropic.
            url: Option<String> {
                example: r#""http://127.0.0.1:8080/v1""#,
                default: Words("the provider's"),
                workspace: NeedsTrust,
            }
            /// Name of the model there. Without `api` and `url` it may name a provider, as in
            /// "anthropic:claude-opus-5-5"; the other keys then change that model.
            model: Option<String> {
                example: r#""qwen3-coder""#,
                default: Required,
                workspace: NeedsTrust,
            }
            /// Environment variable that holds the API key. With a `url`, haft doesn't use the usual
            /// variables: a key belongs to the address that it was issued for. Keys and `headers` are not
            /// sent to another machine over plain http.
            key_env: Option<String> {
                example: r#""LOCAL_KEY""#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// HTTP headers of each request.
            headers: BTreeMap<String, String> {
                example: r#"{ "x-team" = "tools" }"#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Context window: maximum tokens of a request and its response together.
            window: Option<u64> {
                unit: "tokens",
                example: "128_000",
                default: Words("what is known of the model, else 128,000"),
                workspace: NeedsTrust,
            }
            /// Maximum tokens of a response.
            longest: Option<u64> {
                unit: "tokens",
                example: "16_384",
                default: Words("what is known of the model, else 16,384"),
                workspace: NeedsTrust,
            }
            /// How a model without native tool calls writes them: "json", "bracket", "xml", "hermes",
            /// "tool_use", or a format of your own: see `[models.c.dialect]` below.
            #[serde(deserialize_with = "dialect", serialize_with = "dialect_as_written")]
            dialect: Option<String> {
                words: DIALECT,
                example: r#""hermes""#,
                default: Words("native tool calls"),
                workspace: NeedsTrust,
            }
            /// Whether it accepts images.
            images: Option<bool> {
                example: "false",
                default: Words("what is known of the model, else false"),
                workspace: NeedsTrust,
            }
            /// Reasoning effort: "low", "medium", "high", or what the provider knows; for older Claude models
            /// a number of tokens.
            effort: Option<String> {
                example: r#""medium""#,
                default: Words("the provider's"),
                workspace: NeedsTrust,
            }
            /// The provider's own tools that it may use: "web_search", "image_gen".
            own_tools: Vec<String> {
                example: r#"["web_search"]"#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Price of a million tokens, in US dollars: of the request, of the part read from the prompt
            /// cache (`cached`), of the part written to it (`kept`), of the response.
            price: Option<PriceSection> {
                example: "{ input = 3.0, cached = 0.3, kept = 3.75, output = 15.0 }",
                default: Words("what is known of the model"),
                workspace: NeedsTrust,
            }
        }
        beside DialectSection;
    }
}

section! {
    /// `[models.NAME.dialect]`: a format of calls, in place of the name of a dialect.
    #[derive(Default, Eq)]
    #[serde(default)]
    pub struct DialectSection, merged whole {
        /// A format of your own in place of a dialect's name, for models that were taught another one. What
        /// is left out is as in "bracket". (needs trust)
        "[models.c.dialect]" {
            /// Character that a tag begins with.
            start_char: Option<char> {
                example: r#""{""#,
                default: Words("\"[\""),
                workspace: NeedsTrust,
            }
            /// Character that a tag ends with.
            end_char: Option<char> {
                example: r#""}""#,
                default: Words("\"]\""),
                workspace: NeedsTrust,
            }
            /// Whether `[/read]` opens a block and `[read/]` closes it; false: the other way round, as in
            /// XML.
            slash_means_open: Option<bool> {
                example: "false",
                default: Words("true"),
                workspace: NeedsTrust,
            }
            /// Where arguments are: "line" (one on each line before the body) or "inline" (in the opening
            /// tag).
            arg_style: Option<ArgStyle> {
                example: r#""inline""#,
                default: Words("\"line\""),
                workspace: NeedsTrust,
            }
            /// The beginning of a line that is an argument.
            arg_prefix: Option<String> {
                example: r#""--""#,
                default: Words("\"@@\""),
                workspace: NeedsTrust,
            }
            /// The text between an argument's name and its value.
            arg_kv_sep: Option<String> {
                example: r#"": ""#,
                default: Words("\"=\""),
                workspace: NeedsTrust,
            }
        }
    }
}

/// The position of a call's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgStyle {
    /// Each on a line of its own, before the body.
    Line,
    /// In the opening tag, in quotes.
    Inline,
}

/// The price of a million tokens, in dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceSection {
    /// Tokens of a request.
    pub input: f64,
    /// Tokens of a request that the provider had cached.
    #[serde(default)]
    pub cached: f64,
    /// Tokens of a request that the provider caches from now on.
    #[serde(default)]
    pub kept: f64,
    /// Tokens of an answer.
    pub output: f64,
}

named!(OneOf: ArgStyle);
named!(Numbers: PriceSection);

/// Reads the name of a dialect, or a format: a table becomes JSON, as `--dialect` accepts it.
fn dialect<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    from.deserialize_any(Dialect)
}

struct Dialect;

impl<'de> Visitor<'de> for Dialect {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a dialect, or a table")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Some(name.to_owned()))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Self::Value, A::Error> {
        let format = DialectSection::deserialize(MapAccessDeserializer::new(table))?;
        let mut format = serde_json::to_value(format).map_err(Error::custom)?;
        if let Some(table) = format.as_object_mut() {
            table.retain(|_, value| !value.is_null());
        }
        Ok(Some(format.to_string()))
    }
}

/// Writes a format as its table in a file.
fn dialect_as_written<S: Serializer>(dialect: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
    let format = dialect.as_deref().filter(|it| it.starts_with('{'));
    match format.and_then(|it| serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(it).ok()) {
        Some(table) => table.serialize(to),
        None => dialect.serialize(to),
    }
}
