//! Types of values, with their names for a person.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use serde::de::{DeserializeOwned, Deserializer, Visitor, value::Error};

/// The type of a key's value.
#[derive(Debug, Clone, Copy)]
pub enum Type {
    /// Text.
    String,
    /// One character.
    Character,
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Whole,
    /// A path of a file or a folder.
    Path,
    /// One of a few words.
    OneOf(fn() -> &'static [&'static str]),
    /// A list.
    List(&'static Self),
    /// A table in which a person chooses the names.
    Table(&'static Self),
    /// A table of numbers with these names.
    Numbers(fn() -> &'static [&'static str]),
    /// A type without a simple name, in words.
    Words(&'static str),
}

/// A type that a key can have.
pub(in crate::config) trait Typed {
    /// Its name.
    const TYPE: Type;
}

impl Type {
    fn plural(&self) -> String {
        match self {
            Self::String => "strings".to_owned(),
            Self::Path => "paths".to_owned(),
            other => format!("values, each {other}"),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String => f.write_str("string"),
            Self::Character => f.write_str("one character"),
            Self::Boolean => f.write_str("true or false"),
            Self::Whole => f.write_str("whole number"),
            Self::Path => f.write_str("path"),
            Self::OneOf(names) => {
                let names: Vec<String> = names().iter().map(|it| format!("{it:?}")).collect();
                write!(f, "one of {}", names.join(", "))
            }
            Self::List(of) => write!(f, "list of {}", of.plural()),
            Self::Table(of) => write!(f, "table of {}", of.plural()),
            Self::Numbers(names) => write!(f, "table of numbers: {}", names().join(", ")),
            Self::Words(words) => f.write_str(words),
        }
    }
}

/// Declares the types of Rust types.
macro_rules! typed {
    ($($type:ty => $name:expr;)+) => {
        $(impl Typed for $type {
            const TYPE: Type = $name;
        })+
    };
}

typed! {
    String => Type::String;
    char => Type::Character;
    bool => Type::Boolean;
    u16 => Type::Whole;
    u64 => Type::Whole;
    usize => Type::Whole;
    PathBuf => Type::Path;
}

impl<T: Typed> Typed for Option<T> {
    const TYPE: Type = T::TYPE;
}

impl<T: Typed> Typed for Vec<T> {
    const TYPE: Type = Type::List(&T::TYPE);
}

impl<T: Typed> Typed for BTreeMap<String, T> {
    const TYPE: Type = Type::Table(&T::TYPE);
}

/// Declares types whose values are one of a few words, and tables of numbers: serde knows the names.
macro_rules! named {
    ($kind:ident: $($type:ty),+) => {
        $(impl $crate::config::keys::types::Typed for $type {
            const TYPE: $crate::config::keys::types::Type = $crate::config::keys::types::Type::$kind(
                $crate::config::keys::types::names::<$type>,
            );
        })+
    };
}

pub(in crate::config) use named;

named!(OneOf: policy::Approve, policy::Web, policy::commands::Then, sandbox::SandboxMode);

/// Returns the names that an enum or a struct has in a file.
pub(in crate::config) fn names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // This reads nothing: serde passes the names, and gets an error as there is no value.
    let _ = T::deserialize(Names(&mut names));
    names
}

/// Input without a value, which records the requested names.
struct Names<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = Error;

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = variants;
        self.nothing()
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        self.nothing()
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        self.nothing()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map identifier ignored_any
    }
}

impl Names<'_> {
    fn nothing<T>(self) -> Result<T, Error> {
        Err(serde::de::Error::custom("no value"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PriceSection;

    #[test]
    fn types_are_named_in_the_words_of_a_file() {
        for (given, words) in [
            (Option::<Vec<String>>::TYPE, "list of strings"),
            (Vec::<PathBuf>::TYPE, "list of paths"),
            (BTreeMap::<String, String>::TYPE, "table of strings"),
            (policy::Approve::TYPE, "one of \"ask\", \"ask-edits\", \"auto\", \"never\""),
            (sandbox::SandboxMode::TYPE, "one of \"read-only\", \"workspace\", \"full\""),
            (PriceSection::TYPE, "table of numbers: input, cached, kept, output"),
        ] {
            assert_eq!(given.to_string(), words);
        }
    }
}
