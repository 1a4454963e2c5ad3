//! The macros that define the table of keys.

/// Defines the configuration, its keys, and the functions `setting` and `rule` of its rows. Brackets before a row have its field, if it has one:
/// name, type and default.
macro_rules! table {
    ($([$($field:ident: $type:ty = $default:expr)?] $key:expr;)*) => {
        /// A session configuration.
        #[derive(Clone, Debug)]
        pub struct Config {
            $($(
                /// The value of the key of this name.
                pub $field: Sourced<$type>,
            )?)*
            /// The toolchains.
            pub toolchains: Sourced<Toolchains>,
            /// What tools in containers get from this machine.
            pub admit: Admissions,
            /// Changes to the table of kinds.
            pub kinds: Kinds,
            /// The variables that pass to tools.
            pub variables: Variables,
            /// The rules of the network by name.
            pub names: ConfiguredRules,
            /// Changes to the table of agents.
            pub agents: Agents,
            /// The sources of model keys, and of the credentials of forges.
            pub services: Services,
            /// Rules on calls, and on the requests of agents.
            pub argument_rules: ArgumentRules,
        }

        impl Config {
            /// Returns the built-in configuration.
            pub fn builtin() -> Self {
                Config {
                    $($($field: Sourced::builtin($default),)?)*
                    toolchains: Sourced::builtin(Toolchains::default()),
                    admit: Admissions::new(),
                    kinds: Kinds::builtin(),
                    variables: Variables::builtin(),
                    names: ConfiguredRules::default(),
                    agents: Agents::default(),
                    services: Services::default(),
                    argument_rules: ArgumentRules::default(),
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
