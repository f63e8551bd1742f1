#!/usr/bin/env python3
"""Asks a running `stallmap serve --flight` through ADBC, as other programs do, and prints what is wrong: ask-flight.py URL TOKEN

Needs adbc-driver-flightsql and pyarrow. `scripts/check-serve` calls it, and compares the printed rows with those of the
command line. Rows are printed as JSON in the last line.
"""

import json
import sys
import threading
import time

import adbc_driver_flightsql
import adbc_driver_flightsql.dbapi as flight
import adbc_driver_manager

SQL = "SELECT kernel, launch_count, samples FROM kernel_cost ORDER BY samples DESC, kernel"
ENDLESS = "SELECT count(*) FROM generate_series(1, 10000000) a, generate_series(1, 10000000) b WHERE a.value % 7 = b.value % 11"
LONG = "SELECT value, repeat('x', 1000) AS text FROM generate_series(1, 100000)"
CANCEL_S = 20


def connected(url, **login):
    return flight.connect(url, db_kwargs=login, autocommit=True)


def rejected(action):
    """The text of an error, or nothing."""
    try:
        action()
    except adbc_driver_manager.Error as error:
        return str(error)
    return ""


def logins(url):
    """Everything that is wrong with clients that have no token."""
    for login in [{}, {"username": "any", "password": "wrong password"}]:
        def ask(login=login):
            with connected(url, **login) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        if "token" not in rejected(ask):
            yield f"a client is admitted with {login}, or without a reason: {rejected(ask)}"


def statements(connection):
    """Everything that is wrong with statements."""
    cursor = connection.cursor()
    cursor.execute("SELECT ordinal FROM launch WHERE ordinal >= $1 ORDER BY 1", [1])
    later = cursor.fetch_arrow_table().column(0).to_pylist()
    cursor.execute("SELECT ordinal FROM launch ORDER BY 1")
    if later != [ordinal for ordinal in cursor.fetch_arrow_table().column(0).to_pylist() if ordinal >= 1]:
        yield f"a parameter has another effect: {later}"
    cursor.execute("SELECT $1 AS a, $2 AS b, CAST($3 AS DOUBLE) AS c", ["it's", None, 1.5])
    if cursor.fetchall() != [("it's", None, 1.5)]:
        yield "values do not return"
    text = rejected(lambda: cursor.execute("SELECT kernelid FROM launch"))
    if "^^^^^^^^" not in text or "hint: did you mean `kernel_id`?" not in text:
        yield f"an error lacks caret or hint: {text}"
    for sql in ["CREATE TABLE t AS SELECT 1", "DELETE FROM launch", "COPY launch TO 'x.csv'", "BEGIN"]:
        if not rejected(lambda sql=sql: cursor.execute(sql)):
            yield f"it is not refused: {sql}"
    cursor.execute(LONG)
    reader, rows, batches = cursor.fetch_record_batch(), 0, 0
    for batch in reader:
        rows, batches = rows + batch.num_rows, batches + 1
    if rows != 100_000 or batches < 10:
        yield f"a long answer has {rows} rows in {batches} batches"
    begin = time.monotonic()
    timer = threading.Timer(1, cursor.adbc_cancel)
    timer.start()
    text = rejected(lambda: (cursor.execute(ENDLESS), cursor.fetchall()))
    timer.cancel()
    if not text or time.monotonic() - begin > CANCEL_S:
        yield f"a cancel has no effect: {text}"
    cursor.execute("SELECT 1")
    if cursor.fetchone() != (1,):
        yield "the connection does not outlive a cancel"


def names(connection):
    """Everything that is wrong with lists of names."""
    info = connection.adbc_get_info()
    if info["vendor_name"] != "stallmap":
        yield f"the server has another name: {info}"
    objects = connection.adbc_get_objects(depth="columns", table_name_filter="kernel_cost").read_all().to_pylist()
    tables = [table for catalog in objects for schema in catalog["catalog_db_schemas"] for table in schema["db_schema_tables"]]
    columns = [column["column_name"] for table in tables for column in table["table_columns"]]
    if [table["table_name"] for table in tables] != ["kernel_cost"] or columns[:2] != ["function_id", "kernel"]:
        yield f"a view is listed otherwise: {tables}"
    if connection.adbc_get_table_types() != ["TABLE", "VIEW"]:
        yield f"there are other types of tables: {connection.adbc_get_table_types()}"
    schema = connection.adbc_get_table_schema("launch")
    if "ordinal" not in schema.names:
        yield f"a table has other columns: {schema}"


def main():
    url, token = sys.argv[1:]
    found = [*logins(url)]
    header = adbc_driver_flightsql.DatabaseOptions.AUTHORIZATION_HEADER.value
    for login in [{"username": "any", "password": token}, {header: f"Bearer {token}"}]:
        with connected(url, **login) as connection:
            found += [*statements(connection), *names(connection)]
            with connection.cursor() as cursor:
                cursor.execute(SQL)
                table = cursor.fetch_arrow_table()
    rows = [list(row) for row in zip(*(column.to_pylist() for column in table.columns))]
    print("".join(f"{problem}\n" for problem in found), end="")
    print(json.dumps([table.column_names, *rows]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
