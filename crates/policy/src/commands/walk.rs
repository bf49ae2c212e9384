//! Syntax tree walk: collects the simple commands of a command line.

use brush_parser::{Parser, ast};

use super::{
    Part, Unparsed, Word, inline, launchers, programs,
    read::{hides_code, options},
    scan, wrappers,
};

/// Maximum nesting of scripts: substitutions, `sh -c`, `eval`.
const DEEPEST: usize = 12;

/// Maximum nesting of words: `${a:-${b:-c}}`.
const DEEPEST_WORD: usize = 24;

/// Maximum number of parts.
const MOST_PARTS: usize = 1_000;

/// Returns the parts of a text, in their order, the inner ones first.
pub(super) fn parts(text: &str) -> Result<Vec<Part>, Unparsed> {
    let mut walk = Walk::default();
    walk.script(text)?;
    Ok(walk.parts)
}

/// The state of a walk through a command line.
#[derive(Default)]
pub(super) struct Walk {
    parts: Vec<Part>,
    depth: usize,
    within_words: usize,
    /// The input of the present commands, if it differs from that of the whole.
    input: Input,
}

/// The standard input of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Input {
    /// That of the whole command line: empty.
    #[default]
    Inherited,
    /// This text.
    Text(String),
    /// Something from elsewhere.
    Open,
}

/// The redirections of a command.
#[derive(Default)]
struct Redirects {
    writes: Vec<Word>,
    reads: Vec<Word>,
    input: Option<Input>,
    odd: Option<&'static str>,
}

impl Walk {
    /// Adds the parts of a script.
    pub(super) fn script(&mut self, text: &str) -> Result<(), Unparsed> {
        scan::scan(text)?;
        if self.depth >= DEEPEST {
            return Err(Unparsed::new(format!("more than {DEEPEST} scripts within each other")));
        }
        let program = Parser::new(text.as_bytes(), &options())
            .parse_program()
            .map_err(|error| Unparsed::new(error.to_string()))?;
        self.depth += 1;
        let letters: Vec<char> = text.chars().collect();
        for list in &program.complete_commands {
            self.list(list, &letters)?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// Enters a word.
    pub(super) fn deeper(&mut self) -> Result<(), Unparsed> {
        self.within_words += 1;
        if self.within_words > DEEPEST_WORD {
            return Err(Unparsed::new(format!("more than {DEEPEST_WORD} words within each other")));
        }
        Ok(())
    }

    /// Leaves a word.
    pub(super) fn back(&mut self) {
        self.within_words -= 1;
    }

    /// Adds a part, and the commands that it starts.
    pub(super) fn part(&mut self, mut part: Part, input: &Input) -> Result<(), Unparsed> {
        if self.parts.len() >= MOST_PARTS {
            return Err(Unparsed::new(format!("it has more than {MOST_PARTS} commands")));
        }
        part.fed = *input != Input::Inherited;
        wrappers::look_through(self, &mut part, input)?;
        launchers::look(self, &mut part, input)?;
        inline::look(&mut part, input);
        self.parts.push(part);
        Ok(())
    }

    /// Adds a part for a construct that no list can allow.
    pub(super) fn oddity(&mut self, why: &'static str) {
        self.parts.push(Part { odd: Some(why), ..Part::default() });
    }

    fn list(&mut self, list: &ast::CompoundList, letters: &[char]) -> Result<(), Unparsed> {
        for ast::CompoundListItem(and_or, _) in &list.0 {
            self.pipeline(&and_or.first, letters)?;
            for next in &and_or.additional {
                let (ast::AndOr::And(pipeline) | ast::AndOr::Or(pipeline)) = next;
                self.pipeline(pipeline, letters)?;
            }
        }
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &ast::Pipeline, letters: &[char]) -> Result<(), Unparsed> {
        for (at, command) in pipeline.seq.iter().enumerate() {
            let input = if at == 0 { self.input.clone() } else { Input::Open };
            self.command(command, input, letters)?;
        }
        Ok(())
    }

    fn command(&mut self, command: &ast::Command, input: Input, letters: &[char]) -> Result<(), Unparsed> {
        match command {
            ast::Command::Simple(simple) => self.simple(simple, input, letters),
            ast::Command::Compound(compound, redirects) => {
                let redirects = self.redirects(redirects.as_ref(), letters)?;
                self.within(redirects, input, |walk| walk.compound(compound, letters))
            }
            ast::Command::Function(function) => {
                self.oddity("a function, which may stand for any name");
                let redirects = self.redirects(function.body.1.as_ref(), letters)?;
                self.within(redirects, Input::Open, |walk| walk.compound(&function.body.0, letters))
            }
            ast::Command::ExtendedTest(test, redirects) => {
                let redirects = self.redirects(redirects.as_ref(), letters)?;
                self.within(redirects, input, |walk| walk.test(&test.expr))
            }
        }
    }

    /// Runs `inner` for commands with another input.
    fn within(
        &mut self,
        redirects: Redirects,
        input: Input,
        inner: impl FnOnce(&mut Self) -> Result<(), Unparsed>,
    ) -> Result<(), Unparsed> {
        let Redirects { writes, reads: near, input: own, odd } = redirects;
        if !writes.is_empty() || odd.is_some() {
            self.parts.push(Part { writes, near, odd, ..Part::default() });
        }
        let outer = std::mem::replace(&mut self.input, own.unwrap_or(input));
        let done = inner(self);
        self.input = outer;
        done
    }

    fn compound(&mut self, compound: &ast::CompoundCommand, letters: &[char]) -> Result<(), Unparsed> {
        use ast::CompoundCommand as C;
        match compound {
            C::Arithmetic(arithmetic) => {
                // `( (rm x) )` looks like arithmetic to the parser, and is none to a shell.
                let (from, to) = (arithmetic.loc.start.index, arithmetic.loc.end.index);
                let at = |index: usize| letters.get(index).copied();
                let doubled = at(from) == Some('(')
                    && at(from + 1) == Some('(')
                    && to >= 2
                    && at(to - 1) == Some(')')
                    && at(to - 2) == Some(')');
                if !doubled {
                    return Err(Unparsed::new("brackets within brackets can be read in two ways"));
                }
                self.arithmetic(&arithmetic.expr.value)?;
                // A shell without arithmetic commands sees nested subshells.
                let text = arithmetic.expr.value.trim();
                if !text.ends_with("++") && !text.ends_with("--") {
                    self.script(text)?;
                }
                Ok(())
            }
            C::ArithmeticForClause(clause) => {
                for expression in
                    [&clause.initializer, &clause.condition, &clause.updater].into_iter().flatten()
                {
                    self.arithmetic(&expression.value)?;
                }
                self.list(&clause.body.list, letters)
            }
            C::BraceGroup(group) => self.list(&group.list, letters),
            C::Subshell(subshell) => self.list(&subshell.list, letters),
            C::ForClause(clause) => {
                if programs::is_dangerous_variable(&clause.variable_name) {
                    self.oddity("a loop over a variable other programs obey");
                }
                for word in clause.values.iter().flatten() {
                    let word = self.word(&word.value)?;
                    self.watch_value(&word);
                }
                self.list(&clause.body.list, letters)
            }
            C::CaseClause(clause) => {
                self.word(&clause.value.value)?;
                for case in &clause.cases {
                    for pattern in &case.patterns {
                        self.word(&pattern.value)?;
                    }
                    if let Some(list) = &case.cmd {
                        self.list(list, letters)?;
                    }
                }
                Ok(())
            }
            C::IfClause(clause) => {
                self.list(&clause.condition, letters)?;
                self.list(&clause.then, letters)?;
                for other in clause.elses.iter().flatten() {
                    if let Some(condition) = &other.condition {
                        self.list(condition, letters)?;
                    }
                    self.list(&other.body, letters)?;
                }
                Ok(())
            }
            C::WhileClause(clause) | C::UntilClause(clause) => {
                self.list(&clause.0, letters)?;
                self.list(&clause.1.list, letters)
            }
            C::Coprocess(coprocess) => {
                if let Some(name) = &coprocess.name
                    && programs::is_dangerous_variable(&name.value)
                {
                    self.oddity("a coprocess under a name other programs obey");
                }
                self.command(&coprocess.body, Input::Open, letters)
            }
        }
    }

    fn test(&mut self, test: &ast::ExtendedTestExpr) -> Result<(), Unparsed> {
        use ast::ExtendedTestExpr as T;
        match test {
            T::And(left, right) | T::Or(left, right) => {
                self.test(left)?;
                self.test(right)
            }
            T::Not(inner) | T::Parenthesized(inner) => self.test(inner),
            T::UnaryTest(_, word) => self.tested(word),
            T::BinaryTest(_, left, right) => {
                self.tested(left)?;
                self.tested(right)
            }
        }
    }

    /// Parses a word of `[[`; some tests evaluate quoted text.
    fn tested(&mut self, word: &ast::Word) -> Result<(), Unparsed> {
        let word = self.word(&word.value)?;
        self.watch_value(&word);
        Ok(())
    }

    fn simple(
        &mut self,
        simple: &ast::SimpleCommand,
        input: Input,
        letters: &[char],
    ) -> Result<(), Unparsed> {
        let mut part = Part::default();
        let mut redirects = Redirects::default();
        for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
            match item {
                ast::CommandPrefixOrSuffixItem::AssignmentWord(assignment, _) => {
                    self.assignment(assignment, &mut part)?;
                }
                item => self.item(item, &mut part, &mut redirects, letters)?,
            }
        }
        if let Some(program) = &simple.word_or_name {
            let program = self.word(&program.value)?;
            part.words.push(program);
        }
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut part, &mut redirects, letters)?;
        }
        part.writes = redirects.writes;
        part.near = redirects.reads;
        part.odd = part.odd.or(redirects.odd);
        if part.words.is_empty() && part.writes.is_empty() && part.odd.is_none() {
            return Ok(());
        }
        self.part(part, &redirects.input.unwrap_or(input))
    }

    fn item(
        &mut self,
        item: &ast::CommandPrefixOrSuffixItem,
        part: &mut Part,
        redirects: &mut Redirects,
        letters: &[char],
    ) -> Result<(), Unparsed> {
        use ast::CommandPrefixOrSuffixItem as I;
        match item {
            I::Word(word) => {
                let word = self.word(&word.value)?;
                part.words.push(word);
            }
            // An argument in the form of an assignment, such as those of `export`.
            I::AssignmentWord(assignment, word) => match &assignment.value {
                ast::AssignmentValue::Scalar(_) => {
                    let word = self.word(&word.value)?;
                    part.words.push(word);
                }
                ast::AssignmentValue::Array(_) => {
                    self.assignment(assignment, part)?;
                    part.words.push(Word::Open(word.value.clone()));
                }
            },
            I::IoRedirect(redirect) => self.redirect(redirect, redirects, letters)?,
            I::ProcessSubstitution(_, subshell) => {
                self.within(Redirects::default(), Input::Open, |walk| walk.list(&subshell.list, letters))?;
                part.words.push(Word::Open("<(…)".to_owned()));
            }
        }
        Ok(())
    }

    /// Parses an assignment, and records its effect on its command.
    fn assignment(&mut self, assignment: &ast::Assignment, part: &mut Part) -> Result<(), Unparsed> {
        let name = match &assignment.name {
            ast::AssignmentName::VariableName(name) => name,
            ast::AssignmentName::ArrayElementName(name, index) => {
                self.word(index)?;
                name
            }
        };
        let values: Vec<&ast::Word> = match &assignment.value {
            ast::AssignmentValue::Scalar(value) => vec![value],
            ast::AssignmentValue::Array(items) => {
                items.iter().flat_map(|(key, value)| key.iter().chain([value])).collect()
            }
        };
        if programs::is_dangerous_variable(name) {
            part.odd = Some("a variable that other programs obey is set");
        }
        for value in values {
            let word = self.word(&value.value)?;
            if word.plain().is_some_and(hides_code) {
                part.odd = Some("a variable is set to text that looks like code");
            }
            launchers::variable(self, part, name, &word)?;
        }
        Ok(())
    }

    /// Records text that arithmetic or a test may evaluate later.
    fn watch_value(&mut self, word: &Word) {
        if word.plain().is_some_and(hides_code) {
            self.parts.push(Part {
                odd: Some("quoted text that looks like code"),
                code: vec![word.text().to_owned()],
                unclear: true,
                ..Part::default()
            });
        }
    }

    fn redirects(
        &mut self,
        list: Option<&ast::RedirectList>,
        letters: &[char],
    ) -> Result<Redirects, Unparsed> {
        let mut redirects = Redirects::default();
        for redirect in list.iter().flat_map(|list| &list.0) {
            self.redirect(redirect, &mut redirects, letters)?;
        }
        Ok(redirects)
    }

    fn redirect(
        &mut self,
        redirect: &ast::IoRedirect,
        redirects: &mut Redirects,
        letters: &[char],
    ) -> Result<(), Unparsed> {
        use ast::{IoFileRedirectKind as K, IoFileRedirectTarget as T};
        match redirect {
            ast::IoRedirect::File(_, kind, target) => match target {
                T::Filename(word) => {
                    let word = self.word(&word.value)?;
                    if word.text().starts_with("/dev/tcp/") || word.text().starts_with("/dev/udp/") {
                        redirects.odd = Some("a redirection that opens a connection");
                    }
                    match kind {
                        K::Read => {
                            redirects.input = Some(Input::Open);
                            redirects.reads.push(word);
                        }
                        K::Write
                        | K::Append
                        | K::ReadAndWrite
                        | K::Clobber
                        | K::DuplicateInput
                        | K::DuplicateOutput => {
                            redirects.write(word);
                        }
                    }
                }
                T::Duplicate(word) => {
                    let word = self.word(&word.value)?;
                    let descriptor = word.plain().is_some_and(|it| {
                        it.strip_suffix('-').unwrap_or(it).chars().all(|it| it.is_ascii_digit())
                    });
                    if matches!(kind, K::DuplicateInput) {
                        redirects.input = Some(Input::Open);
                    } else if !descriptor {
                        redirects.write(word);
                    }
                }
                T::Fd(_) => {}
                T::ProcessSubstitution(_, subshell) => {
                    redirects.input = Some(Input::Open);
                    self.within(Redirects::default(), Input::Open, |walk| {
                        walk.list(&subshell.list, letters)
                    })?;
                }
            },
            ast::IoRedirect::HereDocument(_, document) => {
                if document.here_end.value.contains(['$', '`']) {
                    return Err(Unparsed::new("the end of a here-document can be read in two ways"));
                }
                let text = if document.requires_expansion {
                    self.document(&document.doc.value)?
                } else {
                    Some(document.doc.value.clone())
                };
                redirects.input = Some(text.map_or(Input::Open, Input::Text));
            }
            ast::IoRedirect::HereString(_, word) => {
                let word = self.word(&word.value)?;
                redirects.input = Some(word.plain().map_or(Input::Open, |text| Input::Text(text.to_owned())));
            }
            ast::IoRedirect::OutputAndError(word, _) => {
                let word = self.word(&word.value)?;
                redirects.write(word);
            }
        }
        Ok(())
    }
}

impl Redirects {
    fn write(&mut self, target: Word) {
        let nowhere = matches!(
            target.plain(),
            Some("/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/fd/1" | "/dev/fd/2" | "/dev/tty")
        );
        if !nowhere {
            self.writes.push(target);
        }
    }
}
