//! Properties of the server, which drivers ask for.

use arrow_flight::error::FlightError;
use arrow_flight::sql::metadata::{SqlInfoData, SqlInfoDataBuilder};
use arrow_flight::sql::{SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity, SqlSupportedTransaction};

/// The newest version of Arrow's format that answers use.
const FORMAT: &str = "1.5";
/// Time after which the server forgets a prepared statement: never, for it remembers none.
const NEVER: i32 = 0;

/// The properties.
pub(crate) fn infos() -> Result<SqlInfoData, FlightError> {
    let mut infos = SqlInfoDataBuilder::new();
    let is = [
        (SqlInfo::FlightSqlServerReadOnly, true),
        (SqlInfo::FlightSqlServerSql, true),
        (SqlInfo::FlightSqlServerSubstrait, false),
        (SqlInfo::FlightSqlServerCancel, false),
        (SqlInfo::FlightSqlServerBulkIngestion, false),
        (SqlInfo::SqlDdlCatalog, false),
        (SqlInfo::SqlDdlSchema, false),
        (SqlInfo::SqlDdlTable, false),
        (SqlInfo::SqlAllTablesAreSelectable, true),
        (SqlInfo::SqlTransactionsSupported, false),
    ];
    let texts = [
        (SqlInfo::FlightSqlServerName, "stallmap"),
        (SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION")),
        (SqlInfo::FlightSqlServerArrowVersion, FORMAT),
        (SqlInfo::SqlIdentifierQuoteChar, "\""),
        (SqlInfo::SqlSchemaTerm, "capture"),
        (SqlInfo::SqlCatalogTerm, "catalog"),
    ];
    let numbers = [
        (SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::None as i32),
        (SqlInfo::FlightSqlServerStatementTimeout, NEVER),
        (SqlInfo::SqlIdentifierCase, SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i32),
        (SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i32),
    ];
    for (name, value) in is {
        infos.append(name, value);
    }
    for (name, value) in texts {
        infos.append(name, value);
    }
    for (name, value) in numbers {
        infos.append(name, value);
    }
    infos.build()
}
