//! Tables of test cases. Their rows are in braces, so that rustfmt leaves each case on its line.

/// Makes an array of tuples. Each row ends with a semicolon.
///
/// ```
/// for (text, length) in sortie_testkit::rows! {
///     "", 0;
///     "a", 1;
/// } {
///     assert_eq!(text.len(), length);
/// }
/// ```
#[macro_export]
macro_rules! rows {
    ($($($cell:expr),+;)+) => { [$(($($cell),+)),+] };
}

/// Makes an array of short values, several on a line.
///
/// ```
/// assert_eq!(sortie_testkit::list! { 1, 2, 3 }, [1, 2, 3]);
/// ```
#[macro_export]
macro_rules! list {
    ($($value:expr),+ $(,)?) => { [$($value),+] };
}
