//! Name resolution: every name is defined, and used as what it is.

use std::collections::BTreeMap;

use kit::nearest::nearest;

use super::{
    builtins::{self, Builtin, FUNCTIONS, MODULES},
    libraries::{Definitions, Signature},
    report::Report,
    tree::{Argument, Call, Expression, Name, Parameter, Statement},
};

/// Checks every name in the statements of a file.
pub(super) fn check<'a>(statements: &'a [Statement<'a>], outside: &Definitions, report: &mut Report<'_>) {
    let is_design = statements.iter().any(|it| matches!(it, Statement::Call(_) | Statement::If(_)));
    let includes = statements.iter().any(|it| matches!(it, Statement::Include(_)));
    let mut checker = Checker { scopes: Vec::new(), outside, report };
    // A variable of a file of modules may be meant for files that include it, and one beside an include for
    // the included file.
    let unused = if is_design && !includes { Unused::Reported } else { Unused::Fine };
    checker.within(Scope::default(), unused, statements);
}

/// The names of one scope.
#[derive(Default)]
struct Scope<'a> {
    variables: BTreeMap<&'a str, Variable>,
    modules: BTreeMap<&'a str, (usize, Option<Signature>)>,
    functions: BTreeMap<&'a str, (usize, Option<Signature>)>,
}

struct Variable {
    at: usize,
    used: bool,
    unused: Unused,
}

/// The treatment of an unused variable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unused {
    Reported,
    Fine,
}

struct Checker<'a, 'o, 'r, 's> {
    scopes: Vec<Scope<'a>>,
    outside: &'o Definitions,
    report: &'r mut Report<'s>,
}

impl<'a> Checker<'a, '_, '_, '_> {
    /// Checks statements that have a scope of their own.
    fn within(&mut self, mut scope: Scope<'a>, unused: Unused, statements: &'a [Statement<'a>]) {
        self.collect(statements, unused, &mut scope);
        self.scopes.push(scope);
        self.statements(statements);
        self.close();
    }

    fn close(&mut self) {
        let Some(scope) = self.scopes.pop() else { return };
        for (name, variable) in scope.variables {
            if !variable.used && variable.unused == Unused::Reported && !name.starts_with(['$', '_']) {
                self.report.warning(variable.at, format!("`{name}` is never used"));
            }
        }
    }

    /// Collects the definitions of these statements, which are visible in all of them.
    fn collect(&mut self, statements: &'a [Statement<'a>], unused: Unused, scope: &mut Scope<'a>) {
        for statement in statements {
            match statement {
                Statement::Assign { name, .. } => {
                    if let Some(first) = scope.variables.get(name.text) {
                        let place = self.report.place(first.at);
                        let what = format!(
                            "`{}` is assigned a second time (first at {place}): OpenSCAD uses the last value everywhere",
                            name.text
                        );
                        self.report.warning(name.at, what);
                        continue;
                    }
                    scope.variables.insert(name.text, Variable { at: name.at, used: false, unused });
                }
                Statement::Module { name, parameters, body } => {
                    let signature = Signature::of(parameters, Some(body));
                    self.define(&mut scope.modules, "module", *name, signature);
                }
                Statement::Function { name, parameters, .. } => {
                    self.define(&mut scope.functions, "function", *name, Signature::of(parameters, None));
                }
                Statement::Block(inner) => self.collect(inner, unused, scope),
                _ => {}
            }
        }
    }

    fn define(
        &mut self,
        into: &mut BTreeMap<&'a str, (usize, Option<Signature>)>,
        what: &str,
        name: Name<'a>,
        signature: Signature,
    ) {
        if let Some((first, _)) = into.get(name.text) {
            let place = self.report.place(*first);
            let what = format!(
                "{what} `{}` is defined a second time (first at {place}): OpenSCAD uses the last",
                name.text
            );
            self.report.warning(name.at, what);
        }
        into.insert(name.text, (name.at, Some(signature)));
    }

    fn statements(&mut self, statements: &'a [Statement<'a>]) {
        for statement in statements {
            match statement {
                Statement::Nothing | Statement::Use(_) | Statement::Include(_) => {}
                Statement::Assign { value, .. } => self.value(value),
                Statement::Module { parameters, body, .. } => {
                    let scope = self.of_parameters(parameters);
                    self.scopes.push(scope);
                    self.within(Scope::default(), Unused::Reported, std::slice::from_ref(&**body));
                    self.close();
                }
                Statement::Function { parameters, body, .. } => self.function(parameters, body),
                Statement::Call(call) => self.call(call),
                Statement::If(branches) => {
                    for (condition, body) in branches {
                        if let Some(condition) = condition {
                            self.value(condition);
                        }
                        self.within(Scope::default(), Unused::Reported, std::slice::from_ref(body));
                    }
                }
                Statement::Block(inner) => self.statements(inner),
            }
        }
    }

    fn of_parameters(&mut self, parameters: &'a [Parameter<'a>]) -> Scope<'a> {
        let mut scope = Scope::default();
        for parameter in parameters {
            if let Some(default) = &parameter.default {
                self.value(default);
            }
            // An unused parameter may exist for its callers.
            let variable = Variable { at: parameter.name.at, used: false, unused: Unused::Fine };
            if scope.variables.insert(parameter.name.text, variable).is_some() {
                let what = format!("there are two parameters `{}`", parameter.name.text);
                self.report.error(parameter.name.at, what);
            }
        }
        scope
    }

    fn function(&mut self, parameters: &'a [Parameter<'a>], body: &'a Expression<'a>) {
        let scope = self.of_parameters(parameters);
        self.scopes.push(scope);
        self.value(body);
        self.close();
    }

    fn call(&mut self, call: &'a Call<'a>) {
        let child = std::slice::from_ref(&*call.child);
        if matches!(call.name.text, "for" | "intersection_for" | "let" | "assign") {
            let unused = if call.name.text == "let" { Unused::Reported } else { Unused::Fine };
            self.bound(&call.arguments, unused, |it| it.within(Scope::default(), Unused::Reported, child));
            return;
        }
        self.values(&call.arguments);
        self.module(call);
        self.within(Scope::default(), Unused::Reported, child);
    }

    /// Checks bindings, and the code in their scope.
    fn bound(&mut self, bindings: &'a [Argument<'a>], unused: Unused, inner: impl FnOnce(&mut Self)) {
        self.scopes.push(Scope::default());
        for binding in bindings {
            self.value(&binding.value);
            if let (Some(name), Some(scope)) = (binding.name, self.scopes.last_mut()) {
                // A second binding hides the first, but may use it.
                scope.variables.entry(name.text).or_insert(Variable { at: name.at, used: false, unused });
            }
        }
        inner(self);
        self.close();
    }

    fn values(&mut self, arguments: &'a [Argument<'a>]) {
        for argument in arguments {
            self.value(&argument.value);
        }
    }

    fn value(&mut self, value: &'a Expression<'a>) {
        match value {
            Expression::Name(name) => self.variable(*name),
            Expression::Call { callee, arguments } => {
                self.values(arguments);
                match &**callee {
                    Expression::Name(name) => self.called(*name, arguments),
                    other => self.value(other),
                }
            }
            Expression::Let { bindings, body } => self.bound(bindings, Unused::Reported, |it| it.value(body)),
            Expression::For { bindings, next, body } => self.bound(bindings, Unused::Fine, |it| {
                if let Some((until, then)) = next {
                    it.value(until);
                    it.bound(then, Unused::Fine, |it| it.value(body));
                } else {
                    it.value(body);
                }
            }),
            Expression::Function { parameters, body } => self.function(parameters, body),
            Expression::Said { arguments, body } => {
                self.values(arguments);
                if let Some(body) = body {
                    self.value(body);
                }
            }
            Expression::Parts(parts) => {
                for part in parts {
                    self.value(part);
                }
            }
        }
    }

    /// Marks a variable as used in every scope; returns whether it is defined.
    fn uses(&mut self, name: &str) -> bool {
        let mut known = false;
        // An inner one may use the outer one of the same name.
        for variable in self.scopes.iter_mut().filter_map(|it| it.variables.get_mut(name)) {
            variable.used = true;
            known = true;
        }
        known || self.outside.variables.contains(name)
    }

    fn variable(&mut self, name: Name<'a>) {
        if self.uses(name.text) || name.text.starts_with('$') || name.text == "PI" {
            return;
        }
        if self.outside.may_lack_variables {
            return;
        }
        let known = self.scopes.iter().flat_map(|it| it.variables.keys().copied());
        let near = nearest(name.text, known.chain(self.outside.variables.iter().map(String::as_str)));
        let what = match near {
            Some(near) => format!("unknown variable `{}`; did you mean `{near}`?", name.text),
            None if self.is_function(name.text) => {
                format!("`{0}` is a function: call it, as `{0}(…)`", name.text)
            }
            None => format!("unknown variable `{}`: its value is undef", name.text),
        };
        self.report.warning(name.at, what);
    }

    fn is_function(&self, name: &str) -> bool {
        builtins::function(name).is_some()
            || self.outside.functions.contains_key(name)
            || self.scopes.iter().any(|it| it.functions.contains_key(name))
    }

    fn is_module(&self, name: &str) -> bool {
        builtins::module(name).is_some()
            || self.outside.modules.contains_key(name)
            || self.scopes.iter().any(|it| it.modules.contains_key(name))
    }

    /// Checks a call of a named function.
    fn called(&mut self, name: Name<'a>, arguments: &'a [Argument<'a>]) {
        if self.uses(name.text) || name.text.starts_with('$') {
            // The variable may hold any function.
            return;
        }
        let own = self.scopes.iter().rev().find_map(|it| it.functions.get(name.text)).map(|it| it.1.clone());
        if let Some(signature) = own.or_else(|| self.outside.functions.get(name.text).cloned()) {
            if let Some(signature) = signature {
                self.arguments(name, &signature, arguments);
            }
            return;
        }
        if let Some((fewest, most)) = builtins::function(name.text) {
            let count = arguments.len();
            if !self.outside.may_lack_modules && !(fewest..=most).contains(&count) {
                let takes = match (fewest, most) {
                    (1, 1) => "1 argument".to_owned(),
                    (fewest, usize::MAX) => format!("{fewest} or more arguments"),
                    (fewest, most) if fewest == most => format!("{fewest} arguments"),
                    (fewest, most) => format!("{fewest} to {most} arguments"),
                };
                self.report.error(name.at, format!("`{}` takes {takes}, not {count}", name.text));
            }
            return;
        }
        if self.outside.may_lack_modules || self.outside.may_lack_variables {
            return;
        }
        let known = FUNCTIONS.iter().map(|it| it.0);
        let own = self.scopes.iter().flat_map(|it| it.functions.keys().copied());
        let near =
            nearest(name.text, known.chain(own).chain(self.outside.functions.keys().map(String::as_str)));
        self.unknown(name, "function", near, self.is_module(name.text).then_some("a module"));
    }

    fn unknown(&mut self, name: Name<'a>, what: &str, near: Option<String>, is: Option<&str>) {
        let text = name.text;
        let what = match (is, near) {
            (Some(is), _) => format!("`{text}` is {is}, not a {what}"),
            (None, Some(near)) => format!("unknown {what} `{text}`; did you mean `{near}`?"),
            (None, None) => format!("unknown {what} `{text}`"),
        };
        self.report.error(name.at, what);
    }

    /// Checks a use of a module.
    fn module(&mut self, call: &'a Call<'a>) {
        let name = call.name;
        let own = self.scopes.iter().rev().find_map(|it| it.modules.get(name.text)).map(|it| it.1.clone());
        if let Some(signature) = own.or_else(|| self.outside.modules.get(name.text).cloned()) {
            if let Some(signature) = signature {
                self.arguments(name, &signature, &call.arguments);
                if !signature.children {
                    self.wasted(call);
                }
            }
            return;
        }
        if let Some(builtin) = builtins::module(name.text) {
            self.builtin(builtin, call);
            return;
        }
        if self.outside.may_lack_modules {
            return;
        }
        let known = MODULES.iter().map(|it| it.name);
        let own = self.scopes.iter().flat_map(|it| it.modules.keys().copied());
        let near =
            nearest(name.text, known.chain(own).chain(self.outside.modules.keys().map(String::as_str)));
        self.unknown(name, "module", near, self.is_function(name.text).then_some("a function"));
    }

    fn builtin(&mut self, builtin: &Builtin, call: &'a Call<'a>) {
        // A library may have replaced this one.
        if self.outside.may_lack_modules {
            return;
        }
        if !builtin.children {
            self.wasted(call);
        }
        if builtin.most() == usize::MAX {
            return;
        }
        let names = || builtin.placed.iter().chain(builtin.named).copied();
        self.named(call.name, &call.arguments, &mut names());
        let placed = call.arguments.iter().filter(|it| it.name.is_none()).count();
        if placed > builtin.most() {
            self.too_many(call.name, &call.arguments, builtin.most());
        }
    }

    fn arguments(&mut self, name: Name<'a>, signature: &Signature, arguments: &'a [Argument<'a>]) {
        let mut names = signature.parameters.iter().map(String::as_str);
        self.named(name, arguments, &mut names);
        let placed = arguments.iter().filter(|it| it.name.is_none()).count();
        let most = signature.parameters.len();
        if placed > most {
            self.too_many(name, arguments, most);
        }
    }

    fn too_many(&mut self, name: Name<'a>, arguments: &'a [Argument<'a>], most: usize) {
        let at = arguments.iter().filter(|it| it.name.is_none()).nth(most).map_or(name.at, |it| it.at);
        let takes = match most {
            0 => "no arguments".to_owned(),
            1 => "1 argument".to_owned(),
            most => format!("{most} arguments"),
        };
        self.report.error(at, format!("`{}` takes {takes}; this one is ignored", name.text));
    }

    /// Reports arguments whose names don't exist.
    fn named<'n>(
        &mut self,
        name: Name<'a>,
        arguments: &'a [Argument<'a>],
        known: &mut dyn Iterator<Item = &'n str>,
    ) {
        let known: Vec<&str> = known.collect();
        for given in arguments.iter().filter_map(|it| it.name) {
            if given.text.starts_with('$') || known.contains(&given.text) {
                continue;
            }
            let near = nearest(given.text, known.iter().copied());
            // A misspelling loses a value; `sphere(1, center = true)` only repeats a default.
            let is_slip = near.is_some();
            let what = match near {
                Some(near) => {
                    format!("`{}` has no argument `{}`; did you mean `{near}`?", name.text, given.text)
                }
                None if known.is_empty() => format!("`{}` has no argument `{}`", name.text, given.text),
                None => {
                    format!("`{}` has no argument `{}`; it has {}", name.text, given.text, known.join(", "))
                }
            };
            if is_slip {
                self.report.error(given.at, what);
            } else {
                self.report.warning(given.at, what);
            }
        }
    }

    /// Reports children of a module that ignores them: mostly a semicolon is missing.
    fn wasted(&mut self, call: &Call<'_>) {
        let what = match &*call.child {
            Statement::Nothing => return,
            Statement::Block(inner) if inner.is_empty() => return,
            Statement::Call(next) => format!("`{}`", next.name.text),
            _ => "what follows".to_owned(),
        };
        let name = call.name.text;
        self.report
            .warning(call.end, format!("`{name}` does nothing with {what} behind it: is `;` missing here?"));
    }
}
