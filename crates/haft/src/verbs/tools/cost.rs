//! Size of the tool list: what each tool's definition costs the model of an MCP client.

use kit::{Origin, Spec};
use runtime::Catalog;
use serde_json::{Value, json};

use crate::listing::{AROUND, TOKEN};

/// The cost of tool lists, as an MCP client gets them.
pub(super) struct Bill {
    tools: Vec<Tool>,
    listed: Sum,
    all: Sum,
    instructions: usize,
}

struct Tool {
    name: String,
    from: String,
    is_listed: bool,
    bytes: usize,
}

struct Sum {
    tools: usize,
    /// In the client's format.
    bytes: usize,
    /// As most clients show it to a model: names, descriptions and schemas.
    model: usize,
}

impl Sum {
    fn of(specs: &[Spec]) -> Self {
        let model = specs.iter().map(|it| it.bytes() + AROUND).sum();
        Self { tools: specs.len(), bytes: serve::list_bytes(specs), model }
    }
}

impl Bill {
    /// Returns the bill for these tools and for their instructions.
    pub(super) fn of(catalog: &Catalog, instructions: &str) -> Self {
        let listed: Vec<Spec> = catalog.listed().cloned().collect();
        let all: Vec<Spec> = catalog.specs().cloned().collect();
        let tool = |spec: &Spec| Tool {
            name: spec.name.clone(),
            from: match &spec.origin {
                Origin::Program => "haft".to_owned(),
                Origin::File(_) => "file".to_owned(),
                Origin::Provider => "provider".to_owned(),
                Origin::Server(server) => format!("server {server}"),
            },
            is_listed: listed.iter().any(|it| it.name == spec.name),
            bytes: serve::tool_bytes(spec, spec.schema_bytes()),
        };
        Self {
            tools: all.iter().map(tool).collect(),
            listed: Sum::of(&listed),
            all: Sum::of(&all),
            instructions: instructions.len(),
        }
    }

    /// Returns one line for each tool, in the order of the list, and the sums.
    pub(super) fn as_text(&self) -> String {
        let width = self.tools.iter().map(|it| it.from.len()).max().unwrap_or(0).max(4);
        let mut text = format!("tokens   bytes  shown   {:width$}  tool\n", "from");
        let mut line = |bytes: usize, shown: &str, rest: &str| {
            let line = format!("{:>6}  {bytes:>6}  {shown:6}  {rest}", bytes.div_ceil(TOKEN));
            text.push_str(line.trim_end());
            text.push('\n');
        };
        for it in &self.tools {
            let shown = if it.is_listed { "listed" } else { "found" };
            line(it.bytes, shown, &format!("{:width$}  {}", it.from, it.name));
        }
        line(self.listed.bytes, "listed", &format!("total of the {} listed tools", self.listed.tools));
        line(self.listed.model, "", "of them a model sees: names, descriptions and schemas");
        line(self.all.bytes, "all", &format!("total if all {} were listed", self.all.tools));
        line(self.instructions, "", "instructions");
        text
    }

    /// Returns the bill as JSON.
    pub(super) fn as_json(&self) -> Value {
        let cost = |bytes: usize| json!({"bytes": bytes, "tokens": bytes.div_ceil(TOKEN)});
        let sum = |it: &Sum| json!({"tools": it.tools, "bytes": it.bytes, "tokens": it.bytes.div_ceil(TOKEN), "model_bytes": it.model});
        let tools: Vec<Value> = self
            .tools
            .iter()
            .map(|it| {
                json!({"name": it.name, "from": it.from, "listed": it.is_listed, "bytes": it.bytes,
                    "tokens": it.bytes.div_ceil(TOKEN)})
            })
            .collect();
        json!({"tools": tools, "listed": sum(&self.listed), "all": sum(&self.all),
            "instructions": cost(self.instructions)})
    }
}
