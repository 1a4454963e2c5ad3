//! The macros that define the table of keys.

/// Defines the configuration, its keys, and the functions `setting` and `rule` of its rows. Brackets before a row have its field, if it has one:
/// name, type and default.
macro_rules! table {
    ($([$($field:ident: $type:ty = $default:expr)?] $key:expr;)*) => {
        /// The configuration of a session.
        #[derive(Clone, Debug)]
        pub(crate) struct Config {
            $($(pub(crate) $field: Sourced<$type>,)?)*
            pub(crate) toolchains: Sourced<Toolchains>,
            pub(crate) admit: Admissions,
            pub(crate) kinds: Kinds,
            pub(crate) variables: Variables,
            pub(crate) names: ConfiguredRules,
            pub(crate) agents: Agents,
            pub(crate) keys: Keys,
            /// Rules on arguments.
            pub(crate) argument_rules: ArgumentRules,
            /// Rules for an agent's permission requests.
            pub(crate) permissions: PermissionRules<Source>,
        }

        impl Config {
            /// Returns the built-in configuration.
            pub(crate) fn builtin() -> Self {
                Config {
                    $($($field: Sourced::builtin($default),)?)*
                    toolchains: Sourced::builtin(Toolchains::of(Vec::new())),
                    admit: Admissions::new(),
                    kinds: Kinds::builtin(),
                    variables: Variables::builtin(),
                    names: ConfiguredRules::default(),
                    agents: Agents::default(),
                    keys: Keys::default(),
                    argument_rules: ArgumentRules::default(),
                    permissions: PermissionRules::new(WithSource {
                        value: DefaultVerdict::Ask,
                        source: Source::BuiltIn,
                    }),
                }
            }
        }

        /// All keys, in the order of `config show`.
        pub(crate) static KEYS: &[&dyn Key<Config>] = &[$(&$key,)*];

        const fn setting<T>(
            key: &'static str,
            at: At<Config, T>,
            format: Format<T>,
            effect: &'static str,
        ) -> Row<Setting<Config, T>> {
            Row::setting(key, at, format, effect)
        }

        const fn rule(
            key: &'static str,
            apply: Apply<Config>,
            workspace: Result<Apply<Config>, &'static str>,
        ) -> Row<Rule<Config>> {
            Row::rule(key, apply, workspace)
        }
    };
}

/// The place of a field.
macro_rules! at {
    ($field:ident) => {
        (|config| &config.$field, |config| &mut config.$field)
    };
}

pub(crate) use {at, table};
