//! Reports on a session: the model's tools, what fills its context, and the cost so far.

use agent::{Agent, Context, Event, model::Usage};
use kit::Fault;
use runtime::Session;
use sessions::{Event as Logged, Report, Row};

use crate::terminal::abbreviate;

/// Returns the text of a report that only the process that runs the session can make.
///
/// # Errors
/// When no tool is about the word.
pub(crate) fn of(agent: &Agent, report: &Report) -> Result<String, Fault> {
    match report {
        Report::Tools { about } => tools(agent.session(), about.as_deref().unwrap_or_default()),
        Report::Context => Ok(context(&agent.context())),
    }
}

/// Returns the tools that the model has: their names, or the tools about a word with their descriptions.
pub(crate) fn tools(session: &Session, word: &str) -> Result<String, Fault> {
    let catalog = session.catalog();
    let word = word.to_lowercase();
    let listed: Vec<&str> = catalog.listed().map(|it| it.name.as_str()).collect();
    if word.is_empty() {
        let more: Vec<&str> =
            catalog.specs().map(|it| it.name.as_str()).filter(|it| !listed.contains(it)).collect();
        let mut text = format!("{} tools are sent to the model:\n  {}\n", listed.len(), listed.join(", "));
        if !more.is_empty() {
            text.push_str(&format!(
                "{} more it finds when it needs them:\n  {}\n",
                more.len(),
                more.join(", ")
            ));
        }
        text.push_str("/tools WORD shows what those about WORD do.");
        return Ok(text);
    }
    let is_about = |text: &str| text.to_lowercase().contains(&word);
    let found = catalog.specs().filter(|it| is_about(&it.name) || is_about(&it.description));
    let lines: Vec<String> = found.map(|it| format!("{}: {}", it.name, it.gist())).collect();
    if lines.is_empty() {
        return Err(Fault::not_found(format!("no tool is about `{word}`")).next("/tools lists all."));
    }
    Ok(lines.join("\n"))
}

/// Returns the use of the model's context window, part by part.
pub(crate) fn context(context: &Context) -> String {
    let window = context.window.max(1);
    let percent = |tokens: u64| {
        let tenths = tokens.saturating_mul(1000) / window;
        format!("{}.{}%", tenths / 10, tenths % 10)
    };
    let mut lines = Vec::new();
    let mut add = |name: &str, count: String, tokens: u64| {
        lines.push(format!(
            "  {name:<21} {count:>6} {:>11} {:>8}",
            abbreviate::count(tokens),
            percent(tokens)
        ));
    };
    for part in &context.parts {
        let count = if part.count > 1 { part.count.to_string() } else { String::new() };
        add(part.name, count, part.tokens);
    }
    add("total", String::new(), context.tokens);
    add("free", String::new(), context.window.saturating_sub(context.tokens));
    let head = format!("  {:<21} {:>6} {:>11} {:>8}", "", "count", "tokens", "window");
    let counted = match context.counted {
        Some(tokens) => format!("The provider counted {} at the last request.", abbreviate::count(tokens)),
        None => "Estimates: the provider has counted nothing yet.".to_owned(),
    };
    format!(
        "{head}\n{}\nWindow: {} tokens. The conversation is compacted automatically at {}; /compact does it now.\n{counted}",
        lines.join("\n"),
        abbreviate::count(context.window),
        abbreviate::count(context.compacts_at)
    )
}

/// Returns the usage and cost of a session, with its sub-agents, from the rows of its log.
pub(crate) fn cost(rows: &[Row]) -> String {
    let (mut answers, mut all, mut dollars, mut unpriced) = (0, Usage::default(), 0.0, false);
    for row in rows {
        match (&row.event, row.event.of_agent()) {
            (_, Some((path, Event::Used { usage, cost }))) => {
                answers += usize::from(path.is_empty());
                all += *usage;
                dollars += cost.unwrap_or(0.0);
                unpriced |= cost.is_none();
            }
            // The tokens of a summary are not in the log.
            (Logged::Compacted { cost, .. }, _) => dollars += cost.unwrap_or(0.0),
            _ => {}
        }
    }
    let more = if unpriced { ", and answers without a known price" } else { "" };
    format!("{}{more}", bill(answers, &all, Some(dollars)))
}

/// Returns steps, tokens and cost, in a line.
pub(crate) fn bill(steps: usize, usage: &Usage, cost: Option<f64>) -> String {
    let steps = format!("{steps} {}", if steps == 1 { "step" } else { "steps" });
    let tokens =
        format!("{} tokens in, {} out", abbreviate::count(usage.request()), abbreviate::count(usage.output));
    let cost = cost.map_or_else(String::new, |it| format!(", {}", abbreviate::dollars(it)));
    format!("{steps}, {tokens}{cost}")
}

#[cfg(test)]
mod tests {
    use agent::ContextPart;
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_context_is_shown_part_by_part_with_what_is_free() {
        let part = |name, count, tokens| ContextPart { name, count, bytes: tokens * 4, tokens };
        let shown = context(&Context {
            parts: vec![part("system prompt", 1, 2_100), part("tools", 42, 7_300), part("messages", 3, 640)],
            tokens: 10_040,
            window: 200_000,
            compacts_at: 147_200,
            counted: None,
        });
        expect![[r#"
                                     count      tokens   window
              system prompt                      2,100     1.0%
              tools                     42       7,300     3.6%
              messages                   3         640     0.3%
              total                             10,040     5.0%
              free                             189,960    94.9%
            Window: 200,000 tokens. The conversation is compacted automatically at 147,200; /compact does it now.
            Estimates: the provider has counted nothing yet."#]]
        .assert_eq(&shown);
    }

    #[test]
    fn cost_has_the_answers_of_the_session_and_the_tokens_of_sub_agents() {
        let used = |input, cost| Event::Used {
            usage: Usage { input, output: 10, ..Usage::default() },
            cost: Some(cost),
        };
        let below = Event::Under { agent: "explore_1".to_owned(), inner: Box::new(used(1_000, 0.25)) };
        let compacted = Logged::Compacted { key: None, before: 9, after: 3, cost: Some(0.5) };
        let events = [used(2_000, 0.25).into(), below.into(), compacted];
        let row = |event| Row { seq: 1, first: 1, at_ms: 0, event };
        let rows: Vec<Row> = events.into_iter().map(row).collect();
        expect!["1 step, 3,000 tokens in, 20 out, $1.00"].assert_eq(&cost(&rows));
    }
}
