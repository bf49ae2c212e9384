//! `JSONPath` (RFC 9535) on JSON text, with bounded work.
//!
//! A query comes from a model, and the text from anywhere. So the query's length and nesting are limited,
//! every step of a walk is counted, and a walk checks for cancellation. `match`, `search` and `$` within a
//! filter are not supported.

use std::{cmp::Ordering, ops::ControlFlow};

use kit::{Cx, Fault, Kind};

use super::{
    json_path_parse::{Compare, Expr, Operand, Segment, Selector},
    json_tree::{Node, Step},
};

pub(crate) use super::json_path_parse::Path;

/// Maximum steps of a walk, each about a comparison of one value: a second or so in all.
const MOST_STEPS: usize = 50_000_000;

/// Steps between two checks for cancellation.
const BETWEEN_CHECKS: usize = 16 * 1024;

/// The callback for each match: the path to it, and the value.
type Visit<'v, 'a> = &'v mut dyn FnMut(&[Step<'a>], &'a Node<'a>) -> ControlFlow<()>;

impl Path<'_> {
    /// Calls `visit` for every match, in the order of the query, until that breaks off.
    ///
    /// # Errors
    /// [`Kind::TooBig`] when there are too many steps, or the fault of a cancelled call.
    pub(crate) fn walk<'a>(&'a self, cx: &Cx, node: &'a Node<'a>, visit: Visit<'_, 'a>) -> Result<(), Fault> {
        let mut walk = Walk { cx, steps: 0, most: MOST_STEPS, check_at: 0, way: Vec::new() };
        walk.segments(&self.segments, node, visit).map(drop)
    }
}

struct Walk<'a, 'c> {
    cx: &'c Cx,
    steps: usize,
    most: usize,
    check_at: usize,
    way: Vec<Step<'a>>,
}

/// The value of one side of a comparison.
#[derive(Clone, Copy)]
enum Met<'a> {
    Nothing,
    Node(&'a Node<'a>),
    Count(usize),
}

impl<'a> Walk<'a, '_> {
    fn step(&mut self, steps: usize) -> Result<(), Fault> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps < self.check_at {
            return Ok(());
        }
        self.check_at = self.steps.saturating_add(BETWEEN_CHECKS);
        self.cx.check()?;
        if self.steps > self.most {
            return Err(Fault::new(
                Kind::TooBig,
                "the query has too much to look at in this file; it was stopped",
            )
            .next(
                "Begin it further down with `pointer`, and use fewer `..` and filters in filters.".to_owned(),
            ));
        }
        Ok(())
    }

    fn segments(
        &mut self,
        segments: &'a [Segment<'a>],
        node: &'a Node<'a>,
        visit: Visit<'_, 'a>,
    ) -> Result<ControlFlow<()>, Fault> {
        self.step(1)?;
        let Some((segment, rest)) = segments.split_first() else { return Ok(visit(&self.way, node)) };
        for selector in &segment.selectors {
            if self.select(selector, rest, node, visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        if segment.descends {
            for (step, below) in node.children() {
                if self.go(step, segments, below, visit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn go(
        &mut self,
        step: Step<'a>,
        segments: &'a [Segment<'a>],
        node: &'a Node<'a>,
        visit: Visit<'_, 'a>,
    ) -> Result<ControlFlow<()>, Fault> {
        self.way.push(step);
        let flow = self.segments(segments, node, visit);
        self.way.pop();
        flow
    }

    fn select(
        &mut self,
        selector: &'a Selector<'a>,
        rest: &'a [Segment<'a>],
        node: &'a Node<'a>,
        visit: Visit<'_, 'a>,
    ) -> Result<ControlFlow<()>, Fault> {
        match selector {
            Selector::Name(name) => {
                self.step(node.len())?;
                let Some(member) = node.member(name) else { return Ok(ControlFlow::Continue(())) };
                self.go(Step::Name(name), rest, member, visit)
            }
            Selector::All => self.each(0..node.len(), rest, node, visit),
            Selector::Index(at) => {
                let Node::List(items) = node else { return Ok(ControlFlow::Continue(())) };
                let at = usize::try_from(if *at < 0 { *at + length(items.len()) } else { *at });
                self.each(at.into_iter().filter(|at| *at < items.len()), rest, node, visit)
            }
            Selector::Slice { start, end, step } => {
                let Node::List(items) = node else { return Ok(ControlFlow::Continue(())) };
                self.each(slice(*start, *end, *step, length(items.len())), rest, node, visit)
            }
            Selector::Filter(expr) => {
                for (step, below) in node.children() {
                    if self.holds(expr, below)? && self.go(step, rest, below, visit)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            }
        }
    }

    fn each(
        &mut self,
        places: impl Iterator<Item = usize>,
        rest: &'a [Segment<'a>],
        node: &'a Node<'a>,
        visit: Visit<'_, 'a>,
    ) -> Result<ControlFlow<()>, Fault> {
        for (step, below) in places.filter_map(|at| node.child(at)) {
            if self.go(step, rest, below, visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn holds(&mut self, expr: &'a Expr<'a>, node: &'a Node<'a>) -> Result<bool, Fault> {
        self.step(1)?;
        match expr {
            Expr::Any(parts) => {
                for part in parts {
                    if self.holds(part, node)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Expr::All(parts) => {
                for part in parts {
                    if !self.holds(part, node)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Expr::Not(part) => Ok(!self.holds(part, node)?),
            Expr::Exists(query) => {
                Ok(self.segments(query, node, &mut |_, _| ControlFlow::Break(()))?.is_break())
            }
            Expr::Compare(left, how, right) => {
                let (left, right) = (self.met(left, node)?, self.met(right, node)?);
                Ok(match how {
                    Compare::Equal => self.same(left, right)?,
                    Compare::NotEqual => !self.same(left, right)?,
                    Compare::Less => self.order(left, right)? == Some(Ordering::Less),
                    Compare::Greater => self.order(left, right)? == Some(Ordering::Greater),
                    Compare::LessOrEqual => {
                        self.order(left, right)? == Some(Ordering::Less) || self.same(left, right)?
                    }
                    Compare::GreaterOrEqual => {
                        self.order(left, right)? == Some(Ordering::Greater) || self.same(left, right)?
                    }
                })
            }
        }
    }

    fn met(&mut self, operand: &'a Operand<'a>, node: &'a Node<'a>) -> Result<Met<'a>, Fault> {
        let mut found = Met::Nothing;
        let mut count = 0;
        match operand {
            Operand::Literal(literal) => return Ok(Met::Node(literal)),
            Operand::Query(query) | Operand::Value(query) => {
                let _ = self.segments(query, node, &mut |_, node| {
                    count += 1;
                    found = if count == 1 { Met::Node(node) } else { Met::Nothing };
                    if count == 1 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                })?;
            }
            Operand::Count(query) => {
                let _ = self.segments(query, node, &mut |_, _| {
                    count += 1;
                    ControlFlow::Continue(())
                })?;
                found = Met::Count(count);
            }
            Operand::Length(operand) => match self.met(operand, node)? {
                Met::Node(Node::String(text)) => {
                    self.step(text.len() / 16)?;
                    found = Met::Count(text.chars().count());
                }
                Met::Node(node @ (Node::List(_) | Node::Object(_))) => found = Met::Count(node.len()),
                Met::Node(_) | Met::Nothing | Met::Count(_) => {}
            },
        }
        Ok(found)
    }

    fn same(&mut self, left: Met<'a>, right: Met<'a>) -> Result<bool, Fault> {
        match (left, right) {
            (Met::Nothing, Met::Nothing) => Ok(true),
            (Met::Node(left), Met::Node(right)) => self.equal(left, right),
            _ => Ok(self.order(left, right)? == Some(Ordering::Equal)),
        }
    }

    fn equal(&mut self, left: &'a Node<'a>, right: &'a Node<'a>) -> Result<bool, Fault> {
        self.step(1)?;
        match (left, right) {
            (Node::Null, Node::Null) => Ok(true),
            (Node::Bool(left), Node::Bool(right)) => Ok(left == right),
            (Node::List(lefts), Node::List(rights)) => {
                if lefts.len() != rights.len() {
                    return Ok(false);
                }
                for (left, right) in lefts.iter().zip(rights) {
                    if !self.equal(left, right)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Node::Object(lefts), Node::Object(rights)) => {
                if lefts.len() != rights.len() {
                    return Ok(false);
                }
                for (at, (name, left)) in lefts.iter().enumerate() {
                    let same_place = rights.get(at).filter(|(it, _)| it == name).map(|(_, value)| value);
                    let right = match same_place {
                        Some(right) => Some(right),
                        None => {
                            self.step(rights.len())?;
                            rights.iter().rev().find(|(it, _)| it == name).map(|(_, value)| value)
                        }
                    };
                    let Some(right) = right else { return Ok(false) };
                    if !self.equal(left, right)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(self.order(Met::Node(left), Met::Node(right))? == Some(Ordering::Equal)),
        }
    }

    /// Compares two numbers or two strings.
    fn order(&mut self, left: Met<'a>, right: Met<'a>) -> Result<Option<Ordering>, Fault> {
        if let (Met::Node(Node::String(left)), Met::Node(Node::String(right))) = (left, right) {
            self.step(left.len().min(right.len()) / 16)?;
            return Ok(Some(left.cmp(right)));
        }
        let (Some(left), Some(right)) = (self.number(left)?, self.number(right)?) else { return Ok(None) };
        Ok(match (left, right) {
            (Number::Whole(left), Number::Whole(right)) => Some(left.cmp(&right)),
            (left, right) => left.near().partial_cmp(&right.near()),
        })
    }

    fn number(&mut self, met: Met<'a>) -> Result<Option<Number>, Fault> {
        Ok(match met {
            Met::Count(count) => Some(Number::Whole(count as i128)),
            Met::Node(Node::Number(text)) => {
                self.step(text.len() / 16)?;
                match text.parse() {
                    Ok(whole) => Some(Number::Whole(whole)),
                    Err(_) => text.parse().ok().map(Number::Near),
                }
            }
            Met::Node(_) | Met::Nothing => None,
        })
    }
}

/// A number to compare: exact if it is whole and not huge.
#[derive(Clone, Copy)]
enum Number {
    Whole(i128),
    Near(f64),
}

impl Number {
    fn near(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Near(near) => near,
        }
    }
}

fn length(items: usize) -> i64 {
    i64::try_from(items).unwrap_or(i64::MAX)
}

/// Returns the indices of a slice, in its order.
fn slice(start: Option<i64>, end: Option<i64>, step: i64, length: i64) -> impl Iterator<Item = usize> {
    let from_end = |at: i64| if at < 0 { at + length } else { at };
    let (first, bound) = if step >= 0 {
        (start.map_or(0, from_end).clamp(0, length), end.map_or(length, from_end).clamp(0, length))
    } else {
        (
            start.map_or(length - 1, from_end).clamp(-1, length - 1),
            end.map_or(-1, from_end).clamp(-1, length - 1),
        )
    };
    let inside = move |at: &i64| if step > 0 { *at < bound } else { step < 0 && *at > bound };
    std::iter::successors(Some(first), move |at| at.checked_add(step))
        .take_while(inside)
        .filter_map(|at| usize::try_from(at).ok())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use kit::testing::TestWorkspace;

    use super::*;
    use crate::files::json_tree::pointer_of;

    const TEXT: &str = r#"{"store": {"book": [
        {"category": "reference", "author": "Nigel Rees", "price": 8.95, "tags": ["a", "b"]},
        {"category": "fiction", "author": "Evelyn Waugh", "price": 12.99, "tags": []},
        {"category": "fiction", "isbn": "0-553", "price": 8.99, "same": 8.99},
        {"category": "fiction", "isbn": "0-395", "price": 22, "same": 22.0, "deep": {"price": 22}}],
        "bicycle": {"color": "röt", "price": 399}},
        "list": [0, 1, 2, [3, [4, {"a/b~": null}]], "x", true, {"o": {"p": 1, "q": [1]}}, {"o": {"q": [1.0], "p": 1}}]}"#;

    fn found(cx: &Cx, query: &str, text: &str) -> Result<Vec<String>, Fault> {
        let path = Path::parse(query)?;
        let node = Node::parse("f", text)?;
        let mut lines = Vec::new();
        path.walk(cx, &node, &mut |way, node| {
            lines.push(format!("{}: {}", pointer_of(way), node.compact()));
            ControlFlow::Continue(())
        })?;
        Ok(lines)
    }

    #[test]
    fn finds_what_another_implementation_finds_in_the_same_order() {
        let test_ws = TestWorkspace::empty();
        let cx = test_ws.cx();
        let value: serde_json::Value = serde_json::from_str(TEXT).unwrap();
        for query in [
            "$",
            "$.*",
            "$..*",
            "$..price",
            "$.store.book[*].author",
            "$..book[2]",
            "$..book[-1]",
            "$..book[-9]",
            "$..book[0,1]",
            "$..book[:2]",
            "$..book[::-1]",
            "$..book[3:0:-2]",
            "$.list[-3:]",
            "$.list[1:5:2]",
            "$.list[5:1:-2]",
            "$.list[::0]",
            "$.list[-100:100]",
            "$.list[100:-100:-1]",
            "$.list[7:]",
            "$.list[:-7]",
            "$..book[?@.isbn]",
            "$..book[?!@.isbn]",
            "$..book[?@.price<10]",
            "$..book[?(@.price>=22)]",
            "$..book[?@.price == @.same]",
            "$..book[?@.price != @.same]",
            "$..book[?@['price']<=8.99 && @.isbn]",
            "$..book[?@.isbn || @.price > 10].price",
            "$..[?@.color]",
            "$..[?@.price == 399]",
            "$..book[?@.deep[?@==22]]",
            "$..book[?!(@.price<10 || @.deep)]",
            "$.list[?@ == 1]",
            "$.list[?@ > 'a']",
            "$.list[?@ == true]",
            "$.list[?@ != null]",
            "$.list[?@.o == @.o]",
            "$..[?length(@) > 2]",
            "$..book[?count(@..price) == 2]",
            "$..book[?length(@.author) == 10]",
            "$..[?value(@..q) == 1]",
            "$..['price','isbn']",
            "$[\"store\"]['bicycle']",
            "$..['a/b~']",
            "$.list..[0]",
            "$..[*,*]",
            "$.list[3]..*",
            "$ .store [ 'bicycle' ] .price",
            "$..book[ ? @.price < 9 , 0 ]",
            "$['st\\u006fre'].bicycle",
            "$.nothing..x",
            "$..book[?@.same == 22 || @.price < 9 && @.tags[0]=='a']",
            "$[?@.book]",
            "$..[?@==\"röt\"]",
            "$.list[6,7].o",
            "$..book[?@.none == @.never]",
            "$..book[?@.price <= @.none]",
            "$..[?@.p <= 1.0e0]",
            "$.list[?@ <= true]",
        ] {
            let other = serde_json_path::JsonPath::parse(query);
            let ours = found(&cx, query, TEXT).map_err(|fault| fault.what);
            let lines: Vec<String> = other
                .unwrap()
                .query_located(&value)
                .iter()
                .map(|node| format!("{}: {}", node.location().to_json_pointer(), node.node()))
                .collect();
            assert_eq!(ours.unwrap(), lines, "{query}");
        }
    }

    #[test]
    fn a_query_that_would_go_on_for_ever_is_stopped() {
        let test_ws = TestWorkspace::empty();
        let deep = format!("{}1,1{}", "[".repeat(120), "]".repeat(120));
        for query in ["$[0,0]".to_owned() + &"[0,0]".repeat(150), format!("${}", "..*".repeat(20))] {
            let path = Path::parse(&query).unwrap();
            let node = Node::parse("f", &deep).unwrap();
            let cx = test_ws.cx();
            let mut walk = Walk { cx: &cx, steps: 0, most: 100_000, check_at: 0, way: Vec::new() };
            let all = walk.segments(&path.segments, &node, &mut |_, _| ControlFlow::Continue(()));
            let fault = all.unwrap_err();
            assert_eq!(fault.kind, Kind::TooBig);
        }
    }
}
