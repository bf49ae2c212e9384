//! Output wires: the text of a member's turn end goes to another member, by a template.

use minijinja::{Environment, UndefinedBehavior};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The target that stands for the privileged member of the source's graph.
pub const ROOT: &str = "root";

const WITH_CONTENT: &str = "[output-wire from {source}] {content}";
const WITHOUT_CONTENT: &str = "[output-wire from {source}] (turn-end signal, no content)";

/// Maximum work of a template: instructions of the engine.
const FUEL: u64 = 50_000;

/// An output wire of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wire {
    /// The target: a member's name or id, or `root`.
    pub to: String,
    /// Whether the text goes along.
    #[serde(default = "yes")]
    pub with_content: bool,
    /// The template; there is a default.
    #[serde(default)]
    pub prompt: Option<String>,
    /// How the template is written.
    #[serde(default)]
    pub prompt_format: Format,
    /// Whether a wire of a member to itself counts.
    #[serde(default)]
    pub allow_self_trigger: bool,
}

/// How a template is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// `{name}` stands for a variable.
    #[default]
    Simple,
    /// Jinja.
    Jinja,
}

/// The variables of a template.
#[derive(Debug, Clone, Copy)]
pub struct Variables<'a> {
    /// The name of the source.
    pub source: &'a str,
    /// The name of the target.
    pub target: &'a str,
    /// The text.
    pub content: &'a str,
    /// The number of the source's turn.
    pub turn_index: u64,
    /// The cause of the source's turn.
    pub source_event_type: &'a str,
}

fn yes() -> bool {
    true
}

impl Format {
    /// Returns its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Jinja => "jinja",
        }
    }
}

impl Wire {
    /// Creates a wire with the defaults.
    pub fn to(target: impl Into<String>) -> Self {
        Self {
            to: target.into(),
            with_content: true,
            prompt: None,
            prompt_format: Format::Simple,
            allow_self_trigger: false,
        }
    }

    /// Returns the id, which its content decides.
    pub fn id(&self) -> String {
        let slug: String = self
            .to
            .chars()
            .map(|it| if it.is_alphanumeric() || "-_".contains(it) { it } else { '_' })
            .collect();
        format!(
            "wire_{}_{}_{}_{}_{:08x}",
            if slug.is_empty() { "target" } else { &slug },
            if self.with_content { "content" } else { "ping" },
            self.prompt_format.name(),
            if self.allow_self_trigger { "self" } else { "noself" },
            fnv1a(self.prompt.as_deref().unwrap_or_default())
        )
    }

    /// Returns the fields as `group_status` shows them.
    pub fn as_json(&self, from: &str) -> Value {
        json!({
            "id": self.id(),
            "to": self.to,
            "with_content": self.with_content,
            "prompt": self.prompt,
            "prompt_format": self.prompt_format.name(),
            "allow_self_trigger": self.allow_self_trigger,
            "from": from,
        })
    }

    /// Checks that the template can be rendered.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self) -> Result<(), String> {
        if self.to.trim().is_empty() {
            return Err("an output wire needs `to`".to_owned());
        }
        match (&self.prompt, self.prompt_format) {
            (Some(prompt), Format::Jinja) => engine().template_from_str(prompt).map(drop).map_err(|error| {
                let line = error.line().map_or(String::new(), |it| format!("line {it}: "));
                format!("the prompt of the wire to `{}` is not a Jinja template: {line}{error}", self.to)
            }),
            _ => Ok(()),
        }
    }

    /// Returns the text for the target. A template that fails is replaced by the default.
    pub fn render(&self, with: Variables<'_>) -> String {
        let usual = if self.with_content { WITH_CONTENT } else { WITHOUT_CONTENT };
        // Without content, no template can pass it on.
        let with = Variables { content: if self.with_content { with.content } else { "" }, ..with };
        let template = self.prompt.as_deref().unwrap_or(usual);
        match self.prompt_format {
            Format::Simple => simple(template, |name| with.get(name, self.with_content)),
            Format::Jinja => jinja(template, &with.as_json(self.with_content)).unwrap_or_else(|error| {
                tracing::warn!(%error, to = %self.to, "the template of an output wire failed");
                simple(usual, |name| with.get(name, self.with_content))
            }),
        }
    }
}

impl Variables<'_> {
    fn get(&self, name: &str, with_content: bool) -> String {
        match name {
            "source" => self.source.to_owned(),
            "target" => self.target.to_owned(),
            "content" => self.content.to_owned(),
            "turn_index" => self.turn_index.to_string(),
            "source_event_type" => self.source_event_type.to_owned(),
            "with_content" => with_content.to_string(),
            _ => String::new(),
        }
    }

    fn as_json(&self, with_content: bool) -> Value {
        json!({
            "source": self.source,
            "target": self.target,
            "content": self.content,
            "turn_index": self.turn_index,
            "source_event_type": self.source_event_type,
            "with_content": with_content,
        })
    }
}

/// Returns a template with each `{name}` replaced once; `{{` and `}}` are braces. A brace without an end stays.
pub(crate) fn simple(template: &str, value: impl Fn(&str) -> String) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        if let Some(after) = from.strip_prefix("{{") {
            text.push('{');
            rest = after;
        } else if let Some(after) = from.strip_prefix("}}") {
            text.push('}');
            rest = after;
        } else if let Some((name, after)) = from.strip_prefix('{').and_then(|it| it.split_once('}')) {
            text.push_str(&value(name.trim()));
            rest = after;
        } else {
            let mut chars = from.chars();
            text.extend(chars.next());
            rest = chars.as_str();
        }
    }
    text.push_str(rest);
    text
}

/// Returns a Jinja template with these variables; missing ones are empty.
///
/// # Errors
/// When the template can't be parsed or takes too long.
pub(crate) fn jinja(template: &str, with: &Value) -> Result<String, String> {
    engine().render_str(template, minijinja::value::Serde(with)).map_err(|error| error.to_string())
}

/// Returns an engine without files, and with bounded work.
fn engine<'a>() -> Environment<'a> {
    let mut engine = Environment::new();
    engine.set_undefined_behavior(UndefinedBehavior::Chainable);
    engine.set_fuel(Some(FUEL));
    engine
}

/// Returns the 32-bit FNV-1a hash of a text.
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(2_166_136_261, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH: Variables<'static> = Variables {
        source: "writer",
        target: "editor",
        content: "A {draft} of {{one}} page.",
        turn_index: 3,
        source_event_type: "user_input",
    };

    fn wire(prompt: Option<&str>, format: Format, with_content: bool) -> Wire {
        Wire { prompt: prompt.map(str::to_owned), prompt_format: format, with_content, ..Wire::to("editor") }
    }

    #[test]
    fn default_prompts_name_the_source() {
        assert_eq!(
            wire(None, Format::Simple, true).render(WITH),
            "[output-wire from writer] A {draft} of {{one}} page."
        );
        assert_eq!(
            wire(None, Format::Simple, false).render(WITH),
            "[output-wire from writer] (turn-end signal, no content)"
        );
    }

    #[test]
    fn variables_of_a_simple_template_are_replaced_and_unknown_ones_are_empty() {
        let text = "{source}->{target} #{turn_index} ({source_event_type}){nothing} {{x}} {open";
        assert_eq!(
            wire(Some(text), Format::Simple, true).render(WITH),
            "writer->editor #3 (user_input) {x} {open"
        );
        assert_eq!(wire(Some("<{content}>"), Format::Simple, false).render(WITH), "<>");
    }

    #[test]
    fn jinja_templates_are_rendered_and_a_broken_or_endless_one_gives_the_default() {
        let text = "{% if with_content %}{{ source|upper }}: {{ content|length }}{% endif %}{{ missing }}";
        assert_eq!(wire(Some(text), Format::Jinja, true).render(WITH), "WRITER: 26");
        let broken = wire(Some("{% if %}"), Format::Jinja, true);
        assert!(broken.check().is_err_and(|it| it.contains("is not a Jinja template")));
        assert!(broken.render(WITH).starts_with("[output-wire from writer]"));
        let endless = "{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}";
        assert!(
            wire(Some(endless), Format::Jinja, true).render(WITH).starts_with("[output-wire from writer]")
        );
    }

    #[test]
    fn edge_id_is_decided_by_the_content_of_the_wire() {
        assert_eq!(Wire::to("root").id(), "wire_root_content_simple_noself_811c9dc5");
        let other = Wire { allow_self_trigger: true, ..wire(Some("a"), Format::Jinja, false) };
        assert_eq!(Wire { to: "a b".to_owned(), ..other }.id(), "wire_a_b_ping_jinja_self_e40c292c");
    }
}
