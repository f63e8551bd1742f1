#!/usr/bin/env python3
"""Reads every table of unpacked captures with DuckDB, polars and pyarrow, each with its own Parquet reader, and
compares row counts and a checksum of every column. The test `elsewhere` of stallmap-schema calls it."""

import json
import pathlib
import sys

import duckdb
import polars
import pyarrow.compute as compute
import pyarrow.parquet
import pyarrow.types as types

LOW = 0xFFFF_FFFF


def kind(field):
    """Numbers that a column's checksum adds up: halves of integers, floats, lengths of texts."""
    if types.is_list(field.type):
        return "list"
    if types.is_integer(field.type):
        return "number"
    if types.is_floating(field.type):
        return "float"
    if types.is_boolean(field.type):
        return "bool"
    if types.is_binary(field.type):
        return "bytes"
    return "text"


def rounded(number):
    """A sum of floats, but for the order in which a reader adds."""
    return float(f"{number or 0:.9e}")


def with_pyarrow(path, kinds):
    table = pyarrow.parquet.read_table(path)

    def halves(array):
        array = array.cast("uint64", safe=False)
        low = compute.sum(compute.bit_wise_and(array, pyarrow.scalar(LOW, "uint64"))).as_py() or 0
        return low, compute.sum(compute.shift_right(array, pyarrow.scalar(32, "uint64"))).as_py() or 0

    def checksum(name, kind):
        array = table[name]
        nulls = array.null_count
        if kind == "list":
            return nulls, *halves(compute.list_flatten(array))
        if kind == "number":
            return nulls, *halves(array)
        if kind == "float":
            return nulls, *(rounded(of(array).as_py()) for of in [compute.min, compute.max, compute.sum])
        if kind == "bool":
            return nulls, compute.sum(array).as_py() or 0
        if types.is_dictionary(array.type):
            array = array.cast("string")
        return nulls, compute.sum(compute.binary_length(array)).as_py() or 0

    return table.num_rows, {name: checksum(name, kind) for name, kind in kinds.items()}


def with_duckdb(path, kinds):
    def columns(name, kind):
        quoted = f'"{name}"'
        nulls = f"count(*) - count({quoted})"
        # A signed number's bits, as an unsigned one.
        def bits(value):
            return f"CASE WHEN {value} < 0 THEN {value}::HUGEINT + 18446744073709551616::HUGEINT ELSE {value}::HUGEINT END"

        if kind == "list":
            halves = [f"sum(list_sum(list_transform({quoted}, lambda x: {expression})))"
                      for expression in (f"({bits('x')}) % 4294967296", f"({bits('x')}) // 4294967296")]
            return [nulls, *halves]
        if kind == "number":
            return [nulls, f"sum(({bits(quoted)}) % 4294967296)", f"sum(({bits(quoted)}) // 4294967296)"]
        if kind == "float":
            return [nulls, f"min({quoted})", f"max({quoted})", f"sum({quoted})"]
        if kind == "bool":
            return [nulls, f"sum({quoted}::INT)"]
        if kind == "bytes":
            return [nulls, f"sum(octet_length({quoted}))"]
        return [nulls, f"sum(strlen({quoted}))"]

    parts = [columns(name, kind) for name, kind in kinds.items()]
    selected = ", ".join(part for group in parts for part in group)
    values = duckdb.sql(f"SELECT count(*), {selected} FROM read_parquet('{path}')").fetchall()[0]
    rows, values = values[0], iter(values[1:])
    whole = lambda value: rounded(value) if isinstance(value, float) else int(value or 0)
    return rows, {name: tuple(whole(next(values)) for _ in group) for name, group in zip(kinds, parts)}


def with_polars(path, kinds):
    frame = polars.read_parquet(path)

    def halves(series):
        series = series.drop_nulls()
        if series.dtype.is_signed_integer():
            series = series.cast(polars.Int64).reinterpret(signed=False)
        series = series.cast(polars.UInt64)
        return int((series & LOW).sum() or 0), int((series // (LOW + 1)).sum() or 0)

    def checksum(name, kind):
        series = frame[name]
        nulls = series.null_count()
        if kind == "list":
            return nulls, *halves(series.drop_nulls().explode())
        if kind == "number":
            return nulls, *halves(series)
        if kind == "float":
            return nulls, *map(rounded, [series.min(), series.max(), series.sum()])
        if kind == "bool":
            return nulls, int(series.sum() or 0)
        if kind == "bytes":
            return nulls, int(series.bin.size().sum() or 0)
        return nulls, int(series.cast(polars.String).str.len_bytes().sum() or 0)

    return frame.height, {name: checksum(name, kind) for name, kind in kinds.items()}


READERS = {"pyarrow": with_pyarrow, "duckdb": with_duckdb, "polars": with_polars}


def problems(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    for table in manifest["tables"]:
        path = folder / "tables" / f"{table['name']}.parquet"
        schema = pyarrow.parquet.read_schema(path)
        kinds = {field.name: kind(field) for field in schema}
        answers = {name: read(str(path), kinds) for name, read in READERS.items()}
        for name, (rows, sums) in answers.items():
            if rows != table["rows"]:
                yield f"{table['name']}: {name} reads {rows} rows, the manifest says {table['rows']}"
            for column, value in sums.items():
                if value != answers["pyarrow"][1][column]:
                    yield f"{table['name']}.{column}: {name} {value}, pyarrow {answers['pyarrow'][1][column]}"


def main():
    found = [f"{folder}: {problem}" for folder in sys.argv[1:] for problem in problems(pathlib.Path(folder))]
    print("\n".join(found) or f"{len(sys.argv) - 1} capture(s): DuckDB, polars and pyarrow agree on every column")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
