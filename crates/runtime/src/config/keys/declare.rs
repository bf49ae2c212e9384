//! `section!`: the declaration of a section of haft.toml, in one place for each key.
//!
//! It generates the struct that serde reads, the merge of two layers, the clamping of numbers, and the
//! [`Section`] that `haft config` and the reference show. A field without a declaration, a declaration
//! without a field, and a key without a merge do not compile.
//!
//! [`Section`]: super::Section

/// Declares a section: the struct, and under one or more headers the keys that are its fields.
///
/// A key has a doc comment, a name, a Rust type, and in this order: `words` (its type in words, where the
/// Rust type does not say it), `unit`, `range` (numbers beyond it are clamped), `option` (the command-line
/// option that sets it), `example`, `default`, `workspace` (the effect of a workspace's value) and `merge`.
/// `tables` lists the sections inside, each with its own declaration.
///
/// `merged by_key`: each key and each table has a `merge`. `merged whole`: the table that has this section merges it.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        #[derive($($derive:ident),*)]
        $(#[serde($($container:tt)*)])?
        pub struct $Struct:ident, merged $kind:ident {
            $(
                $(#[doc = $text:literal])*
                $header:literal {
                    $(
                        $(#[doc = $doc:literal])+
                        $(#[serde($($serde:tt)*)])?
                        $field:ident: $ty:ty { $($body:tt)* }
                    )*
                }
            )+
            $(tables {
                $(
                    $(#[doc = $table_doc:literal])+
                    $(#[serde($($table_serde:tt)*)])?
                    $table:ident: $table_ty:ty as $Inner:ty $(= $table_merge:expr)?;
                )*
            })?
            $(beside $Beside:ty;)?
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, $($derive),*)]
        #[serde(deny_unknown_fields)]
        $(#[serde($($container)*)])?
        pub struct $Struct {
            $($(
                $(#[doc = $doc])+
                $(#[serde($($serde)*)])?
                pub $field: $ty,
            )*)+
            $($(
                $(#[doc = $table_doc])+
                $(#[serde($($table_serde)*)])?
                pub $table: $table_ty,
            )*)?
        }

        impl $crate::config::keys::Declared for $Struct {
            fn sections() -> Vec<&'static $crate::config::keys::Section> {
                const OWN: &[$crate::config::keys::Section] = &[$(
                    $crate::config::keys::Section {
                        header: $header,
                        doc: concat!($($text),*).trim_ascii_start(),
                        by_key: section!(@by_key $kind),
                        keys: &[$(
                            section!(@key stringify!($field), $ty, [$($doc)+] $($body)*),
                        )*],
                    },
                )+];
                let parts: Vec<Vec<&'static $crate::config::keys::Section>> = vec![
                    OWN.iter().collect(),
                    $($(<$Inner as $crate::config::keys::Declared>::sections(),)*)?
                    $(<$Beside as $crate::config::keys::Declared>::sections(),)?
                ];
                parts.concat()
            }
        }

        impl $crate::config::keys::Bounded for $Struct {
            fn bound(&mut self) {
                $($(section!(@bound self.$field, $($body)*);)*)+
                $($($crate::config::keys::Bounded::bound(&mut self.$table);)*)?
            }
        }

        section!(@merge $kind $Struct
            [$($($field: $ty = $header { $($body)* })*)+]
            [$($($table: $Inner $(= $table_merge)?;)*)?]
        );
    };

    (@by_key by_key) => { true };
    (@by_key whole) => { false };

    (@key $name:expr, $ty:ty, [$($doc:literal)+]
        $(words: $words:expr,)? $(unit: $unit:literal,)? $(range: $range:expr,)? $(option: $option:literal,)?
        example: $example:literal, default: $default:expr, workspace: $workspace:ident, $(merge: $merge:expr,)?
    ) => {
        $crate::config::keys::Key {
            name: $crate::config::keys::plain($name),
            doc: concat!($($doc),+).trim_ascii_start(),
            kind: section!(@or [$($words)?] <$ty as $crate::config::keys::types::Typed>::TYPE),
            unit: section!(@option $($unit)?),
            range: section!(@option $($range)?),
            option: section!(@option $($option)?),
            example: $example,
            default: $default,
            workspace: $crate::config::keys::Workspace::$workspace,
        }
    };

    (@or [$given:expr] $otherwise:expr) => { $given };
    (@or [] $otherwise:expr) => { $otherwise };
    (@option $given:expr) => { Some($given) };
    (@option) => { None };

    (@bound $place:expr, $(words: $words:expr,)? $(unit: $unit:literal,)? range: $range:expr, $($rest:tt)*) => {
        $crate::config::keys::clamp(&mut $place, $range)
    };
    (@bound $place:expr, $($rest:tt)*) => {};

    (@merge whole $Struct:ident [$($field:ident: $ty:ty = $header:literal { $($body:tt)* })*] $tables:tt) => {
        $(section!(@whole $($body)*);)*
    };
    // A merge of a key would not be used here, so it is refused.
    (@whole
        $(words: $words:expr,)? $(unit: $unit:literal,)? $(range: $range:expr,)? $(option: $option:literal,)?
        example: $example:literal, default: $default:expr, workspace: $workspace:ident,
    ) => {};
    (@merge by_key $Struct:ident
        [$($field:ident: $ty:ty = $header:literal { $($body:tt)* })*]
        [$($table:ident: $Inner:ty = $table_merge:expr;)*]
    ) => {
        impl $Struct {
            /// Merges another layer into this one, key by key.
            pub(in crate::config) fn merge(
                mine: &mut Self,
                theirs: Self,
                gate: &mut $crate::config::keys::merging::Gate,
            ) {
                $(
                    gate.label = $crate::config::keys::label_of($header, stringify!($field));
                    section!(@merged $ty, &mut mine.$field, theirs.$field, gate, $($body)*);
                )*
                $(
                    gate.label = <$Inner as $crate::config::keys::Declared>::label();
                    $crate::config::keys::merging::apply($table_merge, &mut mine.$table, theirs.$table, gate);
                )*
                $crate::config::keys::Bounded::bound(mine);
            }
        }
    };

    (@merged $ty:ty, $mine:expr, $theirs:expr, $gate:expr,
        $(words: $words:expr,)? $(unit: $unit:literal,)? $(range: $range:expr,)? $(option: $option:literal,)?
        example: $example:literal, default: $default:expr, workspace: $workspace:ident, merge: $merge:expr,
    ) => {
        $crate::config::keys::merging::apply::<$ty>($merge, $mine, $theirs, $gate)
    };
}

pub(in crate::config) use section;
