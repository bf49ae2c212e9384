//! OpenSCAD parser, by the grammar of 2021.01.

use super::{
    report::Report,
    tokens::{Kind, Token},
    tree::{Argument, Call, Expression, Name, Parameter, Statement},
};

/// Maximum nesting; deeper is a mistake, or an attack.
const DEEPEST: usize = 120;

/// Parses a whole source. Unparsable text is reported and skipped, up to the next statement.
pub(super) fn parse<'a>(tokens: &[Token<'a>], report: &mut Report<'_>) -> Vec<Statement<'a>> {
    let mut parser = Parser { tokens, at: 0, depth: 0, report };
    let mut statements = Vec::new();
    while parser.peek().kind != Kind::End {
        let before = parser.at;
        match parser.statement(true) {
            Ok(statement) => statements.push(statement),
            Err(Lost) => parser.recover(before),
        }
    }
    statements
}

struct Parser<'t, 'a, 'r, 's> {
    tokens: &'t [Token<'a>],
    at: usize,
    depth: usize,
    report: &'r mut Report<'s>,
}

/// An error was reported; the statement is skipped.
struct Lost;

const END: Token<'static> = Token { kind: Kind::End, text: "", at: 0 };

impl<'a> Parser<'_, 'a, '_, '_> {
    fn peek(&self) -> Token<'a> {
        self.ahead(0)
    }

    fn ahead(&self, by: usize) -> Token<'a> {
        self.tokens.get(self.at + by).or_else(|| self.tokens.last()).copied().unwrap_or(END)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at = (self.at + 1).min(self.tokens.len().saturating_sub(1));
        token
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is = self.peek().is(sign);
        if is {
            self.next();
        }
        is
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is = self.peek().is_word(word);
        if is {
            self.next();
        }
        is
    }

    /// Returns the end of the previous word.
    fn behind(&self) -> usize {
        let before = self.at.checked_sub(1).and_then(|it| self.tokens.get(it));
        before.map_or(0, |it| match it.kind {
            // The brackets around the path are not part of it.
            Kind::Use | Kind::Include => it.at,
            _ => it.end(),
        })
    }

    fn expected<T>(&mut self, what: &str) -> Result<T, Lost> {
        let found = self.peek();
        if found.kind == Kind::End {
            let at = self.behind();
            self.report.error(at, format!("the source ends where {what} is expected"));
        } else {
            self.report.error(found.at, format!("`{}` stands where {what} is expected", found.text));
        }
        Err(Lost)
    }

    fn sign(&mut self, sign: &str) -> Result<(), Lost> {
        if self.takes(sign) { Ok(()) } else { self.expected(&format!("`{sign}`")) }
    }

    /// Expects a semicolon; if there is none, reports its place and goes on.
    fn semicolon(&mut self, after: &str) -> Result<(), Lost> {
        if self.takes(";") {
            return Ok(());
        }
        let found = self.peek();
        let begins = found.kind == Kind::End
            || found.is("}")
            || matches!(found.kind, Kind::Word | Kind::Use | Kind::Include);
        if !begins {
            return self.expected("`;`");
        }
        let at = self.behind();
        self.report.error(at, format!("`;` is missing after {after}"));
        Ok(())
    }

    fn name(&mut self, what: &str) -> Result<Name<'a>, Lost> {
        let token = self.peek();
        if token.kind != Kind::Word || is_keyword(token.text) {
            return self.expected(what);
        }
        self.next();
        Ok(Name { text: token.text, at: token.at })
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Lost>) -> Result<T, Lost> {
        if self.depth >= DEEPEST {
            let at = self.peek().at;
            self.report.error(at, format!("this is nested more than {DEEPEST} deep"));
            // The rest is as deeply nested: nothing of it is parsed.
            self.at = self.tokens.len().saturating_sub(1);
            return Err(Lost);
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Skips to after the next `;`, or after the next block, or before the `}` that ends the enclosing one.
    fn recover(&mut self, began: usize) {
        if self.at == began {
            self.next();
        }
        let mut depth = 0_usize;
        loop {
            let token = self.peek();
            match token.text {
                _ if token.kind == Kind::End => return,
                ";" if depth == 0 => {
                    self.next();
                    return;
                }
                "}" if token.kind == Kind::Sign && depth == 0 => {
                    // At the top level there is none: it belongs to the skipped statement.
                    if self.depth == 0 {
                        self.next();
                    }
                    return;
                }
                "(" | "[" | "{" if token.kind == Kind::Sign => depth += 1,
                ")" | "]" if token.kind == Kind::Sign => depth = depth.saturating_sub(1),
                "}" if token.kind == Kind::Sign => {
                    depth -= 1;
                    if depth == 0 {
                        self.next();
                        return;
                    }
                }
                _ => {}
            }
            self.next();
        }
    }

    /// Parses a statement; definitions only where they are allowed.
    fn statement(&mut self, defines: bool) -> Result<Statement<'a>, Lost> {
        self.deeper(|it| it.statement_here(defines))
    }

    fn statement_here(&mut self, defines: bool) -> Result<Statement<'a>, Lost> {
        let token = self.peek();
        match (token.kind, token.text) {
            (Kind::Sign, ";") => {
                self.next();
                Ok(Statement::Nothing)
            }
            (Kind::Sign, "{") => self.block(defines),
            (Kind::Sign, "!" | "#" | "%" | "*") => {
                self.next();
                self.statement(false)
            }
            (Kind::Use, path) => {
                self.next();
                Ok(Statement::Use(Name { text: path, at: token.at }))
            }
            (Kind::Include, path) => {
                self.next();
                Ok(Statement::Include(Name { text: path, at: token.at }))
            }
            (Kind::Word, "module" | "function") if !defines => {
                let message = format!("a {} can't be defined in here; define it outside", token.text);
                self.report.error(token.at, message);
                self.definition()
            }
            (Kind::Word, "module" | "function") => self.definition(),
            (Kind::Word, "if") => self.choice(),
            (Kind::Word, "else") => {
                self.report
                    .error(token.at, "this `else` belongs to no `if`; is there a `;` before it?".to_owned());
                self.next();
                self.statement(defines)
            }
            (Kind::Word, _) if self.ahead(1).is("=") => {
                let name = self.name("a name")?;
                self.sign("=")?;
                let value = self.expression()?;
                self.semicolon(&format!("the value of `{}`", name.text))?;
                Ok(Statement::Assign { name, value })
            }
            (Kind::Word, _) => self.call(),
            _ => self.expected("a statement"),
        }
    }

    fn block(&mut self, defines: bool) -> Result<Statement<'a>, Lost> {
        self.sign("{")?;
        let mut statements = Vec::new();
        while !self.takes("}") {
            if self.peek().kind == Kind::End {
                return self.expected("`}`");
            }
            let before = self.at;
            match self.statement(defines) {
                Ok(statement) => statements.push(statement),
                Err(Lost) => self.recover(before),
            }
        }
        Ok(Statement::Block(statements))
    }

    fn definition(&mut self) -> Result<Statement<'a>, Lost> {
        let is_module = self.next().text == "module";
        let name = self.name("a name")?;
        let parameters = self.parameters()?;
        if is_module {
            let body = Box::new(self.statement(true)?);
            return Ok(Statement::Module { name, parameters, body });
        }
        self.sign("=")?;
        let body = self.expression()?;
        self.semicolon(&format!("the function `{}`", name.text))?;
        Ok(Statement::Function { name, parameters, body })
    }

    fn choice(&mut self) -> Result<Statement<'a>, Lost> {
        let mut branches = Vec::new();
        // In a loop, so that a long chain is not deep.
        while self.takes_word("if") {
            self.sign("(")?;
            let condition = self.expression()?;
            self.sign(")")?;
            branches.push((Some(condition), self.child("`if (…)`")?));
            if !self.takes_word("else") {
                return Ok(Statement::If(branches));
            }
        }
        branches.push((None, self.child("`else`")?));
        Ok(Statement::If(branches))
    }

    /// Parses the child of a module or a condition.
    fn child(&mut self, after: &str) -> Result<Statement<'a>, Lost> {
        let token = self.peek();
        let is_assigned = token.kind == Kind::Word && self.ahead(1).is("=");
        if token.kind == Kind::End
            || token.is("}")
            || is_assigned
            || token.is_word("module")
            || token.is_word("function")
        {
            self.semicolon(after)?;
            return Ok(Statement::Nothing);
        }
        self.statement(false)
    }

    fn call(&mut self) -> Result<Statement<'a>, Lost> {
        let token = self.next();
        let name = Name { text: token.text, at: token.at };
        let is_name =
            !is_keyword(token.text) || matches!(token.text, "for" | "let" | "assert" | "echo" | "each");
        if !is_name {
            self.report.error(token.at, format!("`{}` is not a statement", token.text));
            return Err(Lost);
        }
        if !self.peek().is("(") {
            return self.expected(&format!("`(` after `{}`", token.text));
        }
        let arguments = self.arguments()?;
        let end = self.behind();
        let child = Box::new(self.child(&format!("`{}(…)`", name.text))?);
        Ok(Statement::Call(Call { name, arguments, child, end }))
    }

    fn parameters(&mut self) -> Result<Vec<Parameter<'a>>, Lost> {
        self.sign("(")?;
        let mut parameters = Vec::new();
        while !self.takes(")") {
            let name = self.name("a parameter or `)`")?;
            let default = if self.takes("=") { Some(self.expression()?) } else { None };
            parameters.push(Parameter { name, default });
            self.separator("`,` or `)`", ")")?;
        }
        Ok(parameters)
    }

    fn arguments(&mut self) -> Result<Vec<Argument<'a>>, Lost> {
        self.sign("(")?;
        let arguments = self.list_of_arguments(")")?;
        self.sign(")")?;
        Ok(arguments)
    }

    /// Parses arguments up to `end`, which is not consumed.
    fn list_of_arguments(&mut self, end: &str) -> Result<Vec<Argument<'a>>, Lost> {
        let mut arguments = Vec::new();
        while !self.peek().is(end) && !self.peek().is(";") {
            let token = self.peek();
            let is_named = token.kind == Kind::Word && self.ahead(1).is("=") && !is_keyword(token.text);
            let name = is_named.then_some(Name { text: token.text, at: token.at });
            if is_named {
                self.next();
                self.next();
            }
            arguments.push(Argument { name, at: token.at, value: self.expression()? });
            if self.peek().is(";") {
                break;
            }
            self.separator(&format!("`,` or `{end}`"), end)?;
        }
        Ok(arguments)
    }

    /// Parses one comma or more, or the end, which is not consumed.
    fn separator(&mut self, what: &str, end: &str) -> Result<(), Lost> {
        if self.peek().is(end) {
            return Ok(());
        }
        if !self.takes(",") {
            return self.expected(what);
        }
        while self.takes(",") {}
        Ok(())
    }

    fn expression(&mut self) -> Result<Expression<'a>, Lost> {
        self.deeper(Self::expression_here)
    }

    fn expression_here(&mut self) -> Result<Expression<'a>, Lost> {
        let mut parts = Vec::new();
        // A chain of `a ? b : c ? d : e` is parsed as one, so that it is not deep.
        loop {
            let token = self.peek();
            if token.kind == Kind::Word
                && self.ahead(1).is("(")
                && matches!(token.text, "function" | "let" | "assert" | "echo")
            {
                parts.push(self.prefixed()?);
                break;
            }
            self.operands(&mut parts)?;
            if !self.takes("?") {
                break;
            }
            parts.push(self.expression()?);
            self.sign(":")?;
        }
        Ok(one_of(parts))
    }

    /// Parses an expression that begins with a word and parentheses.
    fn prefixed(&mut self) -> Result<Expression<'a>, Lost> {
        match self.next().text {
            "function" => {
                let parameters = self.parameters()?;
                Ok(Expression::Function { parameters, body: Box::new(self.expression()?) })
            }
            "let" => {
                let bindings = self.arguments()?;
                Ok(Expression::Let { bindings, body: Box::new(self.expression()?) })
            }
            _ => {
                let arguments = self.arguments()?;
                let ends = self.peek().kind == Kind::End
                    || [")", "]", "}", ",", ";", ":"].iter().any(|it| self.peek().is(it));
                let body = if ends { None } else { Some(Box::new(self.expression()?)) };
                Ok(Expression::Said { arguments, body })
            }
        }
    }

    /// Parses values with operators between them: precedence does not matter here.
    fn operands(&mut self, parts: &mut Vec<Expression<'a>>) -> Result<(), Lost> {
        const BETWEEN: [&str; 14] =
            ["+", "-", "*", "/", "%", "^", "<", ">", "<=", ">=", "==", "!=", "&&", "||"];
        loop {
            while ["+", "-", "!"].iter().any(|it| self.peek().is(it)) {
                self.next();
            }
            parts.push(self.value()?);
            if !BETWEEN.iter().any(|it| self.peek().is(it)) {
                return Ok(());
            }
            self.next();
        }
    }

    fn value(&mut self) -> Result<Expression<'a>, Lost> {
        let mut value = self.primary()?;
        loop {
            let token = self.peek();
            if token.is("(") {
                let arguments = self.arguments()?;
                value = Expression::Call { callee: Box::new(value), arguments };
            } else if token.is("[") {
                self.next();
                let index = self.expression()?;
                self.sign("]")?;
                value = match value {
                    Expression::Parts(mut parts) => {
                        parts.push(index);
                        Expression::Parts(parts)
                    }
                    value => Expression::Parts(vec![value, index]),
                };
            } else if token.is(".") {
                self.next();
                self.name("a name after `.`")?;
            } else {
                return Ok(value);
            }
        }
    }

    fn primary(&mut self) -> Result<Expression<'a>, Lost> {
        let token = self.peek();
        match (token.kind, token.text) {
            (Kind::Number | Kind::Text, _) | (Kind::Word, "true" | "false" | "undef") => {
                self.next();
                Ok(Expression::Parts(Vec::new()))
            }
            (Kind::Word, word) if !is_keyword(word) => {
                self.next();
                Ok(Expression::Name(Name { text: word, at: token.at }))
            }
            (Kind::Sign, "(") => {
                self.next();
                let inner = self.expression()?;
                self.sign(")")?;
                Ok(inner)
            }
            (Kind::Sign, "[") => self.list(),
            _ => self.expected("a value"),
        }
    }

    fn list(&mut self) -> Result<Expression<'a>, Lost> {
        self.sign("[")?;
        let mut parts = Vec::new();
        while self.takes(",") {}
        while !self.takes("]") {
            parts.push(self.element()?);
            if self.takes(":") {
                continue;
            }
            self.separator("`,` or `]`", "]")?;
        }
        Ok(Expression::Parts(parts))
    }

    /// Parses an element of a list: a value, or a generator.
    fn element(&mut self) -> Result<Expression<'a>, Lost> {
        self.deeper(Self::element_here)
    }

    fn element_here(&mut self) -> Result<Expression<'a>, Lost> {
        let token = self.peek();
        match (token.kind, token.text) {
            (Kind::Word, "each") => {
                self.next();
                self.element()
            }
            (Kind::Word, "for") => self.repetition(),
            (Kind::Word, "let") => {
                self.next();
                let bindings = self.arguments()?;
                let body = Box::new(self.element()?);
                // `let (…) x + 1` continues after what looked like an element.
                Ok(Expression::Let { bindings, body })
            }
            (Kind::Word, "if") => {
                let mut parts = Vec::new();
                while self.takes_word("if") {
                    self.sign("(")?;
                    parts.push(self.expression()?);
                    self.sign(")")?;
                    parts.push(self.element()?);
                    if !self.takes_word("else") {
                        return Ok(Expression::Parts(parts));
                    }
                }
                parts.push(self.element()?);
                Ok(Expression::Parts(parts))
            }
            (Kind::Sign, "(") if self.makes_elements() => {
                self.next();
                let inner = self.element()?;
                self.sign(")")?;
                Ok(inner)
            }
            _ => self.expression(),
        }
    }

    /// Returns whether the text in these parentheses is a generator, not a value.
    fn makes_elements(&self) -> bool {
        let inside = self.tokens.iter().skip(self.at).find(|it| !it.is("("));
        inside.is_some_and(|it| it.kind == Kind::Word && matches!(it.text, "for" | "if" | "each"))
            || (self.ahead(1).is_word("let") && self.let_makes_elements())
    }

    /// Returns whether a `for`, an `if` or an `each` follows the `let (…)` in these parentheses.
    fn let_makes_elements(&self) -> bool {
        let mut depth = 0_usize;
        let mut rest = self.tokens.iter().skip(self.at + 2);
        for token in rest.by_ref() {
            if token.is("(") {
                depth += 1;
            } else if token.is(")") {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    break;
                }
            }
        }
        rest.next()
            .is_some_and(|it| it.kind == Kind::Word && matches!(it.text, "for" | "if" | "each" | "let"))
    }

    fn repetition(&mut self) -> Result<Expression<'a>, Lost> {
        self.next();
        self.sign("(")?;
        let bindings = self.list_of_arguments(")")?;
        let next = if self.takes(";") {
            let condition = Box::new(self.expression()?);
            self.sign(";")?;
            Some((condition, self.list_of_arguments(")")?))
        } else {
            None
        };
        self.sign(")")?;
        Ok(Expression::For { bindings, next, body: Box::new(self.element()?) })
    }
}

fn one_of(mut parts: Vec<Expression<'_>>) -> Expression<'_> {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        Some(last) => {
            parts.push(last);
            Expression::Parts(parts)
        }
        None => Expression::Parts(parts),
    }
}

fn is_keyword(word: &str) -> bool {
    matches!(
        word,
        "module"
            | "function"
            | "if"
            | "else"
            | "let"
            | "assert"
            | "echo"
            | "for"
            | "each"
            | "true"
            | "false"
            | "undef"
    )
}
