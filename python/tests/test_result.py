"""Rows in other libraries: every one reads the same values."""

import datetime
import decimal
import math
import sys
import unittest
from unittest import mock

from common import VIEWS, needs

import stallmap

# Ids near 2^64, nulls next to them, lists, bytes, text, decimals, times: what a conversion loses.
QUERY = """
SELECT * FROM (VALUES
    (1, arrow_cast(18446744073709551615, 'UInt64'), 1.5, 'é|漢', true, make_array(1, NULL, 3)),
    (2, NULL, NULL, NULL, NULL, NULL),
    (3, arrow_cast(9007199254740993, 'UInt64'), 0.1, '', false, make_array())
) AS t(place, id, number, text, flag, items)
ORDER BY place
"""
ROWS = [
    (1, 18446744073709551615, 1.5, "é|漢", True, [1, None, 3]),
    (2, None, None, None, None, None),
    (3, 9007199254740993, 0.1, "", False, []),
]
OTHERS = "SELECT arrow_cast('ab', 'Binary') AS bytes, arrow_cast(1.25, 'Decimal128(20, 2)') AS money, \
          arrow_cast(1000000001, 'Timestamp(Nanosecond, None)') AS time, arrow_cast('a', 'Dictionary(Int32, Utf8)') AS word"


class Readers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.capture = stallmap.open(VIEWS)
        cls.result = cls.capture.sql(QUERY)
        cls.names = ["place", "id", "number", "text", "flag", "items"]

    @classmethod
    def tearDownClass(cls):
        cls.capture.close()

    @needs("pyarrow")
    def test_pyarrow(self):
        table = self.result.arrow()
        self.assertEqual(table.column_names, self.names)
        self.assertEqual([tuple(row.values()) for row in table.to_pylist()], ROWS)
        self.assertEqual(str(table.schema.field("id").type), "uint64")

    @needs("polars")
    def test_polars(self):
        frame = self.result.pl()
        self.assertEqual(frame.columns, self.names)
        self.assertEqual(frame.rows(), ROWS)
        import polars

        self.assertEqual(frame.schema["id"], polars.UInt64)
        self.assertEqual(polars.DataFrame(self.result).rows(), ROWS)

    @needs("pandas", "pyarrow")
    def test_pandas(self):
        import pandas

        frame = self.result.df()
        self.assertEqual(list(frame.columns), self.names)
        found = [tuple(plain(value) for value in row) for row in frame.itertuples(index=False)]
        self.assertEqual(found, ROWS)
        self.assertEqual(frame["id"].dtype, pandas.ArrowDtype(__import__("pyarrow").uint64()))

    @needs("duckdb", "pyarrow")
    def test_duckdb(self):
        import duckdb

        rows = self.result  # noqa: F841  # found by its name
        self.assertEqual(duckdb.sql("SELECT * FROM rows ORDER BY place").fetchall(), ROWS)
        again = duckdb.sql("SELECT id FROM rows WHERE id = 18446744073709551615").fetchall()
        self.assertEqual(again, [(18446744073709551615,)])

    @needs("pyarrow", "polars")
    def test_all_rows_of_a_table_are_equal_everywhere(self):
        for table in ["launch", "tensor", "op", "kernel_cost", "object_cost", "instruction", "python_frame"]:
            result = self.capture.sql(f"SELECT * FROM {table}")
            expected = [tuple(row.values()) for row in result.arrow().to_pylist()]
            self.assertEqual(len(expected), len(result))
            self.assertEqual(same(result.pl().rows()), same(expected), table)

    @needs("pyarrow", "polars")
    def test_other_types_survive(self):
        table = self.capture.sql(OTHERS).arrow()
        self.assertEqual(table.column("time").cast("int64").to_pylist(), [1_000_000_001])
        row = table.drop_columns("time").to_pylist()[0]
        self.assertEqual(row, {"bytes": b"ab", "money": decimal.Decimal("1.25"), "word": "a"})
        other = self.capture.sql(OTHERS).pl().row(0)
        self.assertEqual(other[:2], (b"ab", decimal.Decimal("1.25")))
        self.assertEqual(other[2], datetime.datetime(1970, 1, 1, 0, 0, 1))

    @needs("polars")
    def test_without_pyarrow_polars_provides_the_stream(self):
        import polars

        with mock.patch.dict(sys.modules, {"pyarrow": None, "nanoarrow": None}):
            self.assertEqual(polars.DataFrame(self.result).rows(), ROWS)
            self.assertIn("18,446,744,073,709,551,615", self.result._repr_html_())

    @needs("nanoarrow", "polars")
    def test_without_pyarrow_nanoarrow_provides_the_stream(self):
        import polars

        with mock.patch.dict(sys.modules, {"pyarrow": None}):
            self.assertEqual(polars.DataFrame(self.result).rows(), ROWS)

    def test_without_any_reader_the_error_names_one(self):
        with mock.patch.dict(sys.modules, {"pyarrow": None, "nanoarrow": None, "polars": None}):
            with self.assertRaises(stallmap.Error) as raised:
                self.result.__arrow_c_stream__()
            self.assertEqual(raised.exception.hint, "pip install pyarrow")
            self.assertRaisesRegex(stallmap.Error, "polars is not installed", self.result.pl)

    @needs("pyarrow")
    def test_a_table_in_a_notebook_is_text_and_never_markup(self):
        shown = self.capture.sql("SELECT '<script>alert(1)</script>' AS \"<b>\" FROM range(60)")._repr_html_()
        self.assertNotIn("<script", shown)
        self.assertNotIn("<b>", shown)
        self.assertEqual(shown.count("&lt;script&gt;"), 50)
        self.assertIn("10 more rows", shown)
        self.assertNotIn("<pre><", self.capture._repr_html_())


def plain(value):
    """A value of pandas as Python's."""
    if value is None or (not hasattr(value, "__len__") and value is __import__("pandas").NA):
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        return [None if item is None or item != item else int(item) for item in value]
    return value


def same(rows):
    """Rows with NaN equal to itself."""
    return [tuple("NaN" if isinstance(value, float) and math.isnan(value) else value for value in row) for row in rows]


if __name__ == "__main__":
    unittest.main()
