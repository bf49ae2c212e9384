//! OpenSCAD syntax tree, as far as names need it.

/// A name, and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

/// A statement.
#[derive(Debug)]
pub(super) enum Statement<'a> {
    Nothing,
    Assign {
        name: Name<'a>,
        value: Expression<'a>,
    },
    Module {
        name: Name<'a>,
        parameters: Vec<Parameter<'a>>,
        body: Box<Self>,
    },
    Function {
        name: Name<'a>,
        parameters: Vec<Parameter<'a>>,
        body: Expression<'a>,
    },
    Call(Call<'a>),
    /// Each condition with its statement; the last one may be an `else` without a condition.
    If(Vec<(Option<Expression<'a>>, Self)>),
    Block(Vec<Self>),
    Use(Name<'a>),
    Include(Name<'a>),
}

/// A use of a module, with its child.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) name: Name<'a>,
    pub(super) arguments: Vec<Argument<'a>>,
    pub(super) child: Box<Statement<'a>>,
    /// The offset after its closing parenthesis.
    pub(super) end: usize,
}

/// An expression.
#[derive(Debug)]
pub(super) enum Expression<'a> {
    Name(Name<'a>),
    Call {
        callee: Box<Self>,
        arguments: Vec<Argument<'a>>,
    },
    Let {
        bindings: Vec<Argument<'a>>,
        body: Box<Self>,
    },
    For {
        bindings: Vec<Argument<'a>>,
        next: Option<(Box<Self>, Vec<Argument<'a>>)>,
        body: Box<Self>,
    },
    Function {
        parameters: Vec<Parameter<'a>>,
        body: Box<Self>,
    },
    /// `echo` and `assert`.
    Said {
        arguments: Vec<Argument<'a>>,
        body: Option<Box<Self>>,
    },
    /// Any other expression, as its parts.
    Parts(Vec<Self>),
}

/// A parameter of a module or function.
#[derive(Debug)]
pub(super) struct Parameter<'a> {
    pub(super) name: Name<'a>,
    pub(super) default: Option<Expression<'a>>,
}

/// An argument of a call.
#[derive(Debug)]
pub(super) struct Argument<'a> {
    pub(super) name: Option<Name<'a>>,
    pub(super) at: usize,
    pub(super) value: Expression<'a>,
}
