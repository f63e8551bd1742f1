//! The rules of the library, and violations: file, line, rule, hint.

use std::fmt;
use std::path::PathBuf;

/// A rule for files of the library, built-in or the user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LibraryRule {
    /// Files are readable text, and not too large or too many.
    File,
    /// The file begins with a comment.
    Header,
    /// A view's file has the layout from which its documentation is read.
    Shape,
    /// Each column has a comment above it.
    ColumnComment,
    /// Names match files, and need no quotes in SQL.
    Name,
    /// A file holds one statement: a view or a query.
    Statement,
    /// Views never sort and never limit.
    Sorting,
    /// A name is free: nothing can be replaced.
    Taken,
    /// Each parameter of a query is described.
    Parameter,
    /// The engine can plan it.
    Plan,
}

impl LibraryRule {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Header => "header",
            Self::Shape => "shape",
            Self::ColumnComment => "column-comment",
            Self::Name => "name",
            Self::Statement => "statement",
            Self::Sorting => "sorting",
            Self::Taken => "taken",
            Self::Parameter => "parameter",
            Self::Plan => "plan",
        }
    }

    /// Recommended action for a file that breaks it.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::File => "a library is a folder of .sql files, each of UTF-8 text",
            Self::Header => {
                "begin the file with a description, such as `-- One launch with its cost.`, or with the question of a query"
            }
            Self::Shape => {
                "a view is written `CREATE VIEW name (`, a comment and a name on separate lines for each column, `) AS`, a query"
            }
            Self::ColumnComment => "write a comment with its meaning above the column",
            Self::Name => {
                "name the file after the view, in lower-case letters, digits and _, beginning with a letter"
            }
            Self::Statement => "one file holds one CREATE VIEW, or one SELECT, which is a saved query",
            Self::Sorting => "sort and limit in a query that reads the view: a file with a plain SELECT",
            Self::Taken => "choose another name: a library cannot replace names",
            Self::Parameter => {
                "describe it in the comment: `-- $name: description`, or `-- $name = 10: description`"
            }
            Self::Plan => "use `.tables`, `.views` and `.doc NAME` in the shell to find names",
        }
    }
}

/// An error in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFlaw {
    /// The line, from 1.
    pub line: usize,
    /// The rule that is broken.
    pub rule: LibraryRule,
    /// Explanation.
    pub message: String,
}

impl TextFlaw {
    /// A flaw at a line.
    pub fn new(line: usize, rule: LibraryRule, message: impl Into<String>) -> Self {
        Self { line, rule, message: message.into() }
    }

    /// The same in a file.
    pub(super) fn within(self, path: impl Into<PathBuf>) -> LibraryFault {
        LibraryFault { path: path.into(), flaw: self }
    }
}

/// An error in a file of a user's library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryFault {
    /// The file.
    pub path: PathBuf,
    /// Cause of the error.
    pub flaw: TextFlaw,
}

impl fmt::Display for LibraryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TextFlaw { line, rule, message } = &self.flaw;
        write!(f, "{}:{line}: {message} (rule `{}`)", self.path.display(), rule.name())
    }
}
