//! Words of a command line, as far as their value is certain.

use brush_parser::{
    ParserOptions,
    word::{ParameterExpr, ParameterTransformOp, WordPiece, WordPieceWithSource},
};

use super::{Unparsed, Word, programs, walk::Walk};

/// Returns parser options that match a bash that runs one command line.
pub(super) fn options() -> ParserOptions {
    // Without extended globs, which are off in such a bash: `!(rm x)` is a command then.
    ParserOptions { enable_extended_globbing: false, ..ParserOptions::default() }
}

impl Walk {
    /// Parses a word; commands within it become parts.
    pub(super) fn word(&mut self, raw: &str) -> Result<Word, Unparsed> {
        self.deeper()?;
        let pieces = brush_parser::word::parse(raw, &options())
            .map_err(|_| Unparsed::new(format!("the word `{raw}` can't be read")))?;
        let mut plain = Some(String::new());
        for piece in &pieces {
            self.piece(piece, Quoted::No, &mut plain)?;
        }
        self.back();
        Ok(plain.map_or_else(|| Word::Open(raw.to_owned()), Word::Plain))
    }

    /// Parses a here-document that the shell expands; returns its text if it is literal.
    pub(super) fn document(&mut self, raw: &str) -> Result<Option<String>, Unparsed> {
        let pieces = brush_parser::word::parse_heredoc(raw, &options())
            .map_err(|_| Unparsed::new("a here-document can't be read"))?;
        let mut plain = Some(String::new());
        for piece in &pieces {
            self.piece(piece, Quoted::Yes, &mut plain)?;
        }
        Ok(plain)
    }

    /// Appends the value of a piece; sets `plain` to `None` if it is not literal.
    fn piece(
        &mut self,
        piece: &WordPieceWithSource,
        quoted: Quoted,
        plain: &mut Option<String>,
    ) -> Result<(), Unparsed> {
        let mut add = |text: &str| {
            if let Some(plain) = plain.as_mut() {
                plain.push_str(text);
            }
        };
        match &piece.piece {
            WordPiece::Text(text) => {
                if ["$(", "${", "$[", "`"].iter().any(|it| text.contains(it)) {
                    return Err(Unparsed::new(format!("`{text}` can't be read")));
                }
                if quoted == Quoted::No && expands(text) {
                    *plain = None;
                } else {
                    add(text);
                }
            }
            WordPiece::SingleQuotedText(text) => add(text),
            WordPiece::AnsiCQuotedText(text) if !text.contains('\\') => add(text),
            WordPiece::EscapeSequence(text) => match text.strip_prefix('\\') {
                Some("\n") | None => {}
                Some(letter) => add(letter),
            },
            WordPiece::DoubleQuotedSequence(pieces) => {
                for piece in pieces {
                    self.piece(piece, Quoted::Yes, plain)?;
                }
            }
            // Their expansion is not known.
            WordPiece::AnsiCQuotedText(_) | WordPiece::TildeExpansion(_) => *plain = None,
            WordPiece::GettextDoubleQuotedSequence(pieces) => {
                for piece in pieces {
                    self.piece(piece, Quoted::Yes, plain)?;
                }
                *plain = None;
            }
            WordPiece::CommandSubstitution(script) => {
                // Arithmetic or a subshell in it: shells differ.
                if script.starts_with('(') {
                    return Err(Unparsed::new("`$((` can be read in two ways"));
                }
                self.script(script)?;
                *plain = None;
            }
            WordPiece::BackquotedCommandSubstitution(script) => {
                // Escapes in backquotes are removed once more than they seem to be.
                if script.contains('\\') {
                    return Err(Unparsed::new("a backslash within backquotes can be read in two ways"));
                }
                self.script(script)?;
                *plain = None;
            }
            WordPiece::ArithmeticExpression(expression) => {
                self.arithmetic(&expression.value)?;
                *plain = None;
            }
            WordPiece::ParameterExpansion(expansion) => {
                self.expansion(expansion)?;
                *plain = None;
            }
        }
        Ok(())
    }

    /// Parses an arithmetic expression; commands in its substitutions become parts.
    pub(super) fn arithmetic(&mut self, text: &str) -> Result<(), Unparsed> {
        let plain = |letter: char| {
            letter.is_ascii_alphanumeric() || "_+-*/%<>=!&|^~?:,.() \t\n$#@{}[]\"`".contains(letter)
        };
        let mut open = 0_i32;
        for letter in text.chars() {
            open += match letter {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            if open < 0 || !plain(letter) {
                return Err(Unparsed::new(format!("`{text}` is not plain arithmetic")));
            }
        }
        if open != 0 {
            return Err(Unparsed::new(format!("`{text}` is not plain arithmetic")));
        }
        if programs::sets_dangerous(text) {
            self.oddity("arithmetic that sets a variable other programs obey");
        }
        self.word(text).map(drop)
    }

    fn expansion(&mut self, expansion: &ParameterExpr) -> Result<(), Unparsed> {
        use ParameterExpr as E;
        // The operands as written, and the variable that is set.
        let mut operands: Vec<&str> = Vec::new();
        match expansion {
            E::Parameter { .. }
            | E::ParameterLength { .. }
            | E::VariableNames { .. }
            | E::MemberKeys { .. } => {}
            E::UseDefaultValues { default_value: text, .. }
            | E::IndicateErrorIfNullOrUnset { error_message: text, .. }
            | E::UseAlternativeValue { alternative_value: text, .. }
            | E::RemoveSmallestSuffixPattern { pattern: text, .. }
            | E::RemoveLargestSuffixPattern { pattern: text, .. }
            | E::RemoveSmallestPrefixPattern { pattern: text, .. }
            | E::RemoveLargestPrefixPattern { pattern: text, .. }
            | E::UppercaseFirstChar { pattern: text, .. }
            | E::UppercasePattern { pattern: text, .. }
            | E::LowercaseFirstChar { pattern: text, .. }
            | E::LowercasePattern { pattern: text, .. } => operands.extend(text.as_deref()),
            E::AssignDefaultValues { parameter, default_value, .. } => {
                operands.extend(default_value.as_deref());
                let name = parameter.to_string();
                let name = name.trim_matches(|it: char| !it.is_ascii_alphanumeric() && it != '_');
                if programs::is_dangerous_variable(name) || default_value.as_deref().is_some_and(hides_code) {
                    self.oddity("an expansion that sets a variable other programs obey");
                }
            }
            E::ReplaceSubstring { pattern, replacement, .. } => {
                operands.push(pattern);
                operands.extend(replacement.as_deref());
            }
            E::Substring { offset, length, .. } => {
                self.arithmetic(&offset.value)?;
                if let Some(length) = length {
                    self.arithmetic(&length.value)?;
                }
            }
            E::Transform { op, .. } => {
                if matches!(op, ParameterTransformOp::PromptExpand) {
                    self.oddity("an expansion that runs what a variable holds");
                }
            }
        }
        if let Some(index) = index_of(expansion) {
            operands.push(index);
        }
        for operand in operands {
            // Within double quotes a single quote quotes nothing.
            if operand.contains('\'') && hides_code(operand) {
                return Err(Unparsed::new(format!(
                    "quotes in the expansion of `{operand}` can be read in two ways"
                )));
            }
            self.word(operand)?;
        }
        Ok(())
    }
}

/// Whether a piece is in quotes, which prevent splitting and globbing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoted {
    Yes,
    No,
}

/// Returns whether unquoted text expands to other words, by a glob or braces.
fn expands(text: &str) -> bool {
    // Braces around something that is quoted, as in `{a,"b"}`, come in pieces: any brace counts.
    text.contains(['*', '?'])
        || (text.contains('[') && text != "[")
        || (text.contains(['{', '}']) && text != "{}")
}

/// Returns whether this text would run a command if it is evaluated.
pub(super) fn hides_code(text: &str) -> bool {
    text.contains("$(")
        || text.contains('`')
        || text.contains("<(")
        || text.contains(">(")
        || text.contains("${")
}

fn index_of(expansion: &ParameterExpr) -> Option<&str> {
    use ParameterExpr as E;
    use brush_parser::word::Parameter;
    let parameter = match expansion {
        E::Parameter { parameter, .. }
        | E::UseDefaultValues { parameter, .. }
        | E::AssignDefaultValues { parameter, .. }
        | E::IndicateErrorIfNullOrUnset { parameter, .. }
        | E::UseAlternativeValue { parameter, .. }
        | E::ParameterLength { parameter, .. }
        | E::RemoveSmallestSuffixPattern { parameter, .. }
        | E::RemoveLargestSuffixPattern { parameter, .. }
        | E::RemoveSmallestPrefixPattern { parameter, .. }
        | E::RemoveLargestPrefixPattern { parameter, .. }
        | E::Substring { parameter, .. }
        | E::Transform { parameter, .. }
        | E::UppercaseFirstChar { parameter, .. }
        | E::UppercasePattern { parameter, .. }
        | E::LowercaseFirstChar { parameter, .. }
        | E::LowercasePattern { parameter, .. }
        | E::ReplaceSubstring { parameter, .. } => parameter,
        E::VariableNames { .. } | E::MemberKeys { .. } => return None,
    };
    match parameter {
        Parameter::NamedWithIndex { index, .. } => Some(index),
        Parameter::Positional(_)
        | Parameter::Special(_)
        | Parameter::Named(_)
        | Parameter::NamedWithAllIndices { .. } => None,
    }
}
