//! OpenSCAD syntax tree, as far as names go.

/// A name, and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

/// Something that is done.
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
    /// Each condition with what is done then; without one, what is done else.
    If(Vec<(Option<Expression<'a>>, Self)>),
    Block(Vec<Self>),
    Use(Name<'a>),
    Include(Name<'a>),
}

/// A module that is used, and what it is used on.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) name: Name<'a>,
    pub(super) arguments: Vec<Argument<'a>>,
    pub(super) child: Box<Statement<'a>>,
    /// Where its closing parenthesis ends.
    pub(super) end: usize,
}

/// Something that has a value.
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
    /// Anything else, as its parts.
    Parts(Vec<Self>),
}

/// What a module or a function takes.
#[derive(Debug)]
pub(super) struct Parameter<'a> {
    pub(super) name: Name<'a>,
    pub(super) default: Option<Expression<'a>>,
}

/// What it is given.
#[derive(Debug)]
pub(super) struct Argument<'a> {
    pub(super) name: Option<Name<'a>>,
    pub(super) at: usize,
    pub(super) value: Expression<'a>,
}
