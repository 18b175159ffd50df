//! Every bound of a GraphQL request, named, with its reason.

/// Longest query text in bytes. The longest query known is an introspection of 2 KB; variables are not counted.
pub const QUERY_BYTES_MAX: usize = 32 * 1024;

/// Most words, numbers and signs of a query text. Ten times an introspection.
pub const QUERY_TOKENS_MAX: usize = 4_096;

/// How deep brackets of a query text may be nested. The parser calls itself for each, and its stack is finite.
pub const QUERY_NESTING_MAX: usize = 32;

/// Brackets a query text may open at all, those in comments and texts included. The parser has the stack for as many inside each
/// other, so that it cannot run out of it, whatever it reads differently. As many as the allowed words of a query of 300 machines.
pub const QUERY_BRACKETS_MAX: usize = 1_024;

/// Most selections after every fragment is put where it is used. Fragments that use each other twice double with each step.
pub const SELECTIONS_MAX: usize = 1_000;

/// How deep fields may be selected. The deepest of ours has five, an introspection up to fourteen.
pub const DEPTH_MAX: usize = 16;

/// Directives on one field. There are two.
pub const DIRECTIVES_MAX: usize = 4;

/// What a request may cost, in the units of those below. Four complete searches fit, as does every introspection.
pub const COMPLEXITY_MAX: usize = 1_000;

/// What a search costs before anything is selected: it may look at every machine.
pub const SEARCH_COMPLEXITY: usize = 100;

/// Values of conditions that cost as much as one field: looking a value up is cheap, ten thousand of them are a search of their own.
pub const VALUES_PER_COMPLEXITY: usize = 100;

/// What a field costs within a search, because it is written once per machine.
pub const SEARCHED_FIELD_COMPLEXITY: usize = 4;

/// What a change of state costs: a transaction.
pub const CHANGE_COMPLEXITY: usize = 10;

/// Most errors of one answer. The first few are those that help.
pub const ERRORS_MAX: usize = 20;

/// Longest message of an error. Some repeat what the caller wrote.
pub const MESSAGE_BYTES_MAX: usize = 1_024;

/// Longest name in the path or the extensions of an error; a serial fits.
pub const NAME_BYTES_MAX: usize = 256;

/// Longest value repeated in the message of an error.
pub const VALUE_BYTES_MAX: usize = 64;

/// Machines written at once while an answer is sent: some tens of kilobytes.
pub const MACHINES_PER_CHUNK: usize = 64;
